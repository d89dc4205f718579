"""The sources that the trainings of a file share."""

from tests.launchers.run.trained import given

__all__ = ["given"]
