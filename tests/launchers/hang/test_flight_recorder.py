"""The flight recorder of torch: pipes, dumps and what is read from them."""

import io
import json
import os
import pickle
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from launchers.hang import flight_recorder
from launchers.hang.flight_recorder import NAMED, Group, compact, parse
from tests.launchers.training_environment import PYTHON, needs_training

REAL = """
import os, pickle, sys
os.environ.update(MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1", MASTER_PORT="0")
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(1))
sys.stdout.buffer.write(_dump_fr_trace())
"""


@needs_training
def test_a_dump_of_the_installed_torch_has_the_form_that_is_read() -> None:
    """Gloo's recorder has the same form as NCCL's, except that it does not list the ranks."""
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    data = subprocess.run([PYTHON, "-c", REAL], env=env, capture_output=True, check=True).stdout
    dump = flight_recorder._Plain(io.BytesIO(data)).load()  # torch's own pickle has no classes
    names = {str(each["pg_id"]): each["process_group"][0] for each in dump["entries"]}
    dump["pg_config"] = {name: {"ranks": "[0]"} for name in names.values()}
    [group] = parse(pickle.dumps(dump))
    assert (group.ranks, group.enqueued) == ("0", 3)


def test_an_unknown_form_is_no_evidence() -> None:
    torn: list[object] = [{}, {"entries": []}, {"entries": 1}, [], {"entries": [{}]}]
    for dump in torn:
        assert parse(pickle.dumps(dump)) == ()


def test_a_dump_runs_no_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    assert parse(pickle.dumps({"entries": Evil()})) == ()
    assert not (tmp_path / "made").exists()


def test_a_process_is_asked_by_its_pipe(tmp_path: Path) -> None:
    assert not flight_recorder.ask(tmp_path, 3)  # without NCCL there is none
    os.mkfifo(tmp_path / "pipe_3.pipe")
    assert not flight_recorder.ask(tmp_path, 3)  # the process has ended
    reader = os.open(tmp_path / "pipe_3.pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert flight_recorder.ask(tmp_path, 3)
    assert os.read(reader, 8) == b"1"
    os.close(reader)


def test_what_the_user_sets_counts(tmp_path: Path) -> None:
    own = flight_recorder.environment({"TORCH_FR_BUFFER_SIZE": "7"}, tmp_path)
    assert "TORCH_FR_BUFFER_SIZE" not in own
    assert own["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == f"{tmp_path}/pipe_"
    assert own["TORCH_FR_DUMP_TEMP_FILE"] + "3" == str(flight_recorder.dump_of(tmp_path, 3))


def test_groups_survive_the_message() -> None:
    group = Group(name="51", ranks=(0, 4), enqueued=9, completed=8)
    assert Group(**json.loads(json.dumps(vars(group)))) == group


@given(st.lists(st.integers(0, 9999), max_size=300), st.lists(st.integers(0, 9999), max_size=300))
def test_compact_ranks_are_short_and_equal_for_equal_ranks_only(
    one: list[int], other: list[int]
) -> None:
    assert len(compact(one)) <= NAMED
    assert (compact(one) == compact(other)) == (one == other)
