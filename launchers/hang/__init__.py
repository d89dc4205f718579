"""Hangs: when processes count as hanging, what they are doing then, and which rank is the cause.

``watch`` is the launcher's part, ``agreement`` the gang's, ``heartbeat`` that of the training
processes; ``settings`` is parsed with all others.
"""
