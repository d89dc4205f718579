"""The ranks of one run: who joins, when all start, how the end of one reaches the others.

May import ``storage`` and below.
"""
