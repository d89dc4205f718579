"""Each tampering of a signed export is found, with its id; an export without one is not."""

import base64
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import LaunchError
from launchers.stages.statement import NAME
from launchers.system import lookup
from scripts.export import sign, signature
from scripts.export.verify import verify
from scripts.problem import Problem, WrongUse
from scripts.terminal import terminal
from tests.faults.errno_matrix import Seam
from tests.scripts.calling import Call
from tests.scripts.export.exports import key, make

WEIGHTS = "model-00001-of-00002.safetensors"
OTHER = "model-00002-of-00002.safetensors"
MARKER = ".complete.json"
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
        assert signs(each, private) == 0
    foreign, _ = key(root, "foreign")
    return Signed(made[0], made[1], private, public, foreign)


def signs(folder: Path, by: Path | str) -> int:
    return sign.run(folder, str(by), "", terminal(quiet=True), as_data=False)


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


def stated(change: Callable[[Any], object]) -> Tamper:
    return in_json(NAME, change)


def swap(folder: Path) -> None:
    first, second = (folder / WEIGHTS).read_bytes(), (folder / OTHER).read_bytes()
    new(folder / WEIGHTS, second)
    new(folder / OTHER, first)


def link(name: str) -> Tamper:
    """Replace a file by a link to the same content."""

    def act(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    return act


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
    new(folder / WEIGHTS, b"other weights")
    digest = hashlib.sha256(b"other weights").hexdigest()

    def set_digest(found: Any) -> None:
        for each in found["subject"]:
            if each["name"] == WEIGHTS:
                each["digest"]["sha256"] = digest

    stated(set_digest)(folder)
    (folder / MARKER).unlink()


def payload(change: Callable[[Any], object]) -> Tamper:
    """Change the statement in the envelope and in its own file alike."""

    def act(folder: Path) -> None:
        stated(change)(folder)
        text = base64.b64encode((folder / NAME).read_bytes()).decode()
        in_json(signature.NAME, lambda found: found.update(payload=text))(folder)
        (folder / MARKER).unlink()

    return act


def set_step(found: Any) -> None:
    found["predicate"]["megatron_dpo_training"]["step"] = 900


def set_data(found: Any) -> None:
    found["predicate"]["buildDefinition"]["externalParameters"]["recipe"]["dataset"] = ["hf://x/y"]


def first_signature(**changed: str) -> Tamper:
    return in_json(signature.NAME, lambda found: found["signatures"][0].update(changed))


TAMPERINGS: dict[str, dict[str, Tamper]] = {
    "file-changed": {
        "a bit of the weights": flip(WEIGHTS, 500),
        "the first bit of the weights": flip(WEIGHTS),
        "the last bit of the last shard": flip(OTHER, -1),
        "a bit of the configuration": flip("config.json", 9),
        "a bit of the tokenizer": flip("tokenizer.json", 9),
        "a bit of the chat template": flip("chat_template.jinja", 4),
        "a bit of the index": flip("model.safetensors.index.json"),
        "weights cut": edit(WEIGHTS, lambda old: old[:-1]),
        "weights appended to": edit(WEIGHTS, lambda old: old + b"\0"),
        "weights empty": edit(WEIGHTS, lambda old: b""),
        "line ends changed": edit("config.json", lambda old: old + b"\n"),
        "shards exchanged": swap,
        "a digest edited": stated(lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
    },
    "file-missing": {
        "a shard removed": lambda f: (f / OTHER).unlink(),
        "the template removed": lambda f: (f / "chat_template.jinja").unlink(),
        "a shard renamed": lambda f: (f / OTHER).rename(f / "model-2.safetensors"),
        "another case": lambda f: (f / "config.json").rename(f / "Config.json"),
        "a folder for the weights": folder_instead,
    },
    "file-added": {
        "a file moved": lambda f: new(f / "sub" / "config.json", b"{}"),
        "code added": lambda f: new(f / "modeling_x.py", b"import os"),
        "an adapter added": lambda f: new(f / "adapter_config.json", b"{}"),
        "a pickle added": lambda f: new(f / "pytorch_model.bin", b"\x80"),
        "a name like a verdict": lambda f: new(f / "a\nall files are there", b""),
        "a hidden file added": lambda f: new(f / ".env", b"A=1"),
        "a link added": lambda f: (f / "more").symlink_to(f / WEIGHTS),
        "a name like that of an open file": lambda f: new(f / ".nfs1.py", b""),
        "a file no longer listed": stated(lambda s: s["subject"].pop()),
    },
    "card-differs": {"a card added": lambda f: new(f / "README.md", b"# x")},
    "file-kind": {
        "a link to the same weights": link(WEIGHTS),
        "a pipe for the weights": pipe(WEIGHTS),
        "a pipe for the marker": pipe(MARKER),
        "a link like the hub's file": lambda f: (f / ".gitattributes").symlink_to(f),
    },
    "statement-invalid": {
        "statement removed": lambda f: (f / NAME).unlink(),
        "statement cut": edit(NAME, lambda old: old[:-20]),
        "statement empty": edit(NAME, lambda old: b""),
        "statement a list": edit(NAME, lambda old: b"[]"),
        "statement a link": link(NAME),
        "another type": stated(lambda s: s.update(_type="x")),
        "another predicate": stated(lambda s: s.update(predicateType="x")),
        "a key twice": edit(NAME, lambda old: old.replace(b"{", b'{"_type": "x",', 1)),
        "no file listed": stated(lambda s: s.update(subject=[])),
        "a file listed twice": stated(lambda s: s["subject"].append(s["subject"][0])),
        "a file outside listed": stated(lambda s: s["subject"][0].update(name="../x")),
        "a digest of another kind": stated(
            lambda s: s["subject"][0].update(digest={"md5": "0" * 32})
        ),
    },
    "signature-missing": {"signature removed": lambda f: (f / signature.NAME).unlink()},
    "signature-invalid": {
        "steps edited": stated(set_step),
        "data edited": stated(set_data),
        "spaces in the statement": edit(NAME, lambda old: old + b" "),
        "file and statement agree": restated,
        "steps edited in both": payload(set_step),
        "signature cut": edit(signature.NAME, lambda old: old[:-9]),
        "signature a list": edit(signature.NAME, lambda old: b"[]"),
        "no signature listed": in_json(signature.NAME, lambda s: s.update(signatures=[])),
        "signature of nothing": first_signature(sig=""),
        "signature of zeros": first_signature(sig=base64.b64encode(bytes(64)).decode()),
        "signature no base64": first_signature(sig="?"),
        "another key's name": first_signature(keyid="0" * 64),
        "another payload type": in_json(
            signature.NAME, lambda s: s.update(payloadType="text/plain")
        ),
    },
    "marker-differs": {
        "marker edited": in_json(MARKER, lambda s: s["manifest"].pop("config.json")),
        "marker torn": edit(MARKER, lambda old: old[:50]),
    },
}
"""By the id of the finding."""


@pytest.fixture
def export(signed: Signed, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed.export, tmp_path / "export"))


@pytest.mark.parametrize(
    ("id", "name"), [(id, name) for id, acts in TAMPERINGS.items() for name in acts]
)
def test_each_tampering_is_found(id: str, name: str, signed: Signed, export: Path) -> None:
    assert verify(export, str(signed.public)).findings == []
    TAMPERINGS[id][name](export)
    found = verify(export, str(signed.public)).findings
    assert id in {each.id for each in found}, found
    assert all(each.sentence.isprintable() for each in found)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("scandir", "hidden"),
        *((call, WEIGHTS) for call in ("stat", "open", "read")),
        *((call, name) for call in ("stat", "open") for name in (NAME, signature.NAME, MARKER)),
    ],
)
def test_what_cannot_be_read_is_no_difference(call: str, name: str, export: Path) -> None:
    (export / "hidden").mkdir()
    seam = Seam(export)
    seam.call, seam.path, seam.number, seam.left = call, f"/{name}", errno.EACCES, math.inf
    with seam.patched(), pytest.raises(LaunchError) as unknown:
        verify(export)
    assert unknown.value.id == lookup.ID


