"""The clone stage: the training code at a pinned ref, on the workspace."""

import os
import re
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from launchers import logs, suggestion
from launchers.config.settings import Code
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.inputs.paths import FULL_SHA, clone_path
from launchers.stages.git import Access, GitError, access_to, git
from launchers.storage import disk, manifest, marker
from launchers.storage.output import RECORD, Made, Outcome, produce
from launchers.system import lookup
from launchers.system.atomic_file import replace as replace_file
from launchers.system.atomic_file import torn
from launchers.system.retry import retry

_URL = re.compile(r"(?:https?|ssh|git|file)://[^\s/]*/\S+|[\w.-]+@[\w.-]+:\S+")
_PAGE = re.compile(r"https?://[^/]+/[^/]+/[^/]+/(-/)?(tree|blob|commit|src)/")
_CREDENTIALS = re.compile(r"https?://[^/]*@|\w+://[^/@]*:[^/]*@")
_HEX = re.compile(r"[0-9a-f]{4,64}")
COMPARE_SECONDS = 60.0
"""Time limit of the question which commit a branch has now."""
_EVERYTHING = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


def clone(code: Code, workspace: Workspace, *, skip: bool, holder: str) -> Outcome:
    """Clone the code, unless it is already cloned or the run has none.

    A branch stays at the commit of the run's first start: a restarted run trains with the same
    code. A branch that has moved since gives a warning, from a thread, since nothing waits for it.

    Raises:
        LaunchError: CONFIG for an invalid url or ref; AUTH, INPUT_MISSING (no such repository,
            ref or folder of ``python_path``), UNAVAILABLE, QUOTA, IO from git and the disk, and
            where the note of the run's commit is torn.
    """
    path = clone_path(code, workspace, skip=skip)
    if path is None:
        logs.info("clone skipped: no code.url")
        return Outcome("clone", "", "skipped", "no code.url", workspace.root)
    _check(code)
    moves = not FULL_SHA.fullmatch(code.ref)
    note = path.with_name(f"{path.name}.commit")  # a killed repair leaves no marker
    held = lookup.data(note)
    noted = (held or b"").decode(errors="replace").strip()
    before = _commit(path) or noted
    if moves and held is not None and not skip and not FULL_SHA.fullmatch(before):
        raise torn(note, f"write the run's commit into it, or remove it to take {code.ref} anew")
    if moves and before != noted and not skip:
        with disk.reporting(note):
            replace_file(note, before)
    made = produce(
        "clone",
        f"{code.url}@{code.ref}",
        path,
        {"url": code.url, "ref": code.ref},
        lambda folder: _clone(replace(code, ref=before or code.ref), folder),
        skip=skip,
        holder=holder,
    )
    commit = _commit(path)
    logs.info("clone checked out", ref=code.ref, commit=commit or "unknown")
    if moves and before and commit and not skip:
        threading.Thread(target=warn_if_moved, args=(code, commit), daemon=True).start()
    for name in code.python_path:
        if not lookup.is_dir(path / name):
            raise LaunchError(
                Exit.INPUT_MISSING,
                f"code.pythonPath: {code.url} at {code.ref} has no folder {name!r}",
                "use a folder of the repository, or . for all of it",
                id="code-python-path-missing",
            )
    return replace(made, why=f"{made.why or made.state}, commit {commit}") if commit else made


def _commit(path: Path) -> str:
    """Return the commit of a clone; empty for one that the launcher did not make."""
    found = marker.read(path)
    return str(found.made.get("commit", "")) if found else ""


def warn_if_moved(code: Code, commit: str) -> None:
    """Warn if a branch or tag has another commit than the run; a server's error is only logged."""
    names = [f"{start}{code.ref}" for start in ("", "refs/tags/", "refs/heads/")]
    wanted = [*names, f"{names[1]}^{{}}"]
    try:
        with tempfile.TemporaryDirectory(prefix="clone-") as scratch:
            server = access_to(code.url, code.secret, os.environ, Path(scratch))
            words = ("ls-remote", "--quiet", code.url, *wanted)
            lines = git(Path(scratch), server, *words, seconds=COMPARE_SECONDS).splitlines()
    except (GitError, LaunchError, OSError) as error:
        logs.info("code.ref not compared with the server", commit=commit, cause=error)
        return
    listed = {name: sha for sha, _, name in (line.partition("\t") for line in lines)}
    now = next((listed[name] for name in (wanted[3], *names) if name in listed), commit)
    if now != commit:
        logs.warning(
            "code.ref has moved; a run keeps the commit of its first start",
            ref=code.ref,
            commit=commit,
            now=now,
            remedy="to train with the new commit, install under another name",
        )


