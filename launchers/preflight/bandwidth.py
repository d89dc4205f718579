"""Judges what the GPUs measured: floors, slow pairs, slow cards. Pure.

One rule for all links: a missed floor is a warning, since others may use the fabric too; well below
it (half of what such a link reaches) the node or cable is broken, and the run ends. With
``preflight.strict`` a missed floor ends it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_high

from launchers.config import gpu_models
from launchers.config.preflight import Preflight
from launchers.preflight.finding import Finding, failed, ok, warning
from launchers.preflight.measurements import Record, Row

FLOOR = 0.85
"""Floor of a link over what such a link typically reaches: ``chart/networks`` reckons so too."""
BROKEN = 0.5 / FLOOR
"""Share of a floor below which a link is broken: half of what it typically reaches."""
A2A = 0.75
"""Floor of an all-to-all over that of an all-reduce; 0.84 to 0.86 inside a node of 4 and 2 H200
(tests/gpu/results), less where adapters are shared."""
SHARE = {2: 0.76, 3: 0.79, 4: 0.82, 5: 0.85, 6: 0.9, 7: 0.95}
"""What fewer than 8 GPUs of a node reach, over 8: 2 and 4 H200 measured (329 and 354 of 431 GB/s,
tests/gpu/results), the others between them."""
ODD, SLOW = 0.90, 0.85
"""Shares of the median among like pairs, or like cards: a warning, a failure. A card or cable that
lost a fifth of its speed is caught; what healthy ones differ by is a few percent."""
_REMEDY = "see NCCL's log in the attempt's folder; cordon the node if it happens there again"


def node_class(card: str, nproc: int) -> float | None:
    """Return the GB/s that an all-reduce inside a node should reach; None for an unlisted card.

    >>> node_class("NVIDIA H200", 8), node_class("Tesla T4", 8)
    (431.0, None)
    """
    found = gpu_models.seen(card)
    return None if found is None else found.nvlink_gbs * SHARE.get(nproc, 1.0)


def best(rows: Sequence[Row], scope: str, op: str) -> float | None:
    """Return the best bandwidth of a collective over its sizes; None where it was not measured."""
    return max((r.gbs for r in rows if (r.scope, r.op) == (scope, op)), default=None)


def nodes_of(records: Sequence[Record], nproc: int, wanted: Preflight) -> list[Finding]:
    """Judge the collectives inside each node, measured on all nodes at once."""
    found = []
    for record in records:
        usual = node_class(record.card, nproc)
        floor = wanted.node_floor or (None if usual is None else FLOOR * usual)
        for op, share in (("all_reduce", 1.0), ("all_to_all", A2A)):
            seen = best(record.rows, "node", op)
            if seen is not None:
                least = None if floor is None else floor * share
                who = f"node of {record.name}"
                near = [r for r in records if r.node_rank == record.node_rank]
                slowest = _slowest(near, "node")
                found.append(_judge(op, seen, least, who, slowest, strict=wanted.strict))
    return found


def network(
    records: Sequence[Record], *, nodes: int, nproc: int, wanted: Preflight
) -> list[Finding]:
    """Judge the collectives over the whole gang.

    All-to-all: each of a node's ``nproc`` GPUs sends (m - 1)/m of its bytes out of the node, over
    its share of what the node's adapters carry in an all-reduce (derived).

    Args:
        records: of all ranks.
        nodes: pods of the gang (m).
        nproc: GPUs of each.
        wanted: the floor, and whether it must be reached.
    """
    world, found = nodes * nproc, []
    for op in ("all_reduce", "all_to_all"):
        seen = best(records[0].rows, "world", op)
        if seen is None:
            continue
        floor = wanted.network_floor
        if floor is not None and op == "all_to_all":
            floor *= A2A * (world - 1) / world * nodes / (nodes - 1) / nproc
        slowest = _slowest(records, "network")
        found.append(_judge(op, seen, floor, "network", slowest, strict=wanted.strict))
    return found


def _judge(
    op: str, seen: float, floor: float | None, who: str, slowest: str, *, strict: bool
) -> Finding:
    """Compare one bandwidth with its floor."""
    text = f"{op} {seen:.1f} GB/s"
    if floor is None:
        return Finding(check="bandwidth", state="ok", seen=text, who=who)
    text += f", the floor is {floor:.1f}"
    if seen >= floor:
        return Finding(check="bandwidth", state="ok", seen=text, who=who)
    act = failed if strict or seen < BROKEN * floor else warning
    return act("bandwidth", text + slowest, _REMEDY, who=who)


def _slowest(records: Sequence[Record], kind: str) -> str:
    """Name the slowest pair of a kind: the likeliest culprit of a slow collective."""
    pairs = [pair for record in records for pair in record.pairs if pair.kind == kind]
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
    must = {"network": strict, "node": all(gpu_models.seen(r.card) is not None for r in records)}
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
