"""What the chart's ``gpuModel``, ``preflight`` and network tell the checks before training."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from launchers.config import gpu_models
from launchers.config.env import integer, switch
from launchers.config.gpu_models import Card
from launchers.exits import Exit, LaunchError

CHECKS = {
    "cards": "number and model of the GPUs",
    "health": "uncorrected memory errors, row remaps, fabric and resets that a GPU waits for",
    "idle": "memory of a GPU that another process holds",
    "driver": "the driver is new enough for the image's CUDA",
    "rdma": "adapters and locked memory, where the network is RDMA",
    "shm": "size of /dev/shm",
    "disk": "free space for the checkpoints",
    "caches": "whether the hubs' caches are shared",
    "versions": "packages that the recipe's backend needs",
    "clock": "clocks of the pods",
    "workspace": "every pod sees what rank 0 writes",
    "port": "rank 0's master port can be reached",
    "compute": "matrix products of each GPU",
    "transport": "what NCCL sends over",
    "bandwidth": "all-reduce and all-to-all",
    "pairs": "each GPU with its neighbour",
    "collective": "whether the GPUs measure at all: without it the four above are left out too",
}
"""All checks; ``preflight.skipChecks`` names some of them (a test compares the chart's schema)."""
COLLECTIVE = frozenset({"compute", "transport", "bandwidth", "pairs"})
"""The checks that need the GPUs at work."""

SETTINGS = (
    "SKIP_PREFLIGHT",
    "DPO_PREFLIGHT_SKIP",
    "DPO_PREFLIGHT_NODE_FLOOR",
    "DPO_PREFLIGHT_STRICT",
    "DPO_PREFLIGHT_DEADLINE",
)


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What is checked, and against what."""

    skip: bool
    skips: frozenset[str]
    """Names of CHECKS that are left out."""
    card: Card | None
    """The card that every GPU must be; None for any."""
    node_floor: float | None
    """GB/s that an all-reduce inside a node should reach; None for the card's own."""
    network_floor: float | None
    """The same across nodes, from the network profile or ``network.floorGBs``."""
    strict: bool
    """Whether a missed floor ends the run; else only a broken link does."""
    transport: str
    """What NCCL must send over between nodes, e.g. ``NET/IB``; empty for anything."""
    deadline: int
    """Seconds that all of it may take."""

    def wants(self, check: str) -> bool:
        """Tell whether a check is to be done."""
        return not self.skip and check not in self.skips


def from_env(env: Mapping[str, str]) -> Preflight:
    """Parse the environment.

    Raises:
        LaunchError: CONFIG, naming the setting, what was given and what is allowed.
    """
    model = env.get("GPU_MODEL", "")
    return Preflight(
        skip=switch(env, "SKIP_PREFLIGHT"),
        skips=frozenset(
            _known(word) for word in env.get("DPO_PREFLIGHT_SKIP", "").split(",") if word
        ),
        card=gpu_models.named(model) if model else None,
        node_floor=_rate(env, "DPO_PREFLIGHT_NODE_FLOOR"),
        network_floor=_rate(env, "NETWORK_FLOOR_GBS"),
        strict=switch(env, "DPO_PREFLIGHT_STRICT"),
        transport=env.get("NETWORK_TRANSPORT", ""),
        deadline=integer(env, "DPO_PREFLIGHT_DEADLINE", 60, lowest=10),
    )


def _known(word: str) -> str:
    if word not in CHECKS:
        near = difflib.get_close_matches(word, CHECKS, n=1, cutoff=0.0)[0]
        raise LaunchError(
            Exit.CONFIG, f"preflight.skipChecks: no check {word!r}", f"did you mean {near}?"
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
        raise LaunchError(Exit.CONFIG, f"{name}={text!r}", "write GB/s, such as 20 or 187.5")
    return value or None
