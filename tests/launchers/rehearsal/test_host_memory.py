from __future__ import annotations

from pathlib import Path

import pytest

from launchers.rehearsal import host_memory
from launchers.rehearsal.host_memory import HostMemory

MEMINFO = "MemTotal:       1000 kB\nMemFree: 1 kB\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_the_page_cache_of_files_does_not_count(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/meminfo": MEMINFO,
            "sys/fs/cgroup/memory.current": "500\n",
            "sys/fs/cgroup/memory.max": "800\n",
            "sys/fs/cgroup/memory.stat": "anon 1\nshmem 7\nactive_file 50\ninactive_file 150\n",
        },
    )
    assert host_memory.read(tmp_path) == HostMemory(used=300, limit=800)


@pytest.mark.parametrize("limit", ["max", "99999999"])
def test_without_a_smaller_limit_the_hosts_memory_is_the_limit(tmp_path: Path, limit: str) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a\n",
            "proc/meminfo": MEMINFO,
            "sys/fs/cgroup/a/memory.current": "500\n",
            "sys/fs/cgroup/a/memory.max": limit,
        },
    )
    assert host_memory.read(tmp_path) == HostMemory(used=500, limit=1_024_000)


def test_cgroup_v1_has_other_names(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/pod\n0::/\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "500",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "800",
            "sys/fs/cgroup/memory/memory.stat": (
                "inactive_file 1\ntotal_active_file 120\ntotal_inactive_file 80\n"
            ),
        },
    )
    assert host_memory.read(tmp_path) == HostMemory(used=300, limit=800)


def test_without_a_cgroup_the_processes_of_the_launcher_count(tmp_path: Path) -> None:
    assert host_memory.read(tmp_path) is None
    found = host_memory.read()
    assert found is not None and found.used > 1 << 20
