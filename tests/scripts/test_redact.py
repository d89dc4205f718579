"""Secrets are removed from texts and data; references, options and ordinary words are kept."""

import json
import time
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


SECRET_FORMS = (
    f"fatal: unable to access 'https://me:p@ss-{CANARY}@git.example/x.git/'",
    f"https://me:pa/ss-{CANARY}@git.example/x",
    f"https://me:pa?s#s/{CANARY}@git.example/x",
    f"https://me:8080{CANARY}@git.example/x",
    f"https://me@corp:pa/{CANARY}@h",
    *(f"https://me:{n}/{CANARY}@{h}" for n, h in ((1, "git.example"), (12345, "db/x"))),
    *(f"https://me:80/{CANARY}@{h}" for h in ("db:5432", "10.0.0.1")),
    f"https://me@corp:8080/{CANARY}@[::1]/x",
    f"redis://me:12345/{CANARY}@cache",
    f"git clone https://me@corp:{CANARY}@git.example/x",
    f"proxy socks5://user:se#cr:{CANARY}@[::1]:3128",
    f"https://outlook.office.com/webhook/{CANARY}@bbbb/IncomingWebhook/cccc/dddd",
    f"https://mattermost.example/hooks/{CANARY}",
    f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={CANARY}",
    "wandb: logged in with " + CANARY.encode().hex() * 2,
    f"mysql -h db -u root -p{CANARY} train",
    f"curl -u me:{CANARY} https://x",
    f"curl --user 'me:{CANARY}' https://x",
    f"the passphrase is {CANARY}",
    f"GIT_PAT={CANARY}",
    f"NODE_CRED: {CANARY}",
    f"auth = {CANARY}",
    f"secrets: [a, {CANARY}]",
)


@pytest.mark.parametrize("text", SECRET_FORMS)
def test_a_secret_of_a_known_form_is_removed(text: str) -> None:
    found = CLEAN.text(text)
    assert REDACTED in found and CLEAN.text(found) == found
    assert CANARY not in found and CANARY.encode().hex() not in found


@pytest.mark.parametrize(
    "text",
    [
        f"image registry.example:5000/train@sha256:{'0123456789abcdef' * 4}",
        "commit 0123456789abcdef0123456789abcdef01234567 of wandb",
        "https://git.example:8443/team/code.git@v1 and me@example.com",
        "https://host:8080/a@b, https://host:8080/team/repo@main, http://h:80/a@main/b?c#d",
        "https://cdn.example:8443/npm/vue@3.2.1/x.js https://host:80/@scope/name@1.2.3",
        "ssh://git@host:22/team/repo@v1 ssh://git@host:team/repo@v1 git+https://h:1/a.git@0c1d#egg=x",
        *(
            f"{scheme}registry:5000/a/x:tag@sha256:{digits * 16}"
            for scheme in ("", "oci://", "docker-pullable://", "https://")
            for digits in ("ab12", "1234")
        ),
        "hf://org/name@main/a.jsonl, git@host:team/code.git",
        "https://host/@team/path@v2",
        "docker run -u 1000:1000 image",
        "python -u train.py --port 29500",
        "the token is required, the password is long, the secret was not found",
        "secret: {secretName: git, items: [{key: token, path: token}]}",
        "author: me, path=/a/b, compat: yes",
        'failed calling webhook "mjob.kb.io": Post "https://kueue-webhook-service.kueue-system.svc:443/mutate"',
    ],
)
def test_a_text_that_only_looks_like_a_secret_is_kept(text: str) -> None:
    assert CLEAN.text(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "token: [",
        "token: [\n",
        "token:\n [",
        "token: [x\n  y\n",
        "token: ['",
        "secret",
        "a.",
        "\\'",
        "https://a",
        "://u:p",
        "eyJabcdefgh.",
        '"token": {"a": ',
        "machine a ",
        "://u@v:1/a@b.",
        "://u:1/",
    ],
)
def test_the_time_grows_with_the_length_of_the_text(unit: str) -> None:
    def seconds(count: int) -> float:
        text, began = "token: [" + unit * count, time.process_time()
        CLEAN.text(text)
        return time.process_time() - began

    short = min(seconds(1000) for _ in range(3))
    # 8 times the text, and 64 times the time if it grew with the square
    assert any(seconds(8000) < 25 * short + 0.2 for _ in range(2))


@pytest.mark.parametrize(
    "document",
    [
        {"tokens": {"hf_" + CANARY: 1}},
        {"secrets": [CANARY]},
        {"apiKeys": [CANARY]},
        {"metadata": {"annotations": {"example.com/api-token": CANARY}}},
        {"client_secret": ["x", {"a": CANARY}]},
        {"secrets": {"hf": {"value": CANARY}}},
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
        {"secrets": {"hf": {"existingSecret": "hf", "key": "token"}}},
        {"secret": {"secretName": "git", "items": [{"key": "ssh-privatekey", "path": "key"}]}},
        {"imagePullSecrets": [{"name": "registry"}], "pullSecrets": ["registry"]},
        {"tokens": {"mean": 3.5, "of": [1, 2]}, "secretKeyRef": {"name": "hf", "key": "k"}},
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
