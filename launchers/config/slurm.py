"""Slurm's node lists, so that a run on a Slurm cluster finds rank 0 without typing it."""

from __future__ import annotations

import itertools
import re

from launchers.exits import Exit, LaunchError

_HOST = re.compile(r"((?:[^,\[\]\s]|\[[^\[\]]*\])+)(?:,(?=.)|$)")
"""One entry: anything but a comma outside brackets."""
_PART = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")


def hosts(node_list: str) -> list[str]:
    """Expand ``SLURM_JOB_NODELIST`` (hostlist syntax of ``scontrol show hostnames``).

    >>> hosts("gpu[01-03,07],login1")
    ['gpu01', 'gpu02', 'gpu03', 'gpu07', 'login1']
    >>> hosts("rack[1-2]n[1-2]-ib")
    ['rack1n1-ib', 'rack1n2-ib', 'rack2n1-ib', 'rack2n2-ib']

    Raises:
        LaunchError: CONFIG when the text is no host list.
    """
    found: list[str] = []
    end = 0
    while end < len(node_list) and (entry := _HOST.match(node_list, end)):
        expanded = _expand(entry.group(1))
        if not expanded:
            break
        found += expanded
        end = entry.end()
    if end != len(node_list) or not found:
        raise LaunchError(
            Exit.CONFIG,
            f"the node list {node_list!r} of Slurm can't be read",
            "set NODE_RANK, NNODES and MASTER_ADDR yourself",
        )
    return found


def _expand(entry: str) -> list[str]:
    """Expand all brackets of one entry, the last one fastest; empty when one is no range."""
    choices = [[text] if text else _numbers(ranges) for ranges, text in _PART.findall(entry)]
    return ["".join(parts) for parts in itertools.product(*choices)]


def _numbers(ranges: str) -> list[str]:
    """Expand ``01-03,07`` keeping leading zeros; empty when it is no range."""
    numbers: list[str] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()) or int(high or low) < int(low):
            return []
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)]
    return numbers
