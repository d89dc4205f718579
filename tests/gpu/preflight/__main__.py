"""``python3 -m tests.gpu.preflight``."""

import sys

from tests.gpu.preflight.command import main

if __name__ == "__main__":
    sys.exit(main())
