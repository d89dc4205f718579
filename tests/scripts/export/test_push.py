"""push: what a hub and a registry hold then, what is not sent, and each refusal."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from scripts.export import hub as hub_client
from scripts.export import sign
from scripts.export.verify import verify
from scripts.helm import ROOT
from scripts.problem import UnknownState
from scripts.terminal import terminal
from tests.scripts.dev.release import loopback
from tests.scripts.export import fake_hub
from tests.scripts.export.exports import FILES, key, make
from tests.scripts.export.fake_hub import REPOSITORY, TOKEN, Hub
from tests.scripts.test_documents import validate

PLACE = f"hf://{REPOSITORY}"
ORAS = ROOT / ".tools" / "cluster" / "bin"
ALL = {*FILES, "statement.json", "statement.dsse.json", "README.md"}
WEIGHTS = "model-00001-of-00002.safetensors"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with fake_hub.serving() as served:
        yield served


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = make(tmp_path / "w")
    private, _ = key(tmp_path, "own")
    assert sign.run(folder, str(private), "", terminal(quiet=True), as_data=False) == 0
    return folder


def push(
    folder: Path, place: str, *words: str, endpoint: str = "", path: Path = ORAS
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(folder.parent), "SECRET": TOKEN}
    env |= {"HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "scripts.cli", "push", str(folder), place, *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert TOKEN not in done.stdout + done.stderr
    return done


WITH_TOKEN = ("--yes", "--json", "--token", "env:SECRET")


def test_a_hub_gets_the_export_once(hub: Hub, export: Path) -> None:
    first = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    validate("push", document)
    assert {*document["sent"]} == ALL
    assert hub.files is not None and hub.is_private
    assert {name: hub.files[name] for name in ALL} == {n: (export / n).read_bytes() for n in ALL}
    hub.asked.clear()
    second = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert second.returncode == 0 and json.loads(second.stdout)["sent"] == []
    assert {each.partition(" ")[0] for each in hub.asked} == {"GET"}, "nothing is changed"
    hub.files[WEIGHTS] = b"other"
    third = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert json.loads(third.stdout)["sent"] == [WEIGHTS]
    assert hub.files[WEIGHTS] == (export / WEIGHTS).read_bytes()
    for name, content in hub.files.items():
        (export.parent / "down").mkdir(exist_ok=True)
        (export.parent / "down" / name).write_bytes(content)
    assert verify(export.parent / "down").findings == [], "a download is that of its statement"


def test_an_interrupted_push_sends_no_large_file_again(hub: Hub, export: Path) -> None:
    hub.refuse["/commit/main"] = 400
    assert "[push-refused]" in push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint).stderr
    assert len(hub.stored) == 2
    hub.refuse.clear()
    hub.asked.clear()
    assert push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint).returncode == 0
    assert not any("/store/" in each for each in hub.asked)


@pytest.mark.parametrize(
    ("path", "status", "id", "code"),
    [
        ("/whoami-v2", 401, "push-token", 1),
        ("/repos/create", 403, "push-forbidden", 1),
        ("/preupload/main", 413, "push-refused", 1),
        ("/tree/main", 501, "push-unreachable", 4),
        ("/repos/create", 409, "push-unreachable", 4),
        ("/commit/main", 409, "push-unreachable", 4),
        ("/whoami-v2", 429, "push-unreachable", 4),
    ],
)
def test_a_hub_that_refuses(
    hub: Hub, export: Path, path: str, status: int, id: str, code: int
) -> None:
    hub.refuse[path] = status
    hub.files = None if "create" in path else {}
    done = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert (done.returncode, f"[{id}]" in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_hub_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(hub_client, "SILENCE_SECONDS", 0.1)
        with pytest.raises(UnknownState, match=r"\[push-unreachable\]"):
            hub_client.Repository(REPOSITORY, TOKEN).files()


@pytest.mark.parametrize(
    ("place", "words", "id", "code"),
    [
        (PLACE, ("--yes",), "push-token", 1),
        (PLACE, ("--yes", "--token", "env:ABSENT"), "the variable ABSENT is not set", 2),
        (PLACE, ("--yes", "--token", "hf_x"), "not the secret itself", 2),
        (PLACE, ("--token", "env:SECRET"), "no confirmation is possible", 1),
        ("s3://acme/dpo", ("--yes",), "push-destination", 2),
    ],
)
def test_wrong_options_push_nothing(
    hub: Hub, export: Path, place: str, words: tuple[str, ...], id: str, code: int
) -> None:
    done = push(export, place, *words, endpoint=hub.endpoint)
    assert (done.returncode, id in done.stderr) == (code, True), done.stderr
    assert hub.files is None


def test_foreign_files_there_are_kept(hub: Hub, export: Path) -> None:
    hub.files = {"adapter_config.json": b"{}"}
    done = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert done.returncode == 1 and "[push-foreign-files]" in done.stderr
    assert hub.files == {"adapter_config.json": b"{}"}


def test_a_changed_export_is_not_pushed(hub: Hub, export: Path, tmp_path: Path) -> None:
    (export / "config.json").unlink()
    done = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert done.returncode == 1 and "[file-missing]" in done.stderr
    failed = make(tmp_path / "failed", tested={"problems": ["a layer is missing"]})
    done = push(failed, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert done.returncode == 1 and "[push-test-failed]" in done.stderr
    assert hub.asked == []


HELPER = 'exec: "docker-credential-desktop": executable file not found in $PATH'


@pytest.mark.parametrize(
    ("printed", "said", "id"),
    [
        ("", f"Error: error getting credentials - err: {HELPER}", "push-token"),
        ("", "Error: open /etc/ca.pem: file not found", "push-unreachable"),
        ('{"manifests": [{"digest": "sha256:1"}]}', "", "push-foreign-files"),
        ("<html>login</html>", "", "push-unreachable"),
        ("null", "", "push-unreachable"),
    ],
    ids=["no helper", "no file", "index", "page", "null"],
)
def test_what_is_not_known_of_a_tag_does_not_replace_it(
    export: Path, printed: str, said: str, id: str
) -> None:
    """The program of the test is the first `oras` that is found."""
    program = export.parent / "bin" / "oras"
    program.parent.mkdir()
    sent = export.parent / "sent"
    program.write_text(
        f"#!/bin/sh\n[ $1 = push ] && touch {sent}\n"
        f"echo {shlex.quote(printed)}; echo {shlex.quote(said)} >&2; exit {int(bool(said))}\n"
    )
    program.chmod(0o755)
    done = push(export, "oci://reg.example/acme/dpo:v1", "--yes", path=program.parent)
    assert f"[{id}]" in done.stderr and not sent.exists(), done.stderr


@pytest.mark.skipif(
    not (ORAS / "oras").exists(), reason="no .tools/cluster/bin/oras: `make test` builds it"
)
def test_a_registry_gets_the_export_once(export: Path) -> None:
    with loopback.serving() as address:
        place = f"oci://{address.replace('127.0.0.1', 'localhost')}/acme/dpo:v1"
        first = push(export, place, "--yes", "--json")
        assert first.returncode == 0, first.stderr
        found = json.loads(first.stdout)
        assert {*found["sent"]} == ALL and found["digest"].startswith("sha256:")
        second = push(export, place, "--yes", "--json")
        assert json.loads(second.stdout) == {**found, "sent": [], "digest": ""}
        folder = export.parent / "pulled"
        pull = [str(ORAS / "oras"), "pull", place.removeprefix("oci://"), "--output", str(folder)]
        subprocess.run(pull, check=True, capture_output=True)
    assert verify(folder).findings == []
    ended = push(export, place, "--yes")
    assert ended.returncode == 4 and "[push-unreachable]" in ended.stderr
