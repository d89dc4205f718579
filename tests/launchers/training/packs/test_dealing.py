"""Packs are dealt out so that replicas work evenly, and a step keeps its packs."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.exits import Exit, LaunchError
from launchers.plan import flops
from launchers.system.failures import verdict
from launchers.training.packs import dealing
from launchers.training.packs.dealing import Round
from launchers.training.packs.packing_record import Packs, report
from tests.launchers.models import load_model_config

QWEN = load_model_config("Qwen3-30B-A3B")
SIZES = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4))


def flat(rounds: list[Round]) -> list[int]:
    return [pack for batches in rounds for each in batches for pack in each]


def undealt(order: list[int], replicas: int, micro: int) -> list[Round]:
    size = replicas * micro
    starts = range(0, len(order) // size * size, size)
    return [[order[s + r : s + size : replicas] for r in range(replicas)] for s in starts]


@given(SIZES, st.lists(st.floats(0.1, 100), max_size=80), st.randoms())
def test_each_pack_is_dealt_once_in_its_own_step(
    sizes: tuple[int, int, int], costs: list[float], chance: object
) -> None:
    replicas, micro, count = sizes
    size = replicas * micro
    order = list(range(len(costs)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    batch = count * size
    given = {"replicas": replicas, "micro": micro, "batch": batch, "first": batch}
    rounds = list(dealing.epoch(order, costs, **given))
    assert all([len(each) for each in batches] == [micro] * replicas for batches in rounds)
    dealt = flat(rounds)
    assert len(dealt) == len(costs) // size * size
    for begin in range(0, len(dealt), batch):
        end = begin + batch
        assert sorted(dealt[begin:end]) == sorted(order[begin : min(end, len(dealt))])


@given(SIZES, st.data())
def test_replicas_never_wait_longer_than_in_any_other_order(
    sizes: tuple[int, int, int], data: st.DataObject
) -> None:
    replicas, _, count = sizes
    size = count * replicas
    costs = data.draw(st.lists(st.floats(0.1, 100), min_size=size, max_size=size))
    other = undealt(data.draw(st.permutations(range(len(costs)))), replicas, 1)
    dealt = dealing.deal(costs, replicas=replicas, micro=1)
    assert dealing.imbalance(dealt, costs) <= dealing.imbalance(other, costs) + 1e-9


@given(st.integers(1, 20), st.integers(0, 20))
def test_an_epoch_that_starts_within_a_step_ends_that_step_first(steps: int, cut: int) -> None:
    costs = [float(n * 37 % 101) for n in range(steps * 8 + 8)]
    first = 8 - cut % 8 // 2 * 2
    sizes = {"replicas": 2, "micro": 1, "batch": 8}
    dealt = flat(list(dealing.epoch(range(len(costs)), costs, **sizes, first=first)))
    assert sorted(dealt[:first]) == list(range(first))
    assert sorted(dealt[first : first + 8]) == list(range(first, min(first + 8, len(costs))))


def test_replicas_have_near_equal_sums_too() -> None:
    costs = [1.0 + n * n % 97 / 97 for n in range(128)]
    sums = [0.0] * 8
    for batches in dealing.deal(costs, replicas=8, micro=1):
        for replica, each in enumerate(batches):
            sums[replica] += sum(costs[p] for p in each)
    assert max(sums) / (sum(sums) / 8) < 1.005


def test_the_cost_of_texts_is_the_flop_of_their_forward_pass() -> None:
    texts = (1000, 3000)
    s_eff = (1000**2 + 3000**2) / 4000
    assert dealing.cost(QWEN).of(texts) == pytest.approx(4000 * flops.forward(QWEN, s_eff))


def test_packs_that_make_no_step_are_refused_with_what_to_write() -> None:
    sizes = {"replicas": 2, "micro": 1, "batch": 128}
    dealing.refuse_no_step(2, **sizes, steps=1)
    for packs, steps in ((66, 0), (1, 5)):
        with pytest.raises(LaunchError, match=f"{packs} packs do not fill one batch") as no:
            dealing.refuse_no_step(packs, **sizes, steps=steps)
        reported = verdict("".join(traceback.format_exception(no.value)), started=False)
        assert reported is not None and reported.code == no.value.code == Exit.DATA


def test_a_report_counts_room_waiting_and_what_is_lost() -> None:
    packs = Packs(texts=[[60, 40], [30, 20], [50], [20, 30]], packs=[[0], [1, 2], [3]], length=100)
    costs = packs.costs(dealing.cost(QWEN))
    assert packs.tokens() == [100, 100, 50]
    dealt = dealing.deal(costs[:2], replicas=2, micro=1)
    seen = report(packs, dealing.cost(QWEN), dealt)
    assert (seen.rows, seen.packs, seen.lost_each_epoch, seen.too_long) == (4, 3, 1, 0)
    assert seen.real == pytest.approx(250 / 300)
    assert seen.token_imbalance == 0
    assert [c.split(",")[0] for c in seen.complaints()] == ["packs are 83.3% full"]


def test_a_row_longer_than_a_pack_is_reported_with_the_length_to_write() -> None:
    packs = Packs(texts=[[90, 70], [50, 50]], packs=[[0], [1]], length=100)
    rounds = dealing.deal(packs.costs(dealing.cost(QWEN)), replicas=2, micro=1)
    seen = report(packs, dealing.cost(QWEN), rounds)
    assert seen.real == 1
    assert "packing_length: 160" in next(seen.complaints())
    assert any("wait 23." in c and "global_batch_size" in c for c in seen.complaints())


def test_other_lengths_or_packs_have_another_digest() -> None:
    one = Packs(texts=[[1, 2], [3, 4]], packs=[[0, 1]], length=10)
    texts = Packs(texts=[[1, 2], [3, 5]], packs=[[0, 1]], length=10)
    packs = Packs(texts=[[1, 2], [3, 4]], packs=[[1, 0]], length=10)
    assert len({each.digest() for each in (one, texts, packs)}) == 3
