"""One run on one node, from the first check to the export.

May import every package but ``training``.
"""
