"""Does what the start of a training does with model and data; prints which hosts it looked up.

Run by a test in the training environment: ``sockets_case.py MODEL PAIRS``.
"""

import json
import socket
import sys
from typing import Any

NEAR = ("127.0.0.1", "::1", "localhost", socket.gethostname())
FAR: list[str] = []


def note(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name not in NEAR:
        FAR.append(name)
        raise OSError(f"the network is cut: {name}")


def cut() -> None:
    """Make every look-up and connection outside this machine fail, and report it."""
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def connecting(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            note(address[0])
        connect(self, address)

    def resolving(host: Any, *args: Any, **kwargs: Any) -> Any:
        note(host)
        return resolve(host, *args, **kwargs)

    socket.socket.connect = connecting  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = resolving


def main(model: str, pairs: str) -> None:
    cut()
    from swift.dataset import load_dataset
    from swift.model import get_model_info_meta
    from swift.utils import safe_snapshot_download
    from transformers import AutoTokenizer

    safe_snapshot_download(model, use_hf=False)
    get_model_info_meta(model, model_type="qwen3")
    AutoTokenizer.from_pretrained(model)
    load_dataset([pairs])
    print(json.dumps(FAR))


if __name__ == "__main__":
    main(*sys.argv[1:])
