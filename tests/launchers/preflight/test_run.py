"""The preflight inside whole runs: real launchers, with a fake nvidia-smi, torch and ms-swift."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe_file import load
from launchers.config.settings import from_env
from launchers.exits import Exit
from launchers.gang.protocol import Hello
from launchers.preflight import probes
from launchers.preflight.preflight import Preflight
from launchers.preflight.probes import gather
from tests.launchers.pods import FAKES, ROOT, Pods, end, read
from tests.launchers.preflight import nvidia_smi

UNFIT = "driver,shm,collective"
"""Checks that a machine without GPUs cannot pass: the fake torch has no CUDA."""


def gpus(pods: Pods, rank: int, *parts: str, **change: str) -> dict[str, str]:
    folder = nvidia_smi.install(pods.folder / f"smi-{rank}", nvidia_smi.answer(parts))
    path = f"{folder}:{os.environ['PATH']}"
    return {"PATH": path, "DPO_GPUS_PER_NODE": "2", "DPO_PREFLIGHT_SKIP": UNFIT, **change}


def report(folder: Path, rank: int) -> dict[str, Any]:
    return read(folder / f"preflight-{rank}.json")


def states(found: dict[str, Any]) -> dict[str, str]:
    return {row["check"]: row["state"] for row in found["findings"]}


def test_a_run_on_cpu_is_checked_in_less_than_a_second(pods: Pods) -> None:
    pods.ended()
    first, second = (report(pods.run / "attempts" / "1", rank) for rank in (0, 1))
    assert first["passed"] and second["passed"]
    assert max(first["seconds"], second["seconds"]) < 1
    reported = states(first)
    assert [reported[c] for c in ("clock", "workspace", "port", "versions")] == ["ok"] * 4
    assert reported["bandwidth"] == "skipped"
    assert "cards" not in reported


def test_healthy_gpus_let_the_run_continue(pods: Pods) -> None:
    parts = nvidia_smi.gpu(0), nvidia_smi.gpu(1)
    envs = [gpus(pods, rank, *parts, DPO_GPU_MODEL="h200") for rank in range(2)]
    started = [pods.start(rank, **env) for rank, env in enumerate(envs)]
    assert [end(pod)[0] for pod in started] == [0, 0]
    reported = states(report(pods.run / "attempts" / "1", 1))
    assert [reported[c] for c in ("cards", "health", "idle")] == ["ok"] * 3
    assert not {"driver", "shm"} & reported.keys()


def test_a_broken_gpu_ends_the_run_before_it_costs_anything(pods: Pods) -> None:
    parts = nvidia_smi.gpu(0), nvidia_smi.gpu(1, remapped_row_pending="Yes")
    begin = time.monotonic()
    pods.alone("run", Exit.PREFLIGHT, **gpus(pods, 0, *parts), DPO_NODE_NAME="host-a")
    assert time.monotonic() - begin < 15
    message = pods.message(0)
    assert (message["code"], message["stage"], message["rank"]) == (80, "preflight", 0)
    gpu = "rank 0 (r-node-0-0 on host-a): health: GPU 1 (GPU-1, 00000000:11:00.0)"
    assert message["cause"] == f"{gpu}: a row remap is pending: reset the GPU"
    found = report(pods.run, 0)
    assert (found["passed"], states(found)["health"]) == (False, "failed")
    assert not (pods.folder / "workspace" / "models").exists()
    assert pods.progress()["code"] == Exit.PREFLIGHT


def test_a_variable_that_hides_gpus_is_not_the_nodes_fault(pods: Pods) -> None:
    parts = nvidia_smi.gpu(0), nvidia_smi.gpu(1)
    pods.alone("run", Exit.CONFIG, **gpus(pods, 0, *parts, CUDA_VISIBLE_DEVICES="1"))
    assert "CUDA_VISIBLE_DEVICES=1 leaves 1 GPUs to 2" in pods.message(0)["cause"]


def test_a_driver_that_does_not_answer_is_the_nodes_fault(pods: Pods) -> None:
    env = gpus(pods, 0)
    fails = "echo 'Driver/library version mismatch'; exit 18"
    nvidia_smi.install(pods.folder / "smi-0", "", script=fails)
    pods.alone("run", Exit.PREFLIGHT, **env)
    assert "exit code 18: Driver/library version mismatch" in pods.message(0)["cause"]


def test_an_nvidia_smi_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "SMI_TIMEOUT_SECONDS", 0.3)
    path = nvidia_smi.install(tmp_path / "smi", "", script="exec sleep 30")
    env = {"PATH": f"{path}:{os.environ['PATH']}"}
    begin = time.monotonic()
    facts = gather(env, tmp_path, "transformers", gpus=True)
    assert (facts.smi, facts.smi_error) == (None, "nvidia-smi did not answer within 0 s")
    assert time.monotonic() - begin < 5


def laid(folder: Path, **versions: str) -> str:
    """Lay metadata of distributions into a folder; return the search path with it."""
    for name, version in versions.items():
        about = folder / f"{name}-{version}.dist-info"
        about.mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (about / "METADATA").write_text(text)
    return f"{ROOT}:{FAKES}:{folder}"


def test_a_patch_that_does_not_fit_the_image_ends_the_run_before_the_download(pods: Pods) -> None:
    path = laid(pods.folder / "site", ms_swift="4.6.9")
    code, output = end(pods.start(0, PYTHONPATH=path))
    assert code == Exit.CONFIG, output
    message = pods.message(0)
    assert (message["stage"], message["id"]) == ("preflight", "preflight-patches")
    assert " patch epoch-order was not written for swift." in message["cause"]
    assert " of ms-swift 4.6.9: it has no such function" in message["cause"]
    assert "extraEnv.DPO_ACCEPT_PATCHES: epoch-order" in message["remedy"]
    assert not (pods.folder / "workspace" / "models").exists()


def test_the_patches_of_packages_from_the_clone_are_judged_in_training(pods: Pods) -> None:
    path = laid(pods.folder / "site", ms_swift="4.6.9")
    change = {"DPO_CODE_URL": "file:///nowhere", "DPO_CODE_REF": "main"}
    env = pods.env(0, PYTHONPATH=path, **change, DPO_CODE_PYTHONPATH="src")
    settings, recipe = from_env(env), load(Path(env["DPO_RECIPE"]))
    checks = Preflight.of_run(settings, recipe, Hello.of_run(settings, recipe), env)
    assert checks.features == ()


def test_packages_that_were_never_run_are_named_before_the_download(pods: Pods) -> None:
    env = gpus(pods, 0, nvidia_smi.gpu(0))  # of two, which ends the run after the report
    path = laid(pods.folder / "site", flash_attn_4="4.0.0")
    output = pods.alone("run", Exit.PREFLIGHT, **env, PYTHONPATH=path)
    line = next(line for line in output.splitlines() if "check=stack" in line)
    assert "never run on a GPU by this project: flash-attn-4 4.0.0" in line
    assert states(report(pods.run, 0))["stack"] == "warning"


def test_a_master_port_in_use_is_reported(pods: Pods) -> None:
    with socket.create_server(("", pods.master_port)):
        pods.ended(Exit.PREFLIGHT, Exit.PEER)
    assert f"port: master port {pods.master_port}: " in pods.message(0)["cause"]
    assert "rank 0" in pods.message(1)["cause"]


def test_a_rank_that_cannot_reach_the_master_port_is_the_culprit(pods: Pods) -> None:
    wrong = str(pods.port + 1 if pods.port < 65535 else pods.port - 1)
    started = [pods.start(0), pods.start(1, DPO_MASTER_PORT=wrong)]
    (code, _), (peer, _) = (end(pod) for pod in started)
    assert (code, peer) == (Exit.PREFLIGHT, Exit.PEER)
    assert "port: rank 1 (r-node-0-1): it cannot reach rank 0" in pods.message(0)["cause"]
    assert "rank 1 (r-node-0-1)" in pods.message(1)["cause"]  # as rank 0 reported it
    assert states(report(pods.run / "attempts" / "1", 0))["port"] == "failed"
    assert not list((pods.run / "attempts" / "1").rglob("argv.json"))


def test_gpus_that_cannot_measure_end_the_run(pods: Pods) -> None:
    pods.nodes = 1
    env = gpus(pods, 0, nvidia_smi.gpu(0), nvidia_smi.gpu(1), DPO_PREFLIGHT_SKIP="driver,shm")
    pods.ended(Exit.PREFLIGHT, **env)
    assert "collective: rank 0 (GPU 0): AttributeError: " in pods.message(0)["cause"]
    found = report(pods.run / "attempts" / "1", 0)
    assert states(found)["collective"] == "failed"
    assert not list((pods.run / "attempts" / "1").rglob("argv.json"))


def test_a_skipped_preflight_looks_at_nothing(pods: Pods) -> None:
    pods.nodes = 1
    env = gpus(pods, 0, nvidia_smi.gpu(0, remapped_row_pending="Yes"), SKIP_PREFLIGHT="1")
    [output] = pods.ended(**env)
    assert "preflight skipped why=SKIP_PREFLIGHT=1" in output
    assert not list(pods.run.rglob("preflight-*.json"))


def test_the_checks_stand_alone_without_a_run(tmp_path: Path) -> None:
    lists = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-0)'"
    path = nvidia_smi.install(tmp_path / "smi", "", script=lists)
    env = {"PYTHONPATH": str(ROOT), "PATH": f"{path}:{os.environ['PATH']}"}
    words = [sys.executable, "-m", "launchers", "preflight"]
    done = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == Exit.PREFLIGHT, done.stdout  # the fake prints no XML
    assert "gpus_per_node=0" in done.stdout
    assert "nvidia-smi did not print XML" in done.stdout
