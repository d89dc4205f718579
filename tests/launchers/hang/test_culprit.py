"""Attribution: what the evidence shows is named, and nothing is guessed."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.gang.protocol import MAX_MESSAGE_BYTES
from launchers.hang.agreement import ANSWER_SECONDS, DECISION_SECONDS
from launchers.hang.culprit import UNKNOWN, find
from launchers.hang.flight_recorder import Group
from launchers.hang.worker import Worker

C10D = "/x/torch/distributed/distributed_c10d.py:2806 all_reduce"
WRAPPER = "/x/torch/distributed/c10d_logger.py:81 wrapper"
TRAINER = "/x/trainer.py:9 step"
COLLECTIVE = (C10D, WRAPPER, TRAINER)
LOADER = ("/x/torch/utils/data/dataloader.py:700 __next__", TRAINER)
WRITING = ("/x/torch/distributed/checkpoint/filesystem.py:100 write", TRAINER)
ALL = tuple(range(4))


def gang(**changes: Mapping[str, object]) -> list[Worker]:
    """Return four ranks on two nodes that wait in one collective; changes by ``rN``."""
    found = []
    for rank in ALL:
        worker = Worker(
            rank=rank,
            node=rank // 2,
            boundary=8,
            phase="step",
            age=60,
            state="S",
            frames=COLLECTIVE,
        )
        found.append(replace(worker, **changes.get(f"r{rank}", {})))  # type: ignore[arg-type]
    return found


def recorded(*enqueued: int, completed: int = 6) -> tuple[Group, ...]:
    """Return the groups of a rank: world, and more by their number."""
    return tuple(
        Group(name=str(number), ranks=ALL, enqueued=each, completed=min(completed, each))
        for number, each in enumerate(enqueued)
    )


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"state": "T"}, "stopped"),
        ({"state": "t"}, "stopped"),
        ({"state": "Z"}, "ended"),
        ({"state": "X"}, "exited"),
        ({"state": "D"}, "blocked"),
        ({"frames": LOADER}, "loader"),
        ({"loads": True}, "loader"),
        ({"frames": (TRAINER,)}, "absent"),
        ({"frames": WRITING, "phase": "save"}, "save"),
        ({"boundary": 6}, "boundary"),
        ({"boundary": 10}, "boundary"),
        ({"frames": (C10D, WRAPPER, "/x/trainer.py:12 norm")}, "elsewhere"),
    ],
)
@pytest.mark.parametrize("rank", ALL)
def test_the_rank_that_differs_is_named(rank: int, change: dict[str, object], kind: str) -> None:
    found = find(gang(**{f"r{rank}": change}))
    assert (found.kind, found.ranks, found.node) == (kind, (rank,), rank // 2)
    assert f"rank {rank} " in found.why


def test_equal_evidence_names_nobody() -> None:
    everywhere: list[dict[str, object]] = [
        {},
        {"loads": True},
        {"frames": (TRAINER,)},
        {"state": "D"},
        {"frames": ()},
    ]
    for change in everywhere:
        found = find(gang(**{f"r{rank}": change for rank in ALL}))
        assert (found.kind, found.ranks, found.node) == (UNKNOWN, (), None)


def test_halves_that_differ_name_nobody() -> None:
    """Two pairs that wait in different collectives: either may have skipped one."""
    other = {"frames": (C10D, WRAPPER, "/x/trainer.py:12 norm")}
    assert find(gang(r0=other, r1=other)).kind == UNKNOWN
    assert find(gang(r0={"boundary": 6}, r1={"boundary": 6})).kind == UNKNOWN


def test_several_ranks_may_hold_up_one() -> None:
    stuck: dict[str, object] = {"frames": WRITING, "phase": "save"}
    found = find(gang(r1=stuck, r2=stuck, r3=stuck, r0={"phase": "save"}))
    assert (found.kind, found.ranks, found.node) == ("save", (1, 2, 3), 0)


def test_a_rank_that_has_trained_or_stopped_is_not_the_culprit() -> None:
    """It waits for a rank that has not ended its last save."""
    left: dict[str, object] = {"state": "X", "is_done": True}
    stuck: dict[str, object] = {"frames": WRITING, "phase": "save"}
    found = find(gang(r0=stuck, r1=left, r2={"phase": "save"}, r3=left))
    assert (found.kind, found.ranks) == ("save", (0,))


def test_a_rank_that_is_gone_next_to_a_blocked_one_of_its_node_may_have_failed() -> None:
    """torchrun waits for the end of the blocked one before it reports a failure."""
    found = find(gang(r0={"state": "X"}, r1={"state": "D"}))
    assert (found.kind, found.ranks) == ("blocked", (1,))
    found = find(gang(r0={"state": "X"}, r3={"state": "D"}))
    assert (found.kind, found.ranks) == ("exited", (0,))


def test_all_stopped_ranks_are_named() -> None:
    assert find(gang(**{f"r{rank}": {"state": "T"} for rank in ALL})).ranks == ALL


def test_a_launcher_that_does_not_answer_is_the_culprit() -> None:
    found = find(gang(), mute=[1])
    assert (found.kind, found.node, found.ranks) == ("launcher", 1, ())


def test_on_gpus_the_flight_recorder_shows_who_waits() -> None:
    """There the collective runs on the GPU; the stack shows some call that waits for the GPU."""
    gpu = (TRAINER,)
    waiting: dict[str, object] = {"frames": gpu, "groups": recorded(7)}
    absent: dict[str, object] = {"frames": gpu, "groups": recorded(6)}
    found = find(gang(r0=waiting, r1=waiting, r2=absent, r3=waiting))
    assert (found.kind, found.ranks) == ("absent", (2,))
    pair = find(gang(r0=waiting, r1=absent)[:2])
    assert (pair.kind, pair.ranks) == ("absent", (1,))


def test_a_skipped_collective_is_one_that_few_have_not_enqueued() -> None:
    """The rank that skipped it waits in the next one, of another group, for the others."""
    waiting: dict[str, object] = {"frames": (TRAINER,), "groups": recorded(7, 6)}
    skipper: dict[str, object] = {"frames": (TRAINER,), "groups": recorded(6, 7)}
    found = find(gang(r0=waiting, r1=waiting, r2=waiting, r3=skipper))
    assert (found.kind, found.ranks) == ("skipped", (3,))
    assert "collective 7 of group 0" in found.why


def test_two_ranks_that_wait_for_each_other_are_named_without_a_culprit() -> None:
    """Seen on 2 GPUs: one rank called a collective that the other did not."""
    one: dict[str, object] = {"frames": (TRAINER,), "groups": recorded(7, 6)}
    other: dict[str, object] = {"frames": (TRAINER,), "groups": recorded(6, 7)}
    found = find(gang(r0=one, r1=other)[:2])
    assert (found.kind, found.ranks) == (UNKNOWN, ())  # either may be wrong
    assert "collective 7 of group 0 for rank 1" in found.why
    assert "collective 7 of group 1 for rank 0" in found.why
    assert "collective" not in find(gang(r0=one, r1=one)[:2]).why


def test_of_two_ranks_the_one_behind_is_named_unless_it_waits_for_the_other() -> None:
    no_stack: dict[str, object] = {"frames": ()}
    pair = gang(r0={**no_stack, "boundary": 6}, r1=no_stack)[:2]
    assert find(pair).ranks == (0,)
    assert find(gang(r0={"boundary": 6})[:2]).kind == UNKNOWN


LARGE = 8192
"""GPUs."""


def large() -> list[Worker]:
    """Return the evidence of a large gang: irregular groups, deep stacks, long names."""
    words = "/".join(["a-long-folder"] * 40)
    frames = (*COLLECTIVE, *(f"/{words}/module.py:{n} call" for n in range(100)))
    odd = [tuple(n * n + g for n in range(2000)) for g in range(100)]
    own = tuple(Group(name=str(g), ranks=odd[g], enqueued=6, completed=6) for g in range(100))

    def groups(rank: int) -> tuple[Group, ...]:
        tp = range(rank // 4 * 4, rank // 4 * 4 + 4)
        waits = Group(name=f"tp{rank // 4}", ranks=tp, enqueued=7, completed=6)
        return (*own[:20], waits) if rank >= 8 else (*own, waits)

    return [
        replace(worker, rank=rank, node=rank // 8, frames=frames, groups=groups(rank))
        for rank, worker in enumerate(gang()[:1] * LARGE)
    ]


def test_the_evidence_of_a_node_fits_into_a_message_at_any_size() -> None:
    workers = [each.to_wire() for each in large()[:8]]
    line = json.dumps({"hang": "evidence", "workers": workers})
    assert len(line) < MAX_MESSAGE_BYTES / 2
    back = [Worker.from_wire(each) for each in json.loads(line)["workers"]]
    assert all(each.pending and each.waits for each in back)


def test_the_culprit_among_thousands_is_found_in_the_time_that_rank_0_has() -> None:
    workers, begun = large(), time.monotonic()
    assert find(workers).kind == UNKNOWN
    behind = replace(workers[5000].groups[-1], enqueued=6)
    workers[5000] = replace(workers[5000], groups=(*workers[5000].groups[:-1], behind))
    found = find(workers)
    assert (found.kind, found.ranks) == ("skipped", (5000,))
    assert time.monotonic() - begun < DECISION_SECONDS - ANSWER_SECONDS


def test_a_single_rank_is_its_own_culprit() -> None:
    assert find(gang(r0={"loads": True})[:1]).ranks == (0,)


@given(
    st.lists(
        st.builds(
            Worker,
            rank=st.integers(0, 63),
            node=st.integers(0, 7),
            boundary=st.sampled_from([6, 8, 9]),
            phase=st.sampled_from(["step", "save"]),
            age=st.just(60.0),
            loads=st.booleans(),
            state=st.sampled_from(["", "S", "R", "D", "T", "Z"]),
            frames=st.sampled_from([(), COLLECTIVE, LOADER, (TRAINER,)]),
            groups=st.sampled_from([(), recorded(7), recorded(6), recorded(6, 7)]),
        ),
        max_size=8,
        unique_by=lambda worker: worker.rank,
    )
)
def test_any_evidence_has_an_answer(workers: list[Worker]) -> None:
    found = find(workers)
    assert set(found.ranks) <= {worker.rank for worker in workers}
    assert (found.node is None) == (not found.ranks) and found.why


def test_of_ranks_that_wait_for_a_checkpoint_the_one_that_writes_is_named() -> None:
    join = ("/usr/lib/python3.11/threading.py:1112 join", TRAINER)
    waiting = {"phase": "save", "frames": join}  # rank 0 joins the thread that collects
    workers = gang(
        r0=waiting, r1={"phase": "save"}, r2={"phase": "save"}, r3={**waiting, "writes": 1805.0}
    )
    found = find(workers)
    assert (found.kind, found.ranks, found.node) == ("write", (3,), 1)


def test_a_write_in_the_background_of_a_step_that_hangs_is_not_the_cause() -> None:
    assert find(gang(r3={"writes": 20.0}, r1={"state": "T"})).ranks == (1,)
    assert find(gang(r3={"writes": 20.0})).kind == UNKNOWN
