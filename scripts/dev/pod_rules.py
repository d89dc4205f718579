r"""Checks of the API server of a pod beyond its OpenAPI, as JSON schema (draft-07).

Source: ``pkg/apis/core/validation/validation.go`` and ``staging/src/k8s.io/apimachinery`` of
Kubernetes. ``make differential-api`` compares the result with a running API server. Patterns are
read by Go (RE2), Python and JavaScript: no lookaround, no ``\s`` for blanks beyond ASCII.
"""

from collections.abc import Mapping

from scripts.dev import volume_rules
from scripts.dev.pod_forms import (
    LABEL,
    SHOWN,
    SUBDOMAIN,
    Schema,
    among,
    form,
    list_of,
    map_of,
    narrowed,
    ref,
    text,
    whole,
)


def _one_of(*fields: str) -> Schema:
    return {"oneOf": [{"required": [field]} for field in fields]}


def _when(field: str, words: tuple[str, ...], then: Schema) -> Schema:
    """Return the rule that holds where a field has one of these values."""
    return {"if": {"required": [field], "properties": {field: among(*words)}}, "then": then}


def _units(*words: str) -> Schema:
    # apart, since Helm 3 takes "1" and 1 in one enum for the same
    return {
        "anyOf": [among(*words), {"enum": [1]}],
        "errorMessage": f"use one of {', '.join(words)}",
    }


def _port() -> Schema:
    # apart from the type, since a number has no pattern
    return {
        "anyOf": [whole(1, 65535), ref("portName")],
        "errorMessage": "use a number from 1 to 65535, or the name of a port",
    }


_MEMORY = ("1", *(f"1{unit}{i}" for unit in "KMGTPE" for i in ("", "i") if unit + i != "K"), "1k")
_ID = whole(0, 2**31 - 1)
_VALUES: tuple[Schema, ...] = (
    _when("operator", ("In", "NotIn"), {"required": ["values"]}),
    _when("operator", ("In", "NotIn"), {"properties": {"values": {"minItems": 1}}}),
    _when("operator", ("Exists", "DoesNotExist"), {"properties": {"values": {"maxItems": 0}}}),
)
"""An operator of a selector takes values or none."""
_WHOLE_TEXT: Schema = {"pattern": "^[0-9]+$", "errorMessage": "use a whole number in quotes"}
_LOCALHOST: Schema = {
    "if": {"required": ["type"], "properties": {"type": {"const": "Localhost"}}},
    "then": {"required": ["localhostProfile"]},
    "else": {"not": {"required": ["localhostProfile"]}},
}

KEPT: Mapping[str, tuple[str, ...]] = {
    "Container": (
        "lifecycle",
        "name",
        "readinessProbe",
        "resizePolicy",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "tty",
    ),
    "ObjectMeta": ("annotations", "labels"),
    "PodSpec": (
        "activeDeadlineSeconds",
        "containers",
        "dnsPolicy",
        "readinessGates",
        "setHostnameAsFQDN",
    ),
    "Volume": (
        "azureFile",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "fc",
        "hostPath",
        "image",
        "iscsi",
        "name",
        "nfs",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ),
}
"""Fields that values may have; of other types all. Volume: without deprecated sources."""
OWNED = ("Container", "PodSpec")
"""Types whose other fields are the chart's: the schema's allOf refuses each with the key to use."""
DROPPED: Mapping[str, tuple[str, ...]] = {
    "ContainerPort": ("hostIP", "hostPort"),
    "EnvVarSource": ("fileKeyRef",),
    "Lifecycle": ("stopSignal",),
    "PodSecurityContext": ("windowsOptions",),
    "SecurityContext": ("windowsOptions",),
    "VolumeProjection": ("podCertificate",),
}
"""Fields that values may not have: those of Windows, ports of the host, and those of gates that are
off in the lowest supported Kubernetes, whose API server drops them silently."""
OPTIONAL = ("Affinity", "PodDNSConfig", "PodSecurityContext", "PodSpec", "SecurityContext")
"""Types of whole values keys: a null means the default."""
NULLABLE = ("PodSecurityContext", "SecurityContext")
"""Types in which a null removes a field that the chart or the network profile sets."""

