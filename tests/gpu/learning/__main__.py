"""``python3 -m tests.gpu.learning``."""

import sys

from tests.gpu import host
from tests.gpu.learning.command import main

if __name__ == "__main__":
    sys.exit(host.run(main))
