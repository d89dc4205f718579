"""Hangs: when training processes count as hanging, what they are doing then, and whose fault it is.

May import ``config``, ``system`` and ``storage``.
"""
