"""Judge what the GPUs of a gang measured: transports, bandwidths, slow pairs, slow GPUs. Pure.

A link below its floor is a warning, since others may use the fabric too. Below half of what such a
link typically reaches, the node or cable is broken and the run ends. With ``preflight.strict`` a
link below its floor ends it as well.
"""

from collections.abc import Mapping, Sequence
from statistics import median_high

from launchers.config import gpu_models
from launchers.config.preflight import FLOOR_SHARE, Preflight
from launchers.preflight import transport
from launchers.preflight.finding import Finding, failed, ok, warning
from launchers.preflight.measurements import Record, Row
from launchers.preflight.pod_checks import SOCKETS
from launchers.preflight.worker import CollectivePlan

BROKEN = 0.5 / FLOOR_SHARE
"""Share of a floor below which a link is broken: half of its typical bandwidth."""
A2A = 0.75
"""Floor of an all-to-all as a share of that of an all-reduce. Inside nodes of 4 and 2 H200 it is
0.84 to 0.86 (tests/bench/results), less where adapters are shared."""
SHARE = {2: 0.76, 3: 0.79, 4: 0.82, 5: 0.85, 6: 0.9, 7: 0.95}
"""Bandwidth of fewer than 8 GPUs of a node as a share of 8: measured for 2 and 4 H200 (329 and 354
of 431 GB/s, tests/bench/results), interpolated for others."""
ODD, SLOW = 0.90, 0.85
"""Shares of the median among equal pairs or GPUs below which a warning or a failure is reported.
Healthy ones differ by a few percent."""
_REMEDY = "check NCCL's log in the attempt's folder; cordon the node if it fails there again"


def judge_measurements(
    records: Sequence[Record],
    plan: CollectivePlan,
    wanted: Preflight,
    env: Mapping[str, str],
    *,
    adapters: int,
) -> list[Finding]:
    """Judge transports, bandwidths, pairs and GPUs; the result is equal on every rank."""
    nodes, nproc = plan.nodes, plan.nproc
    chosen = bool(env.get("NCCL_NET")) or env.get("NCCL_IB_DISABLE", "0") != "0"
    strict = bool(wanted.transport) and not wanted.transport.startswith(SOCKETS)
    return [
        *transport.judge_transports(
            records, wanted.transport, nodes=nodes, adapters=adapters, chosen=chosen
        ),
        *node_bandwidth(records, nproc, wanted),
        *network_bandwidth(records, nodes=nodes, nproc=nproc, wanted=wanted),
        *slow_pairs(records, strict=strict),
        *slow_gpus(records),
    ]


def node_class(gpu_model: str, nproc: int) -> float | None:
    """Return the expected all-reduce bandwidth inside a node, GB/s; None for an unknown GPU model.

    >>> node_class("NVIDIA H200", 8), node_class("Tesla T4", 8)
    (431.0, None)
    """
    found = gpu_models.by_smi_name(gpu_model)
    return None if found is None else found.nvlink_gbs * SHARE.get(nproc, 1.0)


def best(rows: Sequence[Row], scope: str, op: str) -> float | None:
    """Return the best bandwidth of a collective over its sizes; None if it was not measured."""
    return max((r.gbs for r in rows if (r.scope, r.op) == (scope, op)), default=None)


def node_bandwidth(records: Sequence[Record], nproc: int, wanted: Preflight) -> list[Finding]:
    """Judge the collectives inside each node, which ran on all nodes at once."""
    found = []
    for record in records:
        usual = node_class(record.card, nproc)
        floor = wanted.node_floor or (None if usual is None else FLOOR_SHARE * usual)
        for op, share in (("all_reduce", 1.0), ("all_to_all", A2A)):
            seen = best(record.rows, "node", op)
            if seen is not None:
                least = None if floor is None else floor * share
                who = f"node of {record.name}"
                near = [r for r in records if r.node_rank == record.node_rank]
                slowest = _slowest(near, "node")
                found.append(_judge(op, seen, least, who, slowest, strict=wanted.strict))
    return found


def network_bandwidth(
    records: Sequence[Record], *, nodes: int, nproc: int, wanted: Preflight
) -> list[Finding]:
    """Judge the collectives over the whole gang.

    All-to-all: each of a node's ``nproc`` GPUs sends (m - 1)/m of its bytes to other nodes, over
    its share of the adapters' bandwidth in an all-reduce (derived).
    ``wanted``: the floor, and whether missing it is a failure.
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
    text = f"{op} {seen:.1f} GB/s"
    if floor is None:
        return Finding(check="bandwidth", state="ok", seen=text, who=who)
    text += f", the floor is {floor:.1f}"
    if seen >= floor:
        return Finding(check="bandwidth", state="ok", seen=text, who=who)
    act = failed if strict or seen < BROKEN * floor else warning
    return act("bandwidth", text + slowest, _REMEDY, who=who)


def _slowest(records: Sequence[Record], kind: str) -> str:
    """Return text on the slowest pair of a kind, the likeliest cause of a slow collective."""
    pairs = [pair for record in records for pair in record.pairs if pair.kind == kind]
    if not pairs:
        return ""
    pair = min(pairs, key=lambda p: p.gbs)
    return f"; the slowest pair is ranks {pair.one} and {pair.other} with {pair.gbs:.1f} GB/s"


def slow_pairs(records: Sequence[Record], *, strict: bool) -> list[Finding]:
    """Report pairs that are slower than others of their kind.

    The lower rank of a pair reports it. Slow network pairs are failures if ``strict``: RDMA, not
    sockets; those inside a node for all known GPU models, since NVSwitch connects their GPUs.
    """
    found, seen = [], []
    must = {
        "network": strict,
        "node": all(gpu_models.by_smi_name(r.card) is not None for r in records),
    }
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


def slow_gpus(records: Sequence[Record]) -> list[Finding]:
    """Report GPUs that compute slower than others of the same model."""
    found = []
    for gpu_model in {record.card for record in records}:
        like = [record for record in records if record.card == gpu_model]
        middle = median_high(record.tflops for record in like)
        for record in like:
            if record.tflops < ODD * middle:
                text = f"{record.tflops:.0f} TFLOP/s, the median is {middle:.0f}"
                act = failed if record.tflops < SLOW * middle else warning
                found.append(act("compute", text, _REMEDY, who=record.name))
    low, high = min(r.tflops for r in records), max(r.tflops for r in records)
    return found or [ok("compute", f"{low:.0f} to {high:.0f} TFLOP/s")]
