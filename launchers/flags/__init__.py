"""Flags of ms-swift: which exist, what they take, and the command line made of them.

May import ``storage`` and below.
"""
