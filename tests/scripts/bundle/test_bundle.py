"""A bundle holds what explains a run, and no secret, row or weight."""

import base64
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from rich.console import Console

from launchers.config.workspace import Workspace
from scripts.bundle import command, logs
from scripts.bundle.command import Request
from scripts.observe.command import Target
from scripts.redact import Redactor
from scripts.report import Format, reading
from scripts.report import command as reporting
from tests.scripts.report.planted import plant

CANARY = "cAnArY-5e1f0d"
BASE64 = base64.b64encode(CANARY.encode()).decode()
LOG = "attempts/2/node-0.log"

LINES = {
    "environment, as a shell prints it": f"WANDB_API_KEY={CANARY}",
    "exported": f'export HF_TOKEN="{CANARY}"',
    "quoted in a dictionary of Python": f"{{'HF_TOKEN': '{CANARY}', 'HOME': '/'}}",
    "a name of the user": f"MY_SERVICE_PASSWORD: {CANARY}",
    "camel case": f'"hfToken": "{CANARY}"',
    "inside a string of JSON": json.dumps({"env": json.dumps({"api_key": CANARY})}),
    "an option": f"python train.py --hub_token {CANARY} --lr 1",
    "an option with a sign": f"python train.py --wandb-api-key={CANARY}",
    "options as a list": f"['--hub_token', '{CANARY}']",
    "options as a list of YAML": f"  - --hub_token\n  - {CANARY}",
    "a URL in a query": f"GET https://x/?next=https%3A%2F%2Fy%3Ftoken%3D{CANARY}",
    "the query of a remote": f"origin https://git.example/x.git?pat={CANARY} (fetch)",
    "a line of netrc": f"machine api.wandb.ai login user password {CANARY}",
    "user and password of a URL": f"https://me:{CANARY}@example.com/repo.git",
    "a token as the user of a URL": f"git clone https://{CANARY}@example.com/repo.git",
    "a proxy": f"proxy http://user:{CANARY}@proxy:3128 refused",
    "a header": f"Authorization: Bearer {CANARY}",
    "a header of curl": f"curl -H 'authorization: token {CANARY}'",
    "a cookie": f"Set-Cookie: {CANARY}",
    "a query": f"GET https://s3/x?X-Amz-Signature={CANARY}&X-Amz-Date=1",
    "another query": f"GET https://hub/x?token={CANARY}",
    "Hugging Face": f"token is hf_{CANARY.replace('-', '')}",
    "GitHub": f"using ghp_{CANARY.replace('-', '')}",
    "GitLab": f"using glpat-{CANARY}",
    "Slack token": f"using xoxb-{CANARY}",
    "Slack webhook": f"POST https://hooks.slack.com/services/T0/B0/{CANARY}",
    "OpenAI style": f"using sk-proj-{CANARY}-abcdefgh",
    "npm": f"using npm_{CANARY.replace('-', '') * 2}",
    "Groq": f"using gsk_{CANARY.replace('-', '') * 2}",
    "Docker Hub": f"using dckr_pat_{CANARY}",
    "PyPI": f"using pypi-AgEIcHlwaS5vcmc{CANARY}",
    "NVIDIA": f"using nvapi-{CANARY}",
    "JSON web token": f"jwt eyJ{CANARY}.{CANARY}.{CANARY}",
    "an entry of env on one line": f"{{name: DB_PASSWORD, value: {CANARY}}}",
    "a private key": f"-----BEGIN OPENSSH PRIVATE KEY----- {CANARY}",
    "an encoded row": f"[default0]:[INFO:swift] [CHOSEN_INPUT] hello\n{CANARY}",
    "labels of a row": f"[INFO:swift] [REJECTED_LABELS_IDS] [1, 2] {CANARY}",
    "a row in a traceback": f"ValueError: {{'messages': [{{'content': '{CANARY}'}}]}}",
    "a value of the values file": f"worker prints {CANARY}-of-values",
    "a value of the caller's environment": f"worker prints {CANARY}-of-caller",
    "the content of a Secret": f"worker prints {CANARY}-of-secret",
}
"""Places in a log; each has a line of its own."""


