"""`megatron-dpo stop`, `resume`, `rerun` and `clean`: change a run.

Each verb first computes a plan, a pure function of the `View`: what it does, in words, and the
requests. `command.py` prints it, asks, and sends it. `inventory.py` is a program
of its own, which also runs in a pod, and lists what the workspace holds; `removal.py` removes runs
from a mounted workspace.
"""
