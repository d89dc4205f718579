"""The launcher of a rendered run as its pod would start it, on a case's files and hub."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launchers.preflight.gang_probes import free_port
from tests.chart.helm import Document, env, merged, objects, recipe
from tests.launchers import warm
from tests.launchers.fake_hub import serve
from tests.launchers.pods import PYTHONPATH
from tests.refusals.cases import Case

PATIENCE = 40.0
"""Seconds until a launcher that does not refuse is killed: more than it may take to refuse."""
SMALL: Document = {
    "nodes": 1,
    "gpusPerNode": 0,
    "recipe": {
        "backend": "transformers",
        "model": "file://{workspace}/model",
        "dataset": ["file://{workspace}/pairs.jsonl"],
        "args": {"tuner_type": "full"},
    },
    "workspace": {"mountPath": "{workspace}"},
}
"""A run of one pod on CPU: what a case of the launcher is laid over."""
PAIR = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}]}
_TENSORS = '{"wte.weight":{"dtype":"BF16","shape":[0,8],"data_offsets":[0,0]}}'
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
)
FILES: dict[str, Any] = {
    "model/config.json": {"model_type": "qwen3", **dict.fromkeys(_SIZES, 8)},
    "model/model.safetensors": chr(len(_TENSORS)) + 7 * "\0" + _TENSORS,
    "model/tokenizer.json": {"model": {}},
    "pairs.jsonl": [{**PAIR, "rejected_response": "bad"}] * 40,
}
"""A model and a dataset that pass."""


@dataclass(frozen=True, kw_only=True)
class End:
    code: int | None
    """None when it had to be killed."""
    seconds: float
    """From its start."""
    text: str
    termination: Mapping[str, Any]
    """The termination message; empty if there is none."""


def placed(case: Case, folder: Path) -> Document:
    """Return the values of a launcher's case with its workspace in a folder."""
    text = json.dumps(merged(SMALL, case.values)).replace("{workspace}", str(folder / "ws"))
    found: Document = json.loads(text)
    return found


def write(files: Mapping[str, Any], folder: Path) -> None:
    """Write files: text as it is, a list as JSON lines, the rest as JSON; None leaves one out."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            path.write_text("".join(f"{json.dumps(row)}\n" for row in content), encoding="utf-8")
        elif content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")


@contextmanager
def hub(given: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Serve the case's repositories; yield the environment that leads to them."""
    with serve() as fake:
        fake.repos = {
            name: {path: text.encode() for path, text in files.items()}
            for name, files in given.get("repos", {}).items()
        }
        fake.token, fake.gated = given.get("token", ""), given.get("gated", False)
        fake.faults = {path: ["slow"] for path in given.get("slow", [])}
        fake.pause = 1.0  # 40 pieces: longer than a refusal may take
        yield {"HF_ENDPOINT": fake.url, "MODELSCOPE_ENDPOINT": fake.url}


def run(case: Case, manifests: str, folder: Path) -> End:
    """Run ``python -m launchers run`` as the rendered pod does, with a fake trainer."""
    documents = objects(manifests)
    write({**FILES, **case.files}, folder / "ws")
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe(documents)), encoding="utf-8")
    literal = {k: v for k, v in env(documents).items() if isinstance(v, str)}
    with hub(case.hub) as hubs:
        given = {
            **literal,
            **_downward(folder),
            **hubs,
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": PYTHONPATH,
            "DPO_RECIPE": str(folder / "recipe.yaml"),
            **case.env,
        }
        return _end(given, folder)


def _downward(folder: Path) -> dict[str, str]:
    return {
        "DPO_JOB_INDEX": "0",
        "JOB_COMPLETION_INDEX": "0",
        "DPO_RESTART_ATTEMPT": "0",
        "DPO_POD_NAME": "run-node-0-0",
        "DPO_NODE_NAME": "host",
        "DPO_MASTER_ADDR": "127.0.0.1",
        "DPO_GANG_PORT": str(free_port()),
        "DPO_TERMINATION_LOG": str(folder / "termination"),
        "MODELSCOPE_CACHE": str(folder / "cache"),
    }


def _end(given: Mapping[str, str], folder: Path) -> End:
    begin = time.monotonic()
    command = [str(warm.launcher(PYTHONPATH)), "-m", "launchers", "run"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env=given, text=True, **pipes) as pod:
        try:
            text, _ = pod.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            pod.kill()
            text, _ = pod.communicate()
            return End(code=None, seconds=time.monotonic() - begin, text=text, termination={})
        seconds = time.monotonic() - begin
    file = folder / "termination"
    message = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return End(code=pod.returncode, seconds=seconds, text=text, termination=message)
