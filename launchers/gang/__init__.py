"""The gang: all ranks of one run, which join, start and end together.

May import ``storage`` and below.
"""
