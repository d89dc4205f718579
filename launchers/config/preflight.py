"""Settings of the preflight checks: the chart's ``gpuModel``, ``preflight`` and network profile."""

from collections.abc import Mapping
from dataclasses import dataclass

from launchers import suggestion
from launchers.config import gpu_models
from launchers.config.env import integer, is_one
from launchers.config.gpu_models import GpuModel
from launchers.exits import Exit, LaunchError

CHECKS = {
    "cards": "number and model of the GPUs",
    "health": "uncorrected memory errors, row remaps, fabric state and pending resets",
    "idle": "GPU memory held by another process",
    "driver": "the driver is new enough for the image's CUDA",
    "rdma": "adapters and locked memory, if the network is RDMA",
    "interfaces": "the interfaces that NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name",
    "shm": "size of /dev/shm",
    "disk": "free space for the checkpoints",
    "filesystem": "rename, hard link and lock of the workspace",
    "caches": "whether the hubs' caches are shared",
    "versions": "packages that the recipe's backend needs",
    "patches": "whether the run's patches fit the image's packages",
    "stack": "packages that no GPU run of this project has had, a warning",
    "clock": "clock differences between pods",
    "workspace": "every pod sees the files that rank 0 writes",
    "port": "rank 0's master port can be reached",
    "compute": "matrix multiplication rate of each GPU",
    "transport": "the transport that NCCL chose",
    "bandwidth": "bandwidth of all-reduce and all-to-all",
    "pairs": "bandwidth between neighbouring GPUs",
    "collective": "the measurement on GPUs; skipping it skips the four checks above",
}
"""All checks; ``preflight.skipChecks`` names some of them (a test compares the chart's schema)."""
COLLECTIVE = frozenset({"compute", "transport", "bandwidth", "pairs"})
"""Checks that run work on the GPUs."""

FLOOR_SHARE = 0.85
"""Floor of a link's bandwidth, as a share of its expected bandwidth."""

SETTINGS = (
    "SKIP_PREFLIGHT", "DPO_PREFLIGHT_ONLY", "DPO_PREFLIGHT_SKIP", "DPO_PREFLIGHT_NODE_FLOOR",
    "DPO_PREFLIGHT_STRICT", "DPO_PREFLIGHT_DEADLINE", "DPO_GPU_MODEL", "DPO_NETWORK_TRANSPORT",
    "DPO_NETWORK_GBS", "DPO_NETWORK_FLOOR_GBS",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """The checks to run and their thresholds."""

    skip: bool
    skips: frozenset[str]
    """Names of the CHECKS to skip."""
    gpu: GpuModel | None
    """Required GPU model; None accepts any."""
    node_floor: float | None
    """Floor of the all-reduce bus bandwidth inside a node, GB/s; None derives it from the GPU
    model."""
    network_floor: float | None
    """Floor of the bus bandwidth across nodes, GB/s: ``network.floorGBs``, or a share of the
    network profile's expected bandwidth; None if unknown."""
    strict: bool
    """Whether bandwidth below a floor ends the run; otherwise only a broken link does."""
    transport: str
    """Transport that NCCL must use between nodes, e.g. ``NET/IB``; empty accepts any."""
    deadline: int
    """Time limit of the measurement, seconds."""
    only: bool = False
    """Whether the run ends after the preflight."""

    def wants(self, check: str) -> bool:
        """Return whether a check is enabled."""
        return not self.skip and check not in self.skips


def from_env(env: Mapping[str, str]) -> Preflight:
    """Parse the environment.

    Raises:
        LaunchError: CONFIG, naming the setting, what was given and what is allowed.
    """
    model = env.get("DPO_GPU_MODEL", "")
    return Preflight(
        skip=is_one(env, "SKIP_PREFLIGHT"),
        skips=frozenset(
            _known(word) for word in env.get("DPO_PREFLIGHT_SKIP", "").split(",") if word
        ),
        gpu=gpu_models.by_name(model) if model else None,
        node_floor=_rate(env, "DPO_PREFLIGHT_NODE_FLOOR"),
        network_floor=network_floor(env),
        strict=is_one(env, "DPO_PREFLIGHT_STRICT"),
        transport=env.get("DPO_NETWORK_TRANSPORT", ""),
        deadline=integer(env, "DPO_PREFLIGHT_DEADLINE", 60, lowest=10),
        only=is_one(env, "DPO_PREFLIGHT_ONLY"),
    )


def network_floor(env: Mapping[str, str]) -> float | None:
    """Return the floor of the bandwidth between nodes, GB/s; None if unknown.

    >>> network_floor({"DPO_NETWORK_GBS": "100"}), network_floor({"DPO_NETWORK_FLOOR_GBS": "7"})
    (85.0, 7.0)
    """
    expected = _rate(env, "DPO_NETWORK_GBS")
    floor = _rate(env, "DPO_NETWORK_FLOOR_GBS")
    return floor or (None if expected is None else FLOOR_SHARE * expected)


def network_bandwidth(env: Mapping[str, str]) -> float | None:
    """Return the expected bandwidth between nodes, GB/s; None if unknown.

    >>> network_bandwidth({"DPO_NETWORK_GBS": "20"}), network_bandwidth({})
    (20.0, None)
    """
    floor = _rate(env, "DPO_NETWORK_FLOOR_GBS")
    return _rate(env, "DPO_NETWORK_GBS") or (None if floor is None else floor / FLOOR_SHARE)


def _known(word: str) -> str:
    if word not in CHECKS:
        raise LaunchError(
            Exit.CONFIG,
            f"preflight.skipChecks: there is no check {word!r}",
            suggestion.remedy(word, CHECKS),
            id="preflight-check-unknown",
        )
    return word


def _rate(env: Mapping[str, str], name: str) -> float | None:
    """Read GB/s; unset, empty or 0 is None.

    >>> _rate({"A": "12.5"}, "A"), _rate({"A": "0"}, "A"), _rate({}, "A")
    (12.5, None, None)
    """
    text = env.get(name, "")
    try:
        value = float(text or 0)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise LaunchError(
            Exit.CONFIG, f"{name}={text!r}", "use GB/s, such as 20 or 187.5", id="env-bandwidth"
        )
    return value or None
