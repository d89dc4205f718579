"""The local runner with a fake launcher: what the pods see, in which order, what a failure does."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from scripts.local.command import Request, run_locally
from scripts.manifest import parse
from scripts.problem import Problem
from tests.launchers.preflight import nvidia_smi
from tests.scripts.calling import Call
from tests.scripts.local.rendered import job, manifest, packed, write
from tests.scripts.local.running import ROOT, pod_folder, run, start_manifest


def test_a_pod_sees_its_own_files_names_and_places(tmp_path: Path) -> None:
    script = """
        import os, pathlib
        print(os.getcwd(), os.environ["DPO_MASTER_ADDR"], os.environ["JOB_COMPLETION_INDEX"])
        print(os.environ["HOME"], os.environ["TMPDIR"], pathlib.Path("launchers").is_dir())
        print(sorted(name for name in os.environ if name.startswith("SECRET")))
    """
    os.environ["SECRET_OF_THE_SHELL"] = "1"
    try:
        code, _ = run(tmp_path, script)
    finally:
        del os.environ["SECRET_OF_THE_SHELL"]
    folder = pod_folder(tmp_path, "run-node-0-1")
    assert code == 0
    first, second, third = (folder / "log").read_text().splitlines()
    assert first == f"{folder / 'opt'} 127.0.0.1 1"
    assert third == "[]"
    home, temporary, launchers = second.split()
    assert (home, launchers) == (temporary, "True")
    # Sockets in it must fit into 107 characters, and it is gone with the pod.
    assert len(home) < 60
    assert not Path(home).exists()


def test_the_charts_command_unpacks_its_archive_and_becomes_the_launcher(tmp_path: Path) -> None:
    script = """
        import os, signal, sys, pathlib, time
        from launchers.sub import NAME
        assert signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM]) == {signal.SIGTERM}
        if os.environ["JOB_COMPLETION_INDEX"] == "0":
            time.sleep(60)  # the pod that fails first ends the others
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        here = pathlib.Path(__file__).parent
        recipe = pathlib.Path(os.environ["DPO_RECIPE"])
        print(NAME, sys.argv[1:], here == pathlib.Path.cwd() / "launchers", recipe.read_text()[:8])
        print(os.environ["DPO_LAUNCHER_DIGEST"], sys.orig_argv[1:])
        sys.exit(78)
    """
    (tmp_path / "ws").mkdir()
    process = start_manifest(tmp_path, packed(script, tmp_path / "ws"))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 78, output
    folder = pod_folder(tmp_path, "run-node-0-1")
    first, second = (folder / "log").read_text().splitlines()
    assert first == "sub ['run'] True backend:"
    digest = (ROOT / "chart" / "launchers.digest").read_text().strip()
    assert second == f"{digest} ['-m', 'launchers', 'run']"
    mounted = folder / "etc" / "megatron-dpo" / "launchers"
    names = {path.name for path in mounted.iterdir()}
    assert names == {"launchers.tar.bz2", "recipe.yaml", "training.tar.bz2"}


def test_a_pod_that_is_stopped_while_it_unpacks_ends_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    [container] = parse(packed("", tmp_path / "ws")).jobs[0].pod["containers"]
    script = container["command"][2]
    archive = tmp_path / "launchers.tar.bz2"
    os.mkfifo(archive)  # opening it waits for a writer
    script = script.replace("/etc/megatron-dpo/launchers/", f"{tmp_path}/")
    with subprocess.Popen([sys.executable, "-c", script, "run"], cwd=tmp_path) as pod:
        status = Path(f"/proc/{pod.pid}/status")
        while not caught(status.read_text(), signal.SIGTERM):
            time.sleep(0.01)
        pod.terminate()
        assert pod.wait(timeout=10) == 143


def caught(status: str, number: int) -> bool:
    """Tell whether a process has a handler for a signal (SigCgt of /proc/PID/status)."""
    [mask] = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_a_command_may_name_the_pods_own_variables(tmp_path: Path) -> None:
    words = job("$(TEAM)-$(JOB_COMPLETION_INDEX)-$(PATH)", 1, env=[{"name": "TEAM", "value": "a"}])
    words["name"] = "node"
    status, output = run(tmp_path, "import sys; sys.exit('said ' + sys.argv[1])", [words])
    assert status == 1 and "said a-0-$(PATH)" in output


def test_pods_that_ask_for_gpus_run_on_gpus_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    asking = job("node", 2)
    pod = asking["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    script = 'import os; print(os.environ["CUDA_VISIBLE_DEVICES"])'
    code, output = run(tmp_path, script, [asking])
    assert code == 0, output
    logs = [pod_folder(tmp_path, f"run-node-0-{i}") / "log" for i in (0, 1)]
    assert [log.read_text() for log in logs] == ["4,5\n", "6,7\n"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    path = nvidia_smi.install(tmp_path / "bin", "", script="echo Driver/library mismatch; exit 18")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    code, output = run(tmp_path, script, [asking])
    assert code == 1 and "failed with exit code 18: Driver/library mismatch" in output


def test_a_job_waits_for_those_it_depends_on(tmp_path: Path) -> None:
    script = """
        import pathlib, sys
        done = pathlib.Path(__file__).parents[3] / "clone-done"
        if sys.argv[1] == "clone":
            done.write_text("")
        elif not done.exists():
            sys.exit(64)
    """
    jobs = [job("clone", 1), job("node", 2, needs=["clone"])]
    assert run(tmp_path, script, jobs)[0] == 0


def test_a_user_error_ends_the_run_at_once_with_its_code_and_its_last_words(tmp_path: Path) -> None:
    script = """
        import os, sys, time
        if os.environ["JOB_COMPLETION_INDEX"] == "0":
            time.sleep(60)
        print("write another recipe")
        sys.exit(78)
    """
    began = time.monotonic()
    code, output = run(tmp_path, script, max_restarts=3)
    assert code == 78 and time.monotonic() - began < 20
    assert "write another recipe" in output and "exit code 78 matching FailJob rule" in output
    assert not pod_folder(tmp_path, "run-node-0-1", 1).exists()


def test_an_unknown_failure_restarts_all_pods_and_the_attempt_is_counted(tmp_path: Path) -> None:
    script = """
        import os, sys
        attempt = int(os.environ["DPO_RESTART_ATTEMPT"])
        sys.exit(1 if attempt < 2 and os.environ["JOB_COMPLETION_INDEX"] == "1" else 0)
    """
    code, output = run(tmp_path, script, max_restarts=2)
    assert code == 0, output
    assert "restarts (2 of 2 counted)" in output
    assert pod_folder(tmp_path, "run-node-0-0", 2).exists()


def test_the_restarts_end_at_the_limit_with_the_pods_code(tmp_path: Path) -> None:
    code, output = run(tmp_path, "import sys; sys.exit(7)", max_restarts=1)
    assert (code, output.count("restarts (")) == (7, 1)


def test_preemption_restarts_without_being_counted(tmp_path: Path) -> None:
    script = """
        import os, sys
        sys.exit(75 if os.environ["DPO_RESTART_ATTEMPT"] == "0" else 0)
    """
    code, output = run(tmp_path, script)
    assert code == 0 and "restarts (0 of 0 counted)" in output


def test_a_python_that_does_not_exist_and_no_input_are_refused(tmp_path: Path, call: Call) -> None:
    words = ["local", "--manifest", str(write(tmp_path, manifest()))]
    words += ["--workspace", str(tmp_path / "ws"), "--python", "python-of-tomorrow"]
    ended = call(*words)
    assert ended.code == 1 and "--python python-of-tomorrow is not a program" in ended.err
    said = "error: nothing to run; use e.g. -f values/demo-cpu.yaml or --manifest FILE\n"
    assert call("local", "--workspace", str(tmp_path)) == (1, "", said)


def test_a_workspace_that_no_volume_can_have_is_refused_in_words(tmp_path: Path) -> None:
    request = Request(run="r", files=[tmp_path / "v.yaml"], workspace=tmp_path / "my runs")
    with pytest.raises(Problem, match="choose another folder"):
        run_locally(request, Console())
    assert not (tmp_path / "my runs").exists()


BROKEN = {
    b"\xff\x00": "the manifest is not YAML",
    b"a: [": "the manifest is not YAML",
    b"- a": "the manifest holds 0 JobSets",
    b"kind: JobSet": "the JobSet has no 'spec'; give what `helm template` prints",
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rendered.yaml").write_bytes(content)
    request = Request(run="x", manifest=tmp_path / "rendered.yaml", workspace=tmp_path)
    with pytest.raises(Problem, match=BROKEN[content]):
        run_locally(request, Console())
