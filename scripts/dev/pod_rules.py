r"""Checks of the API server of a pod beyond its OpenAPI, as JSON schema (draft-07).

Source: ``pkg/apis/core/validation/validation.go`` and ``staging/src/k8s.io/apimachinery`` of
Kubernetes. ``make differential-api`` compares the result with a running API server. Patterns are
read by Go (RE2), Python and JavaScript: no lookaround, no ``\s`` for blanks beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
POINTER = "#/definitions/kubernetes/definitions"


def ref(name: str) -> Schema:
    """Return a reference to a generated definition."""
    return {"$ref": f"{POINTER}/{name}"}


def _among(*words: str) -> Schema:
    return {"enum": list(words)}


def _list(item: Schema, **more: int | bool) -> Schema:
    return {"type": "array", "items": item, **more}


def _map(item: Schema) -> Schema:
    return {"type": "object", "propertyNames": ref("labelName"), "additionalProperties": item}


def _text(**more: int | str) -> dict[str, Any]:
    return {"type": "string", **more}


def _whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _one_of(*fields: str) -> Schema:
    return {"oneOf": [{"required": [field]} for field in fields]}


def _when(field: str, words: tuple[str, ...], then: Schema) -> Schema:
    """Return the rule that holds where a field has one of these values."""
    return {"if": {"required": [field], "properties": {field: _among(*words)}}, "then": then}


def _units(*words: str) -> Schema:
    # apart, since Helm 3 takes "1" and 1 in one enum for the same
    return {"anyOf": [_among(*words), {"enum": [1]}]}


def _port() -> Schema:
    # apart from the type, since a number has no pattern
    return {"anyOf": [_whole(1, 65535), ref("portName")]}


def _narrowed(name: str, **more: object) -> Schema:
    return {"allOf": [ref(name), more]}


_LABEL = "[A-Za-z0-9]([-A-Za-z0-9._]{0,61}[A-Za-z0-9])?"
_DNS = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_DNS}([.]{_DNS})*"
BLANKS = "\u0085\u00a0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
"""Blanks and invisible characters beyond ASCII (Unicode: White_Space, and zero-width ones)."""
_SHOWN = f"[^\\x00-\\x20\\x7f-\\x9f{BLANKS}]"
_NO_PARENT: dict[str, Any] = {"not": {"pattern": "(^|/)[.][.](/|$)"}}
_MEMORY = ("1", *(f"1{unit}{i}" for unit in "KMGTPE" for i in ("", "i") if unit + i != "K"), "1k")
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = f"({_BYTE}[.]){{3}}{_BYTE}"
_HEX = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    (
        *(f"({_HEX}:){{7}}{_HEX}", f"({_HEX}:){{1,7}}:", f":(:{_HEX}){{1,7}}", "::"),
        *(f"({_HEX}:){{1,{7 - count}}}(:{_HEX}){{1,{count}}}" for count in range(1, 7)),
    )
)
_ID = _whole(0, 2**31 - 1)
_LUN = _whole(0, 255)
_VALUES: tuple[Schema, ...] = (
    _when("operator", ("In", "NotIn"), {"required": ["values"]}),
    _when("operator", ("In", "NotIn"), {"properties": {"values": {"minItems": 1}}}),
    _when("operator", ("Exists", "DoesNotExist"), {"properties": {"values": {"maxItems": 0}}}),
)
"""An operator of a selector takes values or none."""
_LOCALHOST: Schema = {
    "if": {"required": ["type"], "properties": {"type": {"const": "Localhost"}}},
    "then": {"required": ["localhostProfile"]},
    "else": {"not": {"required": ["localhostProfile"]}},
}

CREDENTIAL = (
    "(^|[^A-Za-z0-9_-])(hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}"
    "|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|(AKIA|ASIA)[0-9A-Z]{16}"
    "|xox[abeprs]-[A-Za-z0-9-]{8,}|sk-[A-Za-z0-9_-]{20,}|AIza[0-9A-Za-z_-]{30,}"
    "|ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-|eyJ[A-Za-z0-9_-]{8,}[.]eyJ[A-Za-z0-9_-]{8,}[.])"
    '|-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY|[A-Za-z][A-Za-z0-9+.-]*://[^/\\s:@"]*:[^/\\s@"]+@'
)
"""Credentials that their form shows; templates/validate/_secrets.tpl refuses them by the same."""

_QUANTITY: Schema = {
    "description": "A quantity, such as 96, 500m, 512Ki, 1.5Gi.",
    "type": ["string", "number"],
    "minimum": 0,
    "maximum": 10**15,
    "pattern": "^([0-9]{1,15}([.][0-9]{0,3})?|[.][0-9]{1,3})(m|k|Ki|[eE][0-9]{1,2})?$"
    "|^([0-9]{1,9}([.][0-9]{0,3})?|[.][0-9]{1,3})Mi?$"
    "|^([0-9]{1,6}([.][0-9]{0,3})?|[.][0-9]{1,3})Gi?$"
    "|^([0-9]{1,3}([.][0-9]{0,3})?|[.][0-9]{1,3})[TP]i?$",
}

SHARED: Mapping[str, Schema] = {
    "absolutePath": _text(pattern=f"^/([^:\\x00-\\x1f\\x7f-\\x9f{BLANKS}]*)$"),
    "amount": {**_QUANTITY, "type": ["string", "number", "null"]},
    "cidr": _text(
        pattern=f"^{_IPV4}/(3[0-2]|[12]?[0-9])$|^({_IPV6})/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$"
    ),
    "capability": _text(pattern="^[A-Z][A-Z0-9_]*$") | {"not": {"pattern": "^CAP_"}},
    "configKey": _text(maxLength=253, pattern="^[-._a-zA-Z0-9]+$")
    | {"not": {"pattern": "^[.]$|^[.][.]"}},
    "dnsLabel": _text(maxLength=63, pattern=f"^{_DNS}$"),
    "dnsName": _text(maxLength=253, pattern=f"^{_SUBDOMAIN}$"),
    "fileMode": _whole(0, 0o777),
    "host": _text(pattern=f"^{_SHOWN}+$") | {"not": {"pattern": "/"}},
    "ip": _text(pattern=f"^({_IPV4}|{_IPV6})$"),
    "iscsiName": _text(
        pattern="^iqn[.][0-9]{4}-[0-9]{2}[.][-A-Za-z0-9.]+(:[^,;*&$|\\s]+)$"
        "|^eui[.][A-Za-z0-9]{16}$|^naa[.][A-Za-z0-9]{32}$"
    ),
    "labelName": _text(maxLength=317, pattern=f"^({_SUBDOMAIN}/)?{_LABEL}$"),
    "labelValue": _text(pattern=f"^$|^{_LABEL}$"),
    "open": {"not": {"pattern": CREDENTIAL}},
    "portName": _text(maxLength=15, pattern="^[a-z0-9]+(-[a-z0-9]+)*$")
    | {"allOf": [{"pattern": "[a-z]"}]},
    "quantity": _QUANTITY,
    "relativePath": _text(minLength=1, pattern=f"^[^/]([^\\x00-\\x1f\\x7f-\\x9f{BLANKS}]*)$")
    | {"not": {"pattern": "^[.][.]|/[.][.](/|$)"}},
    "word": _text(pattern=f"^{_SHOWN}+$"),
}
"""One definition of each form that several fields have."""

KEPT: Mapping[str, tuple[str, ...]] = {
    "Container": (
        *("lifecycle", "name", "readinessProbe", "resizePolicy", "startupProbe", "stdin"),
        *("stdinOnce", "tty"),
    ),
    "ObjectMeta": ("annotations", "labels"),
    "PodSpec": (
        *("activeDeadlineSeconds", "containers", "dnsPolicy", "readinessGates"),
        "setHostnameAsFQDN",
    ),
    "Volume": (
        *("azureFile", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "fc"),
        *("hostPath", "image", "iscsi", "name", "nfs", "persistentVolumeClaim", "projected"),
        "secret",
    ),
}
"""Fields that values may have; of other types all. Volume: without deprecated sources."""
OWNED = ("Container", "PodSpec")
"""Types whose other fields are the chart's: templates/validate refuses each with the key to use."""
DROPPED: Mapping[str, tuple[str, ...]] = {
    "EnvVarSource": ("fileKeyRef",),
    "Lifecycle": ("stopSignal",),
    "PodSecurityContext": ("windowsOptions",),
    "SecurityContext": ("windowsOptions",),
    "VolumeProjection": ("podCertificate",),
}
"""Fields that values may not have: those of Windows, and those of gates that are off in the lowest
supported Kubernetes, whose API server drops them without a word."""
OPTIONAL = ("Affinity", "PodDNSConfig", "PodSecurityContext", "PodSpec", "SecurityContext")
"""Types of whole values keys: a null means the default."""
NULLABLE = ("PodSecurityContext", "SecurityContext")
"""Types in which a null removes a field that the chart or the network profile sets."""

