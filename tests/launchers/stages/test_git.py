from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.stages.git import GitError, access_to
from tests.launchers.stages.clones import CANARY, secret_of


def test_a_token_is_bound_to_its_host_and_traces_are_off(tmp_path: Path) -> None:
    secret = secret_of(tmp_path, token=CANARY)
    env = {"GIT_TRACE_CURL": "1", "GIT_CONFIG_COUNT": "9", "KEPT": "1"}
    access = access_to("https://host:8443/a.git", secret, env, tmp_path)
    assert "http.https://host:8443/.extraHeader" in access.env.values()
    assert "GIT_TRACE_CURL" not in access.env and access.env["KEPT"] == "1"
    assert CANARY in access.secrets and CANARY not in repr(access.secrets[1:])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("fatal: unable to write file: No space left on device", Exit.QUOTA),
        ("fatal: cannot create directory: Disk quota exceeded", Exit.QUOTA),
        ("error: read error: Input/output error", Exit.IO),
        ("fatal: cannot mkdir a: Transport endpoint is not connected", Exit.IO),
        ("Host key verification failed.\nfatal: Could not read from remote", Exit.AUTH),
        ("git@h: Permission denied (publickey).\nfatal: Could not read", Exit.AUTH),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", Exit.AUTH),
        ("fatal: unable to access 'u': The requested URL returned error: 403", Exit.AUTH),
        ("fatal: could not read Username for 'https://h': No such device or address", Exit.AUTH),
        ("remote: Repository not found.\nfatal: repository 'u' not found", Exit.INPUT_MISSING),
        ("fatal: unable to access 'u': Could not resolve host: h", Exit.UNAVAILABLE),
        ("fatal: unable to access 'u': The requested URL returned error: 408", Exit.UNAVAILABLE),
        ("fatal: unable to access 'u': The requested URL returned error: 502", Exit.UNAVAILABLE),
        ("fatal: unable to access 'https://h/': Proxy CONNECT aborted", Exit.UNAVAILABLE),
        ("fatal: unable to access 'https://h/': gnutls_handshake() failed", Exit.UNAVAILABLE),
        ("getpeername failed: Transport endpoint is not connected\nhung up", Exit.UNAVAILABLE),
        ("fetch-pack: unexpected disconnect while reading sideband packet", Exit.UNAVAILABLE),
        ("No user exists for uid 1000", Exit.CONFIG),
        ("fatal: something never seen before", Exit.PEER),
    ],
)
def test_what_git_says_has_its_exit_code(text: str, code: Exit) -> None:
    assert GitError(text).meaning().code == code


def test_a_server_without_a_known_key_is_named_with_the_remedy() -> None:
    said = "No ED25519 host key is known for git.example and you have requested strict checking."
    error = GitError(f"{said}\nHost key verification failed.\nfatal: Could not read").meaning()
    assert (error.id, error.code) == ("git-host-key", Exit.AUTH)
    assert "git.example" in error.cause and "known_hosts" in error.remedy
