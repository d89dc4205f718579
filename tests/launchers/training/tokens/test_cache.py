"""Rows are tokenised once: ms-swift for real in the training Python, on CPU, two starts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launchers.flags import external_plugins, features
from scripts.demo import sources
from scripts.demo.sources import PLUGIN, Sources
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

pytestmark = [needs_training, pytest.mark.timeout(300)]
ROWS = 120


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tokens")
    found = Sources(root=home)
    sources.make_pairs(found)
    sources.make_model(found, warm.python())
    lines = found.pairs.read_text().splitlines(keepends=True)
    found.pairs.write_text("".join(lines[:ROWS]))
    (home / "ws" / "runs" / "one").mkdir(parents=True)
    return home


def probe(made: Path, model: str = "model", **env: str) -> tuple[dict[str, Any], str]:
    flags = {
        "rlhf_type": "dpo",
        "model": made / model,
        "ref_model": made / "model",
        "model_type": "qwen3",
        "template": "qwen3_nothinking",
        "tuner_type": "full",
        "torch_dtype": "float32",
        "use_cpu": "true",
        "dataset": made / "pairs.jsonl",
        "max_length": 256,
        "split_dataset_ratio": 0.5,
        "output_dir": made / "out",
        "add_version": "false",
        "check_model": "false",
        "report_to": "none",
    }
    plugins = [str(external_plugins.PLUGIN), str(PLUGIN)]
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [
            *(str(warm.python()), "-m", "tests.launchers.training.tokens.tokens_probe", *words),
            *("--external_plugins", *plugins),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "MODELSCOPE_CACHE": str(made / "cache"),
            "PYTHONPATH": str(ROOT),
            features.VARIABLE: "tokens",
            **env,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("PROBE "))
    found: dict[str, Any] = json.loads(line.removeprefix("PROBE "))
    return found, output


def test_rows_are_those_of_ms_swift_and_a_second_start_only_reads_them(made: Path) -> None:
    home = {"DPO_RUN_FOLDER": str(made / "ws" / "runs" / "one")}
    first, log = probe(made, **home)
    assert "tokens done" in log
    assert first["rows"] == [ROWS // 2, ROWS // 2]
    assert first["equal"] == first["compared"] == ROWS
    assert set(first["same_batch"]) >= {"input_ids", "labels"}
    assert all(first["same_batch"].values())
    assert first["texts"]
    [folder] = (made / "ws" / "cache" / "tokens").iterdir()
    os.utime(folder, (0, 0))
    second, log = probe(made, PROBE_NEVER="1", **home)
    assert "tokens up to date" in log
    assert second["rows"] == first["rows"]
    assert second["new_token_counts"]  # a tokenizer with one more makes other rows
    assert folder.stat().st_mtime > 0  # unused entries are recognised by their age
    shutil.copytree(made / "model", made / "checkpoint")
    (made / "checkpoint" / "args.json").write_text("{}")
    resumed, log = probe(made, "checkpoint", PROBE_NEVER="1", **home)
    assert resumed["held_out"] == second["held_out"] == first["held_out"]
    assert [each["shared"] for each in (first, second, resumed)] == [0, 0, 0]
    assert "tokens up to date" in log  # the policy is a checkpoint now, its reference is not
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".complete.json", "train.arrow", "val.arrow", "val_dataset.jsonl"]


@pytest.mark.parametrize("env", [{"DPO_RUN_FOLDER": "/proc/no/where"}, {"PROBE_UNREADABLE": "1"}])
def test_what_cannot_be_written_or_compared_is_left_to_ms_swift(
    made: Path, env: dict[str, str]
) -> None:
    found, log = probe(made, **{"DPO_RUN_FOLDER": str(made / "ws" / "runs" / "one"), **env})
    assert log.count("tokens are not kept: [Errno 2]") == 1
    assert found["equal"] == found["compared"] == ROWS
