"""An export as the launcher writes it, and keys of OpenSSL."""

import json
import subprocess
from pathlib import Path

from launchers.config.recipe import Recipe
from launchers.config.workspace import Workspace
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import rows, writer
from launchers.metrics.rows import Row
from launchers.stages.export import export
from launchers.stages.statement import Origin
from launchers.storage import marker
from launchers.storage.checkpoint import seal
from launchers.storage.marker import Marker

RECIPE = Recipe(
    backend="megatron",
    task="rlhf",
    model="hf://acme/base@main",
    dataset=("hf://acme/pairs@main",),
    args={"rlhf_type": "dpo", "beta": "0.1", "lr": "5e-6"},
)
FILES = {
    "model-00001-of-00002.safetensors": "first shard " * 99,
    "model-00002-of-00002.safetensors": "second shard " * 99,
    "model.safetensors.index.json": '{"weight_map": {}}',
    "config.json": '{"model_type": "qwen3"}',
    "tokenizer.json": '{"version": "1.0"}',
    "tokenizer_config.json": '{"eos_token": "<|im_end|>"}',
    "chat_template.jinja": "{{ messages }}",
}


def make(root: Path, *, tested: dict[str, object] | None = None, licence: str = "mit") -> Path:
    work = Workspace(root=root, run="dpo-42")
    model = work.model("acme--base@main")
    model.mkdir(parents=True)
    if licence:
        (model / "README.md").write_text(f"---\nlanguage: en\nlicense: {licence}\n---\n# Base\n")
    made = Marker(inputs={"source": RECIPE.model}, manifest={}, made={"commit": "c0ffee"})
    marker.write(model, made)
    folder = work.checkpoints / "checkpoint-7"
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_text(content)
    versions = {"versions": {"ms-swift": "4.4.1"}, "patches": {"seal": {"state": "read"}}}
    (folder / "features.json").write_text(json.dumps(versions))
    seal(folder, 7)
    for step, loss in ((1, 0.69), (7, 0.31)):
        row = Row(step=step, total=7, attempt=1, time=1.0, seconds=2.0, values={"loss": loss})
        writer.append(work.metrics, rows.line(row))
    values = {"loss": 0.3, "rewards/accuracies": 0.9, "rewards/margins": 1.2}
    last = Evaluation(step=7, total=7, attempt=1, time=0.0, seconds=1.0, values=values)
    writer.append(work.metrics, evaluations.line(last))
    origin = Origin(
        outputs=[(str(model), marker.digest(made))],
        model=model,
        image="registry.example/train:1@sha256:" + "a" * 64,
        launcher="b" * 64,
    )
    found = tested or {}
    export(work, RECIPE, {"recipe": "r"}, holder="pod", origin=origin, test=lambda *_: found)
    return work.export


def key(folder: Path, name: str, kind: str = "ed25519") -> tuple[Path, Path]:
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    more = ["-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "EC" else []
    for words in (
        ["genpkey", "-algorithm", kind, *more, "-out", str(private)],
        ["pkey", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    return private, public
