"""Fixtures of the tests of the command: its call, and a cluster with a run."""

from tests.scripts.calling import call
from tests.scripts.observe.fixtures import api, cluster, workspace

__all__ = ["api", "call", "cluster", "workspace"]