@pytest.mark.parametrize(
    ("own_name", "says"), [(False, "no signature is of key"), (True, "the signature is wrong")]
)
def test_a_signature_by_another_key_is_found(
    own_name: bool, says: str, signed: Signed, export: Path
) -> None:
    own = json.loads((export / signature.NAME).read_text())["signatures"][0]["keyid"]
    signs(export, signed.foreign)
    if own_name:
        first_signature(keyid=own)(export)
    [found] = verify(export, str(signed.public)).findings
    assert found.id == "signature-invalid" and says in found.sentence


@pytest.mark.parametrize("names", [(signature.NAME,), (signature.NAME, NAME)])
def test_the_statement_of_another_export_is_found(
    signed: Signed, export: Path, names: tuple[str, ...]
) -> None:
    for name in names:
        new(export / name, (signed.other / name).read_bytes())
    found = {each.id for each in verify(export, str(signed.public)).findings}
    assert found == ({"marker-differs"} if len(names) == 2 else {"signature-invalid"})


@pytest.mark.parametrize("kind", ["EC", "ed25519", "RSA"])
def test_keys_of_each_kind_sign(kind: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "w")
    private, public = key(tmp_path, "k", kind)
    assert signs(folder, private) == 0
    assert verify(folder, str(public)).signed == "yes"
    assert verify(folder).signed == "unchecked"


def test_a_key_comes_from_a_variable_never_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "w")
    private, public = key(tmp_path, "k")
    monkeypatch.setenv("SIGNER", private.read_text())
    assert signs(folder, "env:SIGNER") == 0
    assert verify(folder, str(public)).findings == []
    with pytest.raises(WrongUse, match="not the secret itself"):
        signs(folder, private.read_text())
    with pytest.raises(WrongUse, match="the variable ABSENT is not set"):
        signs(folder, "env:ABSENT")


def test_a_changed_export_and_a_file_that_is_no_key_sign_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "w")
    with pytest.raises(Problem, match="openssl does not read a private key"):
        signs(folder, folder / "config.json")
    flip("config.json")(folder)
    with pytest.raises(Problem, match="nothing is signed: config.json"):
        signs(folder, "absent.pem")
    assert not (folder / signature.NAME).exists()


def test_an_unsigned_export_says_so(tmp_path: Path, call: Call) -> None:
    ended = call("verify", str(make(tmp_path)))
    assert ended.code == 0 and "not signed" in ended.out
    assert "all 7 files are those of its statement" in ended.out
