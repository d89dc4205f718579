"""Slurm's node lists, so that a run on a Slurm cluster finds rank 0 without typing it."""

from __future__ import annotations

import re

from launchers.exits import Exit, LaunchError

_GROUP = re.compile(r"([^,\[]+)(?:\[([^\]]+)\])?(?:,|$)")


def hosts(node_list: str) -> list[str]:
    """Expand ``SLURM_JOB_NODELIST`` (hostlist syntax of ``scontrol show hostnames``).

    >>> hosts("gpu[01-03,07],login1")
    ['gpu01', 'gpu02', 'gpu03', 'gpu07', 'login1']

    Raises:
        LaunchError: CONFIG when the text is no host list.
    """
    found: list[str] = []
    end = 0
    for match in _GROUP.finditer(node_list):
        if match.start() != end:
            break
        prefix, ranges = match.groups()
        found += [prefix + number for number in _numbers(ranges)] if ranges else [prefix]
        end = match.end()
    if end != len(node_list) or not found:
        raise LaunchError(
            Exit.CONFIG,
            f"SLURM_JOB_NODELIST={node_list!r} is no host list",
            "set NODE_RANK, NNODES and MASTER_ADDR yourself",
        )
    return found


def _numbers(ranges: str) -> list[str]:
    """Expand ``01-03,07`` keeping leading zeros."""
    numbers: list[str] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()):
            return []
        last = int(high or low)
        numbers += [str(n).zfill(len(low)) for n in range(int(low), last + 1)]
    return numbers
