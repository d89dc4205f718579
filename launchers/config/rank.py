"""Node rank and rendezvous address of this pod.

Read from the first source that is present: the JobSet (downward API), explicit variables of a bare
host (``NODE_RANK``, ``NNODES``, ``MASTER_ADDR``), Slurm. Without any of them the run has one node.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from launchers.config.env import integer, port, required
from launchers.exits import Exit, LaunchError

_HOST = re.compile(r"((?:[^,\[\]\s]|\[[^\[\]]*\])+)(?:,(?=.)|$)")
"""One entry of a host list: no comma outside brackets."""
_PART = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Node rank, number of nodes and rendezvous address of one pod."""

    rank: int
    """Node rank, 0 <= rank < nodes."""
    nodes: int
    master_addr: str
    master_port: int
    source: str
    """Origin of these values: ``JobSet``, ``NODE_RANK``, ``Slurm`` or ``single``."""


def node_rank(job_index: int, completions: int, completion_index: int) -> int:
    """Compute NODE_RANK of an Indexed Job of a JobSet.

    The formula fits 1 Job of N pods and N Jobs of 1 pod, and is Kueue's own
    (``pkg/controller/tas/topology_ungater.go``), so that rank order is topology order.

    >>> [node_rank(0, 4, i) for i in range(4)], [node_rank(j, 1, 0) for j in range(3)]
    ([0, 1, 2, 3], [0, 1, 2])
    """
    return job_index * completions + completion_index


def place_of(env: Mapping[str, str]) -> Place:
    """Read this pod's node rank and rendezvous address from the environment.

    Raises:
        LaunchError: CONFIG when a variable is missing or not a number, or the rank is out of range.
    """
    if "JOB_COMPLETION_INDEX" in env:
        place = _jobset(env)
    elif "NODE_RANK" in env:
        place = _explicit(env)
    elif "SLURM_NODEID" in env:
        place = _slurm(env)
    else:
        place = _build(env, rank=0, nodes=1, master="127.0.0.1", source="single")
    if place.rank >= place.nodes:
        raise LaunchError(
            Exit.CONFIG,
            f"node rank {place.rank} of {place.nodes} nodes ({place.source})",
            "node ranks run from 0 to nodes - 1: check DPO_NODES, NNODES and the rank's variables",
            id="node-rank-range",
        )
    return place


def _jobset(env: Mapping[str, str]) -> Place:
    nodes = integer(env, "DPO_NODES", 1)
    rank = node_rank(
        integer(env, "DPO_JOB_INDEX", 0, lowest=0),
        integer(env, "DPO_COMPLETIONS", nodes),
        integer(env, "JOB_COMPLETION_INDEX", 0, lowest=0),
    )
    master = required(env, "DPO_MASTER_ADDR") if nodes > 1 else "127.0.0.1"
    return _build(env, rank=rank, nodes=nodes, master=master, source="JobSet")


def _explicit(env: Mapping[str, str]) -> Place:
    nodes = integer(env, "NNODES", 1)
    rank = integer(env, "NODE_RANK", 0, lowest=0)
    master = required(env, "MASTER_ADDR") if nodes > 1 else "127.0.0.1"
    return _build(env, rank=rank, nodes=nodes, master=master, source="NODE_RANK")


def _slurm(env: Mapping[str, str]) -> Place:
    # a step may have fewer nodes than its job, and SLURM_NODEID counts within the step
    scope = "STEP" if "SLURM_STEP_NODELIST" in env else "JOB"
    nodes = integer(env, f"SLURM_{scope}_NUM_NODES", 1)
    rank = integer(env, "SLURM_NODEID", 0, lowest=0)
    master = slurm_hosts(required(env, f"SLURM_{scope}_NODELIST"))[0]
    return _build(env, rank=rank, nodes=nodes, master=master, source="Slurm")


def _build(env: Mapping[str, str], *, rank: int, nodes: int, master: str, source: str) -> Place:
    name = "DPO_MASTER_PORT" if "DPO_MASTER_PORT" in env else "MASTER_PORT"
    return Place(
        rank=rank,
        nodes=nodes,
        master_addr=master,
        master_port=port(env, name, 29500),
        source=source,
    )


def slurm_hosts(node_list: str) -> list[str]:
    """Expand ``SLURM_JOB_NODELIST`` (hostlist syntax of ``scontrol show hostnames``).

    >>> slurm_hosts("gpu[01-03,07],login1")
    ['gpu01', 'gpu02', 'gpu03', 'gpu07', 'login1']
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
        raise LaunchError(
            Exit.CONFIG,
            f"cannot parse Slurm's node list {node_list!r}",
            "set NODE_RANK, NNODES and MASTER_ADDR yourself",
            id="slurm-node-list",
        )
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
