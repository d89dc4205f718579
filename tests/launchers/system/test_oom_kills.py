from pathlib import Path

from launchers.system.host_memory import oom_kills

EVENTS = "low 0\nhigh 0\nmax 7\noom 3\noom_kill {}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_container_of_cgroup_v2_has_its_counter_at_the_mount_point(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(tmp_path / "sys/fs/cgroup/memory.events", EVENTS.format(2))
    assert oom_kills(tmp_path) == 2


def test_a_process_of_a_host_has_its_counter_in_its_own_cgroup(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/system.slice/run.service\n")
    write(tmp_path / "sys/fs/cgroup/system.slice/run.service/memory.events", EVENTS.format(1))
    write(tmp_path / "sys/fs/cgroup/memory.events", EVENTS.format(9))
    assert oom_kills(tmp_path) == 1


def test_cgroup_v1_counts_in_memory_oom_control(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/kubepods/pod1\n3:cpu,cpuacct:/\n0::/\n")
    control = tmp_path / "sys/fs/cgroup/memory/memory.oom_control"
    write(control, CONTROL.format(4))
    assert oom_kills(tmp_path) == 4  # a container sees its own cgroup as the root
    write(control.parent / "kubepods/pod1/memory.oom_control", CONTROL.format(5))
    assert oom_kills(tmp_path) == 5


def test_without_a_counter_nothing_is_known(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None
    write(tmp_path / "proc/self/cgroup", "0::/\nmalformed\n")
    write(tmp_path / "sys/fs/cgroup/memory.events", "max 7\n")  # before Linux 4.19
    assert oom_kills(tmp_path) is None
