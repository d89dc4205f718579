"""Remedies as changes: of a values file (`plan --fix`) or as a command (`why --fix`).

A refusal's own words hold its remedy: `words.py` reads them, `text.py` edits a values file and
keeps its comments, `files.py` chooses the file, `command.py` plans each change before it is shown.
"""
