"""Attribution: what the evidence shows is named, and nothing is guessed."""

import json
import time
from collections.abc import Mapping, Sequence
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
    given = {"boundary": 8, "phase": "step", "age": 60, "state": "S", "frames": COLLECTIVE}
    return [
        Worker(rank=rank, node=rank // 2, **{**given, **changes.get(f"r{rank}", {})})  # type: ignore[arg-type]
        for rank in ALL
    ]


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


NORM = {"frames": (C10D, WRAPPER, "/x/trainer.py:12 norm")}
BEHIND, GONE, BLOCKED, STOPPED = {"boundary": 6}, {"state": "X"}, {"state": "D"}, {"state": "T"}
TRAINED = {**GONE, "is_done": True}
SAVES: Mapping[str, object] = {"phase": "save"}
STUCK = {**SAVES, "frames": WRITING}
JOINS = {**SAVES, "frames": ("/usr/lib/python3.11/threading.py:1112 join", TRAINER)}
WAITS: Mapping[str, object] = {"frames": (TRAINER,), "groups": recorded(7)}
ABSENT = {**WAITS, "groups": recorded(6)}
FIRST, SECOND = {**WAITS, "groups": recorded(7, 6)}, {**WAITS, "groups": recorded(6, 7)}
"""Ranks that wait in a collective of the first group, and of the second."""
NO_STACK: Mapping[str, object] = {"frames": ()}


@pytest.mark.parametrize(
    ("changes", "kind", "ranks"),
    [
        *(
            ([each] * 4, UNKNOWN, ())
            for each in ({}, {"loads": True}, {"frames": (TRAINER,)}, BLOCKED, NO_STACK)
        ),
        ([STOPPED] * 4, "stopped", ALL),
        # two pairs that wait in different collectives: either may have skipped one
        ([NORM, NORM, {}, {}], UNKNOWN, ()),
        ([BEHIND, BEHIND, {}, {}], UNKNOWN, ()),
        ([SAVES, STUCK, STUCK, STUCK], "save", (1, 2, 3)),
        # who has trained waits for a rank that has not ended its last save
        ([STUCK, TRAINED, SAVES, TRAINED], "save", (0,)),
        # torchrun waits for the end of the blocked one of its node before it reports a failure
        ([GONE, BLOCKED, {}, {}], "blocked", (1,)),
        ([GONE, {}, {}, BLOCKED], "exited", (0,)),
        # collectives run on the GPU: the stack shows some call that waits for it
        ([WAITS, WAITS, ABSENT, WAITS], "absent", (2,)),
        ([WAITS, ABSENT], "absent", (1,)),
        # rank 0 joins the thread that collects the checkpoint
        ([JOINS, SAVES, SAVES, {**JOINS, "writes": 1805.0}], "write", (3,)),
        # a write in the background of a step that hangs is not the cause
        ([{}, STOPPED, {}, {"writes": 20.0}], "stopped", (1,)),
        ([{}, {}, {}, {"writes": 20.0}], UNKNOWN, ()),
        # of two ranks the one behind, unless it waits for the other
        ([{**NO_STACK, **BEHIND}, NO_STACK], "boundary", (0,)),
        ([BEHIND, {}], UNKNOWN, ()),
        ([{"loads": True}], "loader", (0,)),
    ],
)
def test_ranks_are_named_where_the_evidence_is_theirs_alone(
    changes: Sequence[Mapping[str, object]], kind: str, ranks: tuple[int, ...]
) -> None:
    found = find(gang(**{f"r{n}": each for n, each in enumerate(changes)})[: len(changes)])
    assert (found.kind, found.ranks, found.node) == (kind, ranks, ranks[0] // 2 if ranks else None)


def test_a_skipped_collective_is_one_that_few_have_not_enqueued() -> None:
    """The rank that skipped it waits in the next one, of another group, for the others."""
    found = find(gang(r0=FIRST, r1=FIRST, r2=FIRST, r3=SECOND))
    assert (found.kind, found.ranks) == ("skipped", (3,))
    assert "collective 7 of group 0" in found.why


def test_two_ranks_that_wait_for_each_other_are_named_without_a_culprit() -> None:
    """Seen on 2 GPUs: one rank called a collective that the other did not."""
    found = find(gang(r0=FIRST, r1=SECOND)[:2])
    assert (found.kind, found.ranks) == (UNKNOWN, ())  # either may be wrong
    assert "collective 7 of group 0 for rank 1" in found.why
    assert "collective 7 of group 1 for rank 0" in found.why
    assert "collective" not in find(gang(r0=FIRST, r1=FIRST)[:2]).why


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
