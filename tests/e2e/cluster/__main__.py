"""`python -m tests.e2e.cluster`, the same as `megatron-dpo cluster`."""

import sys

from scripts.cli import main

main(["cluster", *sys.argv[1:]])
