from pathlib import Path

import pytest

from launchers.config.host_lists import slurm_hosts
from launchers.config.rank import gpus_of, place_of
from launchers.exits import Exit, LaunchError


def of(text: str) -> dict[str, str]:
    """Return the variables of an environment from NAME=VALUE words."""
    return dict(word.split("=", 1) for word in text.split())


def vertex(*hosts: str) -> dict[str, str]:
    pools = ", ".join(f'"workerpool{number}": ["{host}"]' for number, host in enumerate(hosts))
    return {"CLUSTER_SPEC": f'{{"cluster": {{{pools}}}, "task": {{"index": 0}}}}'}


JOBSET = of("JOB_COMPLETION_INDEX=1 DPO_JOB_INDEX=0 DPO_COMPLETIONS=2 DPO_NODES=2")
JOBSET |= {"DPO_MASTER_ADDR": "r-node-0-0.r"}


STEP = {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "gpu[03-04]"}


TORCHRUN = of("""
GROUP_RANK=1 GROUP_WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 RANK=1 WORLD_SIZE=2
MASTER_ADDR=h0 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none
""")
PYTORCHJOB = of("""
RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456 PET_NNODES=2 PET_NODE_RANK=1
PET_NPROC_PER_NODE=8 PET_MASTER_ADDR=job-master-0 PET_MASTER_PORT=23456
""")
TRAINJOB = of("""
JOB_COMPLETION_INDEX=1 PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=job-node-0-0.job
PET_MASTER_PORT=29400
""")
DLC = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "dlc-master-0", "MASTER_PORT": "23456"}
RAY = of("""
RANK=1 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=h0 MASTER_PORT=41235
""")
OPEN_MPI = of("""
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1
OMPI_COMM_WORLD_LOCAL_RANK=0 MASTER_ADDR=h0
""")
MPIRUNS_STEP = of("SLURM_NODEID=0 SLURM_STEP_NODELIST=gpu08 SLURM_JOB_NUM_NODES=2")
"""Slurm's variables where mpirun starts its daemon, a step of one node on each of the others."""
HOST_FILES = (
    "PBS_NODEFILE",
    "OAR_NODE_FILE",
    "PE_HOSTFILE",
    "LSB_DJOB_HOSTFILE",
    "BATCH_HOSTS_FILE",
)
NO_ADDRESSES = ("tcp://h0:29500", "h0:29500", "[fd00::1]", "h0 ", "<host IP>", "$(MASTER_ADDR)")
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "MASTER_ADDR": "h0"}
SLURM = of("""
SLURM_NODEID=1 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST=gpu[07-08] SLURM_LOCALID=0
SLURM_STEP_TASKS_PER_NODE=1(x2)
""")


@pytest.mark.parametrize(
    ("env", "source", "master", "port"),
    [
        (JOBSET, "JobSet", "r-node-0-0.r", 29500),
        (
            JOBSET | of("DPO_JOB_INDEX=1 JOB_COMPLETION_INDEX=0 DPO_COMPLETIONS=1"),
            "JobSet",
            "r-node-0-0.r",
            29500,
        ),
        (of("NODE_RANK=1 NNODES=2 MASTER_ADDR=h0 MASTER_PORT=1234"), "NODE_RANK", "h0", 1234),
        (of("SLURM_NODEID=1 SLURM_JOB_NODELIST=gpu[07-08]"), "Slurm", "gpu07", 29500),
        (SLURM | STEP | of("SLURM_JOB_NUM_NODES=4"), "Slurm", "gpu03", 29500),  # a step's own nodes
        (TORCHRUN, "torchrun", "h0", 29501),  # the outer torchrun listens on 29500
        (PYTORCHJOB | {"WORLD_SIZE": "16"}, "PyTorchJob", "job-master-0", 23456),
        (TRAINJOB, "PyTorchJob", "job-node-0-0.job", 29400),
        (DLC | {"NNODES": "2"}, "RANK", "dlc-master-0", 23456),
        (DLC | {"DPO_MASTER_PORT": "1234"}, "RANK", "dlc-master-0", 1234),
        (OPEN_MPI, "MPI", "h0", 29500),
        (MPICH, "MPI", "h0", 29500),
        (SLURM | {"PMI_RANK": "1", "PMI_SIZE": "2"}, "Slurm", "gpu07", 29500),
        (OPEN_MPI | MPIRUNS_STEP, "MPI", "h0", 29500),
        (DLC | {"MASTER_ADDR": "fd00::1"}, "RANK", "fd00::1", 23456),
        (RAY, "RANK", "h0", 41235),
        (RAY | {"NODE_RANK": "1"}, "RANK", "h0", 41235),
        (DLC | vertex("dlc-master-0:2222", "b:2222"), "RANK", "dlc-master-0", 23456),
        (TORCHRUN | SLURM | STEP, "torchrun", "h0", 29501),
        (TORCHRUN | of("NNODES=2 NODE_RANK=1"), "NODE_RANK", "h0", 29501),
        (
            of("AZUREML_NODE_COUNT=2 NODE_RANK=1 RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=h0"),
            "NODE_RANK",
            "h0",
            29500,
        ),
        (
            of("NUM_NODES=2 NODE_RANK=1 NUM_TRAINERS=8 WORLD_SIZE=16 MASTER_ADDR=h0"),
            "NODE_RANK",
            "h0",
            29500,
        ),
        # rank 0 is where the user says, or torchrun, which numbers the nodes itself
        (
            SLURM | STEP | of("SLURM_NODEID=0 NNODES=2 NODE_RANK=1 MASTER_ADDR=gpu04"),
            "NODE_RANK",
            "gpu04",
            29500,
        ),
        (TORCHRUN | SLURM | STEP | of("SLURM_NODEID=0"), "torchrun", "h0", 29501),
    ],
)
def test_other_starters_of_one_launcher_per_node_give_the_rank(
    env: dict[str, str], source: str, master: str, port: int
) -> None:
    place = place_of(env)
    assert (place.rank, place.nodes, place.source) == (1, 2, source)
    assert (place.master_addr, place.master_port) == (master, port)


