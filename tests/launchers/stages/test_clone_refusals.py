"""Clones that fail, and their messages."""

from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit
from tests.launchers.git_server import GitServer, repository, run
from tests.launchers.stages.clones import CANARY, get, refused, secret_of

pytestmark = pytest.mark.usefixtures("calm")


@pytest.mark.parametrize("token", ["", "wrong"])
def test_no_or_a_wrong_token_is_an_auth_error(
    token: str, remote: Path, tmp_path: Path, server: GitServer, work: Workspace
) -> None:
    repository(remote, {"a": "1"})
    server.password = CANARY
    secret = secret_of(tmp_path, token=token) if token else None
    error = refused(f"{server.url}/team/code", "main", work, secret)
    assert error.code == Exit.AUTH
    assert "code.existingSecret" in error.remedy
    assert len(server.seen) <= 3, "an auth error is not tried again"


def test_an_unknown_ref_names_the_nearest(remote: Path, server: GitServer, work: Workspace) -> None:
    repository(remote, {"a": "1"})
    run(remote, "tag", "release-1")
    error = refused(f"{server.url}/team/code", "relaese-1", work)
    assert (error.code, error.remedy) == (Exit.INPUT_MISSING, "did you mean release-1?")


@pytest.mark.parametrize("ref", ["0123456789" * 4, "0123abc"])
def test_an_unknown_commit_is_a_missing_input(
    ref: str, remote: Path, server: GitServer, work: Workspace
) -> None:
    repository(remote, {"a": "1"})
    assert refused(f"{server.url}/team/code", ref, work).code == Exit.INPUT_MISSING


def test_an_unknown_repository_is_a_missing_input(server: GitServer, work: Workspace) -> None:
    server.root.mkdir()
    assert refused(f"{server.url}/team/nothing", "main", work).code == Exit.INPUT_MISSING


def test_a_server_that_stumbles_is_tried_again(
    remote: Path, server: GitServer, work: Workspace
) -> None:
    repository(remote, {"a": "1"})
    server.failures = [503, 429, 500]
    assert get(f"{server.url}/team/code", "main", work).state == "done"


def test_a_server_that_is_down_is_unavailable(work: Workspace) -> None:
    assert refused("http://127.0.0.1:9/team/code", "main", work).code == Exit.UNAVAILABLE


@pytest.mark.parametrize(
    "url", [f"https://me:{CANARY}@host/x.git", f"https://{CANARY}@host/x", f"ssh://u:{CANARY}@h/x"]
)
def test_a_url_with_credentials_is_refused_and_not_repeated(url: str, work: Workspace) -> None:
    error = refused(url, "main", work)
    assert error.code == Exit.CONFIG
    assert CANARY not in str(error)
    assert "code.existingSecret" in error.remedy


@pytest.mark.parametrize("url", ["-oProxyCommand=x", "ext::sh -c x", "/plain/path", "https://h"])
def test_what_is_no_url_is_refused(url: str, work: Workspace) -> None:
    error = refused(url, "main", work)
    assert (error.code, "code.url" in error.cause) == (Exit.CONFIG, True)


@pytest.mark.parametrize("ref", ["", "--upload-pack=x", "a b", "a..b", "HEAD~1"])
def test_what_is_no_ref_is_refused(ref: str, work: Workspace) -> None:
    error = refused("https://host/x", ref, work)
    assert (error.code, "code.ref" in error.cause) == (Exit.CONFIG, True)


def test_without_git_the_remedy_is_an_image(
    work: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused("https://host/x", "main", work)
    assert (error.code, error.remedy.startswith("use an image with git")) == (Exit.CONFIG, True)


def test_a_submodule_of_a_server_can_not_read_local_paths(
    remote: Path, tmp_path: Path, server: GitServer, work: Workspace
) -> None:
    repository(tmp_path / "sub", {"s": "1"})
    repository(remote, {"a": "1"})
    run(remote, "submodule", "add", "--quiet", f"file://{tmp_path / 'sub'}", "sub")
    repository(remote, {"a": "2"})
    error = refused(f"{server.url}/team/code", "main", work)
    assert "transport 'file' not allowed" in error.cause
