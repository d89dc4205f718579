"""Forms that fields of a pod share (names, paths, quantities), as JSON schema (draft-07).

Source: ``pkg/apis/core/validation/validation.go`` and ``staging/src/k8s.io/apimachinery`` of
Kubernetes.
"""

from collections.abc import Mapping
from typing import Any

from scripts import credentials

Schema = Mapping[str, Any]
POINTER = "#/definitions/kubernetes/definitions"


def ref(name: str) -> Schema:
    """Return a reference to a generated definition."""
    return {"$ref": f"{POINTER}/{name}"}


def narrowed(name: str, **more: object) -> Schema:
    """Return the form of another type with further rules."""
    return {"allOf": [ref(name), more]}


def among(*words: str) -> Schema:
    """Return the schema of a text that is one of these words."""
    return {"enum": list(words)}


def list_of(item: Schema, **more: int | bool) -> Schema:
    """Return the schema of a list; ``more``: keywords such as ``minItems``."""
    return {"type": "array", "items": item, **more}


def map_of(item: Schema) -> Schema:
    """Return the schema of a map by label name."""
    return {"type": "object", "propertyNames": ref("labelName"), "additionalProperties": item}


def text(**more: int | str) -> dict[str, Any]:
    """Return the schema of a text; ``more``: keywords such as ``maxLength``."""
    return {"type": "string", **more}


def form(pattern: str, words: str, **more: int | Schema) -> dict[str, Any]:
    """Return the schema of a text of a form.

    ``words`` is the sentence that messages show; ``more`` are keywords such as ``maxLength``.
    """
    return {"type": "string", "pattern": pattern, "errorMessage": words, **more}


def whole(least: int, most: int) -> Schema:
    """Return the schema of a whole number between two bounds, both included."""
    return {"type": "integer", "minimum": least, "maximum": most}


LABEL = "[A-Za-z0-9]([-A-Za-z0-9._]{0,61}[A-Za-z0-9])?"
DNS = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = f"{DNS}([.]{DNS})*"
BLANKS = "\u0085\u00a0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
"""Blanks and invisible characters beyond ASCII (Unicode: White_Space, and zero-width ones)."""
SHOWN = f"[^\\x00-\\x20\\x7f-\\x9f{BLANKS}]"
"""Pattern of one visible character."""
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = f"({_BYTE}[.]){{3}}{_BYTE}"
_HEX = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    (
        f"({_HEX}:){{7}}{_HEX}",
        f"({_HEX}:){{1,7}}:",
        f":(:{_HEX}){{1,7}}",
        "::",
        *(f"({_HEX}:){{1,{7 - count}}}(:{_HEX}){{1,{count}}}" for count in range(1, 7)),
    )
)
CAPABILITIES = (
    "ALL",
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
)
"""Capabilities of Linux (include/uapi/linux/capability.h), and ALL: a runtime refuses others."""

_QUANTITY: Schema = {
    "description": "A quantity, such as 96, 500m, 512Ki, 1.5Gi.",
    "type": ["string", "number"],
    "minimum": 0,
    "maximum": 10**15,
    "pattern": "^([0-9]{1,15}([.][0-9]{0,3})?|[.][0-9]{1,3})(m|k|Ki|[eE][0-9]{1,2})?$"
    "|^([0-9]{1,9}([.][0-9]{0,3})?|[.][0-9]{1,3})Mi?$"
    "|^([0-9]{1,6}([.][0-9]{0,3})?|[.][0-9]{1,3})Gi?$"
    "|^([0-9]{1,3}([.][0-9]{0,3})?|[.][0-9]{1,3})[TP]i?$",
    "errorMessage": "use a quantity, such as 96, 500m, 512Ki or 1.5Gi",
}

_LABEL_WORDS = "letters, digits, -, _ and ., at most 63, with a letter or digit at both ends"
SHARED: Mapping[str, Schema] = {
    "absolutePath": form(
        f"^/([^:\\x00-\\x1f\\x7f-\\x9f{BLANKS}]*)$",
        "use an absolute path without colons and control characters, such as /data",
    ),
    "amount": {**_QUANTITY, "type": ["string", "number", "null"]},
    "cidr": form(
        f"^{_IPV4}/(3[0-2]|[12]?[0-9])$|^({_IPV6})/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$",
        "use a network with its length, such as 10.0.0.0/8 or fd00::/8",
    ),
    "capability": among(*CAPABILITIES),
    # not a pattern, whose refusal would print what may be the content of a Secret
    "configKey": {
        **text(maxLength=253),
        "not": {"anyOf": [{"not": {"pattern": "^[-._a-zA-Z0-9]+$"}}, {"pattern": "^[.]$|^[.][.]"}]},
        "errorMessage": "use the name of a key or file: letters, digits, -, _ and ., "
        "such as token.txt",
    },
    "credential": {"pattern": credentials.form()},
    "dnsLabel": form(
        f"^{DNS}$",
        "use small letters, digits and -, with a letter or digit at both ends, such as data-1",
        maxLength=63,
    ),
    "dnsName": form(
        f"^{SUBDOMAIN}$",
        "use small letters, digits, - and ., with a letter or digit at both ends of each part, "
        "such as data-1 or hub.example.com",
        maxLength=253,
    ),
    "fileMode": {
        **whole(0, 0o777),
        "errorMessage": "use the mode in octal, such as 0440, or a number from 0 to 511",
    },
    "host": form(f"^{SHOWN}+$", "use the name or address of a server, without a path")
    | {"not": {"pattern": "/"}},
    "ip": form(f"^({_IPV4}|{_IPV6})$", "use an IP address, such as 10.0.0.1 or fd00::1"),
    "iscsiName": form(
        "^iqn[.][0-9]{4}-[0-9]{2}[.][-A-Za-z0-9.]+(:[^,;*&$|\\s]+)$"
        "|^eui[.][A-Za-z0-9]{16}$|^naa[.][A-Za-z0-9]{32}$",
        "use an iSCSI name, such as iqn.2015-02.example.com:disk",
    ),
    "labelName": form(
        f"^({SUBDOMAIN}/)?{LABEL}$",
        "use the name of a label: name or example.com/name",
        maxLength=317,
    )
    | {"not": {"pattern": "^[^/]{254}"}},
    "labelValue": form(f"^$|^{LABEL}$", f"use the value of a label: {_LABEL_WORDS}"),
    "portName": form(
        "^[a-z0-9]+(-[a-z0-9]+)*$",
        "use the name of a port: small letters, digits and single -, at most 15, with a letter",
        maxLength=15,
    )
    | {"not": {"pattern": "^[^a-z]*$"}},
    "quantity": _QUANTITY,
    "relativePath": form(
        f"^[^/]([^\\x00-\\x1f\\x7f-\\x9f{BLANKS}]*)$",
        "use a relative path without .., such as a/b",
        minLength=1,
    )
    | {"not": {"pattern": "^[.][.]|/[.][.](/|$)"}},
    "word": form(f"^{SHOWN}+$", "use a text without blanks"),
}
"""One definition of each form that several fields have."""
