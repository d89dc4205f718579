"""The program of ``warm.python``, with its constants in a file of its own.

The server runs what it is given; the training Python does without the server, for other options,
and where a variable differs that ms-swift reads when it is imported.
"""

import json
import os
import signal
import socket
import struct
import sys


def main() -> None:
    """Have the server run it, and end as it ends."""
    with open(f"{__file__}.json", encoding="utf-8") as file:  # noqa: PTH123, a sooner start
        known = json.load(file)
    imported = {
        name: text
        for name, text in os.environ.items()
        if name.startswith(tuple(known["read"])) and name not in known["hub"]
    }
    argv = sys.argv[1:]
    path = ":".join(dict.fromkeys(os.environ.get("PYTHONPATH", "").split(":")))
    rest = [word for word in argv if word != "-u"]
    is_known = bool(rest) and (rest[0] in ("-c", "-m") or not rest[0].startswith("-"))
    server = socket.socket(socket.AF_UNIX)
    try:
        if not is_known or imported != known["imported"] or path not in known["paths"]:
            raise OSError
        server.connect(known["socket"])
    except OSError:
        os.execv(known["python"], [known["python"], *argv])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda given, _: server.sendall(bytes([given])))
    request = {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109
    text = json.dumps(request).encode()
    socket.send_fds(server, [struct.pack("I", len(text))], [0, 1, 2])
    server.sendall(text)
    answer = server.recv(4)
    if not answer:
        sys.exit("the server of warmed processes has ended")
    [status] = struct.unpack("i", answer)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


main()
