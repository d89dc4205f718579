"""Runs with the real launcher and a stand-in for torchrun, for tests of Kubernetes only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e import volumes
from tests.e2e.api import Object
from tests.e2e.merge import merge
from tests.e2e.release import A100, HELM4, Release, Values
from tests.e2e.runs import Pod, Run
from tests.e2e.space import Space
from tests.launchers import model_folder
from tests.launchers.pods import PAIR

IMAGE = {"repository": "localhost/megatron-dpo-e2e", "tag": "1", "pullPolicy": "IfNotPresent"}
TRAINER = Path(__file__).parent / "pods" / "trainer.py"
CONFIG = "standin"
FOLDER = "/opt/standin"
FILES = {
    "torch/distributed/run.py": "trainer.py",
    "torch/distributed/__init__.py": "empty.py",
    "torch/__init__.py": "empty.py",
    "swift/__init__.py": "empty.py",
}
"""Keys of the ConfigMap by path: complete packages that hide installed ones."""


def values(*, hold: bool = False) -> dict[str, Any]:
    """Return the values of a stand-in run; ``hold`` makes the trainer wait for orders."""
    items = [{"key": key, "path": path} for path, key in FILES.items()]
    workspace = "file:///workspace/sources"
    return {
        "image": IMAGE,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "stages": {"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}},
        "sharedMemory": {"sizeLimit": "64Mi"},
        "preflight": {"skip": True},  # the GPUs are fakes
        "rendezvous": {"deadlineSeconds": 120},
        "workspace": {"existingClaim": "training"},
        "code": {"url": "", "ref": "", "existingSecret": ""},
        "recipe": {
            "model": f"{workspace}/model",
            "dataset": [f"{workspace}/pairs.jsonl"],
            "args": {"external_plugins": None, "num_train_epochs": 1},
        },
        "extraVolumes": [{"name": "standin", "configMap": {"name": CONFIG, "items": items}}],
        "extraVolumeMounts": [{"name": "standin", "mountPath": FOLDER, "readOnly": True}],
        "extraEnv": {"PYTHONPATH": FOLDER, **({"STANDIN": "hold"} if hold else {})},
    }


def config() -> Object:
    data = {"trainer.py": TRAINER.read_text(encoding="utf-8"), "empty.py": ""}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG}, "data": data}


def prepare(space: Space) -> None:
    """Create the workspace with model and pairs, and the stand-in's ConfigMap."""
    volumes.claim(space, "training")
    space.kubectl.apply([config()])
    model_folder.write(space.workspace / "sources" / "model")
    (space.workspace / "sources" / "pairs.jsonl").write_text(PAIR * 200, encoding="utf-8")


def with_files(space: Space, files: Mapping[str, str]) -> dict[str, Any]:
    """Return values with which Python in the pods finds these files first, by their paths.

    A ``sitecustomize.py`` is run at the start of each process.
    """
    made, keys = config(), dict(FILES)
    for path, text in files.items():
        keys[path] = path.replace("/", "-")
        made["data"][keys[path]] = text
    space.kubectl.apply([made])
    items = [{"key": key, "path": path} for path, key in keys.items()]
    return {"extraVolumes": [{"name": "standin", "configMap": {"name": CONFIG, "items": items}}]}


def order(run: Run, text: str, name: str = "all") -> None:
    """Write an order for the held trainers of a run: all, or ``<attempt>-<rank>``."""
    folder = run.space.workspace / "orders" / run.name
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}"
    part.write_text(text, encoding="utf-8")
    part.rename(folder / name)


def release(
    space: Space, name: str, over: Values | None = None, *, hold: bool = False, helm: Path = HELM4
) -> tuple[Release, Run]:
    """Describe a run of the shipped file with a stand-in trainer; install it with ``install``."""
    layered = merge(values(hold=hold), over or {})
    made = Release(name=name, space=space, files=(A100,), values=layered, helm=helm)
    return made, Run(name=name, space=space)


def train(
    space: Space, over: Values | None = None, *, name: str = "dpo", helm: Path = HELM4
) -> tuple[Release, Run, list[Pod]]:
    """Install a held run; return it with its pods when both ranks train."""
    made, run = release(space, name, over, hold=True, helm=helm)
    made.install()
    return made, run, run.training()


def finish(run: Run) -> None:
    """Let the held trainers of a run succeed, and wait until it has ended."""
    order(run, "succeed")
    run.ended()
