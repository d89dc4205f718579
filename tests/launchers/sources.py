"""A model and a dataset for the tests, and shortcuts to download them."""

import random
from pathlib import Path

import pytest

from launchers.config import sources
from launchers.config.sources import parse_source
from launchers.config.workspace import Workspace
from launchers.exits import LaunchError
from launchers.stages.download import download
from launchers.storage import marker
from launchers.storage.output import Outcome

ROOT = Path(__file__).parents[2]
CANARY = "hf_CANARY0123456789"
CONFIG = b'{"model_type": "qwen3"}'
WEIGHTS = random.Random(1).randbytes(300_000)
MODEL = {"config.json": CONFIG, "model.safetensors": WEIGHTS, "sub/tokenizer.json": b"{}" * 99}
PAIRS = b'{"prompt": "a"}\n' * 20


def get(model: str, work: Workspace, dataset: str = "", skip: bool = False) -> list[Outcome]:
    datasets = (dataset,) if dataset else ()
    return download(model, datasets, work, None, skip=skip, holder="t")


def refused(model: str, work: Workspace, dataset: str = "") -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        get(model, work, dataset)
    left = [p for p in work.root.glob("*/*") if p.suffix not in (".partial", ".lock")]
    assert all((p / marker.NAME).exists() for p in left)
    return caught.value


def tree(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def model_at(text: str, work: Workspace) -> Path:
    return sources.local(parse_source(text, "recipe.model"), "model", work, None)


def local_model(folder: Path) -> Path:
    for name, content in MODEL.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
