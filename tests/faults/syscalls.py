"""Let system calls of this process and its children fail, by a seccomp filter of the kernel.

The faults are real for the program: the kernel returns the error. The filter knows the call's
number only, not the file, and stays until the process ends. Linux on x86-64 and arm64.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {
    "x86_64": {"fsync": 74, "rename": 82, "link": 86},
    "aarch64": {"fsync": 82, "rename": 38, "link": 37},
}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def fail(call: str, error: str) -> None:
    """Let a call fail from now on.

    ``call`` is in ``NUMBERS``, ``error`` a name such as ``EIO``.
    """
    number = NUMBERS[platform.machine()][call]
    instructions = [
        (_LOAD, 0, 0, 0),  # the call's number
        (_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, _ERRNO | getattr(errno, error)),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    program = _Program(len(instructions), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program)
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":  # python -m tests.faults.syscalls CALL ERROR PROGRAM...
    fail(*sys.argv[1:3])
    os.execvp(sys.argv[3], sys.argv[3:])
