"""Stacks of the training processes: a signal makes each write those of all its threads.

The handler is C code of ``faulthandler``: it needs neither the interpreter lock nor memory, so that
it also works while C code keeps the lock. The file is on the node's own disk, because the
workspace may be what hangs.
"""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

FOLDER = "DPO_HANG_FOLDER"
"""Environment variable of the training processes: the launcher's folder for their stacks."""
SIGNAL = signal.SIGRTMIN + 8 if sys.platform == "linux" else signal.SIGUSR1
"""ms-swift may handle SIGUSR1 and SIGUSR2 itself (``swift/utils/shutdown_manager.py``)."""
SECONDS = 3.0
"""Time in which a process that runs writes its stacks."""
FRAMES = 12
"""Frames of the main thread that are reported, the innermost first."""
PY_SPY_SECONDS = 5.0
_THREAD = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+).*:$")
_FRAME = re.compile(r'^  File "([^"]*)", line (\d+|\?\?\?) in (.+)$')


def path_of(folder: Path, local_rank: int) -> Path:
    """Return the file of one process."""
    return folder / f"stacks-{local_rank}.txt"


def size(file: Path) -> int:
    """Return the bytes of a file; 0 without one, or if its disk gives an error."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def header(thread: int) -> str:
    r"""Return the first line of the file: which of the threads is the main one.

    >>> header(0x7F00)
    'main thread 0x0000000000007f00\n'
    """
    return f"main thread {thread:#018x}\n"


def main_frames(text: str, dump: str) -> tuple[str, ...]:
    r"""Return the main thread's frames in a dump as ``file:line function``, the innermost first.

    ``dump`` is the part of ``text`` that the last signal added.

    >>> dump = 'Current thread 0x0000000000000001 (most recent call first):\n'
    >>> dump += '  File "/x/dataloader.py", line 7 in __next__\n'
    >>> main_frames(header(1) + dump, dump)
    ('/x/dataloader.py:7 __next__',)
    """
    main = text.partition("\n")[0].removeprefix("main thread ")
    found: list[str] = []
    is_main = False
    for line in dump.splitlines():
        if (thread := _THREAD.match(line)) is not None:
            is_main = thread.group(1) == main
        elif is_main and (frame := _FRAME.match(line)) is not None:
            found.append("{}:{} {}".format(*frame.groups()))
    return tuple(found[:FRAMES])


def py_spy(pid: int) -> bytes:
    """Return the stacks that py-spy reads from outside, also of a stopped process; best effort.

    Without SYS_PTRACE the kernel may forbid it; empty then, and without py-spy.
    """
    program = shutil.which("py-spy")
    if program is None:
        return b""
    try:
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PY_SPY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout
