"""``python3 -m tests.gpu.ablation``."""

import sys

from tests.gpu import host
from tests.gpu.ablation.command import main

if __name__ == "__main__":
    sys.exit(host.run(main))
