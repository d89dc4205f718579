"""Checks of the API server of a pod's volumes, as JSON schema: part of ``pod_rules.py``."""

from collections.abc import Mapping
from typing import Any

from scripts.dev.pod_forms import (
    LABEL,
    SUBDOMAIN,
    Schema,
    among,
    form,
    list_of,
    narrowed,
    ref,
    whole,
)

_NO_PARENT: dict[str, Any] = {
    "not": {"pattern": "(^|/)[.][.](/|$)"},
    "errorMessage": "use an absolute path without .., such as /mnt/data",
}
_LUN = whole(0, 255)

FIELDS: Mapping[str, Schema] = {
    "AzureFileVolumeSource.secretName": ref("dnsName"),
    "AzureFileVolumeSource.shareName": ref("word"),
    "CSIVolumeSource.driver": form(
        "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$",
        "use the name of a CSI driver, such as efs.csi.aws.com",
        maxLength=63,
    ),
    "ClusterTrustBundleProjection.name": ref("word"),
    "ClusterTrustBundleProjection.path": ref("relativePath"),
    "ClusterTrustBundleProjection.signerName": form(
        f"^{SUBDOMAIN}/{LABEL}$", "use the name of a signer, such as example.com/signer"
    ),
    "ConfigMapProjection.name": ref("dnsName"),
    "ConfigMapVolumeSource.defaultMode": ref("fileMode"),
    "ConfigMapVolumeSource.name": ref("dnsName"),
    "DownwardAPIVolumeFile.fieldRef": narrowed(
        "ObjectFieldSelector",
        properties={
            "fieldPath": {
                "pattern": "^metadata[.](name|namespace|uid|labels|annotations)$"
                f"|^metadata[.](labels|annotations)\\['({SUBDOMAIN}/)?{LABEL}'\\]$",
                "errorMessage": "use a field of the pod's metadata, such as metadata.labels",
            }
        },
    ),
    "DownwardAPIVolumeFile.mode": ref("fileMode"),
    "DownwardAPIVolumeFile.path": ref("relativePath"),
    "DownwardAPIVolumeFile.resourceFieldRef": narrowed(
        "ResourceFieldSelector", required=["containerName"]
    ),
    "DownwardAPIVolumeSource.defaultMode": ref("fileMode"),
    "EmptyDirVolumeSource.medium": among(
        "", "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi"
    ),
    "FCVolumeSource.lun": _LUN,
    "FCVolumeSource.targetWWNs": list_of({"type": "string"}, minItems=1),
    "FCVolumeSource.wwids": list_of({"type": "string"}, minItems=1),
    "HostPathVolumeSource.path": narrowed("absolutePath", **_NO_PARENT),
    "HostPathVolumeSource.type": among(
        "",
        "DirectoryOrCreate",
        "Directory",
        "FileOrCreate",
        "File",
        "Socket",
        "CharDevice",
        "BlockDevice",
    ),
    "ISCSIVolumeSource.initiatorName": ref("iscsiName"),
    "ISCSIVolumeSource.iqn": ref("iscsiName"),
    "ISCSIVolumeSource.lun": _LUN,
    "ISCSIVolumeSource.targetPortal": ref("word"),
    "ImageVolumeSource.pullPolicy": among("Always", "Never", "IfNotPresent"),
    "ImageVolumeSource.reference": ref("word"),
    "KeyToPath.key": ref("configKey"),
    "KeyToPath.mode": ref("fileMode"),
    "KeyToPath.path": ref("relativePath"),
    "NFSVolumeSource.path": ref("absolutePath"),
    "NFSVolumeSource.server": ref("host"),
    "PersistentVolumeClaimSpec.accessModes": list_of(
        among("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        minItems=1,
        uniqueItems=True,
    ),
    "PersistentVolumeClaimSpec.storageClassName": form(
        f"^$|^{SUBDOMAIN}$",
        "use the name of a storage class: small letters, digits, - and .",
        maxLength=253,
    ),
    "PersistentVolumeClaimSpec.volumeAttributesClassName": ref("dnsName"),
    "PersistentVolumeClaimSpec.volumeMode": among("Filesystem"),
    "PersistentVolumeClaimVolumeSource.claimName": ref("dnsName"),
    "ProjectedVolumeSource.defaultMode": ref("fileMode"),
    "SecretProjection.name": ref("dnsName"),
    "SecretVolumeSource.defaultMode": ref("fileMode"),
    "SecretVolumeSource.secretName": ref("dnsName"),
    "ServiceAccountTokenProjection.expirationSeconds": whole(600, 2**32),
    "ServiceAccountTokenProjection.path": ref("relativePath"),
    "Volume.name": ref("dnsLabel"),
    "VolumeResourceRequirements.limits": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"storage": ref("quantity")},
    },
    "VolumeResourceRequirements.requests": {
        "type": "object",
        "additionalProperties": False,
        "required": ["storage"],
        "properties": {"storage": narrowed("quantity", exclusiveMinimum=0)},
    },
}
"""Rules of single fields, by ``Type.field``."""

TYPES: Mapping[str, Schema] = {
    "ClusterTrustBundleProjection": {
        "oneOf": [{"required": ["name"]}, {"required": ["signerName"]}],
        "dependencies": {"labelSelector": ["signerName"]},
    },
    "ConfigMapProjection": {"required": ["name"]},
    "DownwardAPIVolumeFile": {
        "oneOf": [{"required": ["fieldRef"]}, {"required": ["resourceFieldRef"]}]
    },
    "FCVolumeSource": {
        "oneOf": [{"required": ["targetWWNs"]}, {"required": ["wwids"]}],
        "dependencies": {"targetWWNs": ["lun"]},
    },
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
    "PersistentVolumeClaimSpec": {"required": ["accessModes", "resources"]},
    "SecretProjection": {"required": ["name"]},
    "Volume": {"minProperties": 2, "maxProperties": 2},
    "VolumeProjection": {"minProperties": 1, "maxProperties": 1},
    "VolumeResourceRequirements": {"required": ["requests"]},
}
"""Rules between fields of a type."""
