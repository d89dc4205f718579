"""Save at a step boundary, by time, or to stop because the pod received SIGTERM.

``watch`` is the launcher's part, ``agreement`` the gang's; the rest runs in the training processes.
"""
