"""``python3 -m tests.gpu.reference``."""

import sys

from tests.gpu import host
from tests.gpu.reference.command import main

if __name__ == "__main__":
    sys.exit(host.run(main))
