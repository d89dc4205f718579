"""Load model and data as the start of a training does; print the hosts that it contacts.

A test runs it in the training environment: ``offline_start.py MODEL PAIRS``.
"""

import json
import socket
import sys
from typing import Any

LOCAL = ("127.0.0.1", "::1", "localhost", socket.gethostname())
CONTACTED: list[str] = []


def record(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name not in LOCAL:
        CONTACTED.append(name)
        raise OSError(f"the network is blocked: {name}")


def block_network() -> None:
    """Make every lookup and connection outside this machine fail, and record it."""
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def connecting(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            record(address[0])
        connect(self, address)

    def resolving(host: Any, *args: Any, **kwargs: Any) -> Any:
        record(host)
        return resolve(host, *args, **kwargs)

    socket.socket.connect = connecting  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = resolving


def main(model: str, pairs: str) -> None:
    block_network()
    from swift.dataset import load_dataset
    from swift.model import get_model_info_meta
    from swift.utils import safe_snapshot_download
    from transformers import AutoTokenizer

    safe_snapshot_download(model, use_hf=False)
    get_model_info_meta(model, model_type="qwen3")
    AutoTokenizer.from_pretrained(model)
    load_dataset([pairs])
    print(json.dumps(CONTACTED))


if __name__ == "__main__":
    main(*sys.argv[1:])
