"""Judges what the GPUs measured: floors, slow pairs, slow cards. Pure.

The rule is one for all: what was expected is the class; below 85 % of it a warning, below half of
it the run ends, since such a node or cable is broken and not merely busy. A floor that the values
demand (``preflight.nodeFloorGbs``, ``networkFloorGbs``) ends the run wherever it is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_high

from launchers import cards
from launchers.preflight_finding import Finding, failed, ok, warning
from launchers.preflight_measured import Record, Row

LOW, BROKEN = 0.85, 0.5
"""Shares of the class: launchers' own rule, derived from the spread between published minimum and
typical values (Azure/azurehpc-health-checks conf/*.conf: 228 of 230-250, 460 of 460-480 GB/s)."""
SHARE = {2: 0.7, 3: 0.75, 4: 0.77, 5: 0.8, 6: 0.85, 7: 0.9}
"""Class of fewer than 8 GPUs of a node, over that of 8: estimates for H200 (300, 330, 431 GB/s)."""
A2A_LOW, A2A_BROKEN = 0.5, 0.25
"""The same for all-to-all, whose messages are smaller by the number of ranks."""
ODD, SLOW = 0.90, 0.85
"""Shares of the median among like pairs, or like cards: a warning, a failure. A card or cable that
lost a fifth of its speed is caught; what healthy ones differ by is a few percent."""
_REMEDY = "see NCCL's log in the attempt's folder; cordon the node if it happens there again"


def node_class(card: str, nproc: int) -> float | None:
    """Return the GB/s that an all-reduce inside a node should reach; None for an unlisted card.

    >>> node_class("NVIDIA H200", 8), node_class("Tesla T4", 8)
    (431, None)
    """
    found = cards.seen(card)
    return None if found is None else found.nvlink_gbs * SHARE.get(nproc, 1.0)


def best(rows: Sequence[Row], scope: str, op: str) -> float | None:
    """Return the best bandwidth of a collective over its sizes; None where it was not measured."""
    return max((r.gbs for r in rows if (r.scope, r.op) == (scope, op)), default=None)


def nodes_of(records: Sequence[Record], nproc: int, floor: float | None) -> list[Finding]:
    """Judge the collectives inside each node, measured on all nodes at once."""
    found = []
    for record in records:
        expected = node_class(record.card, nproc)
        for op in ("all_reduce", "all_to_all"):
            seen = best(record.rows, "node", op)
            if seen is not None:
                who = f"node of {record.name}"
                demanded = floor if op == "all_reduce" else None
                found.append(_judge(op, seen, expected, demanded, who, records))
    return found


def network(
    records: Sequence[Record],
    *,
    nodes: int,
    nproc: int,
    expected: float | None,
    floor: float | None,
) -> list[Finding]:
    """Judge the collectives over the whole gang.

    All-to-all: each of a node's ``nproc`` GPUs sends (m - 1)/m of its bytes out of the node, over
    its share of what the node's adapters carry in an all-reduce (derived).

    Args:
        records: of all ranks.
        nodes: pods of the gang (m).
        nproc: GPUs of each.
        expected: GB/s that the fabric's profile expects.
        floor: GB/s that the values demand.
    """
    rows, world = records[0].rows, nodes * nproc
    found = []
    seen = best(rows, "world", "all_reduce")
    if seen is not None:
        found.append(_judge("all_reduce", seen, expected, floor, "network", records))
    seen = best(rows, "world", "all_to_all")
    if seen is not None:
        share = (world - 1) / world * nodes / (nodes - 1) / nproc
        class_ = None if expected is None else expected * share
        found.append(_judge("all_to_all", seen, class_, None, "network", records))
    return found


def _judge(
    op: str,
    seen: float,
    expected: float | None,
    floor: float | None,
    who: str,
    records: Sequence[Record],
) -> Finding:
    """Compare one bandwidth with its class and its floor."""
    low, broken = (LOW, BROKEN) if op == "all_reduce" else (A2A_LOW, A2A_BROKEN)
    text = f"{op} {seen:.1f} GB/s"
    if floor is not None and seen < floor:
        text += f", the values demand {floor:g}"
        return failed("bandwidth", text + _slowest(records), _REMEDY, who=who)
    if expected is None:
        return Finding(check="bandwidth", state="ok", seen=text, who=who)
    text += f", expected {expected:.0f}"
    if seen < broken * expected:
        return failed("bandwidth", text + _slowest(records), _REMEDY, who=who)
    if seen < low * expected:
        return warning("bandwidth", text + _slowest(records), _REMEDY, who=who)
    return Finding(check="bandwidth", state="ok", seen=text, who=who)


def _slowest(records: Sequence[Record]) -> str:
    pairs = [pair for record in records for pair in record.pairs]
    if not pairs:
        return ""
    pair = min(pairs, key=lambda p: p.gbs)
    return f"; the slowest pair is ranks {pair.one} and {pair.other} with {pair.gbs:.1f} GB/s"


def slow_pairs(records: Sequence[Record], *, strict: bool) -> list[Finding]:
    """Name pairs that are slower than their like.

    Args:
        records: of all ranks; each pair was measured by its lower rank.
        strict: whether the network's pairs must be alike: RDMA, not sockets. Pairs inside a node
            must be where NVSwitch joins all cards, which is so for every listed one.
    """
    found, seen = [], []
    must = {"network": strict, "node": all(cards.seen(r.card) is not None for r in records)}
    for kind in ("node", "network"):
        pairs = [pair for record in records for pair in record.pairs if pair.kind == kind]
        if not pairs:
            continue
        middle = median_high(pair.gbs for pair in pairs)
        seen.append(f"{kind} {min(p.gbs for p in pairs):.1f} to {max(p.gbs for p in pairs):.1f}")
        for pair in pairs:
            if pair.gbs < ODD * middle:
                who = f"{records[pair.one].name} and {records[pair.other].name}"
                text = f"{pair.gbs:.1f} GB/s, the median is {middle:.1f}"
                is_bad = pair.gbs < SLOW * middle and must[kind]
                found.append((failed if is_bad else warning)("pairs", text, _REMEDY, who=who))
    return found or [ok("pairs", "; ".join(f"{text} GB/s" for text in seen) or "one rank")]


def slow_cards(records: Sequence[Record]) -> list[Finding]:
    """Name GPUs that compute slower than the same cards of the gang."""
    found = []
    for card in {record.card for record in records}:
        like = [record for record in records if record.card == card]
        middle = median_high(record.tflops for record in like)
        for record in like:
            if record.tflops < ODD * middle:
                text = f"{record.tflops:.0f} TFLOP/s, the median is {middle:.0f}"
                act = failed if record.tflops < SLOW * middle else warning
                found.append(act("compute", text, _REMEDY, who=record.name))
    low, high = min(r.tflops for r in records), max(r.tflops for r in records)
    return found or [ok("compute", f"{low:.0f} to {high:.0f} TFLOP/s")]
