"""The operating system: child processes, threads, retries, the installed ms-swift.

May import ``config``.
"""
