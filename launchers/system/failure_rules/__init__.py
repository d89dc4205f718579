"""Patterns of messages that state why training ended, each with its class, exit code and remedy.

The only table of such patterns; git's own messages are in ``stages/git.py``. Add a row for a new
message to ``causes.py`` or ``rules.py``, and the message to ``tests/attribution/``.
"""
