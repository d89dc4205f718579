"""What the preflight must say on GPUs: healthy ones pass, each fault is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Case:
    """One preflight of all GPUs, and what it must say."""

    nodes: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    hog: bool = False
    """Another process works on the last GPU."""
    stop: bool = False
    """The last rank is stopped once it has started."""
    code: int = 0
    says: str = ""
    """Part of the termination message."""


CASES = {
    "normal": Case(),
    "two-nodes": Case(nodes=2, env={"NETWORK_TRANSPORT": "NET/Socket"}),
    "wrong-card": Case(env={"GPU_MODEL": "a100-80g"}, code=78, says="gpuModel is a100-80g"),
    "missed-floor": Case(
        env={"DPO_PREFLIGHT_NODE_FLOOR": "5000"}, code=80, says="the floor is 5000"
    ),
    "no-nvlink": Case(
        env={"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, code=80, says="not NVLink"
    ),
    "no-adapter": Case(
        nodes=2, env={"NETWORK_TRANSPORT": "NET/IB"}, code=80, says="no RDMA device"
    ),
    "silent-sockets": Case(
        nodes=2,
        env={"NETWORK_TRANSPORT": "NET/IB", "DPO_PREFLIGHT_SKIP": "rdma"},
        code=80,
        says="NCCL sends over NET/Socket, not NET/IB",
    ),
    "taken": Case(hog=True, code=80, says="used by another process"),
    "slow-card": Case(
        hog=True, env={"DPO_PREFLIGHT_SKIP": "idle,bandwidth,pairs"}, code=80, says="TFLOP/s"
    ),
    "hang": Case(stop=True, env={"DPO_PREFLIGHT_DEADLINE": "25"}, code=80, says="hangs in"),
}
