import os
import subprocess
import sys
from pathlib import Path

from launchers.system.proc_stat import read_stat


def test_a_running_process_has_a_parent_and_a_start() -> None:
    stat = read_stat("self")
    assert stat is not None and stat == read_stat(os.getpid())
    assert stat.parent == os.getppid() and stat.start_ticks > 0 and not stat.has_ended


def test_a_name_with_spaces_and_brackets_does_not_shift_the_fields(tmp_path: Path) -> None:
    odd = tmp_path / "a) b (c"
    odd.symlink_to("/bin/sleep")
    process = subprocess.Popen([odd, "60"])
    try:
        stat = read_stat(process.pid)
        assert stat is not None and stat.parent == os.getpid()
    finally:
        process.kill()
        process.wait()


def test_a_zombie_has_ended_and_a_reaped_process_has_no_state() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()  # the end of the output: it exits now
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    stat = read_stat(process.pid)
    assert stat is not None and stat.has_ended
    process.wait()
    assert read_stat(process.pid) is None
