"""``recipe.backend: script``: two launchers run a script of the clone in place of training."""

import os
import signal
from pathlib import Path

import pytest

from launchers.exits import Exit
from tests.launchers.git_server import repository
from tests.launchers.pods import ROOT, Pods, end
from tests.launchers.training_environment import PYTHON, needs_training
from tests.launchers.waiting import eventually

SUM = """\
import os, sys
import torch
import torch.distributed as dist

rank, nodes = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
dist.init_process_group("gloo", rank=rank, world_size=nodes)
total = torch.tensor([rank + 1])
dist.all_reduce(total)
name = f"{os.environ['DPO_RUN_FOLDER']}/sum-{rank}"
open(name, "w").write(f"{total.item()} {sys.argv[1:]} {os.environ['NPROC_PER_NODE']}")
dist.barrier()
dist.destroy_process_group()
print("model", os.path.exists(os.environ["DPO_MODEL"] + "/config.json"))
"""
SAVES = """\
trap 'echo saved > $DPO_RUN_FOLDER/saved-$NODE_RANK; exit 75' TERM
touch $DPO_RUN_FOLDER/begun-$NODE_RANK
while true; do sleep 0.1; done
"""


def pods(folder: Path, name: str, text: str, *words: str) -> tuple[Pods, dict[str, str]]:
    """Return two pods that run a script of a repository, and the settings of its clone."""
    made, code = Pods(folder=folder), folder / "code"
    sha = repository(code, {name: text})
    made.write_recipe(backend="script", args={}, script=[name, *words])
    env = {"DPO_CODE_URL": f"file://{code}", "DPO_CODE_REF": sha, "PYTHONPATH": str(ROOT)}
    return made, env


@needs_training
def test_two_nodes_sum_with_real_torch(tmp_path: Path) -> None:
    run, env = pods(tmp_path, "train.sh", f"exec {PYTHON} - \"$@\" <<'END'\n{SUM}END\n")
    run.write_recipe(backend="script", args={}, script=["train.sh", "--lr", "1e-5"])
    outputs = run.ended(**env)
    assert "script-alone" in outputs[0]
    assert "model True" in (run.run / "attempts/1/node-0.log").read_text()
    for rank in (0, 1):
        assert (run.run / f"sum-{rank}").read_text() == "3 ['--lr', '1e-5'] 1"
    assert run.progress()["state"] == "succeeded"
    assert not (run.run / "export").exists()
    run.alone("verify", **env)


@pytest.mark.parametrize(
    ("text", "code", "id"),
    [
        ("exit 65", Exit.DATA, "script-ended"),
        ("exit 3", Exit.PEER, "script-failed"),
        ("echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 1", None, ""),
    ],
)
def test_the_exit_code_and_the_output_decide(
    tmp_path: Path, text: str, code: Exit | None, id: str
) -> None:
    fails = f"if [ $NODE_RANK = 1 ]; then {text}; fi; sleep 30\n"
    run, env = pods(tmp_path, "train.sh", fails)
    (first, _), (second, output) = run.all(**env)
    assert first == Exit.PEER  # another rank's error is never this one's
    if code is None:
        assert second not in (Exit.OK, Exit.CONFIG) and "out of memory" in output
    else:
        assert (second, run.message(1)["id"]) == (code, id), output


def test_sigterm_lets_every_rank_save(tmp_path: Path) -> None:
    run, env = pods(tmp_path, "train.sh", SAVES)
    started = [run.start(rank, **env) for rank in (0, 1)]
    begun = [run.run / f"begun-{rank}" for rank in (0, 1)]
    assert eventually(lambda: all(path.exists() for path in begun), 60)
    os.kill(started[1].pid, signal.SIGTERM)
    (first, _), (second, output) = [end(pod) for pod in started]
    assert (second, run.message(1)["id"]) == (Exit.PREEMPTED, "script-ended"), output
    assert first == Exit.TERMINATED  # free, too
    assert all((run.run / f"saved-{rank}").exists() for rank in (0, 1))


@pytest.mark.parametrize(
    ("name", "text", "change", "code", "id"),
    [
        ("train.py", "import launchers, sys; sys.exit(66)", {}, Exit.INPUT_MISSING, "script-ended"),
        ("other.sh", "exit 0\n", {}, Exit.INPUT_MISSING, "code-file-missing"),
        # it would not stop
        ("train.sh", "exit 0\n", {"DPO_BUDGET_GPU_MINUTES": "60"}, Exit.CONFIG, "budget-script"),
    ],
    ids=["Python", "missing", "budget"],
)
def test_a_script_ends_as_declared(
    tmp_path: Path, name: str, text: str, change: dict[str, str], code: Exit, id: str
) -> None:
    run, env = pods(tmp_path, name.replace("other", "train"), text)
    run.write_recipe(backend="script", args={}, script=[name])
    run.nodes = 1
    [(status, output)] = run.all(**env, **change)
    assert (status, run.message(0)["id"]) == (code, id), output
