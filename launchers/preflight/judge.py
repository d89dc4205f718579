"""All judgements of what the GPUs of a gang measured together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launchers.config.preflight import Preflight
from launchers.preflight import bandwidth as bandwidth
from launchers.preflight import transport as transport
from launchers.preflight.finding import Finding
from launchers.preflight.host_checks import SOCKETS
from launchers.preflight.measurements import Record
from launchers.preflight.worker import Plan


def judge(
    records: Sequence[Record],
    plan: Plan,
    wanted: Preflight,
    env: Mapping[str, str],
    *,
    adapters: int,
) -> list[Finding]:
    """Judge transports, bandwidths, pairs and cards; every rank comes to the same.

    Args:
        records: of all ranks.
        plan: what was measured.
        wanted: floors and transport.
        env: NCCL's variables may choose the network themselves.
        adapters: RDMA devices that this pod may open.
    """
    nodes, nproc = plan.nodes, plan.nproc
    chosen = bool(env.get("NCCL_NET")) or env.get("NCCL_IB_DISABLE", "0") != "0"
    strict = bool(wanted.transport) and not wanted.transport.startswith(SOCKETS)
    return [
        *transport.judge(records, wanted.transport, nodes=nodes, adapters=adapters, chosen=chosen),
        *bandwidth.nodes_of(records, nproc, wanted),
        *bandwidth.network(records, nodes=nodes, nproc=nproc, wanted=wanted),
        *bandwidth.slow_pairs(records, strict=strict),
        *bandwidth.slow_cards(records),
    ]