def data(work: Workspace, file: str, change: Callable[[dict[str, Any]], object]) -> None:
    path = work.home / file
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def planted(root: Path) -> Workspace:
    work = plant(root)
    log = "".join(f"start\n{line}\n[INFO:swift] go\n" for line in LINES.values())
    (work.home / LOG).write_text(log)
    data(work, "plan.json", lambda d: d["recipe"]["args"].update(hub_token=CANARY))
    data(work, "plan.json", lambda d: d["recipe"].update(model=f"https://u:{CANARY}@h/m"))
    data(work, "progress.json", lambda d: d.update(why=f"clone of https://x:{CANARY}@h failed"))
    data(work, "inputs.json", lambda d: d.update({f"clone https://{CANARY}@h/r@main": "abc"}))
    ended = "attempts/1/termination-0.json"
    data(work, ended, lambda d: d.update(cause=f"HF_TOKEN={CANARY} is refused"))
    data(work, "attempts/2/preflight-0.json", lambda d: d.update(proxy_password=CANARY))
    args = {"hub_token": CANARY, "list": ["--api-key", CANARY], "lr": 1e-5}
    (work.checkpoints / "args.json").write_text(json.dumps(args))
    saved = "checkpoints/checkpoint-20"
    for name in (
        "checkpoints/val_dataset.jsonl",
        f"{saved}/model.safetensors",
        f"{saved}/tokenizer.json",
        "attempts/2/not-finite-0.jsonl",
        "attempts/2/unknown.yaml",
    ):
        (work.home / name).write_text(CANARY)  # it does not go in
    (root / "outside.log").write_text(CANARY)
    (work.attempts / "2" / "link.log").symlink_to(root / "outside.log")
    return work


VALUES: dict[str, Any] = {
    "code": {"url": f"https://me:{CANARY}@example.com/r.git"},
    "extraEnv": {
        "PLAIN_NAME": f"{CANARY}-of-values",
        "NCCL_DEBUG": "INFO",
        "FROM": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    },
    "recipe": {"args": {"report_to": "wandb", "hub_token": CANARY}},
    "apiKeys": [CANARY, {"old": CANARY}],
    "credentials": {"wandb": [CANARY]},
}
HIDING: dict[str, Any] = {"args": ["--token", CANARY]}
ENV = {"ANY": f"{CANARY}-in-env", "DPO_RUN": "dpo-42"}
HIDING["env"] = [{"name": name, "value": value} for name, value in ENV.items()]
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NOTED: dict[str, Any] = {"annotations": {APPLIED: CANARY, "example.com/api-token": CANARY}}
NOTED["managedFields"] = [{"x": CANARY}]
CLUSTER: dict[str, Any] = {
    "cluster/secret.json": {
        "kind": "Secret",
        "metadata": {"name": "hf"},
        "data": {"token": base64.b64encode(f"{CANARY}-of-secret".encode()).decode()},
        "stringData": {"other": CANARY},
    },
    "cluster/pod.json": {"kind": "Pod", "metadata": NOTED, "spec": {"containers": [HIDING]}},
    "cluster/configmap.json": {"kind": "ConfigMap", "binaryData": {"launchers": BASE64}},
}
KNOWN = {
    "values/0-x.json": {"extraEnv": {"PLAIN_NAME": f"{CANARY}-of-values"}},
    "cluster/secret.json": {"kind": "Secret", "stringData": {"token": f"{CANARY}-of-secret"}},
}
"""Documents that do not hold the bare canary: it is found in logs by name and form alone."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return packed(tmp_path, {**CLUSTER, "values/0-x.json": VALUES})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The log in an archive that was made without knowing the canary."""
    return packed(tmp_path_factory.mktemp("log"), KNOWN)[LOG].splitlines()


def packed(root: Path, documents: dict[str, Any]) -> dict[str, str]:
    work = planted(root / "w")
    env = {"SWANLAB_API_KEY": f"{CANARY}-of-caller", "HOME": "/root"}
    archive = command.archive(command.build(work.home, documents, env), "b")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {name: tar.extractfile(name) for name in tar.getnames()}
        return {n.removeprefix("b/"): each.read().decode() for n, each in found.items() if each}


def test_the_canary_is_in_at_least_30_places() -> None:
    assert len(LINES) >= 30
    plain = CANARY.replace("-", "")
    assert all(CANARY in line or plain in line for line in LINES.values())