@pytest.mark.parametrize(
    "env",
    [
        *(JOBSET | of("JOB_COMPLETION_INDEX=0"), of("NODE_RANK=0 NNODES=2 MASTER_ADDR=h0")),
        *(TORCHRUN | of("GROUP_RANK=0"), PYTORCHJOB | of("RANK=0 PET_NODE_RANK=0")),
        *(TRAINJOB | of("PET_NODE_RANK=0"), DLC | of("RANK=0"), MPICH | of("PMI_RANK=0")),
        *(OPEN_MPI | of("OMPI_COMM_WORLD_RANK=0"), SLURM | STEP | of("SLURM_NODEID=0")),
    ],
)
def test_each_starter_has_a_rank_0(env: dict[str, str]) -> None:
    assert (place_of(env).rank, place_of(env).nodes) == (0, 2)


@pytest.mark.parametrize("env", [TORCHRUN, PYTORCHJOB, DLC, OPEN_MPI, SLURM])
def test_the_users_own_variables_count_before_all_others(env: dict[str, str]) -> None:
    own = {"NODE_RANK": "2", "NNODES": "4", "MASTER_ADDR": "mine"}
    place = place_of(env | own)
    assert (place.rank, place.nodes, place.source) == (2, 4, "NODE_RANK")
    assert place.master_addr == "mine"


