"""Pod parts drawn from Kubernetes' OpenAPI: most fields right, a few wrong, some at the edge.

The structure comes from the OpenAPI and not from the chart's schema, so that a rule that the
schema lacks is found. The same seed draws the same parts.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.dev import pod_rules
from scripts.dev.pod_rules import Schema
from tests.chart.helm import Document

WRONG = 0.05
"""Share of the leaves that are drawn from what is wrong or at the edge."""
LONG = "a" * 64
TEXTS = (
    "",
    " ",
    "..",
    "../a",
    "a/../b",
    "/a",
    "a b",
    "a\u00a0b",
    "a\tb",
    "A",
    "-a",
    "a-",
    "a_b",
    "a..b",
    LONG,
    "a" * 254,
    "true",
    "é",
    "a:b",
    "a/b",
    "a/b/c",
    "Exists",
    ".",
    "..a",
    "0",
)
NUMBERS = (-1, 0, 1, 255, 256, 511, 512, 0o1777, 599, 600, 2**31 - 1, 2**31, 2**32 + 1)
QUANTITIES = ("512Ki", "1Gi", "1.5Gi", "2M", "2e9", ".5Gi", "1100000.", 3_000_000_000, "100Mi")
"""Of bytes: the chart refuses a small number without a unit."""
COUNTS = ("1", "500m", 3, "1.", "2e1")
"""Of processors; the whole ones of devices."""
NO_QUANTITIES = ("64ki", "1GiB", "1 Gi", "-1", "1mi", "0x10", "", "1e", "Gi", "1_000", "+1", "1K")
EDGE_QUANTITIES = ("512", "500m", "0", "1n", "5u", "1E", "0.0001", "1e-3", 0, 1.5, "1Ei")
Pool = tuple[Sequence[Any], Sequence[Any]]
"""Right values and wrong ones."""
NAMES: Pool = (("a", "data", "b-1"), TEXTS)
PATHS: Pool = (("a", "a/b", "x.txt", "..data"), TEXTS)
LABELS: Pool = (("example.com/a", "zone", "kubernetes.io/hostname"), TEXTS)
LABEL_VALUES: Pool = (("a", "a-1", "A_b", ""), ("a b", LONG, "-a", "a/b", "é", "a\u2003b"))
MODES: Pool = ((0, 0o440, 0o644, 0o777), NUMBERS)
IDS: Pool = ((0, 1000, 2**31 - 1), NUMBERS)
SELECTOR: Pool = (("In", "NotIn", "Exists", "DoesNotExist"), ("Gt", "in", "", "Equal"))
ADDRESSES: Pool = (("10.0.0.1", "fd00::1"), ("", "10.0.0", "10.0.0.01", "a", "10.0.0.1/8", "::g"))
PORTS: Pool = ((443, "https", 1), (0, 65536, "", "a_b", "Https", "a" * 16, "1", "a--b", "-a"))
POOLS: Mapping[str, Pool] = {
    "AppArmorProfile.type": (("Localhost", "RuntimeDefault", "Unconfined"), TEXTS),
    "Capabilities.add[]": (
        ("IPC_LOCK", "SYS_NICE"),
        ("ipc_lock", "CAP_IPC_LOCK", "", "A B", "IPC_LOK"),
    ),
    "Capabilities.drop[]": (("ALL", "NET_RAW"), ("all", "", "A B")),
    "ContainerPort.containerPort": ((9400, 1, 65535), (0, 65536, -1)),
    "ContainerPort.name": (("admin", "p-1"), PORTS[1][2:]),
    "ContainerPort.protocol": (("TCP", "UDP"), ("tcp", "", "ICMP")),
    "CSIVolumeSource.driver": (("efs.csi.aws.com", "Csi.X"), TEXTS),
    "ContainerResizePolicy.resourceName": (("cpu", "memory"), ("gpu", "")),
    "ContainerResizePolicy.restartPolicy": (("NotRequired",), ("RestartContainer", "never", "")),
    "EnvFromSource.prefix": (("A_", "", "tracker"), (*TEXTS, "A B", "1A", "A=", "DPO_", "PET_")),
    "EmptyDirVolumeSource.medium": (("", "Memory", "HugePages"), ("Disk", "memory", "HugePages-1")),
    "GRPCAction.port": ((443,), NUMBERS),
    "HTTPGetAction.port": PORTS,
    "HTTPGetAction.scheme": (("HTTP", "HTTPS"), ("http", "", "TCP")),
    "HTTPHeader.name": (("Accept", "X-A"), TEXTS),
    "HostPathVolumeSource.path": (("/mnt", "/a/b", "/"), (*TEXTS, "/a/../b", "/a:b")),
    "HostPathVolumeSource.type": (("", "Directory", "File"), ("directory", "Dir", " ")),
    "ImageVolumeSource.pullPolicy": (("Always", "Never", "IfNotPresent"), ("always", "")),
    "HostAlias.hostnames[]": (("hub", "hub.example.com"), TEXTS),
    "HostAlias.ip": ADDRESSES,
    "IPBlock.cidr": (("10.0.0.0/8", "fd00::/8"), ("10.0.0.0", "10.0.0.0/33", "a/8", "", "10/8")),
    "IPBlock.except[]": (("10.1.0.0/16",), ("10.1.0.0", "11.0.0.0/8", "10.0.0.0/8", "")),
    "ISCSIVolumeSource.initiatorName": (("iqn.2015-02.example.com:a",), TEXTS),
    "ISCSIVolumeSource.iqn": (("iqn.2015-02.example.com:a", "eui.0123456789ABCDEF"), TEXTS),
    "LabelSelectorRequirement.key": LABELS,
    "LabelSelectorRequirement.operator": SELECTOR,
    "LabelSelectorRequirement.values[]": LABEL_VALUES,
    "NFSVolumeSource.path": (("/export", "/"), (*TEXTS, "/a/../b")),
    "NFSVolumeSource.server": (("10.0.0.1", "nfs.example.com", "fd00::1"), TEXTS),
    "NetworkPolicyPort.endPort": ((444, 65535), (0, 1, 65536, -1)),
    "NetworkPolicyPort.port": PORTS,
    "NetworkPolicyPort.protocol": (("TCP", "UDP", "SCTP"), ("tcp", "", "ICMP")),
    "NodeSelectorRequirement.key": (("zone", "metadata.name", "example.com/a"), TEXTS),
    "NodeSelectorRequirement.operator": ((*SELECTOR[0], "Gt", "Lt"), ("in", "", "Equal")),
    "NodeSelectorRequirement.values[]": (("a", "1", "node-1"), (*LABEL_VALUES[1], "", "a.b.c")),
    "ObjectFieldSelector.apiVersion": (("v1",), ("v2", "apps/v1", "")),
    "ObjectFieldSelector.fieldPath": (
        ("metadata.name", "metadata.uid", "metadata.labels['a']", "metadata.annotations['x.io/a']"),
        (
            "metadata.labels",
            "spec.nodeName",
            "status.podIP",
            "status.hostIPs",
            "spec.foo",
            "",
            "metadata.labels['a b']",
            "metadata.labels['']",
            "metadata.name['a']",
            "status.ip",
        ),
    ),
    "PersistentVolumeClaimSpec.accessModes[]": (
        ("ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"),
        ("ReadWriteOncePod", "RWX", "readwritemany", ""),
    ),
    "PersistentVolumeClaimSpec.volumeMode": (("Filesystem",), ("Block", "filesystem", "")),
    "PodDNSConfig.nameservers[]": ADDRESSES,
    "PodDNSConfig.searches[]": (("example.com", "corp", "a.b."), (*TEXTS, "Example.com", ".")),
    "PodDNSConfigOption.name": (("ndots", "edns0"), ("", " ", "a b")),
    "PodReadinessGate.conditionType": LABELS,
    "PodResourceClaim.name": NAMES,
    "PodResourceClaim.resourceClaimName": NAMES,
    "PodResourceClaim.resourceClaimTemplateName": NAMES,
    "PodAffinityTerm.topologyKey": LABELS,
    "PodAffinityTerm.matchLabelKeys[]": (
        ("example.com/c", "job"),
        (*TEXTS, "zone", "example.com/a", "example.com/b"),
    ),
    "PodAffinityTerm.mismatchLabelKeys[]": (
        ("example.com/b", "rack"),
        (*TEXTS, "zone", "example.com/c"),
    ),
    "PodSpec.activeDeadlineSeconds": ((1, 600), NUMBERS),
    "PodSpec.dnsPolicy": (
        ("None", "ClusterFirst", "ClusterFirstWithHostNet"),
        ("Default", "none", ""),
    ),
    "Probe.successThreshold": ((0, 1), NUMBERS),
    "Probe.terminationGracePeriodSeconds": ((1, 600), NUMBERS),
    "PodSecurityContext.fsGroupChangePolicy": (("Always", "OnRootMismatch"), ("always", "")),
    "PodSecurityContext.supplementalGroups[]": IDS,
    "PodSecurityContext.supplementalGroupsPolicy": (("Merge", "Strict"), ("merge", "")),
    "ResourceFieldSelector.containerName": (("launcher",), ("", "other", "A")),
    "ResourceFieldSelector.divisor": (("1", "1m", "1Mi", "1Gi", "1k"), ("2", "10Mi", "1Ki", "")),
    "ResourceFieldSelector.resource": (
        ("limits.memory", "requests.cpu", "limits.ephemeral-storage", "limits.cpu"),
        ("limits.nvidia.com/gpu", "memory", "limits.", "limits.hugepages-2Mi", "limits.pods", ""),
    ),
    "SeccompProfile.type": (("Localhost", "RuntimeDefault", "Unconfined"), TEXTS),
    "SecurityContext.procMount": (("Default",), ("Unmasked", "default", "")),
    "ServiceAccountTokenProjection.expirationSeconds": ((600, 3600), NUMBERS),
    "SleepAction.seconds": ((0, 1, 300), (-1, 301, 2**31)),
    "Sysctl.name": (
        ("net.core.somaxconn", "kernel.shm_rmid_forced", "net/ipv4/tcp_syncookies"),
        (*TEXTS, "Net.core", "net..core", "net.core.", "vm.max_map_count"),
    ),
    "TCPSocketAction.port": PORTS,
    "Toleration.effect": (("NoSchedule", "NoExecute", ""), ("noschedule", "NoSched", " ")),
    "Toleration.key": LABELS,
    "Toleration.operator": (("Exists", "Equal"), ("exists", "", "In", "Gt")),
    "Toleration.value": LABEL_VALUES,
    "TopologySpreadConstraint.matchLabelKeys[]": (
        ("example.com/b", "rack"),
        (*TEXTS, "zone", "example.com/a", "jobset.sigs.k8s.io/jobset-name"),
    ),
    "TopologySpreadConstraint.maxSkew": ((1, 2), NUMBERS),
    "TopologySpreadConstraint.minDomains": ((1, 2), NUMBERS),
    "TopologySpreadConstraint.nodeAffinityPolicy": (("Honor", "Ignore"), ("honor", "")),
    "TopologySpreadConstraint.nodeTaintsPolicy": (("Honor", "Ignore"), ("ignore", "")),
    "TopologySpreadConstraint.topologyKey": LABELS,
    "TopologySpreadConstraint.whenUnsatisfiable": (
        ("DoNotSchedule", "ScheduleAnyway"),
        ("doNotSchedule", "", "Never"),
    ),
    "VolumeMount.mountPath": (
        ("/x", "/y/z"),
        (*TEXTS, "/a:b", "/x/", "/x/../y", "/usr/lib/a", "/"),
    ),
    "VolumeMount.mountPropagation": (("None", "HostToContainer"), ("Bidirectional", "none", "")),
    "VolumeMount.name": (("one", "two"), (*TEXTS, "shm")),
    "VolumeMount.recursiveReadOnly": (("Disabled",), ("Enabled", "IfPossible", "enabled", "")),
    "Volume.name": (("one", "two"), (*TEXTS, "shm")),
}
"""Values by ``Type.field``; of items of a list by ``Type.field[]``."""
BY_FIELD: Mapping[str, Pool] = {
    **dict.fromkeys(("mode", "defaultMode"), MODES),
    **dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), IDS),
    **dict.fromkeys(("path", "subPath", "subPathExpr", "localhostProfile"), PATHS),
    "lun": ((0, 255), NUMBERS),
    "weight": ((1, 100), (0, 101, -1)),
    "tolerationSeconds": ((0, 300), (-1, 2**31)),
}
CHOICES: Mapping[str, frozenset[str]] = {
    "EnvVarSource": frozenset(),
    "LifecycleHandler": frozenset(),
    "Probe": frozenset({"exec", "grpc", "httpGet", "tcpSocket"}),
    "Volume": frozenset(),
    "VolumeProjection": frozenset(),
}
"""Types with fields of which one must be set: these, or all but the name."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    chance: random.Random
    types: Mapping[str, Schema]

    def of(self, name: str) -> Document:
        given = self.types[name]
        fields = [f for f in sorted(given["properties"]) if f in pod_rules.KEPT.get(name, (f,))]
        fields = [f for f in fields if f not in pod_rules.DROPPED.get(name, ())]
        required = given.get("required", ())
        taken = [f for f in fields if self.chance.random() < (0.98 if f in required else 0.4)]
        if name in CHOICES:
            choices = [f for f in fields if f in (CHOICES[name] or {*fields} - {"name"})]
            taken = [f for f in taken if f not in choices]
            taken += [self.chance.choice(choices)] if self.chance.random() > 0.03 else []
            taken += [self.chance.choice(choices)] if self.chance.random() < 0.03 else []
        return {f: self._value(f"{name}.{f}", given["properties"][f]) for f in taken}

    def pick(self, pool: Pool) -> Any:
        """Draw from a pool: ``WRONG`` of the values from its wrong ones."""
        right, wrong = pool
        return self.chance.choice(wrong if self.chance.random() < WRONG else right)

    def some(self, draw: Callable[[], Any], most: int = 2) -> list[Any]:
        """Draw a list of at least one item, rarely an empty one."""
        count = self.chance.randint(1, most) if self.chance.random() > 0.05 else 0
        return [draw() for _ in range(count)]

    def quantity(self, of: str = "memory") -> Any:
        right = QUANTITIES if of in ("memory", "ephemeral-storage") else COUNTS
        return self.pick((right, (*NO_QUANTITIES, *EDGE_QUANTITIES)))

    def _value(self, path: str, schema: Schema) -> Any:
        if path in POOLS:
            return self.pick(POOLS[path])
        field = path.rpartition(".")[2]
        if field in BY_FIELD:
            return self.pick(BY_FIELD[field])
        if "$ref" in schema:
            name = schema["$ref"].rpartition(".")[2]
            if name == "ObjectMeta":
                return {"labels": {self.pick(LABELS): self.pick(LABEL_VALUES)}}
            return self.quantity() if name == "Quantity" else self.of(name)
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return self._of_kind(path, next(kind for kind in kinds if kind != "null"), schema)

    def _of_kind(self, path: str, kind: str, schema: Schema) -> Any:
        if kind == "array":
            return self.some(lambda: self._value(f"{path}[]", schema["items"]))
        if kind == "object":
            item = schema.get("additionalProperties", {"type": "string"})
            key = "storage" if path.startswith("VolumeResource") else self.pick(LABELS)
            return {key: self._value(f"{path}[]", item)}
        if kind == "boolean":
            return self.chance.random() < 0.5
        return self.pick(((0, 1, 600), NUMBERS) if kind == "integer" else NAMES)