def _check(code: Code) -> None:
    if _CREDENTIALS.match(code.url):
        host = code.url.rpartition("@")[2]
        raise LaunchError(
            Exit.CONFIG,
            f"code.url contains a name or password for {host}, readable to all who see the run",
            "remove it from the URL; put a token into a Secret and name it in code.existingSecret",
            id="code-url-secret",
        )
    if not _URL.fullmatch(code.url):
        raise LaunchError(
            Exit.CONFIG,
            f"code.url={code.url!r} is not a git URL",
            "use https://host/path.git, ssh://git@host/path.git, git@host:path or file:///path",
            id="code-url",
        )
    if _PAGE.match(code.url):
        raise LaunchError(
            Exit.CONFIG,
            f"code.url={code.url!r} is the page of a folder in a browser, not a repository",
            "use the part before /tree, and put the branch into code.ref",
            id="code-url-page",
        )
    if not code.ref or code.ref.startswith("-") or re.search(r"[\s~^:?*\[\\]|\.\.", code.ref):
        raise LaunchError(
            Exit.CONFIG,
            f"code.ref={code.ref!r} is not a git ref",
            "use a commit, tag or branch",
            id="code-ref",
        )


def _clone(code: Code, folder: Path) -> Made:
    """Fetch and check out into ``folder``, emptied first: git cannot resume a fetch."""
    for left in folder.iterdir():
        if left.name != RECORD:
            disk.remove(left)
    with tempfile.TemporaryDirectory(prefix="clone-") as scratch:
        server = access_to(code.url, code.secret, os.environ, Path(scratch))
        try:
            git(folder, server, "init", "--quiet", "--initial-branch=launcher")
            git(folder, server, "remote", "add", "origin", code.url)
            commit = retry("clone", lambda: _fetch(code, folder, server), _is_transient)
            git(folder, server, "checkout", "--quiet", "--detach", commit)
            if lookup.exists(folder / ".gitmodules"):
                retry("submodules", lambda: _submodules(folder, server), _is_transient)
        except GitError as error:
            raise error.meaning() from error
    held = manifest.digest_folder(folder, skip=(".git", RECORD))
    return Made(manifest=held, notes={"commit": commit})


def _is_transient(error: Exception) -> bool:
    return isinstance(error, GitError) and error.is_transient


def _submodules(folder: Path, server: Access) -> None:
    """Fetch the submodules, shallow if the server allows it."""
    words = ("submodule", "update", "--init", "--recursive")
    try:
        git(folder, server, *words, "--depth", "1")
    except GitError as error:
        if error.is_transient:
            raise
        git(folder, server, *words)


def _fetch(code: Code, folder: Path, server: Access) -> str:
    """Fetch the ref's commit, without history if the server allows it; return its SHA."""
    if FULL_SHA.fullmatch(code.ref):
        try:
            return _shallow(folder, server, code.ref)
        except GitError as error:
            if error.is_transient or error.meaning().code == Exit.AUTH:
                raise
            logs.info("clone in full", why="the server does not serve single commits")
            return _full(code, folder, server)
    refs = _remote_refs(folder, server)
    for name in (code.ref, f"refs/tags/{code.ref}", f"refs/heads/{code.ref}"):
        if name in refs:
            return _shallow(folder, server, name)
    if _HEX.fullmatch(code.ref):
        return _full(code, folder, server)
    raise _unknown_ref(code, refs)


def _remote_refs(folder: Path, server: Access) -> list[str]:
    lines = git(folder, server, "ls-remote", "--quiet", "origin").splitlines()
    return [line.partition("\t")[2] for line in lines]


def _shallow(folder: Path, server: Access, name: str) -> str:
    git(folder, server, "fetch", "--quiet", "--no-tags", "--depth", "1", "origin", name)
    return git(folder, server, "rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()


def _full(code: Code, folder: Path, server: Access) -> str:
    git(folder, server, "fetch", "--quiet", "origin", *_EVERYTHING)
    try:
        return git(folder, server, "rev-parse", "--verify", f"{code.ref}^{{commit}}").strip()
    except GitError:
        raise _unknown_ref(code, _remote_refs(folder, server)) from None


def _unknown_ref(code: Code, refs: list[str]) -> LaunchError:
    names = [re.sub(r"^refs/(?:heads|tags)/", "", r) for r in refs if r.startswith("refs/")]
    return LaunchError(
        Exit.INPUT_MISSING,
        f"{code.url} has no branch, tag or commit {code.ref!r} (code.ref)",
        suggestion.remedy(code.ref, names) if names else "push a commit to the repository first",
        id="code-ref-unknown",
    )
