"""Secrets are removed from texts and data; references, options and ordinary words are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from launchers.upstream import record
from launchers.upstream.patches import Verdict
from launchers.upstream.table import PATCHES
from scripts.redact import REDACTED, Redactor

CANARY = "cAnArY5e1f0d"
CLEAN = Redactor()
LISTS = (
    f'{{"token": ["{CANARY}"]}}',
    f'password = ["{CANARY}"]',
    f"token: ['x', '{CANARY}']",
    f'{{"tokens": ["{CANARY}"]}}',
    f"passwords: ['a b', '{CANARY} c']",
    f"{{'api_keys': ('b', '{CANARY}')}}",
    f"api_key: [x, {CANARY}]",
    f'"token": [\n  "x",\n  "{CANARY}"\n]',
    f"secret: [{CANARY}]",
    f'token: ["{CANARY}',
    f'"token": [\n  "x",\n  "{CANARY}"',
    json.dumps({"env": json.dumps({"api_keys": ["x", CANARY]})}),
    f"token:\n  - x\n  - {CANARY}",
    f"passwords:\n- x\n- a: {CANARY}",
)
MAPS = (
    f'"password": {{"a": "{CANARY}"}}',
    f'"tokens": {{"a": ["x", {{"b": "{CANARY}"}}]}}',
    f"token: {{a: {CANARY}}}",
    f'"webhook": {{"key": "{CANARY}"}}',
    f"password:\n  a: x\n  b:\n    c: {CANARY}",
)
LOGINS = (
    f"machine\tapi.wandb.ai\tlogin\tuser\tpassword\t{CANARY}",
    f"machine a.example login user account x password {CANARY}",
    f"machine a.example password {CANARY} login user",
    f"machine a.example\n  login user\n  password {CANARY}",
    f"machine a.example password = {CANARY}",
    f"default login user password {CANARY}",
    f"default password {CANARY} login user",
)
OPTIONS = (f"[--hf-token, {CANARY}]", f'["--hf-token", {CANARY}]', f'[--hf-token, "{CANARY}"]')


@pytest.mark.parametrize("text", [*LISTS, *MAPS, *LOGINS, *OPTIONS])
def test_a_text_loses_its_secret_and_nothing_after_it(text: str) -> None:
    found = CLEAN.text(f"before\n{text}\nafter")
    assert CANARY not in found and REDACTED in found
    assert found.startswith("before\n") and found.endswith("\nafter")
    assert CLEAN.text(found) == found


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (LISTS[2], "token: ['[redacted]', '[redacted]']"),
        (MAPS[0], '"password": {"a": "[redacted]"}'),
        (OPTIONS[0], "[--hf-token, [redacted]]"),
        (f"a/token: {CANARY}", "a/token: [redacted]"),
        (
            f"token: ('{CANARY}' user's)\nit's kept)",
            "token: ('[redacted]' [redacted]'[redacted])\nit's kept)",
        ),
    ],
)
def test_names_and_brackets_stay(text: str, left: str) -> None:
    assert CLEAN.text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        '"webhook": {"existingSecret": "hook", "key": "url"}',
        "webhook:\n  existingSecret: hook\n  key: url",
        "serviceAccountToken: {path: token, audience: vault, expirationSeconds: 3607}",
        "credentials: [{secretRef: a}]",
        "HF_TOKEN: {valueFrom: {secretKeyRef: {name: hf, key: token}}}",
        "credentials:\n  - secretRef: a",
        "imagePullSecrets: [{name: regcred}]",
        "vault.hashicorp.com/agent-inject-secret-hf-token: secret/data/hf",
        "--reuse-token\n  - --model\n  - x",
        "--reuse-token --model x",
        "['--reuse-token', '--model']",
        "[--reuse-token, --model, x]",
        "use --hf-token, or set it",
        "the default password is long",
        "tokens: [1, 2], token_ids=[3], special_tokens = ['<pad>']",
        "    tokens = [tokenizer(row) for row in rows]",
        '"tokens": {"mean": 3.5}',
    ],
)
def test_a_text_without_a_secret_is_kept(text: str) -> None:
    assert CLEAN.text(text) == text


@pytest.mark.parametrize(
    "document",
    [
        {"tokens": {"hf_" + CANARY: 1}},
        {"API_KEY": ("a", CANARY)},
        {"passwords": {"a": ("b", {"c": CANARY})}},
        {"webhook": {"key": CANARY}},
        {"credentials": {"name": "wandb", "key": CANARY}},
        {"credentials": [{"secretRef": [CANARY]}]},
        {"token": {"path": f"https://me:{CANARY}@example.com"}},
        {"tokens": {"effect": "x", "state": "y", "functions": {"token": CANARY}}},
    ],
)
def test_a_list_or_map_under_a_name_of_secrets_holds_none(document: dict[str, Any]) -> None:
    assert CANARY not in json.dumps(CLEAN.data(document))


@pytest.mark.parametrize(
    "document",
    [
        {"extraEnv": {"HF_TOKEN": {"valueFrom": {"secretKeyRef": {"name": "hf", "key": "k"}}}}},
        {"monitoring": {"webhook": {"existingSecret": "hook", "key": "url"}}},
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 3607}},
        {"credentials": [{"secretRef": "a"}, {"secretRef": {"name": "b"}}]},
        {"vault.hashicorp.com/agent-inject-secret-hf-token": "secret/data/hf"},
        {"args": ["--reuse-token", "--model", "x"]},
        {"tokens": {"effect": "speed", "state": "installed", "functions": {"swift.sft:a": "996"}}},
    ],
)
def test_references_and_options_in_data_are_kept(document: dict[str, Any]) -> None:
    assert CLEAN.data(document) == document


def test_the_record_of_all_patches_in_a_checkpoint_is_kept() -> None:
    digests = {"swift.pipelines.train.sft:SwiftSft._prepare_dataset": "996bae120addc1b6"}
    made = [Verdict(patch=p, state="installed", digests=digests, unknown=()) for p in PATCHES]
    recorded = {"patches": record.document(made)}
    assert CLEAN.data(recorded) == recorded
