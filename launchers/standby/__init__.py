"""What the next attempt finds ready: processes started in advance, and host memory of the last one.

``standby`` and ``kept_memory`` are the launcher's part, ``agent`` and ``worker`` the processes'.
"""
