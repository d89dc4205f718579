"""Each tampering of a signed export is found, with its id; an export without one is not."""

import base64
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launchers.stages.statement import NAME
from scripts import cli
from scripts.export import sign, signature
from scripts.export.verify import verify
from scripts.problem import Problem, WrongUse
from scripts.terminal import terminal
from tests.scripts.export.exports import key, make

WEIGHTS = "model-00001-of-00002.safetensors"
OTHER = "model-00002-of-00002.safetensors"
Tamper = Callable[[Path], object]


@dataclass(frozen=True)
class Signed:
    """A signed export, another one of the same signer, and keys."""

    export: Path
    other: Path
    private: Path
    public: Path
    foreign: Path
    """The private key of someone else."""


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    root = tmp_path_factory.mktemp("signed")
    private, public = key(root, "own")
    made = [make(root / name, licence=name) for name in ("mit", "gpl")]
    for each in made:
        assert sign.run(each, str(private), "", terminal(quiet=True), as_data=False) == 0
    foreign, _ = key(root, "foreign")
    return Signed(made[0], made[1], private, public, foreign)


def new(path: Path, content: bytes) -> None:
    """Replace a file; the checkpoint keeps its own, which is the same file."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def flip(name: str, place: int = 0) -> Tamper:
    def act(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[place] ^= 1
        new(folder / name, bytes(content))

    return act


def edit(name: str, change: Callable[[bytes], bytes]) -> Tamper:
    return lambda folder: new(folder / name, change((folder / name).read_bytes()))


def in_json(name: str, change: Callable[[Any], object]) -> Tamper:
    def act(folder: Path) -> None:
        found = json.loads((folder / name).read_bytes())
        change(found)
        new(folder / name, json.dumps(found, indent=1).encode())

    return act


def swap(folder: Path) -> None:
    first, second = (folder / WEIGHTS).read_bytes(), (folder / OTHER).read_bytes()
    new(folder / WEIGHTS, second)
    new(folder / OTHER, first)


def link(folder: Path) -> None:
    """Replace a file by a link to the same content."""
    (folder / WEIGHTS).rename(folder.parent / "elsewhere")
    (folder / WEIGHTS).symlink_to(folder.parent / "elsewhere")


def link_statement(folder: Path) -> None:
    (folder / NAME).rename(folder.parent / "elsewhere")
    (folder / NAME).symlink_to(folder.parent / "elsewhere")


def pipe(name: str) -> Tamper:
    def act(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return act


def folder_instead(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    new(folder / WEIGHTS / "data", b"x")


def restated(folder: Path) -> None:
    """Change a file, the statement and the marker so that all agree; the signature stays."""
    import hashlib

    new(folder / WEIGHTS, b"other weights")
    digest = hashlib.sha256(b"other weights").hexdigest()

    def set_digest(found: Any) -> None:
        for each in found["subject"]:
            if each["name"] == WEIGHTS:
                each["digest"]["sha256"] = digest

    in_json(NAME, set_digest)(folder)
    (folder / ".complete.json").unlink()


def payload(change: Callable[[Any], object]) -> Tamper:
    """Change the statement in the envelope and in its own file alike."""

    def act(folder: Path) -> None:
        in_json(NAME, change)(folder)
        text = base64.b64encode((folder / NAME).read_bytes()).decode()
        in_json(signature.NAME, lambda found: found.update(payload=text))(folder)
        (folder / ".complete.json").unlink()

    return act


def set_step(found: Any) -> None:
    found["predicate"]["megatron_dpo_training"]["step"] = 900


def set_data(found: Any) -> None:
    found["predicate"]["buildDefinition"]["externalParameters"]["recipe"]["dataset"] = ["hf://x/y"]


def first_signature(**changed: str) -> Tamper:
    return in_json(signature.NAME, lambda found: found["signatures"][0].update(changed))


TAMPERINGS: dict[str, tuple[Tamper, str]] = {
    # files
    "a bit of the weights": (flip(WEIGHTS, 500), "file-changed"),
    "the first bit of the weights": (flip(WEIGHTS), "file-changed"),
    "the last bit of the last shard": (flip(OTHER, -1), "file-changed"),
    "a bit of the configuration": (flip("config.json", 9), "file-changed"),
    "a bit of the tokenizer": (flip("tokenizer.json", 9), "file-changed"),
    "a bit of the chat template": (flip("chat_template.jinja", 4), "file-changed"),
    "a bit of the index": (flip("model.safetensors.index.json"), "file-changed"),
    "weights cut": (edit(WEIGHTS, lambda old: old[:-1]), "file-changed"),
    "weights appended to": (edit(WEIGHTS, lambda old: old + b"\0"), "file-changed"),
    "weights empty": (edit(WEIGHTS, lambda old: b""), "file-changed"),
    "line ends changed": (edit("config.json", lambda old: old + b"\n"), "file-changed"),
    "shards exchanged": (swap, "file-changed"),
    "a shard removed": (lambda f: (f / OTHER).unlink(), "file-missing"),
    "the template removed": (lambda f: (f / "chat_template.jinja").unlink(), "file-missing"),
    "a shard renamed": (lambda f: (f / OTHER).rename(f / "model-2.safetensors"), "file-missing"),
    "another case": (lambda f: (f / "config.json").rename(f / "Config.json"), "file-missing"),
    "a file moved": (lambda f: new(f / "sub" / "config.json", b"{}"), "file-added"),
    "code added": (lambda f: new(f / "modeling_x.py", b"import os"), "file-added"),
    "an adapter added": (lambda f: new(f / "adapter_config.json", b"{}"), "file-added"),
    "a pickle added": (lambda f: new(f / "pytorch_model.bin", b"\x80"), "file-added"),
    "a name like a verdict": (lambda f: new(f / "a\nall files are there", b""), "file-added"),
    "a hidden file added": (lambda f: new(f / ".env", b"A=1"), "file-added"),
    "a card added": (lambda f: new(f / "README.md", b"# x"), "card-differs"),
    "a link to the same weights": (link, "file-kind"),
    "a link added": (lambda f: (f / "more").symlink_to(f / WEIGHTS), "file-added"),
    "a pipe for the weights": (pipe(WEIGHTS), "file-kind"),
    "a pipe for the marker": (pipe(".complete.json"), "file-kind"),
    "a name like that of an open file": (lambda f: new(f / ".nfs1.py", b""), "file-added"),
    "a link like the hub's file": (lambda f: (f / ".gitattributes").symlink_to(f), "file-kind"),
    "a folder for the weights": (folder_instead, "file-missing"),
    # the statement
    "statement removed": (lambda f: (f / NAME).unlink(), "statement-invalid"),
    "statement cut": (edit(NAME, lambda old: old[:-20]), "statement-invalid"),
    "statement empty": (edit(NAME, lambda old: b""), "statement-invalid"),
    "statement a list": (edit(NAME, lambda old: b"[]"), "statement-invalid"),
    "statement a link": (link_statement, "statement-invalid"),
    "another type": (in_json(NAME, lambda s: s.update(_type="x")), "statement-invalid"),
    "another predicate": (
        in_json(NAME, lambda s: s.update(predicateType="x")),
        "statement-invalid",
    ),
    "a key twice": (
        edit(NAME, lambda old: old.replace(b"{", b'{"_type": "x",', 1)),
        "statement-invalid",
    ),
    "no file listed": (in_json(NAME, lambda s: s.update(subject=[])), "statement-invalid"),
    "a file listed twice": (
        in_json(NAME, lambda s: s["subject"].append(s["subject"][0])),
        "statement-invalid",
    ),
    "a file no longer listed": (in_json(NAME, lambda s: s["subject"].pop()), "file-added"),
    "a file outside listed": (
        in_json(NAME, lambda s: s["subject"][0].update(name="../x")),
        "statement-invalid",
    ),
    "a digest of another kind": (
        in_json(NAME, lambda s: s["subject"][0].update(digest={"md5": "0" * 32})),
        "statement-invalid",
    ),
    "a digest edited": (
        in_json(NAME, lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
        "file-changed",
    ),
    "steps edited": (in_json(NAME, set_step), "signature-invalid"),
    "data edited": (in_json(NAME, set_data), "signature-invalid"),
    "spaces in the statement": (edit(NAME, lambda old: old + b" "), "signature-invalid"),
    "file and statement agree": (restated, "signature-invalid"),
    "steps edited in both": (payload(set_step), "signature-invalid"),
    # the signature
    "signature removed": (lambda f: (f / signature.NAME).unlink(), "signature-missing"),
    "signature cut": (edit(signature.NAME, lambda old: old[:-9]), "signature-invalid"),
    "signature a list": (edit(signature.NAME, lambda old: b"[]"), "signature-invalid"),
    "no signature listed": (
        in_json(signature.NAME, lambda s: s.update(signatures=[])),
        "signature-invalid",
    ),
    "signature of nothing": (first_signature(sig=""), "signature-invalid"),
    "signature of zeros": (
        first_signature(sig=base64.b64encode(bytes(64)).decode()),
        "signature-invalid",
    ),
    "signature no base64": (first_signature(sig="?"), "signature-invalid"),
    "another key's name": (first_signature(keyid="0" * 64), "signature-invalid"),
    "another payload type": (
        in_json(signature.NAME, lambda s: s.update(payloadType="text/plain")),
        "signature-invalid",
    ),
    "marker edited": (
        in_json(".complete.json", lambda s: s["manifest"].pop("config.json")),
        "marker-differs",
    ),
    "marker torn": (edit(".complete.json", lambda old: old[:50]), "marker-differs"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_each_tampering_is_found(name: str, signed: Signed, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(signed.export, folder)
    assert verify(folder, str(signed.public)).findings == []
    tamper, id = TAMPERINGS[name]
    tamper(folder)
    found = verify(folder, str(signed.public)).findings
    assert id in {each.id for each in found}, found
    assert all(each.sentence.isprintable() for each in found)


@pytest.mark.parametrize(
    ("own_name", "says"), [(False, "no signature is of key"), (True, "the signature is wrong")]
)
def test_a_signature_by_another_key_is_found(
    own_name: bool, says: str, signed: Signed, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    shutil.copytree(signed.export, folder)
    own = json.loads((folder / signature.NAME).read_text())["signatures"][0]["keyid"]
    sign.run(folder, str(signed.foreign), "", terminal(quiet=True), as_data=False)
    if own_name:
        first_signature(keyid=own)(folder)
    [found] = verify(folder, str(signed.public)).findings
    assert found.id == "signature-invalid" and says in found.sentence


@pytest.mark.parametrize("names", [(signature.NAME,), (signature.NAME, NAME)])
def test_the_statement_of_another_export_is_found(
    signed: Signed, tmp_path: Path, names: tuple[str, ...]
) -> None:
    folder = tmp_path / "export"
    shutil.copytree(signed.export, folder)
    for name in names:
        new(folder / name, (signed.other / name).read_bytes())
    found = {each.id for each in verify(folder, str(signed.public)).findings}
    assert found == ({"marker-differs"} if len(names) == 2 else {"signature-invalid"})


@pytest.mark.parametrize("kind", ["EC", "ed25519", "RSA"])
def test_keys_of_each_kind_sign(kind: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "w")
    private, public = key(tmp_path, "k", kind)
    assert sign.run(folder, str(private), "", terminal(quiet=True), as_data=False) == 0
    assert verify(folder, str(public)).signed == "yes"
    assert verify(folder).signed == "unchecked"


def test_a_key_comes_from_a_variable_never_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "w")
    private, public = key(tmp_path, "k")
    monkeypatch.setenv("SIGNER", private.read_text())
    assert sign.run(folder, "env:SIGNER", "", terminal(quiet=True), as_data=False) == 0
    assert verify(folder, str(public)).findings == []
    with pytest.raises(WrongUse, match="not the secret itself"):
        sign.run(folder, private.read_text(), "", terminal(quiet=True), as_data=False)
    with pytest.raises(WrongUse, match="the variable ABSENT is not set"):
        sign.run(folder, "env:ABSENT", "", terminal(quiet=True), as_data=False)


def test_a_changed_export_is_not_signed(tmp_path: Path) -> None:
    folder = make(tmp_path / "w")
    flip("config.json")(folder)
    with pytest.raises(Problem, match="nothing is signed: config.json"):
        sign.run(folder, "absent.pem", "", terminal(quiet=True), as_data=False)
    assert not (folder / signature.NAME).exists()


def test_a_file_that_is_no_key_is_a_sentence(tmp_path: Path) -> None:
    folder = make(tmp_path / "w")
    with pytest.raises(Problem, match="openssl does not read a private key"):
        sign.run(folder, str(folder / "config.json"), "", terminal(quiet=True), as_data=False)


def test_an_unsigned_export_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", str(make(tmp_path))])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "all 7 files are those of its statement" in said
    assert "not signed" in said
