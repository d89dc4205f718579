"""The rehearsal of a run: a few steps, a save, a kill, a resume, an export, and their report.

May import ``inputs`` and what is below it.
"""