@pytest.mark.parametrize("place", list(LINES))
def test_no_line_of_a_log_keeps_the_canary(log: list[str], place: str) -> None:
    assert log.count("start") == log.count("[INFO:swift] go") == len(LINES)  # the rest is kept
    mine = "\n".join(log).split("start")[list(LINES).index(place) + 1]
    assert CANARY not in mine and CANARY.replace("-", "") not in mine
    assert "[redacted]" in mine or logs.ROW in mine


def test_no_file_keeps_the_canary(files: dict[str, str]) -> None:
    assert len(files) > 12
    for name, text in files.items():
        for form in (CANARY, CANARY.replace("-", ""), BASE64.rstrip("=")):
            assert form not in text, name


def test_what_explains_a_run_is_kept(files: dict[str, str]) -> None:
    assert json.loads(files["checkpoints/args.json"])["lr"] == 1e-5
    assert json.loads(files["plan.json"])["recipe"]["args"]["lr"] == "1e-5"
    assert files["metrics.jsonl"].count('"tokens":1000') == 24
    pod = json.loads(files["cluster/pod.json"])["spec"]["containers"][0]
    assert {"name": "DPO_RUN", "value": "dpo-42"} in pod["env"]
    values = json.loads(files["values/0-x.json"])
    assert values["extraEnv"]["NCCL_DEBUG"] == "INFO"
    assert values["extraEnv"]["FROM"] == VALUES["extraEnv"]["FROM"]
    assert json.loads(files["cluster/secret.json"])["keys"] == ["other", "token"]
    assert json.loads(files["attempts/1/termination-0.json"])["code"] == 75


def test_the_contents_name_what_is_in_and_what_is_left_out(files: dict[str, str]) -> None:
    held, left_out = files[command.CONTENTS].split("# Left out")
    for name in files:
        assert name == command.CONTENTS or f"- {name} (" in held
    for name in ("model.safetensors", "val_dataset.jsonl", "not-finite-0.jsonl", "link.log"):
        assert name in left_out and name not in held


def test_the_report_of_the_same_run_keeps_no_secret_either(tmp_path: Path) -> None:
    run = reading.read(planted(tmp_path))
    for kind in get_args(Format):
        assert CANARY not in reporting.render([run], kind), kind


def test_a_long_log_keeps_its_begin_and_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("".join(f"line {n}\n" for n in range(10_000)))
    text, is_cut = logs.excerpt(path, head=100, tail=100)
    lines = text.splitlines()
    assert is_cut and (lines[0], lines[-1]) == ("line 0", "line 9999")
    assert len(text) < 300 and sum("bytes left out" in line for line in lines) == 1


def test_only_the_first_and_the_newest_attempts_have_logs(tmp_path: Path) -> None:
    work = plant(tmp_path)
    for number in range(1, 13):
        folder = work.attempts / str(number)
        folder.mkdir(exist_ok=True)
        (folder / "node-0.log").write_text("x\n")
    bundle = command.build(work.home, {}, {})
    logged = {int(n.split("/")[1]) for n in bundle.files if n.endswith(".log")}
    assert logged == {1, 8, 9, 10, 11, 12}
    reasons = {e.reason for e in bundle.left_out if e.name.endswith(".log")}
    assert reasons == {"log of an older attempt"}


def test_the_command_writes_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.yaml").write_text(yaml.safe_dump(VALUES))
    target = Target(run="dpo-42", workspace=tmp_path)
    values = [tmp_path / "v.yaml"]
    assert command.run(Request(target=target, values=values), Console(width=80)) == 0
    shown = capsys.readouterr().out
    assert "bundle-dpo-42.tar.gz" in shown and CANARY not in shown
    with tarfile.open(tmp_path / "bundle-dpo-42.tar.gz") as tar:
        assert {member.mode for member in tar} == {0o600}
        assert "bundle-dpo-42/values/0-v.json" in tar.getnames()


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_a_known_secret_is_found_inside_of_a_longer_text_in_base64(before: str) -> None:
    """As `user:password` in the configuration of a registry."""
    text = base64.b64encode(f"{before}{CANARY}:after".encode()).decode()
    assert "[redacted]" in Redactor((CANARY,)).text(f"auth: <{text}>")
