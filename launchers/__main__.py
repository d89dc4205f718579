"""``python3 -m launchers COMMAND``: see ``command.py``, and ``state/command.py``."""

import os
import signal
import sys

if __name__ == "__main__":
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:  # closed by the starter: a file would take its number
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, os.fdopen(opened, mode))

    # The kernel drops a SIGTERM to PID 1 until there is a handler, and the imports take a while.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    # The chart's command blocks it, so that one which arrives before this handler stays pending.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    if sys.argv[1:2] in (["state"], ["clean"]):
        from launchers.state import command as reading

        sys.exit(reading.main(sys.argv[1:], os.environ))

    from launchers import logs
    from launchers.command import main
    from launchers.system import process

    exit_code = main(sys.argv[1:], os.environ)
    process.kill_descendants()  # a signal may have arrived between a child's start and its record
    logs.flush()
    os._exit(exit_code)  # without joining threads: a download may still hang in a read
