"""Hosts that schedulers list in a variable, or in a file that it names."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path

from launchers.exits import Exit, LaunchError

_LISTS = re.compile(
    r"(SM|LSB|LSB_MCPU|VC_\w+)_HOSTS|CLUSTER_SPEC"
    r"|(?!SLURM_)(\w+_)?(NODE|HOST|WORKER|TRAINER)S?_?(LIST|IPS|HOSTNAMES|ENDPOINTS)"
)
"""Of SageMaker, LSF (a host for each slot, or with its slots), Volcano, Vertex AI, Azure Batch, TPU
hosts, SkyPilot, dstack, Paddle and others."""
_FILES = re.compile(r"[A-Z]\w*_(NODE|HOST)_?FILE|BATCH_HOSTS_FILE")
"""Files of a host a line: PBS, OAR, Cobalt, Grid Engine, LSF and Google's Batch name them so."""
_HOST = re.compile(r"((?:[^,\[\]\s]|\[[^\[\]]*\])+)(?:,(?=.)|$)")
"""One entry of a host list."""
_PART = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")


def listed_hosts(env: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return the hosts that variables list, by name; none of a file that cannot be read."""
    found = {name: _hosts(env[name]) for name in sorted(env) if _LISTS.fullmatch(name)}
    return found | {name: _lines(env[name]) for name in sorted(env) if is_host_file(env, name)}


def is_host_file(env: Mapping[str, str], name: str) -> bool:
    """Return whether a variable names a file of hosts.

    >>> is_host_file({"PBS_NODEFILE": "/spool/7"}, "PBS_NODEFILE"), is_host_file({}, "HOSTFILE")
    (True, False)
    """
    return _FILES.fullmatch(name) is not None and env.get(name, "").startswith("/")


def _hosts(text: str) -> frozenset[str]:
    """Return the hosts of a list; those with ports alone, if any."""
    words = re.findall(r"[\w.-]+:\d+\b", text) or re.findall(r"[\w.:-]+", text)
    return frozenset(each for each in words if not each.isdecimal())


def _lines(file: str) -> frozenset[str]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return frozenset()
    return frozenset(word for line in lines for word in line.partition("#")[0].split()[:1])


def slurm_hosts(node_list: str) -> list[str]:
    """Expand ``SLURM_JOB_NODELIST`` (hostlist syntax of ``scontrol show hostnames``).

    >>> slurm_hosts("rack[1-2]n[1-2]-ib")
    ['rack1n1-ib', 'rack1n2-ib', 'rack2n1-ib', 'rack2n2-ib']

    Raises:
        LaunchError: CONFIG when the text is not a host list.
    """
    found: list[str] = []
    end = 0
    while end < len(node_list) and (entry := _HOST.match(node_list, end)):
        expanded = _expand_entry(entry.group(1))
        if not expanded:
            break
        found += expanded
        end = entry.end()
    if end != len(node_list) or not found:
        cause = f"cannot parse Slurm's node list {node_list!r}"
        remedy = "set NODE_RANK, NNODES and MASTER_ADDR yourself"
        raise LaunchError(Exit.CONFIG, cause, remedy, id="slurm-node-list")
    return found


def _expand_entry(entry: str) -> list[str]:
    """Expand all brackets of one entry, the last one varying fastest; empty if malformed."""
    choices = [[text] if text else _expand_ranges(ranges) for ranges, text in _PART.findall(entry)]
    return ["".join(parts) for parts in itertools.product(*choices)]


def _expand_ranges(ranges: str) -> list[str]:
    """Expand ``01-03,07`` keeping leading zeros; empty if malformed."""
    numbers: list[str] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()) or int(high or low) < int(low):
            return []
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)]
    return numbers
