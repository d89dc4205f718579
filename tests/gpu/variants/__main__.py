"""``python3 -m tests.gpu.variants``."""

import sys

from tests.gpu import host
from tests.gpu.variants.command import main

if __name__ == "__main__":
    sys.exit(host.run(main))
