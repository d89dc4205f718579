"""`megatron-dpo submit`: plan, check, install, and follow a run until it works.

`command.py` is the order of these steps; `follow.py` prints why the run waits each time that
changes, and decides when the wait is over; `webhook.py` sends the run's messages while it has no
pods.
"""
