"""Transports that NCCL uses: parsed from its log at NCCL_DEBUG=INFO, and judged. Pure."""

import re
from collections.abc import Sequence

from launchers.config import gpu_models
from launchers.preflight.finding import Finding, failed, ok, warning
from launchers.preflight.measurements import Record

_CHANNEL = re.compile(
    r"Channel \S+ : (\d+)\[\w+\] -> (\d+)\[\w+\].* via (NET/[^/\n]+|[A-Z0-9]+(?:/\w+)?)"
)
_NETWORK = re.compile(r"(?:Using network|Assigned NET plugin|Initialized NET plugin) (\S+)")
_LIBFABRIC = ("NET/AWS Libfabric", "NET/Libfabric", "NET/OFI")
_ALIASES = dict.fromkeys(_LIBFABRIC, _LIBFABRIC)
"""Alternative names of a transport: aws-ofi-nccl renamed its own between releases."""
_CABLE = "check NVLink (nvidia-smi nvlink -s, topo -m), NCCL_P2P_DISABLE and NCCL_SHM_DISABLE"


def transports(text: str, node_rank: int, nproc: int) -> tuple[set[str], set[str], str]:
    """Parse one rank's log: transports inside the node, to other nodes, and the chosen network.

    Ranks are numbered within a communicator: two numbers below ``nproc`` belong to the node's
    communicator or to node 0; all others to the gang's.
    """
    own = range(node_rank * nproc, (node_rank + 1) * nproc)
    inside: set[str] = set()
    across: set[str] = set()
    for first, second, transport in _CHANNEL.findall(text):
        ends = (int(first), int(second))
        is_near = max(ends) < nproc or all(end in own for end in ends)
        (inside if is_near else across).add(transport.strip())
    chosen = _NETWORK.findall(text)
    return inside, across, f"NET/{chosen[-1]}" if chosen else ""


def matches(seen: str, wanted: str) -> bool:
    """Return whether a transport is the required one; vendors' plugins append to the name.

    >>> matches("NET/IBext_v8", "NET/IB"), matches("NET/Socket", "NET/IB")
    (True, False)
    >>> matches("NET/AWS Libfabric", "NET/Libfabric")
    True
    """
    return seen.lower().startswith(tuple(n.lower() for n in _ALIASES.get(wanted, (wanted,))))


def judge_transports(
    records: Sequence[Record], wanted: str, *, nodes: int, adapters: int, chosen: bool
) -> list[Finding]:
    """Judge the transports of all ranks.

    ``wanted`` is the profile's, empty for any; ``chosen``: the environment chooses the network.
    """
    found = [finding for record in records if (finding := _inside(record)) is not None]
    if nodes > 1:
        found += _across(records, wanted, adapters=adapters, chosen=chosen)
    seen = sorted({t for r in records for t in (*r.inside, *r.across)})
    return found or [ok("transport", ", ".join(seen) or "none named")]


def _inside(record: Record) -> Finding | None:
    """Judge one rank's links inside its node: known GPU models have NVLink to all others."""
    slow = sorted(t for t in record.inside if t.startswith("NET/") or t.startswith("SHM"))
    if not slow:
        return None
    seen = f"GPUs of one node communicate over {', '.join(slow)}"
    if gpu_models.by_smi_name(record.card) is None:
        return warning("transport", seen, _CABLE, who=record.name)
    return failed("transport", f"{seen}, not over NVLink", _CABLE, who=record.name)


def _across(
    records: Sequence[Record], wanted: str, *, adapters: int, chosen: bool
) -> list[Finding]:
    remedy = "check network.profile, its device plugin and NCCL's log in the attempt's folder"
    for record in records:
        used = [t for t in record.across if t.startswith("NET/")]
        if not used and not any("MNNVL" in t for t in (*record.inside, *record.across)):
            used = [record.network]  # without NVLink between nodes (GB200 NVL72)
        wrong = sorted(t for t in used if wanted and not matches(t, wanted))
        if wrong:
            seen = f"NCCL sends over {', '.join(t or 'nothing' for t in wrong)}, not {wanted}"
            return [failed("transport", seen, remedy, who=record.name)]
        if not wanted and adapters and not chosen and "NET/Socket" in used:
            seen = f"NCCL sends over NET/Socket although there are {adapters} RDMA devices"
            return [failed("transport", seen, remedy, who=record.name)]
    return []
