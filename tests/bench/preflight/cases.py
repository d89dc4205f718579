"""Cases of the preflight on GPUs: healthy GPUs pass, each injected fault is reported."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Case:
    nodes: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    hog: bool = False
    """True if another process uses the last GPU."""
    stop: bool = False
    """True if the last rank is stopped (SIGSTOP) after its start."""
    code: int = 0
    says: str = ""
    """Expected part of the termination message."""


CASES = {
    "normal": Case(),
    "two-nodes": Case(nodes=2, env={"DPO_NETWORK_TRANSPORT": "NET/Socket"}),
    "wrong-card": Case(env={"DPO_GPU_MODEL": "a100-80g"}, code=78, says="gpuModel is a100-80g"),
    "missed-floor": Case(
        env={"DPO_PREFLIGHT_NODE_FLOOR": "5000"}, code=80, says="the floor is 5000"
    ),
    "no-nvlink": Case(
        env={"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, code=80, says="not NVLink"
    ),
    "no-adapter": Case(
        nodes=2, env={"DPO_NETWORK_TRANSPORT": "NET/IB"}, code=80, says="no RDMA device"
    ),
    "silent-sockets": Case(
        nodes=2,
        env={"DPO_NETWORK_TRANSPORT": "NET/IB", "DPO_PREFLIGHT_SKIP": "rdma"},
        code=80,
        says="NCCL sends over NET/Socket, not NET/IB",
    ),
    "taken": Case(hog=True, code=80, says="used by another process"),
    "slow-card": Case(
        hog=True, env={"DPO_PREFLIGHT_SKIP": "idle,bandwidth,pairs"}, code=80, says="TFLOP/s"
    ),
    "hang": Case(stop=True, env={"DPO_PREFLIGHT_DEADLINE": "25"}, code=80, says="hangs in"),
}
