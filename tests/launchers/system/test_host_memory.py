import os
import tempfile
from pathlib import Path

import pytest

from launchers.system import host_memory
from launchers.system.host_memory import HostMemory, oom_kills

MEMINFO = "MemTotal:       1000 kB\nMemFree: 1 kB\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


STAT = "anon 1\nshmem 7\nactive_file 50\ninactive_file 140\nslab_reclaimable 10\nslab 30\n"
V1_STAT = "inactive_file 1\ntotal_active_file 120\ntotal_inactive_file 80\n"
V1_FILES = {"usage_in_bytes": "500", "limit_in_bytes": "800", "stat": V1_STAT}
"""Version 1 of cgroups has other names."""


@pytest.mark.parametrize(
    ("group", "place", "files", "limit", "used"),
    [
        # what the kernel frees first does not count
        ("0::/", "", {"current": "500\n", "max": "800\n", "stat": STAT}, 800, 300),
        # without a smaller limit the host's memory is the limit
        ("0::/a", "a/", {"current": "500\n", "max": "max"}, 1_024_000, 500),
        ("0::/a", "a/", {"current": "500\n", "max": "99999999"}, 1_024_000, 500),
        ("4:memory:/pod\n0::/", "memory/", V1_FILES, 800, 300),
    ],
)
def test_use_and_limit_of_a_container(
    tmp_path: Path, group: str, place: str, files: dict[str, str], limit: int, used: int
) -> None:
    given = {f"sys/fs/cgroup/{place}memory.{name}": text for name, text in files.items()}
    write(tmp_path, {"proc/self/cgroup": f"{group}\n", "proc/meminfo": MEMINFO, **given})
    assert host_memory.read(tmp_path) == HostMemory(used=used, limit=limit, files=0)


MOUNTS = (
    "28 1 254:0 / / rw - ext4 /dev/root rw\n"
    "29 28 0:30 / /dev/shm rw,nosuid master:9 - tmpfs shm rw\n"
    "30 28 0:31 / /my\\040workspace rw - tmpfs tmpfs rw,size=9k\n"
    "31 28 0:31 /models /models ro - tmpfs tmpfs rw,size=9k\n"
)


@pytest.mark.parametrize(("shared", "files"), [(400, 330), (100, 100)])
def test_files_on_each_tmpfs_count_and_are_named_up_to_the_shared_memory(
    tmp_path: Path, shared: int, files: int
) -> None:
    pod = "sys/fs/cgroup/memory/pod/memory"
    write(tmp_path, {"proc/self/cgroup": "4:memory:/pod\n", "proc/self/mountinfo": MOUNTS})
    write(tmp_path, {f"{pod}.usage_in_bytes": "500", f"{pod}.stat": f"total_shmem {shared}\n"})
    held = {"/dev/shm": 30, "/my workspace": 300, "/models": 300}
    found = host_memory.read(tmp_path, lambda mount: held[str(mount)])
    assert found == HostMemory(used=500, limit=None, files=files)


def test_a_file_on_a_tmpfs_is_seen_in_this_container() -> None:
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK) or (before := host_memory.read()) is None:
        pytest.skip("no /dev/shm, or no reading")
    if before.files is None:
        pytest.skip("no cgroup of memory")
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(bytes(64 << 20))
        file.flush()
        after = host_memory.read()
    assert after is not None and after.files is not None and after.files - before.files > 32 << 20


def test_without_a_cgroup_the_processes_of_the_launcher_count_without_their_files(
    tmp_path: Path,
) -> None:
    status = "VmRSS:\t900 kB\nRssAnon:\t     500 kB\nRssFile:\t 300 kB\nRssShmem:\t 100 kB\n"
    write(tmp_path, {"proc/meminfo": MEMINFO, f"proc/{os.getpid()}/status": status})
    assert host_memory.read(tmp_path) == HostMemory(used=600 * 1024, limit=1_024_000)
    assert host_memory.read(tmp_path / "empty") is None


V2 = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.current": "500000\n"}
V2 |= {"sys/fs/cgroup/memory.max": "800000\n"}
V2 |= {"sys/fs/cgroup/memory.stat": "inactive_file 140000\n"}
V1 = {
    "proc/self/cgroup": "4:memory:/pod\n0::/\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "800000",
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 140000\n",
}


@pytest.mark.parametrize(
    ("files", "room"),
    [
        (V2, 440_000),
        (V1, 440_000),
        ({**V2, "sys/fs/cgroup/memory.max": "max\n"}, 900 * 1024),
        ({**V2, "sys/fs/cgroup/memory.current": "1000000\n"}, 0),
        ({}, 900 * 1024),
    ],
    ids=["v2", "v1", "no limit", "above the limit", "no cgroup"],
)
def test_what_may_still_be_allocated_is_bounded_by_host_and_limit(
    tmp_path: Path, files: dict[str, str], room: int
) -> None:
    write(tmp_path, {"proc/meminfo": f"{MEMINFO}MemAvailable:     900 kB\n", **files})
    assert host_memory.available(tmp_path) == room


def test_the_hosts_free_memory_bounds_a_larger_limit(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": "MemAvailable: 100 kB\n", **V2})
    assert host_memory.available(tmp_path) == 100 * 1024


EVENTS = "low 0\nhigh 0\nmax 7\noom 3\noom_kill {}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
OF_HOST = {"memory.events": EVENTS.format(9)}
OF_HOST |= {"a.slice/run.service/memory.events": EVENTS.format(1)}
OF_POD = {"memory/memory.oom_control": CONTROL.format(4)}
OF_POD |= {"memory/kubepods/pod1/memory.oom_control": CONTROL.format(5)}
V1_GROUPS = "4:memory:/kubepods/pod1\n3:cpu,cpuacct:/\n0::/\n"


@pytest.mark.parametrize(
    ("cgroup", "counters", "kills"),
    [
        ("0::/\n", {"memory.events": EVENTS.format(2)}, 2),
        ("0::/a.slice/run.service\n", OF_HOST, 1),
        (V1_GROUPS, {"memory/memory.oom_control": CONTROL.format(4)}, 4),
        (V1_GROUPS, OF_POD, 5),
        ("0::/\nmalformed\n", {"memory.events": "max 7\n"}, None),
    ],
    ids=["v2 in a container", "v2 on a host", "v1 in a container", "v1", "before Linux 4.19"],
)
def test_the_counter_of_the_own_cgroup(
    tmp_path: Path, cgroup: str, counters: dict[str, str], kills: int | None
) -> None:
    assert oom_kills(tmp_path) is None
    files = {f"sys/fs/cgroup/{name}": text for name, text in counters.items()}
    write(tmp_path, {"proc/self/cgroup": cgroup, **files})
    assert oom_kills(tmp_path) == kills
