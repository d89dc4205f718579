"""Fixtures of the tests of the command: a cluster with a run."""

from tests.scripts.observe.fixtures import api, cluster, workspace

__all__ = ["api", "cluster", "workspace"]
