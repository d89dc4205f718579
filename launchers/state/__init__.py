"""What a run has left on its workspace, for people: ``python3 -m launchers state`` and ``clean``.

May import ``stages`` and below.
"""
