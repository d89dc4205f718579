"""Run a command with a name server that receives queries and never answers.

Start it with ``unshare --user --map-root-user --mount --net``: it changes only its own namespaces.
"""

import socket
import subprocess
import sys
from pathlib import Path


def main(scratch: Path, command: list[str]) -> int:
    """Set up the network and the name server, then run the command."""
    (scratch / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(
        ["mount", "--bind", str(scratch / "resolv.conf"), "/etc/resolv.conf"], check=True
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        print("silent", flush=True)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
