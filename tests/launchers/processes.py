from launchers.system.proc_stat import read_stat


def is_running(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and not stat.has_ended
