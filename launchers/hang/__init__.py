"""Hangs: when processes count as hanging, what they are doing then, and which rank is the cause.

May import ``config``, ``system`` and ``storage``.
"""
