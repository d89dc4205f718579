from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.config.rank import node_rank, place_of
from launchers.exits import Exit, LaunchError

JOBSET = {
    "JOB_COMPLETION_INDEX": "1",
    "DPO_JOB_INDEX": "0",
    "DPO_COMPLETIONS": "2",
    "DPO_NODES": "2",
    "DPO_MASTER_ADDR": "r-node-0-0.r",
}


@given(jobs=st.integers(1, 20), completions=st.integers(1, 20))
def test_every_pod_of_a_jobset_has_its_own_rank(jobs: int, completions: int) -> None:
    ranks = [node_rank(j, completions, c) for j in range(jobs) for c in range(completions)]
    assert ranks == list(range(jobs * completions))


def test_a_jobset_pod_takes_its_rank_from_the_downward_api() -> None:
    place = place_of(JOBSET)
    assert (place.rank, place.nodes, place.source) == (1, 2, "JobSet")
    assert (place.master_addr, place.master_port) == ("r-node-0-0.r", 29500)


def test_a_bare_host_gives_its_rank_itself() -> None:
    env = {"NODE_RANK": "3", "NNODES": "4", "MASTER_ADDR": "host0", "MASTER_PORT": "1234"}
    place = place_of(env)
    assert (place.rank, place.nodes, place.master_addr, place.master_port) == (3, 4, "host0", 1234)


def test_slurm_gives_rank_and_rank_zeros_host() -> None:
    env = {"SLURM_NODEID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "gpu[07-08]"}
    place = place_of(env)
    assert (place.rank, place.nodes, place.master_addr) == (1, 2, "gpu07")


def test_a_slurm_step_counts_its_own_nodes() -> None:
    job = {"SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_NODELIST": "gpu[01-04]"}
    step = {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "gpu[03-04]", "SLURM_NODEID": "1"}
    place = place_of(job | step)
    assert (place.rank, place.nodes, place.master_addr) == (1, 2, "gpu03")


def test_one_host_alone_needs_no_variables() -> None:
    assert place_of({}).nodes == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"JOB_COMPLETION_INDEX": "2"}, "node rank 2 of 2 nodes"),
        ({"JOB_COMPLETION_INDEX": "-1"}, "JOB_COMPLETION_INDEX='-1'"),
        ({"DPO_NODES": "two"}, "DPO_NODES='two'"),
        ({"DPO_MASTER_ADDR": ""}, "DPO_MASTER_ADDR is not set"),
        ({"DPO_MASTER_PORT": "70000"}, "DPO_MASTER_PORT=70000"),
    ],
)
def test_a_wrong_place_is_refused_by_name(change: dict[str, str], named: str) -> None:
    with pytest.raises(LaunchError, match=named) as refusal:
        place_of(JOBSET | change)
    assert refusal.value.code == Exit.CONFIG
