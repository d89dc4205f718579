"""`megatron-dpo stop`, `resume`, `rerun` and `clean`: change a run.

The first three compute a plan, a pure function of the `View`: what is done, in words, and the
requests. `command.py` prints it, asks, and sends it. `contents.py` is a program of its own, which
lists and removes runs where the workspace is mounted, here or in a pod; `cleaning.py` chooses the
place, asks, and runs it there.
"""
