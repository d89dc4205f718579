"""An evaluation that a stop has left: the attempt that resumes makes it first."""

_left: list[bool] = []


def note() -> None:
    """Note that the evaluation of this step is left."""
    _left.append(True)


def is_noted() -> bool:
    """Return whether an evaluation of this process was left."""
    return bool(_left)
