"""push: what a hub and a registry hold then, what is not sent, and each refusal."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from scripts.export import hub as hub_client
from scripts.export import sign
from scripts.export.verify import verify
from scripts.helm import ROOT
from scripts.problem import UnknownState
from scripts.terminal import terminal
from tests.scripts.calling import Call, Ended
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


Push = Callable[..., Ended]


@pytest.fixture
def push(call: Call, monkeypatch: pytest.MonkeyPatch) -> Push:
    def pushed(
        folder: Path, place: str, *words: str, endpoint: str = "", path: Path = ORAS
    ) -> Ended:
        monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
        monkeypatch.setenv("HOME", str(folder.parent))
        monkeypatch.setenv("SECRET", TOKEN)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder.parent / "token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        done = call("push", str(folder), place, *words)
        assert TOKEN not in done.out + done.err
        return done

    return pushed


WITH_TOKEN = ("--yes", "--json", "--token", "env:SECRET")


def test_a_hub_gets_the_export_once(push: Push, hub: Hub, export: Path) -> None:
    first = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert first.code == 0, first.err
    document = json.loads(first.out)
    validate("push", document)
    assert {*document["sent"]} == ALL
    assert hub.files is not None and hub.is_private
    assert {name: hub.files[name] for name in ALL} == {n: (export / n).read_bytes() for n in ALL}
    hub.asked.clear()
    second = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert second.code == 0 and json.loads(second.out)["sent"] == []
    assert {each.partition(" ")[0] for each in hub.asked} == {"GET"}, "nothing is changed"
    hub.files[WEIGHTS] = b"other"
    third = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert json.loads(third.out)["sent"] == [WEIGHTS]
    assert hub.files[WEIGHTS] == (export / WEIGHTS).read_bytes()
    for name, content in hub.files.items():
        (export.parent / "down").mkdir(exist_ok=True)
        (export.parent / "down" / name).write_bytes(content)
    assert verify(export.parent / "down").findings == [], "a download is that of its statement"


def test_an_interrupted_push_sends_no_large_file_again(push: Push, hub: Hub, export: Path) -> None:
    hub.refuse["/commit/main"] = 400
    assert "[push-refused]" in push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint).err
    assert len(hub.stored) == 2
    hub.refuse.clear()
    hub.asked.clear()
    assert push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint).code == 0
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
    push: Push, hub: Hub, export: Path, path: str, status: int, id: str, code: int
) -> None:
    hub.refuse[path] = status
    hub.files = None if "create" in path else {}
    done = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert (done.code, f"[{id}]" in done.err) == (code, True), done.err
    assert "Traceback" not in done.err


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
        (PLACE, ("--yes", "--token", sys.executable), "not a text in UTF-8", 2),
        (PLACE, ("--token", "env:SECRET"), "no confirmation is possible", 1),
        ("s3://acme/dpo", ("--yes",), "push-destination", 2),
    ],
)
def test_wrong_options_push_nothing(
    push: Push, hub: Hub, export: Path, place: str, words: tuple[str, ...], id: str, code: int
) -> None:
    done = push(export, place, *words, endpoint=hub.endpoint)
    assert (done.code, id in done.err) == (code, True), done.err
    assert hub.files is None


def test_foreign_files_there_are_kept(push: Push, hub: Hub, export: Path) -> None:
    hub.files = {"adapter_config.json": b"{}"}
    done = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert done.code == 1 and "[push-foreign-files]" in done.err
    assert hub.files == {"adapter_config.json": b"{}"}


def test_a_changed_export_is_not_pushed(push: Push, hub: Hub, export: Path, tmp_path: Path) -> None:
    (export / "config.json").unlink()
    done = push(export, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert done.code == 1 and "[file-missing]" in done.err
    failed = make(tmp_path / "failed", tested={"problems": ["a layer is missing"]})
    done = push(failed, PLACE, *WITH_TOKEN, endpoint=hub.endpoint)
    assert done.code == 1 and "[push-test-failed]" in done.err
    assert hub.asked == []


HELPER = 'exec: "docker-credential-desktop": executable file not found in $PATH'


@pytest.mark.parametrize(
    ("printed", "said", "id"),
    [
        ("", f"Error: error getting credentials - err: {HELPER}", "push-token"),
        ("", "Error: open /etc/ca.pem: file not found", "push-unreachable"),
        ("", "Error: proxyconnect tcp: proxy:3128: not found", "push-unreachable"),
        ('{"manifests": [{"digest": "sha256:1"}]}', "", "push-foreign-files"),
        ("<html>login</html>", "", "push-unreachable"),
        ("null", "", "push-unreachable"),
    ],
    ids=["no helper", "no file", "no proxy", "index", "page", "null"],
)
def test_what_is_not_known_of_a_tag_does_not_replace_it(
    push: Push, export: Path, printed: str, said: str, id: str
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
    assert f"[{id}]" in done.err and not sent.exists(), done.err


@pytest.mark.skipif(
    not (ORAS / "oras").exists(), reason="no .tools/cluster/bin/oras: `make test` builds it"
)
def test_a_registry_gets_the_export_once(push: Push, export: Path) -> None:
    with loopback.serving() as address:
        place = f"oci://{address.replace('127.0.0.1', 'localhost')}/acme/dpo:v1"
        first = push(export, place, "--yes", "--json")
        assert first.code == 0, first.err
        found = json.loads(first.out)
        assert {*found["sent"]} == ALL and found["digest"].startswith("sha256:")
        second = push(export, place, "--yes", "--json")
        assert json.loads(second.out) == {**found, "sent": [], "digest": ""}
        folder = export.parent / "pulled"
        pull = [str(ORAS / "oras"), "pull", place.removeprefix("oci://"), "--output", str(folder)]
        subprocess.run(pull, check=True, capture_output=True)
    assert verify(folder).findings == []
    ended = push(export, place, "--yes")
    assert ended.code == 4 and "[push-unreachable]" in ended.err
