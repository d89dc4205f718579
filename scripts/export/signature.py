"""Sign a statement, and check its signature: a DSSE envelope, by the OpenSSL of this machine.

The envelope (https://github.com/secure-systems-lab/dsse) holds the statement and signatures of
ECDSA, RSA or Ed25519 keys. `openssl` reads the keys; no key is kept, printed or passed as an
argument.
"""

import base64
import binascii
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launchers.system import lookup
from launchers.system.atomic_file import replace
from scripts.export import secret
from scripts.problem import Problem

NAME = "statement.dsse.json"
"""The envelope's file in the export, next to the statement."""
PAYLOAD = "application/vnd.in-toto+json"
LARGEST = 128 << 20


def encoded(payload: bytes) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding (PAE).

    >>> encoded(b"{}")
    b'DSSEv1 28 application/vnd.in-toto+json 2 {}'
    """
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def sign(folder: Path, statement: bytes, key: str, passphrase: str = "") -> str:
    """Write the envelope of a statement; return the id of the key.

    ``key`` is a file (PEM) or `env:NAME`; ``passphrase`` names a variable, empty for none.

    Raises:
        WrongUse: the key cannot be read.
        Problem: openssl is missing or refuses the key.
    """
    pem = secret.read(key, "--key")
    known = ["-passin", f"env:{passphrase}"] if passphrase else ["-passin", "pass:"]
    public = _openssl(["pkey", *known, "-pubout"], pem, "a private key in PEM")
    with tempfile.TemporaryDirectory() as work:
        signed, text = Path(work, "text"), encoded(statement)
        signed.write_bytes(text)
        words = ["pkeyutl", "-sign", "-rawin", *_digest(public), *known, "-in", str(signed)]
        made = _openssl([*words, "-inkey", "/dev/stdin"], pem, "a key that signs")
    envelope = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(statement).decode(),
        "signatures": [{"keyid": key_id(public), "sig": base64.b64encode(made).decode()}],
    }
    replace(folder / NAME, json.dumps(envelope, indent=1) + "\n")
    return key_id(public)


def check(folder: Path, statement: bytes, key: str = "") -> str:
    """Return what is wrong with the envelope of a statement; empty if it is valid.

    ``key`` is a public one: a file (PEM) or `env:NAME`; empty compares the payload alone.

    Raises:
        WrongUse: the key cannot be read.
        Problem: openssl is missing or refuses the key.
    """
    public = (
        _openssl(["pkey", "-pubin", "-pubout"], secret.read(key, "--key"), "a public key in PEM")
        if key
        else b""
    )
    try:
        payload, signatures = _envelope(folder / NAME)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"it is not an envelope of a statement ({error})"
    if payload != statement:
        return "it was made for another statement"
    if not public:
        return ""
    own = [sig for keyid, sig in signatures if keyid == key_id(public)]
    if not own:
        others = ", ".join(str(keyid)[:16] for keyid, _ in signatures)
        return f"no signature is of key {key_id(public)[:16]}, but of {others}"
    return "" if any(_is_valid(public, sig, statement) for sig in own) else "the signature is wrong"


def _envelope(path: Path) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return payload and signatures of an envelope."""
    text = lookup.begin(path, LARGEST + 1) or b""
    if lookup.is_link(path) or len(text) > LARGEST:
        raise ValueError("a link, or too large")
    found: dict[str, Any] = json.loads(text)
    if found["payloadType"] != PAYLOAD or found.keys() != {"payloadType", "payload", "signatures"}:
        raise ValueError(f"payloadType {found['payloadType']!r}")
    signatures = [(str(each["keyid"]), _decoded(each["sig"])) for each in found["signatures"]]
    if not signatures:
        raise ValueError("no signature")
    return _decoded(found["payload"]), signatures


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _is_valid(public: bytes, signature: bytes, statement: bytes) -> bool:
    with tempfile.TemporaryDirectory() as work:
        text, sig = Path(work, "text"), Path(work, "sig")
        text.write_bytes(encoded(statement))
        sig.write_bytes(signature)
        words = ["pkeyutl", "-verify", "-rawin", *_digest(public), "-pubin", "-in", str(text)]
        words += ["-inkey", "/dev/stdin", "-sigfile", str(sig)]
        return _run(words, public).returncode == 0


def key_id(public: bytes) -> str:
    """Return the SHA-256 of a public key's DER."""
    lines = public.decode().splitlines()
    body = "".join(line for line in lines if not line.startswith("-----"))
    return hashlib.sha256(base64.b64decode(body)).hexdigest()


def _digest(public: bytes) -> list[str]:
    """Return openssl's option for the hash: Ed25519 has its own."""
    text = _openssl(["pkey", "-pubin", "-noout", "-text_pub"], public, "a public key in PEM")
    return [] if b"ED25519" in text.upper() else ["-digest", "sha256"]


def _openssl(words: Sequence[str], key: bytes, wanted: str) -> bytes:
    if b"ENCRYPTED SIGSTORE" in key or b"ENCRYPTED COSIGN" in key:
        raise Problem(
            "--key: cosign alone reads this key; make one with `openssl genpkey -algorithm EC "
            "-pkeyopt ec_paramgen_curve:P-256`, which `cosign import-key-pair` reads, too"
        )
    done = _run(words, key)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [""]
        raise Problem(
            f"--key: openssl does not read {wanted} ({last[0][-160:]}); make one with `openssl "
            "genpkey -algorithm ed25519`, its public key with `openssl pkey -pubout`, and name "
            "the variable of a passphrase with --passphrase"
        )
    return done.stdout


def _run(words: Sequence[str], key: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["openssl", *words], input=key, capture_output=True, check=False)
    except FileNotFoundError:
        raise Problem("openssl is not installed; install OpenSSL 3 or newer") from None
