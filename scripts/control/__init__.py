"""`megatron-dpo stop`, `resume`, `rerun` and `clean`: change a run.

The first three compute a plan, a pure function of the `View`: what is done, in words, and the
requests. `command.py` prints it, asks, and sends it. `launchers/state/contents.py` lists
and removes runs where the workspace is mounted, here or in a pod; `cleaning.py` chooses the
place, asks, and runs it there.
"""
