"""The launcher's command line of torchrun, parsed by the stand-ins for it.

``tests/e2e/pods/trainer.py`` has its own parser: a pod mounts that file alone.
"""

import argparse


def parse() -> argparse.Namespace:
    """Parse ``sys.argv``; all flags that the launcher gives are required."""
    parser = argparse.ArgumentParser()
    for flag in ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port"):
        parser.add_argument(f"--{flag}", required=True)
    for flag in ("max-restarts", "log-dir", "redirects", "tee"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    return parser.parse_args()