@pytest.mark.parametrize(
    ("env", "id", "named"),
    [
        (JOBSET | {"JOB_COMPLETION_INDEX": "2"}, "node-rank-range", "node rank 2 of 2 nodes"),
        (JOBSET | {"JOB_COMPLETION_INDEX": "-1"}, "env-integer", "JOB_COMPLETION_INDEX='-1'"),
        (JOBSET | {"DPO_NODES": "two"}, "env-integer", "DPO_NODES='two'"),
        (JOBSET | {"DPO_MASTER_ADDR": ""}, "env-missing", "DPO_MASTER_ADDR is not set"),
        (JOBSET | {"DPO_MASTER_PORT": "70000"}, "env-port", "DPO_MASTER_PORT=70000"),
        ({"NNODES": "2", "MASTER_ADDR": "h0"}, "launch-incomplete", "NNODES=2 without NODE_RANK"),
        ({"NODE_RANK": "0"}, "launch-incomplete", "NODE_RANK=0 without NNODES"),
        ({"RANK": "0"}, "launch-incomplete", "RANK=0 without WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "launch-incomplete", "WORLD_SIZE=2 without RANK"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "env-missing", "MASTER_ADDR is not set"),
        ({"RANK": "2", "WORLD_SIZE": "1"}, "node-rank-range", "node rank 2 of 1"),
        ({"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "16"}, "launch-incomplete", "GROUP_RANK"),
        (TORCHRUN | {"GROUP_WORLD_SIZE": ""}, "env-missing", "GROUP_WORLD_SIZE"),
        ({"PET_NNODES": "2"}, "launch-incomplete", "PET_NNODES=2 without"),
        ({"PET_NNODES": "1:4", "RANK": "0"}, "launch-incomplete", "PET_NNODES=1:4"),
        ({"PET_RDZV_ENDPOINT": "h0:29400"}, "launch-incomplete", "PET_RDZV_ENDPOINT=h0:29400"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "launch-incomplete", "without MPI_LOCALNRANKS"),
        ({"JOB_COMPLETION_INDEX": "0"}, "launch-incomplete", "without a number of nodes"),
        ({"SLURM_PROCID": "1"}, "launch-incomplete", "SLURM_PROCID=1"),
        ({"PMIX_RANK": "0"}, "launch-incomplete", "PMIX_RANK=0"),
        ({"MV2_COMM_WORLD_RANK": "1"}, "launch-incomplete", "MV2_COMM_WORLD_RANK=1"),
        ({"VC_TASK_INDEX": "1"}, "launch-incomplete", "VC_TASK_INDEX=1"),
        (SLURM | of("SLURM_NODEID=0"), "launch-incomplete", "without a step"),
        ({"LWS_WORKER_INDEX": "1"}, "launch-incomplete", "LWS_WORKER_INDEX=1"),
        ({"ACME_WORKER_INDEX": "1"}, "launch-incomplete", "ACME_WORKER_INDEX=1"),
        ({"MACHINE_RANK": "1"}, "launch-incomplete", "MACHINE_RANK=1"),
        ({"GLOBAL_RANK": "1"}, "launch-incomplete", "GLOBAL_RANK=1"),
        ({"NOMAD_ALLOC_INDEX": "1"}, "launch-incomplete", "NOMAD_ALLOC_INDEX=1"),
        ({"TPU_WORKER_ID": "1"}, "launch-incomplete", "TPU_WORKER_ID=1"),
        ({"PBS_NODENUM": "1"}, "launch-incomplete", "PBS_NODENUM=1"),
        ({"MODAL_CONTAINER_RANK": "1"}, "launch-incomplete", "CONTAINER_RANK=1"),
        (SLURM | {"SLURM_HET_SIZE": "2"}, "launch-incomplete", "SLURM_HET_SIZE=2"),
        ({"PALS_NODEID": "1"}, "launch-incomplete", "PALS_NODEID=1"),
        ({"PJM_RANK": "1"}, "launch-incomplete", "PJM_RANK=1"),
        (of("RANK_ID=0 RANK_SIZE=2"), "launch-incomplete", "RANK_ID=0"),
        (of("TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=a,b"), "launch-incomplete", "HOSTNAMES=a,b"),
        ({"SKYPILOT_NODE_IPS": "10.0.0.4\n10.0.0.5"}, "launch-incomplete", "SKYPILOT_NODE_IPS"),
        ({"SM_HOSTS": '["a-1","a-2"]'}, "launch-incomplete", "SM_HOSTS="),
        ({"AZ_BATCH_NODE_LIST": "10.0.0.4;10.0.0.5"}, "launch-incomplete", "AZ_BATCH_NODE_LIST"),
        ({"LSB_HOSTS": "h1 h1 h2"}, "launch-incomplete", "LSB_HOSTS=h1 h1 h2"),
        ({"LSB_MCPU_HOSTS": "h1 8 h2 8"}, "launch-incomplete", "LSB_MCPU_HOSTS=h1 8 h2 8"),
        ({"LSF_PM_TASKID": "1"}, "launch-incomplete", "LSF_PM_TASKID=1"),
        (vertex("a:2222", "b:2222"), "launch-incomplete", "CLUSTER_SPEC="),
        *(({each: "/absent"}, "launch-incomplete", f"{each}=/absent") for each in HOST_FILES),
        # a variable that is set and empty says nothing
        (DLC | {"GROUP_RANK": "", "MASTER_ADDR": ""}, "env-missing", "MASTER_ADDR"),
        (JOBSET | {"JOB_COMPLETION_INDEX": ""}, "launch-incomplete", "DPO_NODES=2"),
        (MPICH | {"SLURM_NODEID": "", "MPI_LOCALNRANKS": ""}, "launch-incomplete", "PMI_RANK=1"),
        ({"MASTER_ADDR": "h0"}, "launch-incomplete", "MASTER_ADDR=h0"),
        ({"RANK": "0", "WORLD_SIZE": "1", "DPO_NODES": "2"}, "launch-conflict", "DPO_NODES=2, and"),
        (DLC | {"DPO_NODES": "4"}, "launch-conflict", "DPO_NODES=4, and RANK states 2 nodes"),
        (of("NNODES=1 NODE_RANK=0 DPO_NODES=2"), "launch-conflict", "NODE_RANK states"),
        (of("RANK=0 WORLD_SIZE=1 SLURM_NNODES=2"), "launch-conflict", "S=2, and RANK states 1"),
        (DLC | {"NNODES": "1"}, "launch-conflict", "NNODES=1, and RANK states 2 nodes"),
        (SLURM | {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h"}, "launch-conflict", "Slurm"),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "8"}, "launch-several-per-node", "LOCAL_WORLD_SIZE=8"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, "launch-several-per-node", "SIZE=8"),
        (SLURM | {"SLURM_STEP_TASKS_PER_NODE": "8(x2)"}, "launch-several-per-node", "8(x2)"),
        (SLURM | {"SLURM_LOCALID": "3"}, "launch-several-per-node", "SLURM_LOCALID=3"),
        (RAY | of("LOCAL_WORLD_SIZE=8"), "launch-several-per-node", "LOCAL_WORLD_SIZE=8"),
        (of("LOCAL_RANK=0 LOCAL_SIZE=8 RANK=0 WORLD_SIZE=16"), "launch-several-per-node", "SIZE=8"),
        (
            of("NODE_COUNT=2 NODE_RANK=1 RANK=8 WORLD_SIZE=16 LOCAL_RANK=0 MASTER_ADDR=h0"),
            "launch-several-per-node",
            "WORLD_SIZE=16",
        ),
        (SLURM | STEP | of("NNODES=2 NODE_RANK=0 MASTER_ADDR=gpu03"), "launch-conflict", "rank 1"),
        (DLC | of("NNODES=2 NODE_RANK=0"), "launch-conflict", "RANK states rank 1"),
        (
            TORCHRUN | SLURM | STEP | of("GROUP_RANK=0 GROUP_WORLD_SIZE=1"),
            "launch-conflict",
            "Slurm",
        ),
        (OPEN_MPI | {"MASTER_ADDR": "localhost"}, "master-address", "localhost"),
        *((DLC | {"MASTER_ADDR": each}, "master-address", each) for each in NO_ADDRESSES),
    ],
)
def test_variables_that_leave_the_rank_open_are_refused(
    env: dict[str, str], id: str, named: str
) -> None:
    with pytest.raises(LaunchError) as refusal:
        place_of(env)
    assert (refusal.value.code, refusal.value.id) == (Exit.CONFIG, id)
    assert named in refusal.value.cause


COUNTS = """
DPO_NODES SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_STEP_NUM_NODES NUM_NODES LWS_GROUP_SIZE NHOSTS
NNODE PADDLE_TRAINERS_NUM GROUP_WORLD_SIZE MLP_WORKER_NUM SKYPILOT_NUM_NODES AZUREML_NODE_COUNT
NODE_NUM PBS_NUM_NODES MA_NUM_HOSTS CROSS_SIZE HOROVOD_CROSS_SIZE NGC_ARRAY_SIZE FLUX_JOB_NNODES
NODE_COUNT AWS_BATCH_JOB_NUM_NODES ARNOLD_WORKER_NUM DSTACK_NODES_NUM HOST_NUM
_CONDOR_NPROCS LEPTON_JOB_TOTAL_WORKERS PAI_TASK_ROLE_worker_TASK_COUNT BEAKER_REPLICA_COUNT
BT_GROUP_SIZE CLOUD_RUN_TASK_COUNT BATCH_TASK_COUNT VC_WORKER_NUM NUM_INSTANCES
NODES
"""


@pytest.mark.parametrize("name", COUNTS.split())
def test_several_nodes_without_a_rank_are_refused(name: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        place_of({name: "2"})
    assert (refusal.value.id, refusal.value.cause.split()[0]) == ("launch-incomplete", f"{name}=2")
    assert place_of({name: "1"}).nodes == 1


@pytest.mark.parametrize("name", HOST_FILES)
def test_the_hosts_of_a_job_are_counted_in_its_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / "15.server"
    env = {name: str(file)}
    file.write_text("# node slots\nh1 8 all.q@h1 UNDEFINED\nh1 # again\n\n")
    assert place_of(env).nodes == 1
    file.write_text("h1\nh2\n")
    with pytest.raises(LaunchError) as refusal:
        place_of(env)
    assert refusal.value.id == "launch-incomplete"


@pytest.mark.parametrize(
    "env",
    [
        {"NNODES": "1"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
        {"NNODES": "1", "NODE_RANK": "0", "MASTER_ADDR": "h0"},
        {"OMPI_MCA_btl": "tcp", "OPAL_PREFIX": "/opt"},  # of images with MPI inside
        {"RANK": "0", "WORLD_SIZE": "1", "DPO_NODES": "1"},
        {"NNODES": "1", "NODE_RANK": "0", "SLURM_JOB_NUM_NODES": "2"},
        SLURM | {"SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "gpu07", "SLURM_STEP_NUM_NODES": "1"},
        {"SLURM_JOB_NUM_NODES": "1"},
        of("SLURM_NODEID=0 SLURM_JOB_NODELIST=gpu07"),
        {"SLURM_JOB_NUM_NODES": "1", "SLURM_PROCID": "0"},
        {"MLP_WORKER_NUM": "1", "MLP_ROLE_INDEX": "0"},
        of("CI_NODE_INDEX=1 PLX_REPLICA_INDEX=0 PLX_NUM_REPLICAS=1"),
        {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1"},
        {"LSB_HOSTS": "h1 h1", "NUM_NODES": "auto"},
        of("NOMAD_ALLOC_INDEX=0 TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost NODE_ID=i-0a1b"),
        {"WORLD_SIZE": "1"},
        of("PBS_NODENUM=0 PBS_VNODENUM=0 CONTAINER_ID=b1946ac9"),
        of("SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_ID=3 PBS_ARRAY_INDEX=3 NUM_WORKERS=8"),
        vertex("a:2222"),
    ],
)
def test_one_node_that_says_so_trains_alone(env: dict[str, str]) -> None:
    place = place_of(env)
    assert (place.rank, place.nodes) == (0, 1)


@pytest.mark.parametrize(
    ("env", "gpus"),
    [
        ({}, 0),
        ({"NPROC_PER_NODE": "8"}, 8),
        ({"PET_NPROC_PER_NODE": "8"}, 8),
        ({"PET_NPROC_PER_NODE": "auto"}, 0),  # with_gpus counts them
        ({"SLURM_GPUS_ON_NODE": "8"}, 8),
        ({"SLURM_GPUS_ON_NODE": "8", "DPO_GPUS_PER_NODE": "4"}, 4),
        ({"DPO_GPUS_PER_NODE": "8"}, 8),
        ({"DPO_GPUS_PER_NODE": "0", "NPROC_PER_NODE": "1"}, 0),
        ({"DPO_GPUS_PER_NODE": "4", "PET_NPROC_PER_NODE": "auto"}, 4),
    ],
)
def test_a_host_trains_on_as_many_gpus_as_it_says(env: dict[str, str], gpus: int) -> None:
    assert gpus_of(env, "single") == gpus


@pytest.mark.parametrize(
    ("env", "id"),
    [
        ({"NPROC_PER_NODE": "cpu"}, "launch-processes-word"),
        ({"NPROC_PER_NODE": "8", "DPO_GPUS_PER_NODE": "4"}, "launch-processes-differ"),
    ],
)
def test_an_unclear_number_of_processes_is_refused(env: dict[str, str], id: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        gpus_of(env, "single")
    assert (refusal.value.code, refusal.value.id) == (Exit.CONFIG, id)
    assert gpus_of(env | {"DPO_GPUS_PER_NODE": "2"}, "JobSet") == 2


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("a1", ["a1"]),
        ("a1,b2", ["a1", "b2"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[08-10,12],x", ["gpu08", "gpu09", "gpu10", "gpu12", "x"]),
        ("a-[1-2],b-[1]", ["a-1", "a-2", "b-1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu[1-2]-ib", ["gpu1-ib", "gpu2-ib"]),
    ],
)
def test_host_lists_expand_like_scontrol(text: str, expanded: list[str]) -> None:
    assert slurm_hosts(text) == expanded


@pytest.mark.parametrize(
    "text", ["", "gpu[1-", "gpu[]", ",a", "a,,b", "a,", "a, b", "gpu[3-1]", "gpu[1-x],b"]
)
def test_a_broken_host_list_is_refused(text: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        slurm_hosts(text)
    assert refusal.value.id == "slurm-node-list"
