"""The sources and the run that the trainings of a file share."""

from tests.launchers.run.trained import given, undisturbed

__all__ = ["given", "undisturbed"]
