"""``python3 -m tests.gpu.bench``."""

import sys

from tests.gpu import host
from tests.gpu.bench.command import main

if __name__ == "__main__":
    sys.exit(host.run(main))