FIELDS: Mapping[str, Schema] = {
    **volume_rules.FIELDS,
    "AppArmorProfile.localhostProfile": form(
        f"^{SHOWN}+$", "use the name of a profile, without blanks", maxLength=4095
    ),
    "AppArmorProfile.type": among("Localhost", "RuntimeDefault", "Unconfined"),
    "Container.readinessProbe": {
        "allOf": [ref("Probe"), {"not": {"required": ["terminationGracePeriodSeconds"]}}]
    },
    "Container.resizePolicy": list_of(ref("ContainerResizePolicy"), uniqueItems=True),
    "Container.startupProbe": narrowed(
        "Probe", properties={"successThreshold": {"maximum": 1, "minimum": 0}}
    ),
    # A pod that is never restarted cannot restart a container for it either.
    "ContainerResizePolicy.resourceName": among("cpu", "memory"),
    "ContainerResizePolicy.restartPolicy": among("NotRequired"),
    "Capabilities.add": list_of(ref("capability")),
    "Capabilities.drop": list_of(ref("capability")),
    "ConfigMapEnvSource.name": ref("dnsName"),
    "ConfigMapKeySelector.key": ref("configKey"),
    "ConfigMapKeySelector.name": ref("dnsName"),
    "ContainerPort.containerPort": whole(1, 65535),
    "ContainerPort.name": ref("portName"),
    "ContainerPort.protocol": among("TCP", "UDP", "SCTP"),
    # The settings of launcher and torchrun are not the user's.
    "EnvFromSource.prefix": form(
        "^[A-Za-z_][A-Za-z0-9_]*$",
        "use letters, digits and _, such as TRACKER_; DPO_, SKIP_, PET_ and TORCHELASTIC_ are the "
        "launcher's",
    )
    | {"not": {"pattern": "^(DPO|SKIP|PET|TORCHELASTIC)_"}},
    "EnvVarSource.fieldRef": narrowed(
        "ObjectFieldSelector",
        properties={
            "fieldPath": {
                "pattern": "^metadata[.](name|namespace|uid)$"
                "|^spec[.](nodeName|serviceAccountName)$"
                "|^status[.](hostIPs?|podIPs?)$"
                f"|^metadata[.](labels|annotations)\\['({SUBDOMAIN}/)?{LABEL}'\\]$",
                "errorMessage": "use a field of the pod, such as metadata.name, spec.nodeName, "
                "status.podIP or metadata.labels['NAME']",
            }
        },
    ),
    "ExecAction.command": list_of({"type": "string"}, minItems=1),
    "GRPCAction.port": whole(1, 65535),
    "HTTPGetAction.port": _port(),
    "HTTPGetAction.scheme": among("HTTP", "HTTPS"),
    "HTTPHeader.name": form("^[-A-Za-z0-9]+$", "use the name of a header, such as Accept"),
    "HostAlias.hostnames": list_of(ref("dnsName"), minItems=1),
    "HostAlias.ip": ref("ip"),
    "IPBlock.cidr": ref("cidr"),
    "IPBlock.except": list_of(ref("cidr")),
    "LabelSelector.matchLabels": map_of(ref("labelValue")),
    "LabelSelectorRequirement.key": ref("labelName"),
    "LabelSelectorRequirement.operator": among("In", "NotIn", "Exists", "DoesNotExist"),
    "LabelSelectorRequirement.values": list_of(ref("labelValue")),
    "LocalObjectReference.name": ref("dnsName"),
    "NetworkPolicyPort.endPort": whole(1, 65535),
    "NetworkPolicyPort.port": _port(),
    "NetworkPolicyPort.protocol": among("TCP", "UDP", "SCTP"),
    "NodeSelector.nodeSelectorTerms": list_of(ref("NodeSelectorTerm"), minItems=1),
    "NodeSelectorRequirement.key": ref("labelName"),
    "NodeSelectorRequirement.operator": among("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    "NodeSelectorRequirement.values": list_of(ref("labelValue")),
    "NodeSelectorTerm.matchFields": list_of(
        narrowed(
            "NodeSelectorRequirement",
            required=["values"],
            properties={
                "key": {"const": "metadata.name"},
                "operator": among("In", "NotIn"),
                "values": {"minItems": 1, "maxItems": 1, "items": ref("dnsName")},
            },
        )
    ),
    "ObjectFieldSelector.apiVersion": among("v1"),
    "ObjectMeta.annotations": map_of({"type": "string"}),
    "ObjectMeta.labels": map_of(ref("labelValue")),
    "PodAffinityTerm.matchLabelKeys": list_of(ref("labelName"), uniqueItems=True),
    "PodAffinityTerm.mismatchLabelKeys": list_of(ref("labelName"), uniqueItems=True),
    "PodAffinityTerm.namespaces": list_of(ref("dnsLabel")),
    "PodAffinityTerm.topologyKey": ref("labelName"),
    "PodDNSConfig.nameservers": list_of(ref("ip"), maxItems=3),
    "PodDNSConfig.searches": list_of(
        form(f"^{SUBDOMAIN}[.]?$", "use a domain, such as corp.example.com", maxLength=254),
        maxItems=32,
    ),
    "PodDNSConfigOption.name": text(minLength=1),
    "PodReadinessGate.conditionType": ref("labelName"),
    "PodResourceClaim.name": ref("dnsLabel"),
    "PodResourceClaim.resourceClaimName": ref("dnsName"),
    "PodResourceClaim.resourceClaimTemplateName": ref("dnsName"),
    "PodSecurityContext.fsGroup": _ID,
    "PodSecurityContext.fsGroupChangePolicy": among("Always", "OnRootMismatch"),
    "PodSecurityContext.runAsGroup": _ID,
    "PodSecurityContext.runAsUser": _ID,
    "PodSecurityContext.seLinuxChangePolicy": among("MountOption", "Recursive"),
    "PodSecurityContext.supplementalGroups": list_of(_ID),
    "PodSecurityContext.supplementalGroupsPolicy": among("Merge", "Strict"),
    "PodSpec.activeDeadlineSeconds": whole(1, 2**31 - 1),
    "PodSpec.containers": {"type": ["array", "null"], "items": ref("Container")},
    # With another policy the ranks do not resolve each other.
    "PodSpec.dnsPolicy": among("ClusterFirst", "ClusterFirstWithHostNet", "None"),
    "PreferredSchedulingTerm.weight": whole(1, 100),
    **dict.fromkeys(
        (
            "Probe.failureThreshold",
            "Probe.initialDelaySeconds",
            "Probe.periodSeconds",
            "Probe.successThreshold",
            "Probe.timeoutSeconds",
            "SleepAction.seconds",
        ),
        whole(0, 2**31 - 1),
    ),
    "Probe.terminationGracePeriodSeconds": whole(1, 2**31 - 1),
    "ResourceFieldSelector.containerName": among("launcher"),
    "ResourceFieldSelector.resource": form(
        "^(limits|requests)[.](cpu|memory|ephemeral-storage|hugepages-[1-9][0-9]*[KMG]i)$",
        "use limits. or requests. with cpu, memory, ephemeral-storage or hugepages-2Mi",
    ),
    "SeccompProfile.localhostProfile": ref("relativePath"),
    "SeccompProfile.type": among("Localhost", "RuntimeDefault", "Unconfined"),
    "SecretEnvSource.name": ref("dnsName"),
    "SecretKeySelector.key": ref("configKey"),
    "SecretKeySelector.name": ref("dnsName"),
    # Unmasked requires a user namespace (hostUsers: false), which is not the default.
    "SecurityContext.procMount": among("Default"),
    "SecurityContext.runAsGroup": _ID,
    "SecurityContext.runAsUser": _ID,
    "Sysctl.name": form(
        "^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$",
        "use the name of a setting, such as net.core.somaxconn",
        maxLength=253,
    ),
    "Sysctl.value": text(minLength=1),
    "TCPSocketAction.port": _port(),
    "Toleration.effect": among("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    "Toleration.operator": among("Exists", "Equal"),
    "Toleration.value": ref("labelValue"),
    "TopologySpreadConstraint.matchLabelKeys": list_of(ref("labelName"), uniqueItems=True),
    "TopologySpreadConstraint.maxSkew": whole(1, 2**31 - 1),
    "TopologySpreadConstraint.minDomains": whole(1, 2**31 - 1),
    "TopologySpreadConstraint.nodeAffinityPolicy": among("Honor", "Ignore"),
    "TopologySpreadConstraint.nodeTaintsPolicy": among("Honor", "Ignore"),
    "TopologySpreadConstraint.topologyKey": ref("labelName"),
    "TopologySpreadConstraint.whenUnsatisfiable": among("DoNotSchedule", "ScheduleAnyway"),
    "VolumeMount.mountPath": ref("absolutePath"),
    "VolumeMount.mountPropagation": among("None", "HostToContainer", "Bidirectional"),
    "VolumeMount.name": ref("dnsLabel"),
    "VolumeMount.recursiveReadOnly": among("Disabled", "IfPossible", "Enabled"),
    "WeightedPodAffinityTerm.weight": whole(1, 100),
}
"""Rules of single fields, by ``Type.field``; they replace the type of the OpenAPI."""

TYPES: Mapping[str, Schema] = {
    **volume_rules.TYPES,
    "AppArmorProfile": _LOCALHOST,
    "ConfigMapEnvSource": {"required": ["name"]},
    "ConfigMapKeySelector": {"required": ["name", "key"]},
    "EnvFromSource": {"oneOf": [{"required": ["configMapRef"]}, {"required": ["secretRef"]}]},
    "EnvVarSource": {"minProperties": 1, "maxProperties": 1},
    "ExecAction": {"required": ["command"]},
    "HostAlias": {"required": ["ip", "hostnames"]},
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
                    "properties": {"values": {"minItems": 1, "maxItems": 1, "items": _WHOLE_TEXT}},
                },
            ),
        ]
    },
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
    "TopologySpreadConstraint": {
        "if": {"required": ["minDomains"]},
        "then": {"properties": {"whenUnsatisfiable": {"const": "DoNotSchedule"}}},
    },
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
}
"""Rules between fields of a type; ``required`` replaces the OpenAPI's."""
