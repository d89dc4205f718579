"""A small rendered JobSet whose `launchers` package is a fake: one script, given as text."""

import base64
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from scripts.archive import ARCHIVES, pack
from scripts.helm import ROOT, template

RULES = [
    {
        "name": name,
        "action": action,
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": [f"exit code ({codes}) matching "],
    }
    for name, action, codes in (
        ("free", "RestartJobSetAndIgnoreMaxRestarts", "75|143"),
        ("user", "FailJobSet", "64|78"),
    )
]


def field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


ATTEMPT = field("metadata.labels['jobset.sigs.k8s.io/restart-attempt']")
ENV: list[dict[str, Any]] = [
    {"name": "DPO_MASTER_ADDR", "value": "run-node-0-0.run"},
    {"name": "HOME", "value": "/tmp"},
    {"name": "DPO_RESTART_ATTEMPT", "valueFrom": ATTEMPT},
]


def job(
    name: str,
    pods: int,
    *,
    needs: Sequence[str] = (),
    env: Sequence[dict[str, Any]] = ENV,
    volumes: Sequence[dict[str, Any]] = (),
    mounts: Sequence[dict[str, Any]] = (),
    grace: int = 5,
) -> dict[str, Any]:
    own = {"launchers": "/opt/launchers", "tmp": "/tmp"}
    container = {
        "name": "launcher",
        "command": ["python3", "-m", "launchers", name],
        "workingDir": "/opt",
        "env": list(env),
        "volumeMounts": [*({"name": n, "mountPath": path} for n, path in own.items()), *mounts],
    }
    code = {"name": "launchers", "configMap": {"name": "run-launchers"}}
    pod: dict[str, Any] = {"terminationGracePeriodSeconds": grace, "containers": [container]}
    pod["volumes"] = [code, {"name": "tmp", "emptyDir": {}}, *volumes]
    rule = {"containerName": "launcher", "operator": "In", "values": [64, 75, 78, 143]}
    spec = {
        "completions": pods,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": rule}]},
        "template": {"metadata": {"labels": {"team": "a"}}, "spec": pod},
    }
    depends = [{"name": other, "status": "Complete"} for other in needs]
    return {"name": name, "replicas": 1, "dependsOn": depends, "template": {"spec": spec}}


def manifest(script: str = "", jobs: Sequence[dict[str, Any]] = (), max_restarts: int = 0) -> str:
    code = {"__init__.py": "", "__main__.py": textwrap.dedent(script)}
    policy = {"maxRestarts": max_restarts, "rules": RULES}
    spec = {"failurePolicy": policy, "replicatedJobs": list(jobs) or [job("node", 2)]}
    files = {"kind": "ConfigMap", "metadata": {"name": "run-launchers"}, "data": code}
    run = {"kind": "JobSet", "metadata": {"name": "run"}, "spec": spec}
    return yaml.safe_dump_all([files, run])


def packed(script: str, workspace: Path) -> str:
    paths = [f"workspace.{key}={workspace}" for key in ("mountPath", "hostPath.path")]
    text = template("run", [ROOT / "values" / "demo-cpu.yaml"], [*paths, "restarts.max=0"])
    objects = [item for item in yaml.safe_load_all(text) if item]
    main = textwrap.dedent(script).encode()
    code = {"__init__.py": b"", "sub/__init__.py": b"NAME = 'sub'", "__main__.py": main}
    for item in objects:
        for name in ARCHIVES:
            if item["kind"] == "ConfigMap" and name in item["binaryData"]:
                item["binaryData"][name] = base64.b64encode(pack(code)).decode()
    return yaml.safe_dump_all(objects)


def write(folder: Path, text: str) -> Path:
    path = folder / "rendered.yaml"
    path.write_text(text, encoding="utf-8")
    return path
