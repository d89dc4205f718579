"""The process that writes checkpoints, which flushes after each tensor."""

import sys

from launchers.storage import disk
from launchers.training.saving import write_process

if __name__ == "__main__":
    disk.FLUSHED_BYTES = 1
    write_process.main(*map(int, sys.argv[1:]))
