"""This process's surroundings: child processes, threads, retries, the installed ms-swift.

May import ``config``.
"""
