"""Ends of a rank of `ranks_on_cpu.py`."""

from __future__ import annotations

import os
import sys


def end() -> None:
    """End a rank with exit code 0, without the end of its Python.

    A thread of gloo that returns to a Python that is ending aborts the process ("terminate called
    without an active exception", torch 2.11 on a busy machine).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