FIELDS: Mapping[str, Schema] = {
    "AppArmorProfile.localhostProfile": _text(maxLength=4095, pattern=f"^{_SHOWN}+$"),
    "AppArmorProfile.type": _among("Localhost", "RuntimeDefault", "Unconfined"),
    "AzureFileVolumeSource.secretName": ref("dnsName"),
    "AzureFileVolumeSource.shareName": ref("word"),
    "CSIVolumeSource.driver": _text(
        maxLength=63,
        pattern="^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
        "([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$",
    ),
    "Container.readinessProbe": {
        "allOf": [ref("Probe"), {"not": {"required": ["terminationGracePeriodSeconds"]}}]
    },
    "Container.resizePolicy": _list(ref("ContainerResizePolicy"), uniqueItems=True),
    "Container.startupProbe": _narrowed(
        "Probe", properties={"successThreshold": {"maximum": 1, "minimum": 0}}
    ),
    # A pod that is never restarted cannot restart a container for it either.
    "ContainerResizePolicy.resourceName": _among("cpu", "memory"),
    "ContainerResizePolicy.restartPolicy": _among("NotRequired"),
    "Capabilities.add": _list(ref("capability")),
    "Capabilities.drop": _list(ref("capability")),
    "ClusterTrustBundleProjection.name": ref("word"),
    "ClusterTrustBundleProjection.path": ref("relativePath"),
    "ClusterTrustBundleProjection.signerName": _text(pattern=f"^{_SUBDOMAIN}/{_LABEL}$"),
    "ConfigMapEnvSource.name": ref("dnsName"),
    "ConfigMapKeySelector.key": ref("configKey"),
    "ConfigMapKeySelector.name": ref("dnsName"),
    "ConfigMapProjection.name": ref("dnsName"),
    "ConfigMapVolumeSource.defaultMode": ref("fileMode"),
    "ConfigMapVolumeSource.name": ref("dnsName"),
    "DownwardAPIVolumeFile.fieldRef": _narrowed(
        "ObjectFieldSelector",
        properties={
            "fieldPath": {
                "pattern": "^metadata[.](name|namespace|uid|labels|annotations)$"
                f"|^metadata[.](labels|annotations)\\['({_SUBDOMAIN}/)?{_LABEL}'\\]$"
            }
        },
    ),
    "DownwardAPIVolumeFile.mode": ref("fileMode"),
    "DownwardAPIVolumeFile.path": ref("relativePath"),
    "DownwardAPIVolumeFile.resourceFieldRef": _narrowed(
        "ResourceFieldSelector", required=["containerName"]
    ),
    "DownwardAPIVolumeSource.defaultMode": ref("fileMode"),
    "EmptyDirVolumeSource.medium": _among(
        "", "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi"
    ),
    # The launcher's settings are not the user's.
    "EnvFromSource.prefix": _text(pattern="^[A-Za-z_][A-Za-z0-9_]*$")
    | {"not": {"pattern": "^(DPO|SKIP)_"}},
    "EnvVarSource.fieldRef": _narrowed(
        "ObjectFieldSelector",
        properties={
            "fieldPath": {
                "pattern": "^metadata[.](name|namespace|uid)$"
                "|^spec[.](nodeName|serviceAccountName)$"
                "|^status[.](hostIPs?|podIPs?)$"
                f"|^metadata[.](labels|annotations)\\['({_SUBDOMAIN}/)?{_LABEL}'\\]$"
            }
        },
    ),
    "ExecAction.command": _list({"type": "string"}, minItems=1),
    "FCVolumeSource.lun": _LUN,
    "FCVolumeSource.targetWWNs": _list({"type": "string"}, minItems=1),
    "FCVolumeSource.wwids": _list({"type": "string"}, minItems=1),
    "GRPCAction.port": _whole(1, 65535),
    "HTTPGetAction.port": _port(),
    "HTTPGetAction.scheme": _among("HTTP", "HTTPS"),
    "HTTPHeader.name": _text(pattern="^[-A-Za-z0-9]+$"),
    "HostAlias.hostnames": _list(ref("dnsName"), minItems=1),
    "HostAlias.ip": ref("ip"),
    "HostPathVolumeSource.path": _narrowed("absolutePath", **_NO_PARENT),
    "HostPathVolumeSource.type": _among(
        *("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice"),
        "BlockDevice",
    ),
    "IPBlock.cidr": ref("cidr"),
    "IPBlock.except": _list(ref("cidr")),
    "ISCSIVolumeSource.initiatorName": ref("iscsiName"),
    "ISCSIVolumeSource.iqn": ref("iscsiName"),
    "ISCSIVolumeSource.lun": _LUN,
    "ISCSIVolumeSource.targetPortal": ref("word"),
    "ImageVolumeSource.pullPolicy": _among("Always", "Never", "IfNotPresent"),
    "ImageVolumeSource.reference": ref("word"),
    "KeyToPath.key": ref("configKey"),
    "KeyToPath.mode": ref("fileMode"),
    "KeyToPath.path": ref("relativePath"),
    "LabelSelector.matchLabels": _map(ref("labelValue")),
    "LabelSelectorRequirement.key": ref("labelName"),
    "LabelSelectorRequirement.operator": _among("In", "NotIn", "Exists", "DoesNotExist"),
    "LabelSelectorRequirement.values": _list(ref("labelValue")),
    "LocalObjectReference.name": ref("dnsName"),
    "NFSVolumeSource.path": ref("absolutePath"),
    "NFSVolumeSource.server": ref("host"),
    "NetworkPolicyPort.endPort": _whole(1, 65535),
    "NetworkPolicyPort.port": _port(),
    "NetworkPolicyPort.protocol": _among("TCP", "UDP", "SCTP"),
    "NodeSelector.nodeSelectorTerms": _list(ref("NodeSelectorTerm"), minItems=1),
    "NodeSelectorRequirement.key": ref("labelName"),
    "NodeSelectorRequirement.operator": _among("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    "NodeSelectorRequirement.values": _list(ref("labelValue")),
    "NodeSelectorTerm.matchFields": _list(
        _narrowed(
            "NodeSelectorRequirement",
            required=["values"],
            properties={
                "key": {"const": "metadata.name"},
                "operator": _among("In", "NotIn"),
                "values": {"minItems": 1, "maxItems": 1, "items": ref("dnsName")},
            },
        )
    ),
    "ObjectFieldSelector.apiVersion": _among("v1"),
    "ObjectMeta.annotations": _map({"type": "string"}),
    "ObjectMeta.labels": _map(ref("labelValue")),
    "PersistentVolumeClaimSpec.accessModes": _list(
        _among("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        minItems=1,
        uniqueItems=True,
    ),
    "PersistentVolumeClaimSpec.storageClassName": _text(
        maxLength=253, pattern=f"^$|^{_SUBDOMAIN}$"
    ),
    "PersistentVolumeClaimSpec.volumeAttributesClassName": ref("dnsName"),
    "PersistentVolumeClaimSpec.volumeMode": _among("Filesystem"),
    "PersistentVolumeClaimVolumeSource.claimName": ref("dnsName"),
    "PodAffinityTerm.matchLabelKeys": _list(ref("labelName"), uniqueItems=True),
    "PodAffinityTerm.mismatchLabelKeys": _list(ref("labelName"), uniqueItems=True),
    "PodAffinityTerm.namespaces": _list(ref("dnsLabel")),
    "PodAffinityTerm.topologyKey": ref("labelName"),
    "PodDNSConfig.nameservers": _list(ref("ip"), maxItems=3),
    "PodDNSConfig.searches": _list(
        _text(maxLength=254, pattern=f"^{_SUBDOMAIN}[.]?$"), maxItems=32
    ),
    "PodDNSConfigOption.name": _text(minLength=1),
    "PodReadinessGate.conditionType": ref("labelName"),
    "PodResourceClaim.name": ref("dnsLabel"),
    "PodResourceClaim.resourceClaimName": ref("dnsName"),
    "PodResourceClaim.resourceClaimTemplateName": ref("dnsName"),
    "PodSecurityContext.fsGroup": _ID,
    "PodSecurityContext.fsGroupChangePolicy": _among("Always", "OnRootMismatch"),
    "PodSecurityContext.runAsGroup": _ID,
    "PodSecurityContext.runAsUser": _ID,
    "PodSecurityContext.seLinuxChangePolicy": _among("MountOption", "Recursive"),
    "PodSecurityContext.supplementalGroups": _list(_ID),
    "PodSecurityContext.supplementalGroupsPolicy": _among("Merge", "Strict"),
    "PodSpec.activeDeadlineSeconds": _whole(1, 2**31 - 1),
    "PodSpec.containers": {"type": ["array", "null"], "items": ref("Container")},
    # With another policy the ranks do not resolve each other.
    "PodSpec.dnsPolicy": _among("ClusterFirstWithHostNet", "None"),
    "PreferredSchedulingTerm.weight": _whole(1, 100),
    **dict.fromkeys(
        (
            *("Probe.failureThreshold", "Probe.initialDelaySeconds", "Probe.periodSeconds"),
            *("Probe.successThreshold", "Probe.timeoutSeconds", "SleepAction.seconds"),
        ),
        _whole(0, 2**31 - 1),
    ),
    "Probe.terminationGracePeriodSeconds": _whole(1, 2**31 - 1),
    "ProjectedVolumeSource.defaultMode": ref("fileMode"),
    "ResourceFieldSelector.containerName": _among("launcher"),
    "ResourceFieldSelector.resource": _text(
        pattern="^(limits|requests)[.](cpu|memory|ephemeral-storage|hugepages-[1-9][0-9]*[KMG]i)$"
    ),
    "SeccompProfile.localhostProfile": ref("relativePath"),
    "SeccompProfile.type": _among("Localhost", "RuntimeDefault", "Unconfined"),
    "SecretEnvSource.name": ref("dnsName"),
    "SecretKeySelector.key": ref("configKey"),
    "SecretKeySelector.name": ref("dnsName"),
    "SecretProjection.name": ref("dnsName"),
    "SecretVolumeSource.defaultMode": ref("fileMode"),
    "SecretVolumeSource.secretName": ref("dnsName"),
    # Unmasked requires a user namespace (hostUsers: false), which is not the default.
    "SecurityContext.procMount": _among("Default"),
    "SecurityContext.runAsGroup": _ID,
    "SecurityContext.runAsUser": _ID,
    "ServiceAccountTokenProjection.expirationSeconds": _whole(600, 2**32),
    "ServiceAccountTokenProjection.path": ref("relativePath"),
    "Sysctl.name": _text(
        maxLength=253,
        pattern="^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$",
    ),
    "Sysctl.value": _text(minLength=1),
    "TCPSocketAction.port": _port(),
    "Toleration.effect": _among("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    "Toleration.operator": _among("Exists", "Equal"),
    "Toleration.value": ref("labelValue"),
    "TopologySpreadConstraint.matchLabelKeys": _list(ref("labelName"), uniqueItems=True),
    "TopologySpreadConstraint.maxSkew": _whole(1, 2**31 - 1),
    "TopologySpreadConstraint.minDomains": _whole(1, 2**31 - 1),
    "TopologySpreadConstraint.nodeAffinityPolicy": _among("Honor", "Ignore"),
    "TopologySpreadConstraint.nodeTaintsPolicy": _among("Honor", "Ignore"),
    "TopologySpreadConstraint.topologyKey": ref("labelName"),
    "TopologySpreadConstraint.whenUnsatisfiable": _among("DoNotSchedule", "ScheduleAnyway"),
    "Volume.name": ref("dnsLabel"),
    "VolumeMount.mountPath": ref("absolutePath"),
    "VolumeMount.mountPropagation": _among("None", "HostToContainer", "Bidirectional"),
    "VolumeMount.name": ref("dnsLabel"),
    "VolumeMount.recursiveReadOnly": _among("Disabled", "IfPossible", "Enabled"),
    "VolumeResourceRequirements.limits": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"storage": ref("quantity")},
    },
    "VolumeResourceRequirements.requests": {
        "type": "object",
        "additionalProperties": False,
        "required": ["storage"],
        "properties": {"storage": _narrowed("quantity", exclusiveMinimum=0)},
    },
    "WeightedPodAffinityTerm.weight": _whole(1, 100),
}
"""Rules of single fields, by ``Type.field``; they replace the type of the OpenAPI."""

TYPES: Mapping[str, Schema] = {
    "AppArmorProfile": _LOCALHOST,
    "ClusterTrustBundleProjection": {
        "oneOf": [{"required": ["name"]}, {"required": ["signerName"]}],
        "dependencies": {"labelSelector": ["signerName"]},
    },
    "ConfigMapEnvSource": {"required": ["name"]},
    "ConfigMapKeySelector": {"required": ["name", "key"]},
    "ConfigMapProjection": {"required": ["name"]},
    "DownwardAPIVolumeFile": {
        "oneOf": [{"required": ["fieldRef"]}, {"required": ["resourceFieldRef"]}]
    },
    "EnvFromSource": {"oneOf": [{"required": ["configMapRef"]}, {"required": ["secretRef"]}]},
    "EnvVarSource": {"minProperties": 1, "maxProperties": 1},
    "ExecAction": {"required": ["command"]},
    "FCVolumeSource": {
        "oneOf": [{"required": ["targetWWNs"]}, {"required": ["wwids"]}],
        "dependencies": {"targetWWNs": ["lun"]},
    },
    "HostAlias": {"required": ["ip", "hostnames"]},
    "ISCSIVolumeSource": {
        "if": {
            "anyOf": [
                {"required": [field], "properties": {field: {"const": True}}}
                for field in ("chapAuthDiscovery", "chapAuthSession")
            ]
        },
        "then": {"required": ["secretRef"]},
    },
    "ImageVolumeSource": {"required": ["reference"]},
    "LabelSelectorRequirement": {"allOf": list(_VALUES)},
    "LifecycleHandler": _one_of("exec", "httpGet", "sleep", "tcpSocket"),
    "LocalObjectReference": {"required": ["name"]},
    "NetworkPolicyPeer": {
        "minProperties": 1,
        "if": {"required": ["ipBlock"]},
        "then": {"maxProperties": 1},
    },
    "NetworkPolicyPort": {
        "dependencies": {
            "endPort": {"required": ["port"], "properties": {"port": {"type": "integer"}}}
        }
    },
    "NodeSelectorRequirement": {
        "allOf": [
            *_VALUES,
            _when(
                "operator",
                ("Gt", "Lt"),
                {
                    "required": ["values"],
                    "properties": {
                        "values": {"minItems": 1, "maxItems": 1, "items": {"pattern": "^[0-9]+$"}}
                    },
                },
            ),
        ]
    },
    "PersistentVolumeClaimSpec": {"required": ["accessModes", "resources"]},
    "PodAffinityTerm": {
        "dependencies": {
            "matchLabelKeys": ["labelSelector"],
            "mismatchLabelKeys": ["labelSelector"],
        }
    },
    "PodDNSConfigOption": {"required": ["name"]},
    "PodSpec": {"required": []},
    "Probe": _one_of("exec", "grpc", "httpGet", "tcpSocket"),
    "PodResourceClaim": {
        "oneOf": [{"required": ["resourceClaimName"]}, {"required": ["resourceClaimTemplateName"]}]
    },
    "ResourceFieldSelector": {
        "allOf": [
            {
                "if": {"properties": {"resource": {"pattern": "[.]cpu$"}}},
                "then": {"properties": {"divisor": _units("1", "1m")}},
                "else": {"properties": {"divisor": _units(*_MEMORY)}},
            }
        ]
    },
    "SeccompProfile": _LOCALHOST,
    "SecretEnvSource": {"required": ["name"]},
    "SecretKeySelector": {"required": ["name", "key"]},
    "SecretProjection": {"required": ["name"]},
    "TopologySpreadConstraint": {
        "if": {"required": ["minDomains"]},
        "then": {"properties": {"whenUnsatisfiable": {"const": "DoNotSchedule"}}},
    },
    "Volume": {"minProperties": 2, "maxProperties": 2},
    "VolumeMount": {
        "allOf": [
            _when(
                "recursiveReadOnly",
                ("IfPossible", "Enabled"),
                {
                    "required": ["readOnly"],
                    "properties": {
                        "readOnly": {"const": True},
                        "mountPropagation": {"const": "None"},
                    },
                },
            )
        ]
    },
    "VolumeProjection": {"minProperties": 1, "maxProperties": 1},
    "VolumeResourceRequirements": {"required": ["requests"]},
}
"""Rules between fields of a type; ``required`` replaces the OpenAPI's."""
