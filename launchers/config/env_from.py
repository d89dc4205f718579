"""Refuse settings and rank variables that ``envFrom`` brings, from a Secret or ConfigMap.

The chart refuses them in ``extraEnv``, but cannot read the keys of a Secret. So it names the
variables that it sets (``DPO_ENV_NAMES``) and the sources of ``envFrom`` (``DPO_ENV_FROM``), and
sets neither without ``envFrom``.
"""

from collections.abc import Mapping

from launchers.exits import Exit, LaunchError

NAMES = "DPO_ENV_NAMES"
"""Variables of the container's ``env``, separated by commas."""
SOURCES = "DPO_ENV_FROM"
"""Sources of ``envFrom`` as ``KIND/NAME=PREFIX``, separated by commas; PREFIX may be empty."""
PREFIXES = ("DPO_", "SKIP_", "PET_", "TORCHELASTIC_")
"""Settings of the launcher, and options of torchrun."""
RANKS = (
    "NODE_RANK", "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "NNODES", "NPROC_PER_NODE",
)  # fmt: skip
"""Place of a process in the gang. Variables that images and device plugins set, such as
``NVIDIA_VISIBLE_DEVICES``, are not listed: here they look the same as those of ``envFrom``."""


def refuse(env: Mapping[str, str]) -> None:
    """Refuse the first setting or rank variable that only ``envFrom`` can have set.

    Raises:
        LaunchError: CONFIG, naming the variable and its source, or all sources whose prefix fits.
    """
    if not env.get(SOURCES):
        return
    own = frozenset(env.get(NAMES, "").split(","))
    for name in sorted(env):
        if name in own or not (name.startswith(PREFIXES) or name in RANKS):
            continue
        found = _sources(env[SOURCES], name)
        if found:
            raise LaunchError(
                Exit.CONFIG,
                f"{name} comes by envFrom from {' or '.join(found)}, and is reserved",
                f"remove {name} there, or give the entry of envFrom a prefix; settings of the "
                "launcher have keys of the values",
                id="env-from",
            )


def _sources(listed: str, name: str) -> list[str]:
    """Return the sources that may have set a variable."""
    entries = (entry.partition("=") for entry in listed.split(","))
    return [source.replace("/", " ") for source, _, prefix in entries if name.startswith(prefix)]
