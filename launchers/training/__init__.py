"""Code that is loaded into ms-swift's training processes.

May import every package but ``stages`` and ``run``.
"""
