"""A Slurm of two nodes on this machine, in namespaces of its own: nothing of it is left behind.

It runs the distribution's slurmctld and slurmd, without munge. ``SLURM_ROOT`` names the folder into
which the packages were unpacked, if they are not installed.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launchers.system.process import descendants

ROOT = Path(os.environ.get("SLURM_ROOT", "/"))
FOLDERS = (ROOT / "usr/bin", ROOT / "usr/sbin")
DAEMONS = ("slurmctld", "slurmd", "slurmstepd")
CLIENTS = ("sbatch", "srun", "scancel", "scontrol", "squeue", "sinfo")
NEEDED = (*DAEMONS, *CLIENTS, "unshare", "nsenter", "ip")
START_SECONDS = 60.0
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
{plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=n1 NodeAddr=127.0.0.1 NodeHostName={host} Port=16818 CPUs=1
NodeName=n2 NodeAddr=127.0.0.1 NodeHostName={host} Port=16819 CPUs=1
PartitionName=low Nodes=n1,n2 Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=n1,n2 State=UP PriorityTier=10 PreemptMode=OFF
"""
PROGRAM = """
ip link set lo up
ip address add 10.255.255.1/32 dev lo  # getaddrinfo(AI_ADDRCONFIG) wants one beyond 127.0.0.0/8
mount --bind {folder}/hosts /etc/hosts
{slurmctld} -D -c & {slurmd} -D -N n1 -d {slurmstepd} & {slurmd} -D -N n2 -d {slurmstepd} &
wait
"""


def find(name: str) -> str | None:
    """Return the path of a program; Debian's packages add a suffix to the daemons."""
    places = os.pathsep.join([*map(str, FOLDERS), os.environ["PATH"]])
    return shutil.which(name, path=places) or shutil.which(f"{name}-wlm", path=places)


def missing() -> list[str]:
    """List what this machine lacks, in words."""
    lacks = [name for name in NEEDED if find(name) is None]
    return [*lacks, *(["root"] if os.geteuid() else [])]


@dataclass(frozen=True)
class Slurm:
    pid: int
    """A process in its namespaces."""
    env: dict[str, str]

    def call(self, *words: str, **change: str) -> str:
        inside = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid"]
        command = [*inside, str(find(words[0])), *words[1:]]
        env = {**self.env, **change}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(self, job: str) -> str:
        shown = self.call("scontrol", "show", "job", job)
        return shown.partition("JobState=")[2].split()[0]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """Start a cluster whose files are in ``folder``; end all its processes."""
    (folder / "state").mkdir(parents=True)
    hosts = Path("/etc/hosts").read_text(encoding="utf-8")
    (folder / "hosts").write_text(f"{hosts}\n127.0.0.1 n1 n2\n")
    plugins = next(ROOT.glob("usr/lib/*/slurm-wlm"), None)
    named = f"PluginDir={plugins}" if plugins else ""
    host = socket.gethostname().partition(".")[0]
    configuration = CONFIGURATION.format(host=host, folder=folder, plugins=named)
    (folder / "slurm.conf").write_text(configuration)
    libraries = f"{plugins.parent}:{plugins}" if plugins else ""
    env = {
        "PATH": os.pathsep.join([*map(str, FOLDERS), os.environ["PATH"]]),
        "SLURM_CONF": str(folder / "slurm.conf"),
        **({"LD_LIBRARY_PATH": libraries} if os.environ.get("SLURM_ROOT") else {}),
    }
    program = PROGRAM.format(folder=folder, **{name: find(name) for name in DAEMONS})
    namespaces = ["--mount", "--propagation=private", "--net", "--pid", "--fork", "--mount-proc"]
    command = ["unshare", *namespaces, "--kill-child", "sh", "-ec", program]
    with (folder / "daemons.log").open("w") as log:
        cluster = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        yield _ready(cluster, env, folder)
    finally:
        cluster.kill()
        cluster.wait()


def _ready(cluster: subprocess.Popen[bytes], env: dict[str, str], folder: Path) -> Slurm:
    stop = time.monotonic() + START_SECONDS
    while time.monotonic() < stop:
        time.sleep(0.5)
        inside = descendants(cluster.pid)
        with contextlib.suppress(AssertionError):
            if inside and (slurm := Slurm(inside[0], env)).call("sinfo", "-h", "-t", "idle"):
                return slurm
    logs = (path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log"))
    raise AssertionError(f"Slurm did not start in {START_SECONDS:.0f} s:\n" + "\n".join(logs))
