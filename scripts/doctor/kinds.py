"""Kinds of objects that the doctor looks at, and where the API serves them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A resource of the API."""

    plural: str
    group: str = ""
    """API group; empty: core."""
    version: str = "v1"
    namespaced: bool = True

    def path(self, namespace: str, name: str = "") -> str:
        """The path of one object, or of the collection.

        >>> PODS.path("team"), NODES.path("team", "n1")
        ('/api/v1/namespaces/team/pods', '/api/v1/nodes/n1')
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "")


KUEUE = "kueue.x-k8s.io"
JOBSET = "jobset.x-k8s.io"

JOBSETS = Kind(plural="jobsets", group=JOBSET, version="v1alpha2")
LOCAL_QUEUES = Kind(plural="localqueues", group=KUEUE, version="v1beta2")
CLUSTER_QUEUES = Kind(plural="clusterqueues", group=KUEUE, version="v1beta2", namespaced=False)
FLAVORS = Kind(plural="resourceflavors", group=KUEUE, version="v1beta2", namespaced=False)
TOPOLOGIES = Kind(plural="topologies", group=KUEUE, version="v1beta2", namespaced=False)
COHORTS = Kind(plural="cohorts", group=KUEUE, version="v1beta2", namespaced=False)
PRIORITIES = Kind(
    plural="workloadpriorityclasses", group=KUEUE, version="v1beta2", namespaced=False
)
NAMESPACES = Kind(plural="namespaces", namespaced=False)
NODES = Kind(plural="nodes", namespaced=False)
PODS = Kind(plural="pods")
SECRETS = Kind(plural="secrets")
CONFIG_MAPS = Kind(plural="configmaps")
SERVICES = Kind(plural="services")
ACCOUNTS = Kind(plural="serviceaccounts")
CLAIMS = Kind(plural="persistentvolumeclaims")
QUOTAS = Kind(plural="resourcequotas")
CLASSES = Kind(plural="storageclasses", group="storage.k8s.io", namespaced=False)
DEPLOYMENTS = Kind(plural="deployments", group="apps", namespaced=False)
"""Of all namespaces: the controllers' is chosen by whoever installed them."""
REVIEWS = Kind(plural="selfsubjectaccessreviews", group="authorization.k8s.io", namespaced=False)
