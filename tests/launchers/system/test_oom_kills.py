from pathlib import Path

import pytest

from launchers.system.host_memory import oom_kills
from tests.launchers.system.test_host_memory import write

EVENTS = "low 0\nhigh 0\nmax 7\noom 3\noom_kill {}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
OF_HOST = {"memory.events": EVENTS.format(9)}
OF_HOST |= {"a.slice/run.service/memory.events": EVENTS.format(1)}
OF_POD = {"memory/memory.oom_control": CONTROL.format(4)}
OF_POD |= {"memory/kubepods/pod1/memory.oom_control": CONTROL.format(5)}
V1 = "4:memory:/kubepods/pod1\n3:cpu,cpuacct:/\n0::/\n"


@pytest.mark.parametrize(
    ("cgroup", "counters", "kills"),
    [
        ("0::/\n", {"memory.events": EVENTS.format(2)}, 2),
        ("0::/a.slice/run.service\n", OF_HOST, 1),
        (V1, {"memory/memory.oom_control": CONTROL.format(4)}, 4),
        (V1, OF_POD, 5),
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
