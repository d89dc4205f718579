"""``python3 -m tests.gpu.gradients``."""

import sys

from tests.gpu import host
from tests.gpu.gradients.command import main

if __name__ == "__main__":
    sys.exit(host.run(main))
