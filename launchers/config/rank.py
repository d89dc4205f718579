"""Node rank, rendezvous address and number of processes of this pod.

Read from the JobSet (downward API), otherwise from the variables that a user sets on bare hosts
(``NODE_RANK``, ``NNODES``, ``MASTER_ADDR``), otherwise from those of the program that started the
launcher: Slurm, torchrun, PyTorchJob, DLC, MPI. Without any of them the run has one node. Variables
that leave this node's rank open are refused: each node would train alone into the same folder.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from launchers.config.env import integer, port, required
from launchers.config.host_lists import is_host_file, listed_hosts, slurm_hosts
from launchers.exits import Exit, LaunchError
from launchers.units import count_text

LOCALHOST = "127.0.0.1"
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE")
_SIZES_OF_RANKS = ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")
"""Set with ``LOCAL_RANK`` by torchrun, Ray and DeepSpeed; MosaicML sets the first alone, once."""
_PROCESSES = ("NPROC_PER_NODE", "PET_NPROC_PER_NODE", "SLURM_GPUS_ON_NODE")
"""Variables by which others state the processes or GPUs of a node, the user's own first."""
_COUNTED = ("auto", "gpu")
"""torchrun's words for one process for each GPU; without a GPU it refuses the second."""
_ONE = "NODE|HOST|MACHINE|REPLICA|INSTANCE|POD|CONTAINER"
_NODES = re.compile(
    rf"((DPO|JOB|TOTAL)_)?NODES|(?!\w*ARRAY_)(\w+_)?(NUM_({_ONE})S|N(NODE|HOST)S?|TOTAL_WORKERS|CROSS_SIZE"
    rf"|({_ONE}|TASK)S?_(NUM|COUNT))|GROUP_WORLD_SIZE|(LWS|BT)_GROUP_SIZE"
    r"|PADDLE_TRAINERS_NUM|(MLP|ARNOLD|VC)_WORKER_NUM|NGC_ARRAY_SIZE|_CONDOR_NPROCS"
)
"""Variables that count nodes: of Slurm, PBS, Flux, SGE, SkyPilot, dstack, Azure ML, AWS Batch,
ModelArts, Taiji, Lepton, OpenPAI, Beaker, Volcano, the Batch of Google and others; not of arrays,
whose jobs are separate runs. With ``NODE_RANK`` one number is enough."""
_INDEX = re.compile(
    rf"(?!CI_|\w*ARRAY_)(\w+_)?(({_ONE}|WORKER|GLOBAL|ALLOC|TASK|PROCESS|MEMBER|PEER)"
    r"_?(RANK|INDEX|ORDINAL)|(NODE|WORKER|RANK)_?ID|PBS_V?NODENUM|\w*(MPI|PJM)\w*_RANK)"
)
"""Variables by which any starter may number nodes, from 0 on; those of GitLab's jobs are not."""
_UNREAD = (
    "JOB_COMPLETION_INDEX", "SLURM_PROCID", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID",
    "JSM_NAMESPACE_RANK", "FLUX_TASK_RANK", "HOROVOD_RANK", "VC_TASK_INDEX", "VK_TASK_INDEX",
    "AWS_BATCH_JOB_NODE_INDEX", "MLP_ROLE_INDEX", "SM_CURRENT_HOST", "TF_CONFIG",
    "LWS_WORKER_INDEX", "PADDLE_TRAINER_ID", "ARNOLD_ID", "DET_RENDEZVOUS_INFO",
    "TORCHX_RANK0_HOST", "LSF_PM_TASKID", "CLUSTER_SPEC", "RANK_ID", "RANK_TABLE_FILE",
)  # fmt: skip
"""Variables by which starters let a process know which one it is, and that are not read."""
_REMEDY = (
    "set NNODES, NODE_RANK (0 to NNODES - 1) and MASTER_ADDR on each node; for one node unset the "
    "variables, or set NNODES=1 and NODE_RANK=0"
)
_ADDRESS = re.compile(r"[\w.-]+|[\w.]*:[\w.]*:[\w.:%]*")
"""A name or an address, of IPv6 with at least two colons."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Node rank, number of nodes and rendezvous address of one pod."""

    rank: int
    """Node rank, 0 <= rank < nodes."""
    nodes: int
    master_addr: str
    master_port: int
    source: str
    """Origin of these values: ``JobSet``, ``NODE_RANK``, ``Slurm``, ``torchrun``, ``PyTorchJob``,
    ``RANK``, ``MPI`` or ``single``."""


