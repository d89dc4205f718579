"""Fixtures of the tests about runs in a cluster."""

from tests.scripts.observe.fixtures import api, cluster, workspace

__all__ = ["api", "cluster", "workspace"]
