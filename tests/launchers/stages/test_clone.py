import errno
import logging
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.settings import Code
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.inputs.paths import clone_path, slug
from launchers.stages.attempt import keep_identity
from launchers.stages.clone import warn_if_moved
from launchers.storage import marker, output
from launchers.storage.output import partial_path, replaced
from launchers.system import lookup
from tests.launchers.git_server import GitServer, repository, run
from tests.launchers.stages.clones import CANARY, get, refused, secret_of

pytestmark = pytest.mark.usefixtures("calm")


@pytest.mark.parametrize("kind", ["branch", "tag", "annotated", "full", "short", "refs"])
def test_every_kind_of_ref_is_checked_out(
    kind: str, remote: Path, server: GitServer, work: Workspace
) -> None:
    first = repository(remote, {"a.py": "1"})
    run(remote, "tag", "v1")
    run(remote, "tag", "--annotate", "v1a", "--message", "x")
    repository(remote, {"a.py": "2"})
    refs = {"branch": "main", "tag": "v1", "annotated": "v1a", "refs": "refs/tags/v1"}
    ref = {**refs, "full": first, "short": first[:8]}[kind]
    outcome = get(f"{server.url}/team/code", ref, work)
    assert outcome.state == "done"
    assert (outcome.path / "a.py").read_text() == ("2" if kind == "branch" else "1")
    there = marker.read(outcome.path)
    assert there is not None and there.made["commit"] == run(outcome.path, "rev-parse", "HEAD")
    assert list(there.manifest) == ["a.py"]
    assert run(outcome.path, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"


def test_only_the_pinned_commit_is_fetched(
    remote: Path, server: GitServer, work: Workspace
) -> None:
    for number in range(3):
        repository(remote, {"a": str(number)})
    outcome = get(f"{server.url}/team/code", "main", work)
    assert run(outcome.path, "rev-list", "--count", "HEAD") == "1"


def test_a_commit_that_the_server_does_not_give_alone_is_found_in_a_full_clone(
    remote: Path, server: GitServer, work: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    first = repository(remote, {"a": "1"})
    repository(remote, {"a": "2"})
    server.strict = True
    caplog.set_level(logging.INFO, logger="launchers")
    assert (get(f"{server.url}/team/code", first, work).path / "a").read_text() == "1"
    assert "clone in full" in caplog.text


def test_a_new_run_gets_the_branch_as_it_is_and_an_older_run_keeps_its_commit(
    remote: Path, work: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"file://{remote}"
    caplog.set_level(logging.INFO, logger="launchers")
    old = repository(remote, {"a": "1"})
    first = get(url, "main", work)
    new = repository(remote, {"a": "2"})
    other = get(url, "main", replace(work, run="other"))
    assert (other.path / "a").read_text() == "2"
    assert new in other.why
    again = get(url, "main", work)
    assert ((again.path / "a").read_text(), again.digest) == ("1", first.digest)
    assert again.state == "up to date" and old in again.why
    caplog.clear()
    warn_if_moved(Code(url=url, ref="main", secret=None), old)
    assert all(each in caplog.text for each in ("code.ref has moved", old, new))


@pytest.mark.parametrize("kind", ["branch", "tag", "annotated", "short", "nowhere"])
def test_what_has_not_moved_gives_no_warning(
    kind: str, remote: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="launchers")
    commit = repository(remote, {"a": kind})
    run(remote, "tag", "v1")
    run(remote, "tag", "--annotate", "v1a", "--message", "x")
    ref = {"branch": "main", "tag": "v1", "annotated": "v1a", "short": commit[:8]}.get(kind, "main")
    url = f"file://{tmp_path / 'gone' if kind == 'nowhere' else remote}"
    warn_if_moved(Code(url=url, ref=ref, secret=None), commit)
    # Threads of other tests log, too: the same files committed in one second are one commit.
    said = [text for text in caplog.messages if commit in text]
    assert len(said) == (kind == "nowhere")
    assert all("not compared with the server" in text for text in said)


def test_a_damaged_clone_of_a_moved_branch_is_repaired_at_its_commit(
    remote: Path, work: Workspace
) -> None:
    repository(remote, {"a": "1"})
    first = get(f"file://{remote}", "main", work)
    repository(remote, {"a": "2"})
    (first.path / "a").write_text("9")
    again = get(f"file://{remote}", "main", work)
    assert ((again.path / "a").read_text(), again.digest) == ("1", first.digest)
    assert again.state == "done"


@pytest.mark.parametrize("torn", ["", "\xff", "\0" * 40, "abcd"])
def test_a_torn_note_of_the_commit_is_not_the_newest_one(
    torn: str, remote: Path, work: Workspace
) -> None:
    commit = repository(remote, {"a": "1"})
    first = get(f"file://{remote}", "main", work)
    note = first.path.with_name(f"{first.path.name}.commit")
    shutil.rmtree(first.path)
    repository(remote, {"a": "2"})
    note.write_bytes(torn.encode("latin-1"))
    with pytest.raises(LaunchError) as unknown:
        get(f"file://{remote}", "main", work)
    assert unknown.value.id == "file-torn"
    note.write_text(f"{commit}\n")  # the remedy, by a person
    assert (get(f"file://{remote}", "main", work).path / "a").read_text() == "1"


@pytest.mark.parametrize("at", ["begin", "_seal", "into_place"])
def test_a_killed_repair_of_a_moved_branch_is_repeated_at_the_commit_of_the_run(
    at: str, remote: Path, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(remote, {"a": "1"})
    url = f"file://{remote}"
    first = get(url, "main", work)
    keep_identity(work, {f"clone {url}@main": first.digest})
    repository(remote, {"a": "2"})
    (first.path / "a").write_text("9")
    real = getattr(output, at)

    def killed(*given: object, **named: object) -> None:
        real(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(output, at, killed)
    with pytest.raises(KeyboardInterrupt):
        get(url, "main", work)
    monkeypatch.undo()
    again = get(url, "main", work)
    assert ((again.path / "a").read_text(), again.digest) == ("1", first.digest)
    keep_identity(work, {f"clone {url}@main": again.digest})


def test_a_run_that_began_with_the_shared_clone_keeps_it(remote: Path, work: Workspace) -> None:
    """As launchers before 0.3 made it; a commit is shared by all runs still."""
    code = Code(url=f"file://{remote}", ref="main", secret=None)
    shared = work.code(slug(code))
    shared.mkdir(parents=True)
    assert clone_path(code, work) == work.own_code(slug(code))
    assert clone_path(code, work, skip=True) == shared
    keep_identity(work, {f"clone {code.url}@main": "digest"})
    assert clone_path(code, work) == shared
    other = replace(work, run="other")
    assert clone_path(code, other) == other.own_code(slug(code))
    commit = repository(remote, {"a": "1"})
    pinned = [get(code.url, commit, replace(work, run=name)).path for name in ("one", "two")]
    assert pinned[0] == pinned[1]


@pytest.mark.parametrize("left", [partial_path, replaced])
@pytest.mark.parametrize("skip", [False, True])
def test_a_killed_repair_of_a_runs_own_clone_is_completed_not_replaced_by_the_shared_one(
    left: Callable[[Path], Path], skip: bool, remote: Path, work: Workspace
) -> None:
    code = Code(url=f"file://{remote}", ref="main", secret=None)
    repository(remote, {"a": "1"})
    first = get(code.url, "main", work)
    keep_identity(work, {f"clone {code.url}@main": first.digest})
    work.code(slug(code)).mkdir(parents=True)
    first.path.rename(left(first.path))
    assert clone_path(code, work, skip=skip) == first.path
    assert get(code.url, "main", work).digest == first.digest


def test_a_first_clone_that_was_killed_does_not_replace_the_shared_one_that_the_run_uses(
    work: Workspace,
) -> None:
    code = Code(url="file:///x/y", ref="main", secret=None)
    shared = work.code(slug(code))
    for folder in (shared, partial_path(work.own_code(slug(code)))):
        folder.mkdir(parents=True)
    assert clone_path(code, work, skip=True) == shared
    keep_identity(work, {f"clone {code.url}@main": ""})
    assert clone_path(code, work, skip=True) == shared


def test_a_storage_that_does_not_answer_does_not_choose_another_clone(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = Code(url="file:///x/y", ref="main", secret=None)
    shared, own, ask = work.code(slug(code)), work.own_code(slug(code)), Path.stat
    shared.mkdir(parents=True)

    def stat_of(path: Path, **named: bool) -> os.stat_result:
        if path == own:
            raise OSError(errno.EIO, "Input/output error")
        return ask(path, **named)

    monkeypatch.setattr(Path, "stat", stat_of)
    monkeypatch.setattr(Path, "is_dir", lambda path: path == shared)  # as Python 3.14 answers
    with lookup.within(0), pytest.raises(LaunchError) as ended:
        clone_path(code, work, skip=True)
    assert (ended.value.code, ended.value.id) == (Exit.IO, lookup.ID)


def test_submodules_come_along(remote: Path, tmp_path: Path, work: Workspace) -> None:
    repository(tmp_path / "sub", {"s": "1"})
    repository(remote, {"a": "1"})
    run(remote, "submodule", "add", "--quiet", f"file://{tmp_path / 'sub'}", "parts/sub")
    repository(remote, {"a": "2"})
    part = get(f"file://{remote}", "main", work).path / "parts" / "sub"
    assert (part / "s").read_text() == "1" and run(part, "rev-parse", "HEAD")


def test_the_right_token_opens_a_private_repository_and_is_nowhere_to_be_seen(
    remote: Path,
    tmp_path: Path,
    server: GitServer,
    work: Workspace,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    repository(remote, {"a": "1"})
    server.password = CANARY
    outcome = get(f"{server.url}/team/code", "main", work, secret_of(tmp_path, token=f"{CANARY}\n"))
    assert outcome.state == "done"
    texts = [p.read_bytes() for p in work.root.rglob("*") if p.is_file()]
    assert texts and not any(CANARY.encode() in text for text in texts)
    assert CANARY not in caplog.text + " ".join(server.seen)


def test_no_url_means_no_clone(work: Workspace) -> None:
    outcome = get("", "", work)
    assert (outcome.state, outcome.why) == ("skipped", "no code.url")
    assert clone_path(Code(url="", ref="", secret=None), work) is None


FAKE_SSH = """#!/bin/sh
echo "$@" > "$SSH_SEEN"
for word in "$@"; do
  case "$previous" in -i) ls -l "$word" > "$SSH_SEEN.key"; cat "$word" >> "$SSH_SEEN.key";; esac
  previous=$word
done
[ "$1" = -G ] && exit 1
exec sh -c "$previous"
"""


@pytest.mark.parametrize("hosts", ["", "host ssh-ed25519 AAAA"])
def test_ssh_gets_the_key_with_a_mode_that_it_accepts(
    hosts: str, remote: Path, tmp_path: Path, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(remote, {"a": "1"})
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(FAKE_SSH)
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_SEEN", str(tmp_path / "seen"))
    files = {"ssh__privatekey": f"KEY {CANARY}"} | ({"known_hosts": hosts} if hosts else {})
    secret = secret_of(tmp_path, **files)
    assert get(f"ssh://git@host{remote}", "main", work, secret).state == "done"
    seen = (tmp_path / "seen").read_text()
    assert "StrictHostKeyChecking=yes" in seen and CANARY not in seen
    assert ("UserKnownHostsFile" in seen) == bool(hosts)
    key = (tmp_path / "seen.key").read_text()
    assert key.startswith("-rw-------") and key.endswith(f"KEY {CANARY}\n")


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


WRONG = {
    "code.existingSecret": [
        f"https://me:{CANARY}@h/x.git",
        f"https://{CANARY}@h/x",
        f"ssh://u:{CANARY}@h/x",
    ],
    "code.url": ["-oProxyCommand=x", "ext::sh -c x", "/plain/path", "https://h"],
    "code.ref": ["", "--upload-pack=x", "a b", "a..b", "HEAD~1"],
}


@pytest.mark.parametrize(("said", "text"), [(k, text) for k in WRONG for text in WRONG[k]])
def test_what_is_no_url_or_ref_is_refused_and_no_credential_repeated(
    said: str, text: str, work: Workspace
) -> None:
    error = refused(*(("https://host/x", text) if said == "code.ref" else (text, "main")), work)
    assert (error.code, said in f"{error.cause} {error.remedy}") == (Exit.CONFIG, True)
    assert CANARY not in str(error)


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
