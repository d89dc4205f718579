"""Sources of the real runs, served inside the cluster: a private git repository and a hub."""

import fcntl
import shutil
from pathlib import Path

from scripts.demo import sources as demo
from scripts.helm import ROOT
from scripts.local.runner import training_python
from tests.e2e.api import Object
from tests.e2e.space import Space
from tests.e2e.standin import IMAGE, values
from tests.e2e.volumes import claim
from tests.launchers.git_server import repository
from tests.launchers.training_environment import STACK

MADE = ROOT / ".tools" / "cluster" / "sources"
"""Kept between sessions: creating the model's weights takes 12 s."""
REPO = "git/team/preferences"
MODEL = "hub/models/Qwen/Qwen3-30B-A3B-Instruct-2507"
"""The repository of the shipped values, with a model of 0.56 M parameters."""
PODS = Path(__file__).parent / "pods"
FAKES = ROOT / "tests" / "launchers"
PROGRAM = {
    "serve.py": PODS / "serve.py",
    "tests/launchers/git_server.py": FAKES / "git_server.py",
    "tests/launchers/fake_hub.py": FAKES / "fake_hub.py",
    "tests/launchers/loopback.py": FAKES / "loopback.py",
}
TOKEN = "e2e-token"
URL = "http://sources"


def make() -> Path:
    """Create repository and model unless present; return their folder."""
    made, seal = demo.Sources(root=MADE), MADE / "seal"
    plugin = (PODS / "preferences.py").read_text(encoding="utf-8")
    parquet = (PODS.parent / "parquet.py").read_text(encoding="utf-8")
    key = demo.current_key(made.swift) + plugin + parquet
    if seal.exists() and seal.read_text(encoding="utf-8") == key:
        return MADE
    shutil.rmtree(MADE, ignore_errors=True)
    made.root.mkdir(parents=True)
    python = training_python(ROOT)
    demo.make_pairs(made)
    demo.make_model(made, python)
    made.model.rename(_parents(MADE / MODEL))
    repo = MADE / REPO
    (repo / "data").mkdir(parents=True)
    demo.in_training(python, "tests.e2e.parquet", [str(made.pairs), str(repo / "data")])
    repository(repo, {"plugins/preferences.py": plugin})
    seal.write_text(key, encoding="utf-8")
    return MADE


def serve(space: Space, *, pause: float = 0) -> None:
    """Serve them in a namespace as ``http://sources``; ``pause`` slows the hub."""
    folder = claim(space, "sources")
    with Path(f"{MADE}.lock").open("wb") as handle:  # other workers may need them, too
        fcntl.flock(handle, fcntl.LOCK_EX)
        made = make()
    for part in (REPO, MODEL):
        shutil.copytree(made / part, _parents(folder / part), copy_function=shutil.copyfile)
    data = {path.replace("/", "."): file.read_text("utf-8") for path, file in PROGRAM.items()}
    name = {"name": "sources"}
    space.kubectl.apply(
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": data},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "preferences-git"},
                "stringData": {"token": TOKEN},
            },
            {"apiVersion": "v1", "kind": "Pod", "metadata": name | _label(), "spec": _pod(pause)},
            {"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": _service()},
        ]
    )
    space.kubectl.run("wait", "pod/sources", "--for=condition=Ready", "--timeout=60s")


def training() -> Object:
    """Return the values that mount the training environment into the pods.

    It has the ms-swift that the variable SWIFT names, by default the pinned one.
    """
    folder = next((STACK.train / "lib").glob("python3.*")) / "site-packages"
    volume = {"name": "train", "hostPath": {"path": str(folder), "type": "Directory"}}
    mount = {"name": "train", "mountPath": "/opt/train", "readOnly": True}
    lists = {"extraVolumes": [volume], "extraVolumeMounts": [mount]}
    return {**lists, "recipe": {"swiftVersion": STACK.swift}}


def hub(model: str, endpoint: str = URL) -> Object:
    """Return the values of a stand-in run whose model comes from a hub."""
    base, mounted = values(), training()
    lists = ("extraVolumes", "extraVolumeMounts")
    both = {name: base[name] + mounted[name] for name in lists}
    recipe = {"model": model, **mounted["recipe"]}
    return {"recipe": recipe, "extraEnv": {"HF_ENDPOINT": endpoint}, **both}


def _parents(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _label() -> Object:
    return {"labels": {"app": "sources"}}


def _service() -> Object:
    return {"selector": {"app": "sources"}, "ports": [{"port": 80, "targetPort": 8000}]}


def _pod(pause: float) -> Object:
    items = [{"key": path.replace("/", "."), "path": path} for path in PROGRAM]
    env = {"GIT_TOKEN": TOKEN, "HUB_PAUSE": str(pause), "PYTHONPATH": "/opt/server"}
    container = {
        "name": "server",
        "image": f"{IMAGE['repository']}:{IMAGE['tag']}",
        "command": ["python3", "-u", "/opt/server/serve.py"],
        "env": [{"name": key, "value": text} for key, text in env.items()],
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "program", "mountPath": "/opt/server"},
            {"name": "data", "mountPath": "/data", "readOnly": True},
        ],
    }
    return {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [
            {"name": "program", "configMap": {"name": "sources", "items": items}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "sources"}},
        ],
    }