def node_rank(job_index: int, completions: int, completion_index: int) -> int:
    """Compute NODE_RANK of an Indexed Job of a JobSet.

    The formula fits 1 Job of N pods and N Jobs of 1 pod, and is Kueue's own
    (``pkg/controller/tas/topology_ungater.go``), so that rank order is topology order.
    """
    return job_index * completions + completion_index


def is_jobset(env: Mapping[str, str]) -> bool:
    """Return whether this is a pod of the chart's JobSet."""
    return bool(env.get("JOB_COMPLETION_INDEX") and env.get("DPO_NODES"))


def needs_master(env: Mapping[str, str]) -> list[str]:
    """Return the variable of rank 0's address where the user states a rank of several nodes."""
    is_one = env.get("NNODES", "") in ("", "1") or not env.get("NODE_RANK")
    return [] if is_one or is_jobset(env) else ["MASTER_ADDR"]


def place_of(env: Mapping[str, str]) -> Place:
    """Read this pod's node rank and rendezvous address from the environment.

    Raises:
        LaunchError: CONFIG when a variable is missing or not a number, the rank is out of range,
            or the variables of a launcher are incomplete, ambiguous or contradictory.
    """
    if is_jobset(env):
        place = _jobset(env)
    else:
        _refuse_several_per_node(env)
        stated = {*_stated(env).values()}
        nodes = env.get("NNODES") or ("" if len(stated) != 1 else str(*stated))
        place = _explicit(env, nodes) if env.get("NODE_RANK") and nodes else _started(env)
        _refuse_other_numbers(env, place)
        _refuse_other_ranks(env, place)
    if place.rank >= place.nodes:
        cause = f"node rank {place.rank} of {count_text(place.nodes, 'node')} ({place.source})"
        remedy = "ranks run from 0 to nodes - 1: check DPO_NODES, NNODES and the rank's variables"
        raise LaunchError(Exit.CONFIG, cause, remedy, id="node-rank-range")
    return place


def gpus_of(env: Mapping[str, str], source: str) -> int:
    """Read the GPUs of this node, on each of which one process trains; 0 trains on CPU.

    ``DPO_GPUS_PER_NODE``, otherwise the number of processes that the starter of a bare host states;
    0 where torchrun would count the GPUs (``auto``, ``gpu``), as ``with_gpus`` does. In a JobSet's
    pod, the ``source`` of a ``Place``, only the chart's variable counts.

    Raises:
        LaunchError: CONFIG for a number that is another word (``cpu``), or two that differ.
    """
    name = "" if source == "JobSet" else counting(env)
    is_word = bool(name) and not env[name].isdecimal()
    if is_word and env[name] not in _COUNTED and not env.get("DPO_GPUS_PER_NODE"):
        raise no_number(name, env[name])
    if not name or is_word:
        return integer(env, "DPO_GPUS_PER_NODE", 0, lowest=0)
    stated = integer(env, name, 1)
    gpus = integer(env, "DPO_GPUS_PER_NODE", stated, lowest=0)
    if max(1, gpus) != stated and name != "SLURM_GPUS_ON_NODE":  # a run may use a part of them
        cause = f"DPO_GPUS_PER_NODE={gpus} and {name}={stated} state different numbers of processes"
        remedy = f"unset {name}, or set both to the number of GPUs of this node"
        raise LaunchError(Exit.CONFIG, cause, remedy, id="launch-processes-differ")
    return gpus


def counting(env: Mapping[str, str]) -> str:
    """Return the variable by which the starter states this node's processes; empty without one."""
    return next((name for name in _PROCESSES if env.get(name)), "")


def no_number(name: str, word: str) -> LaunchError:
    """Return the refusal of a word in place of the number of GPUs."""
    cause = f"{name}={word!r} does not state the number of GPUs"
    remedy = "set DPO_GPUS_PER_NODE to the number of GPUs of this node, 0 to train on CPU"
    return LaunchError(Exit.CONFIG, cause, remedy, id="launch-processes-word")


def _jobset(env: Mapping[str, str]) -> Place:
    nodes = integer(env, "DPO_NODES", 1)
    rank = node_rank(
        integer(env, "DPO_JOB_INDEX", 0, lowest=0),
        integer(env, "DPO_COMPLETIONS", nodes),
        integer(env, "JOB_COMPLETION_INDEX", 0, lowest=0),
    )
    master = required(env, "DPO_MASTER_ADDR") if nodes > 1 else LOCALHOST
    return _build(env, rank=rank, nodes=nodes, master=master, source="JobSet")


