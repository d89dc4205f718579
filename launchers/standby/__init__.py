"""What the next attempt finds ready: processes started in advance, and host memory of the last one.

The launcher's part, and the message to the processes, whose own part is in ``training/standby``;
imports ``system`` and below.
"""
