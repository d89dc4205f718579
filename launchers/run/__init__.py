"""One run on one node, from the first check to the export: read ``run.py`` first.

May import every package but ``training``.
"""