def _explicit(env: Mapping[str, str], stated: str) -> Place:
    nodes, rank = integer({"NNODES": stated}, "NNODES", 1), integer(env, "NODE_RANK", 0, lowest=0)
    return _build(env, rank=rank, nodes=nodes, master=_master(env, nodes), source="NODE_RANK")


def _started(env: Mapping[str, str]) -> Place:
    """Read the place from the variables of what started the launcher.

    Several starters may have left their variables (MPI under Slurm): they must agree, but for the
    ranks of torchrun, which numbers the nodes itself.
    """
    found = [place for read in _starters() if (place := read(env))]
    for place in found[1:]:
        is_other = found[0].source != "torchrun" and place.rank != found[0].rank
        if is_other or place.nodes != found[0].nodes:
            ranks = ((p.source, p.rank, count_text(p.nodes, "node")) for p in found)
            raise _conflict(" and ".join("{} states rank {} of {}".format(*each) for each in ranks))
    is_stated = found and _is_one_per_node(env) and env.get("NODE_RANK") == str(found[0].rank)
    if env.get("NODE_RANK") and not is_stated:  # Ray sets it next to RANK
        raise _incomplete(f"NODE_RANK={env['NODE_RANK']} without NNODES")
    if env.get("NNODES"):
        nodes = integer(env, "NNODES", 1)
        if found and found[0].nodes != nodes:
            other = count_text(found[0].nodes, "node")
            raise _conflict(f"NNODES={nodes}, and {found[0].source} states {other}")
        if not found and nodes > 1:
            raise _incomplete(f"NNODES={nodes} without NODE_RANK")
    elif not found:
        _refuse_remnants(env)
    return found[0] if found else _build(env, rank=0, nodes=1, master=LOCALHOST, source="single")


def _refuse_remnants(env: Mapping[str, str]) -> None:
    """Refuse variables of a run on several nodes if no variable states this node's rank."""
    stated = _stated(env)
    for name, nodes in stated.items():
        if nodes > 1:
            raise _incomplete(f"{name}={env[name]} without this node's rank")
    others = [name for name in sorted(env) if _INDEX.fullmatch(name) and env[name] not in ("", "0")]
    others = [name for name in others if not name.endswith("ID") or env[name].isdecimal()]
    others += [name for name in sorted(env) if is_host_file(env, name)]
    for name in () if stated else (*filter(env.get, _UNREAD), *others):
        raise _incomplete(f"{name}={env[name]} without a number of nodes")
    host = env.get("MASTER_ADDR", "")
    if host and not is_loopback(host):
        raise _incomplete(f"MASTER_ADDR={host} without NNODES and NODE_RANK")


