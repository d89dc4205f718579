"""The stages of a run: clone, download, convert, train, export. Each is idempotent.

May import ``inputs`` and below.
"""
