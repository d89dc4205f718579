"""Clone, download, convert, train, export: each idempotent, each one module.

May import ``inputs`` and below.
"""
