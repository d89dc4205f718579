"""A workspace that returns EIO in one container for a while: the kernel's answer to every path.

``python -m tests.e2e.storage_errors PID FOLDER SECONDS`` enters the mount namespace of a process,
mounts a FUSE file system over the folder, and answers all its requests with EIO. Files that are
open already are those of the mount below. Root on Linux; FUSE's protocol is that of
``include/uapi/linux/fuse.h``.
"""

import ctypes
import errno
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.helm import ROOT

_NEW_MOUNTS, _DETACH, _NO_SUID_OR_DEVICES = 0x00020000, 2, 0x2 | 0x4
_REQUEST = struct.Struct("=IIQQIIIHH")
_ANSWER = struct.Struct("=IiQ")
_INIT, _UNANSWERED = 26, (2, 36, 42)
"""Opcodes: INIT; FORGET, INTERRUPT and BATCH_FORGET, which expect no answer."""
_LONGEST = 1 << 20
_VERSION = (7, 31)


@contextmanager
def returned(pid: int, folder: str, seconds: float) -> Iterator[None]:
    """Let all paths below a folder fail in a process's mount namespace, from the block's begin.

    Args:
        pid: of a process in the container.
        folder: a mount point in the container.
        seconds: after which the folder is as it was; the block's end waits for it.

    Raises:
        RuntimeError: it could not be mounted, or did not end by itself.
    """
    command = [sys.executable, "-m", __spec__.name, str(pid), folder, str(seconds)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        if server.stdout.readline() != "mounted\n":
            raise RuntimeError(f"{folder} of process {pid} still answers")
        yield
        if server.wait(seconds + 10):
            raise RuntimeError(f"{folder} of process {pid} may not have been restored")
    finally:
        server.kill()
        server.wait()


def main(pid: int, folder: str, seconds: float) -> None:
    """Mount, answer, and unmount."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *words: object) -> None:
        if getattr(libc, name)(*words):
            raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")

    device = os.open("/dev/fuse", os.O_RDWR)
    place = folder.encode()
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    call("setns", os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), _NEW_MOUNTS)
    call("mount", b"errors", place, b"fuse", _NO_SUID_OR_DEVICES, options)
    print("mounted", flush=True)
    try:
        answer(device, time.monotonic() + seconds)
    finally:
        call("umount2", place, _DETACH)


def answer(device: int, stop: float) -> None:
    """Answer requests with EIO until a time."""
    while (left := stop - time.monotonic()) > 0:
        if not select.select([device], [], [], left)[0]:
            return
        request = os.read(device, _LONGEST)
        _, code, unique, *_ = _REQUEST.unpack_from(request)
        if code == _INIT:
            limits = struct.pack("=IIHHIIHHI28x", 0, 0, 16, 12, 4096, 1, 0, 0, 0)
            content = struct.pack("=II", *_VERSION) + limits
            os.write(device, _ANSWER.pack(_ANSWER.size + len(content), 0, unique) + content)
        elif code not in _UNANSWERED:
            os.write(device, _ANSWER.pack(_ANSWER.size, -errno.EIO, unique))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
