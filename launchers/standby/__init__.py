"""The next attempt's processes, started in advance: the launcher's part, and the message to them.

What these processes do is in ``training/standby``; imports ``system`` and below.
"""
