"""A credential in plain values is refused, and nothing that Helm prints holds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.dev.pod_forms import CREDENTIAL
from tests.chart.helm import CHART, Document, Refused, call, merged, render, template

CANARY = "hf_CANARYcanaryCANARYcanaryCANARY0123"
FORMS = (
    CANARY,
    "ghp_CANARYcanaryCANARYcanaryCANARY012345",
    "github_pat_CANARY0123456789_canaryCANARY",
    "glpat-CANARYcanaryCANARY01",
    "AKIACANARYCANARY0123",
    "xoxb-0123456789-CANARYcanary",
    "sk-ant-CANARYcanaryCANARY0123",
    "AIzaCANARYcanaryCANARYcanaryCANARY01234",
    "npm_CANARYcanaryCANARYcanary0123456789AB",
    "gsk_CANARYcanaryCANARYcanary0123456789AB",
    "dckr_pat_CANARY-canary_CANARY0123",
    "pypi-AgEIcHlwaS5vcmcCANARY-canary_CANARY",
    "nvapi-CANARY-canary_CANARY0123456789",
    "ms-01234567-89ab-cdef-0123-CANARYcanary",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJDQU5BUlkifQ.CANARYcanary",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARYcanary",
    "https://me:CANARYcanary@example.com/x",
    "socks5h://me:CANARY%40canary@10.0.0.1:1080",
)
"""Credentials by their form; none of them is real."""
REFERENCE: Document = {"valueFrom": {"secretKeyRef": {"name": "a", "key": CANARY}}}
VOLUME: Document = {"name": "a", "csi": {"driver": "a.b", "volumeAttributes": {"token": CANARY}}}
CONTAINER: Document = {"name": "a", "image": "b"}
PLACES: tuple[Document, ...] = (
    {"extraEnv": {"A": CANARY}},
    {"extraEnv": {"A": f"x={CANARY}"}},
    {"extraEnv": {CANARY: "a"}},
    {"extraEnv": {"A": REFERENCE}},
    {"network": {"env": {"NCCL_A": CANARY}}},
    {"network": {"annotations": {"example.com/a": CANARY}}},
    {"network": {"attachment": CANARY}},
    {"network": {"profile": CANARY}},
    {"network": {"resourceName": CANARY}},
    {"network": {"envFile": CANARY}},
    {"network": {"libraryPath": [CANARY]}},
    {"network": {"transport": CANARY}},
    {"network": {"initContainers": [{**CONTAINER, "env": [{"name": "A", "value": CANARY}]}]}},
    {"network": {"initContainers": [{**CONTAINER, "command": ["login", CANARY]}]}},
    {"network": {"initContainers": [{**CONTAINER, "args": [f"--token={CANARY}"]}]}},
    {"network": {"initContainers": [{**CONTAINER, "image": CANARY}]}},
    {"podAnnotations": {"a": CANARY}},
    {"podAnnotations": {CANARY: "a"}},
    {"podLabels": {"a": CANARY}},
    {"nodeSelector": {"a": CANARY}},
    {"tolerations": [{"key": "a", "value": CANARY}]},
    {"recipe": {"args": {"template": CANARY}}},
    {"recipe": {"args": {"report_to": ["tensorboard", CANARY]}}},
    {"recipe": {"args": {"megatron_extra_kwargs": {"a": {"b": CANARY}}}}},
    {"recipe": {"args": {CANARY: 1}}},
    {"recipe": {"model": f"hf://a/b@{CANARY}"}},
    {"recipe": {"dataset": [CANARY]}},
    {"code": {"url": f"https://{CANARY}@example.com/a", "ref": "v1"}},
    {"code": {"url": "https://example.com/a", "ref": CANARY}},
    {"code": {"url": "https://example.com/a", "ref": "v1", "existingSecret": CANARY}},
    {"secrets": {"hf": {"existingSecret": CANARY}}},
    {"secrets": {"modelscope": {"key": CANARY}}},
    {"image": {"pullSecrets": [CANARY]}},
    {"image": {"tag": CANARY}},
    {"image": {"repository": CANARY}},
    {"workspace": {"existingClaim": CANARY}},
    {"workspace": {"mountPath": f"/{CANARY}"}},
    {"workspace": {"existingClaim": None, "nfs": {"server": CANARY, "path": "/a"}}},
    {"kueue": {"queue": CANARY}},
    {"serviceAccountName": CANARY},
    {"priorityClassName": CANARY},
    {"extraVolumes": [VOLUME]},
    {"extraVolumes": [{"name": CANARY, "emptyDir": {}}]},
    {"extraVolumes": [{"name": "a", "nfs": {"server": "a", "path": CANARY}}]},
    {"extraVolumeMounts": [{"name": "shm", "mountPath": "/a", "subPath": CANARY}]},
    {"podSecurityContext": {"seLinuxOptions": {"level": CANARY}}},
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: re.sub("hf_\\w+", "CANARY", str(place)))
def test_a_credential_is_refused_and_never_printed(place: Document) -> None:
    with pytest.raises(Refused) as refused:
        template(merged(place))
    assert not re.search("canary", str(refused.value), re.IGNORECASE)
    assert re.search(r"\[(secret-plain|secret-name|code-url-secret)\]$", str(refused.value), re.M)


@pytest.mark.parametrize("text", FORMS)
def test_every_form_of_a_credential_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"extraEnv\.A: .* \[secret-plain\]") as refused:
        template(merged({"extraEnv": {"A": text}}))
    assert "canary" not in str(refused.value).lower()


def test_mistakes_in_addition_to_a_credential_do_not_print_it() -> None:
    with pytest.raises(Refused) as refused:
        template(merged({"nodes": "two", "serviceAccountName": CANARY}))
    assert "canary" not in str(refused.value).lower()


def test_debug_output_does_not_print_it(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(f"extraEnv: {{A: {CANARY}}}\n", encoding="utf-8")
    done = call("template", "run", str(CHART), "-f", str(file), "--debug")
    assert done.returncode != 0
    assert "canary" not in (done.stdout + done.stderr).lower()


def test_what_only_resembles_a_credential_renders() -> None:
    assert render(
        {
            "extraEnv": {
                "HF_HOME": "/workspace/hf_cache",
                "HTTPS_PROXY": "http://proxy.example.com:3128",
                "A": "risk-free-and-task-oriented-words",
                "MODEL_KEYS": "hf_transfer",
                "DIGEST": "0123456789abcdef0123456789abcdef01234567",
                "WANDB_API_KEY": {"valueFrom": {"secretKeyRef": {"name": "wandb", "key": "key"}}},
            },
            "recipe": {
                "args": {"max_length": 8192, "external_plugins": "plugins/tokens_of_pairs.py"}
            },
            "code": {"url": "git@git.example.com:a/b", "ref": "0123456789abcdef" * 2 + "01234567"},
        }
    )


def test_the_schema_and_the_template_know_the_same_credentials() -> None:
    text = (CHART / "templates" / "validate" / "_secrets.tpl").read_text(encoding="utf-8")
    found = re.search(r'define "megatron-dpo\.credential" -\}\}\n(.*)\n', text)
    assert found is not None and found[1] == CREDENTIAL