def _stated(env: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of nodes that variables state, by name."""
    names = filter(_NODES.fullmatch, sorted(env))
    listed = {name: len(hosts) for name, hosts in listed_hosts(env).items() if hosts}
    return {name: int(env[name]) for name in names if env[name].isdecimal()} | listed


def _refuse_other_numbers(env: Mapping[str, str], place: Place) -> None:
    """Refuse a number of nodes that contradicts the place, above all one node's where others are.

    A step of Slurm may have fewer nodes than its job, and the user's own NNODES may be a part.
    """
    for name, nodes in _stated(env).items():
        is_step = name.startswith("SLURM_") and place.source == "Slurm"
        is_part = is_step or place.source == "NODE_RANK"
        if nodes != place.nodes and (name == "DPO_NODES" or (place.nodes == 1 and not is_part)):
            stated = count_text(place.nodes, "node")
            raise _conflict(f"{name}={nodes}, and {place.source} states {stated}")


def _refuse_other_ranks(env: Mapping[str, str], place: Place) -> None:
    """Refuse a rank that was read where the starter says another node is rank 0, or one of many.

    A batch script that sets ``NODE_RANK`` before srun makes every node rank 0.
    """
    size = env.get("WORLD_SIZE", "")
    if env.get("LOCAL_RANK") and size.isdecimal() and int(size) > place.nodes:
        raise _several(f"WORLD_SIZE={size} processes on {count_text(place.nodes, 'node')}")
    for read in _starters() if place.source == "NODE_RANK" else ():
        other = None
        with suppress(LaunchError):  # incomplete without the user's own
            other = read(env)
        same = other and (other.nodes, other.master_addr) == (place.nodes, place.master_addr)
        if other and same and (other.rank == 0) != (place.rank == 0):
            ranks = f"NODE_RANK={place.rank}, and {other.source} states rank {other.rank}"
            raise _conflict(f"{ranks}: rank 0 is the one at MASTER_ADDR={place.master_addr}")


def _refuse_several_per_node(env: Mapping[str, str]) -> None:
    """Refuse to be one of several processes of a node: each would start torchrun."""
    for name in _LOCAL_RANKS:
        if env.get(name, "0") != "0":
            raise _several(f"{name}={env[name]}")
    for name in (*(_SIZES_OF_RANKS if "LOCAL_RANK" in env else ()), *_LOCAL_SIZES):
        # Slurm writes 8(x2),4 for two nodes of 8 and one of 4
        if any(int(size) > 1 for size in re.findall(r"(?<!x)(?<!\d)\d+", env.get(name, ""))):
            raise _several(f"{name}={env[name]}")


def _several(given: str) -> LaunchError:
    cause = f"{given}: several launchers were started on this node"
    remedy = (
        "start one launcher per node (srun --ntasks-per-node=1, mpirun --npernode 1, torchrun "
        "--nproc-per-node 1): it starts one process per GPU itself"
    )
    return LaunchError(Exit.CONFIG, cause, remedy, id="launch-several-per-node")


def _incomplete(given: str) -> LaunchError:
    cause = f"{given}: this node's rank is unknown, and every node would train alone as rank 0"
    return LaunchError(Exit.CONFIG, cause, _REMEDY, id="launch-incomplete")


def _conflict(cause: str) -> LaunchError:
    return LaunchError(Exit.CONFIG, cause, _REMEDY, id="launch-conflict")


def _starters() -> tuple[Callable[[Mapping[str, str]], Place | None], ...]:
    """Return the readers of each starter's variables, the nearest to this process first."""
    return _torchrun, _slurm, _pytorchjob, _dlc, _mpi


def _slurm(env: Mapping[str, str]) -> Place | None:
    if not env.get("SLURM_NODEID") or env.get("OMPI_COMM_WORLD_RANK"):
        return None  # mpirun starts a step of one node on each of the others
    if (parts := env.get("SLURM_HET_SIZE", "1")) != "1":  # each counts its own nodes
        raise _incomplete(f"SLURM_HET_SIZE={parts}")
    # a step may have fewer nodes than its job, and SLURM_NODEID counts within the step
    is_step = bool(env.get("SLURM_STEP_NODELIST"))
    hosts = slurm_hosts(required(env, "SLURM_STEP_NODELIST" if is_step else "SLURM_JOB_NODELIST"))
    nodes = integer(env, "SLURM_STEP_NUM_NODES" if is_step else "SLURM_JOB_NUM_NODES", len(hosts))
    rank = integer(env, "SLURM_NODEID", 0, lowest=0)
    if nodes > 1 and rank == 0 and not is_step:
        raise _incomplete(f"{nodes} nodes of Slurm without a step of srun")
    return _build(env, rank=rank, nodes=nodes, master=hosts[0], source="Slurm")


def _torchrun(env: Mapping[str, str]) -> Place | None:
    """Read the variables of a torchrun that started one launcher per node.

    Source: ``torch/distributed/elastic/agent/server/local_elastic_agent.py``, ``_start_workers``.
    """
    if not env.get("GROUP_RANK"):
        if env.get("LOCAL_RANK") and not _is_one_per_node(env):
            raise _incomplete("LOCAL_RANK without torchrun's GROUP_RANK")
        return None
    nodes = integer({"GROUP_WORLD_SIZE": required(env, "GROUP_WORLD_SIZE")}, "GROUP_WORLD_SIZE", 1)
    rank = integer(env, "GROUP_RANK", 0, lowest=0)
    return _build(env, rank=rank, nodes=nodes, master=_master(env, nodes), source="torchrun")


def _is_one_per_node(env: Mapping[str, str]) -> bool:
    """Return whether ``RANK`` counts nodes: Ray and DeepSpeed started one process on each."""
    return any(env.get(name) == "1" for name in _SIZES_OF_RANKS)


def _pytorchjob(env: Mapping[str, str]) -> Place | None:
    """Read the variables of Kubeflow: PyTorchJob and TrainJob name torchrun's options ``PET_*``.

    Source: training-operator, ``pkg/controller.v1/pytorch/envvar.go``. ``WORLD_SIZE`` counts pods
    or processes, depending on the version, so ``PET_NNODES`` is read; ``RANK`` is the pod's.
    """
    given = sorted(name for name in env if name.startswith("PET_") and name != "PET_NPROC_PER_NODE")
    if not given or env.get("GROUP_RANK"):  # torchrun has read them and passes them on
        return None
    least, _, most = env.get("PET_NNODES", "").partition(":")
    rank = "PET_NODE_RANK" if env.get("PET_NODE_RANK") else "RANK"
    if not least or not env.get(rank) or most not in ("", least):
        cause = ", ".join(f"{name}={env[name]}" for name in given)
        raise _incomplete(f"{cause} without a fixed PET_NNODES and PET_NODE_RANK")
    nodes = integer({"PET_NNODES": least}, "PET_NNODES", 1)
    own = ("MASTER_ADDR", "MASTER_PORT")
    env = {**env, **{name: env[f"PET_{name}"] for name in own if f"PET_{name}" in env}}
    place = integer(env, rank, 0, lowest=0)
    return _build(env, rank=place, nodes=nodes, master=_master(env, nodes), source="PyTorchJob")


def _dlc(env: Mapping[str, str]) -> Place | None:
    """Read ``RANK`` and ``WORLD_SIZE`` that count pods: Alibaba's DLC, Volcano's plugin, Ray."""
    given = [name for name in ("RANK", "WORLD_SIZE") if env.get(name)]
    of_processes = env.get("LOCAL_RANK") and not _is_one_per_node(env)
    is_alone = given == ["WORLD_SIZE"] and env["WORLD_SIZE"] == "1"
    is_kubeflows = env.get("GROUP_RANK") or env.get("PET_NNODES")
    if not given or is_alone or of_processes or is_kubeflows:
        return None
    if len(given) == 1:
        cause = f"{given[0]}={env[given[0]]} without {'WORLD_SIZE' if 'RANK' in given else 'RANK'}"
        raise _incomplete(cause)
    nodes, rank = integer(env, "WORLD_SIZE", 1), integer(env, "RANK", 0, lowest=0)
    return _build(env, rank=rank, nodes=nodes, master=_master(env, nodes), source="RANK")


def _mpi(env: Mapping[str, str]) -> Place | None:
    """Read the variables of Open MPI, or of MPICH and its kin."""
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
    if not any(env.get(name) for name in names):
        names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")
        if not any(env.get(name) for name in names) or env.get("SLURM_NODEID"):
            return None  # Slurm sets PMI_*, and knows the nodes
    if lacks := [name for name in names if not env.get(name)]:
        given = ", ".join(f"{name}={env[name]}" for name in names if env.get(name))
        raise _incomplete(f"{given} without {', '.join(lacks)}")
    rank, nodes = integer(env, names[0], 0, lowest=0), integer(env, names[1], 1)
    master = _master(env, nodes)
    if rank and is_loopback(master):  # one launcher on each host
        raise _no_master(f"MASTER_ADDR={master} is this host, and rank 0 is on another one")
    return _build(env, rank=rank, nodes=nodes, master=master, source="MPI")


def is_loopback(address: str) -> bool:
    """Return whether an address is each host's own.

    >>> [is_loopback(each) for each in ("localhost", "127.0.0.1", "0.0.0.0", "::1", "10.0.0.1")]
    [True, True, True, True, False]
    """
    return address in ("localhost", "0.0.0.0", "::", "::1") or address.startswith("127.")


def _master(env: Mapping[str, str], nodes: int) -> str:
    host = required(env, "MASTER_ADDR") if nodes > 1 else LOCALHOST
    if not _ADDRESS.fullmatch(host):
        raise _no_master(f"MASTER_ADDR={host!r} is not the name or address of a host")
    return host


def _no_master(cause: str) -> LaunchError:
    remedy = "write the name or IP address of rank 0 alone; its port is MASTER_PORT"
    return LaunchError(Exit.CONFIG, cause, remedy, id="master-address")


def _build(env: Mapping[str, str], *, rank: int, nodes: int, master: str, source: str) -> Place:
    at = master_port(env)
    return Place(rank=rank, nodes=nodes, master_addr=master, master_port=at, source=source)


def master_port(env: Mapping[str, str]) -> int:
    """Read the port of torchrun's rendezvous on rank 0; an outer torchrun has MASTER_PORT."""
    if "DPO_MASTER_PORT" in env:
        return port(env, "DPO_MASTER_PORT", 29500)
    return port(env, "MASTER_PORT", 29500) + bool(env.get("GROUP_RANK"))
