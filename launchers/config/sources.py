"""Sources of models and datasets, and their paths on the workspace. Pure."""

import hashlib
import os.path
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError

Hub = Literal["hf", "ms", "file", "code"]
RepoType = Literal["model", "dataset"]

FORMS = "hf://org/name@revision[/path], ms://org/name@revision[/path], file:///absolute/path"
_HUBS = {"hf": "Hugging Face", "ms": "ModelScope"}
_ID = r"\w[\w.-]*"
_REMOTE = re.compile(
    rf"(?P<hub>hf|ms)://(?P<repo>{_ID}/{_ID})"
    # refs/pr/1 and refs/convert/parquet are the only hub revisions with a slash
    r"(?:@(?P<revision>refs/(?:pr|convert)/[^/@\s]+|[^/@\s]+))?(?:/(?P<path>.*))?"
)
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://")
_PLAIN = re.compile(r"[A-Za-z0-9._@-]{1,150}")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A parsed source of the recipe."""

    hub: Hub
    repo: str
    """``org/name``; for ``file`` the absolute path, for ``code`` the path inside the clone."""
    revision: str = ""
    """Branch, tag or commit of a hub; empty for ``file`` and ``code``."""
    path: str = ""
    """A file or folder inside the repository, or empty for all of it."""
    sample: int | None = None
    """Number of rows of a dataset to use (ms-swift's ``#N``); None for all."""

    @property
    def text(self) -> str:
        """Return the source without its sample, as markers record it."""
        if self.hub == "file":
            return f"file://{self.repo}"
        if self.hub == "code":
            return self.repo
        return f"{self.hub}://{self.repo}@{self.revision}" + (f"/{self.path}" if self.path else "")

    @property
    def name(self) -> str:
        """Return the last part of the path, by which ms-swift recognises models and datasets."""
        return (self.path or self.repo).rpartition("/")[2]

    @property
    def slug(self) -> str:
        """Return a folder name unique to the source; the sample is not part of it.

        >>> parse_source("hf://Qwen/Qwen3-0.6B@main", "recipe.model").slug
        'hf--Qwen--Qwen3-0.6B@main'
        >>> parse_source("file:///data/pairs.jsonl", "recipe.dataset[0]").slug
        'file--pairs.jsonl-0480ee3656'
        """
        plain = self.text.replace("://", "--", 1).replace("/", "--")
        is_plain = _PLAIN.fullmatch(plain) and not self.path and self.hub in _HUBS
        if is_plain and "--" not in self.repo + self.revision and "/" not in self.revision:
            return plain
        short = plain if self.hub in _HUBS else f"{self.hub}--{self.name}"
        return folder_name(short, self.text)


def folder_name(readable: str, whole: str) -> str:
    """Return a folder name, one for each ``whole``, that begins with what a person can read."""
    begin = re.sub(r"[^A-Za-z0-9._@-]+", "-", readable)[:100]
    return f"{begin}-{hashlib.sha256(whole.encode()).hexdigest()[:10]}"


def parse_source(text: str, key: str) -> Source:
    """Parse a source.

    Args:
        text: the value; a dataset may end in ``#N``. A relative path is inside the
            clone. Paths of ``file://`` are taken as written, without percent-decoding.
        key: the values key it stands under, for messages, e.g. ``recipe.dataset[0]``.

    Raises:
        LaunchError: CONFIG naming the key, what was given and what is allowed.
    """
    rest, sample = _split_sample(text, key)
    if not rest or rest != rest.strip() or any(ord(c) < 32 for c in rest):
        raise _refusal(
            "source-blank",
            key,
            text,
            "is empty, or has leading or trailing blanks or control characters",
        )
    scheme = _SCHEME.match(rest)
    if scheme is None:
        return Source(hub="code", repo=_relative(rest, key, text), sample=sample)
    if scheme["scheme"] == "file":
        return Source(hub="file", repo=_absolute(rest[7:], key, text), sample=sample)
    if scheme["scheme"] not in _HUBS:
        raise _refusal("source-scheme", key, text, f"has the unknown scheme {scheme['scheme']}://")
    match = _REMOTE.fullmatch(rest)
    if match is None:
        raise _refusal("source-form", key, text, f"is not a {_HUBS[scheme['scheme']]} source")
    if match["revision"] is None:
        wanted = f"{match['hub']}://{match['repo']}@REVISION"
        raise _refusal(
            "source-no-revision",
            key,
            text,
            "has no revision",
            f"{wanted}, a commit, tag or branch (main, master)",
        )
    path = match["path"]
    return Source(
        hub=cast(Hub, match["hub"]),
        repo=match["repo"],
        revision=match["revision"],
        path="" if path is None else _relative(path, key, text),
        sample=sample,
    )


def parse_datasets(dataset: Iterable[str]) -> dict[str, Source]:
    """Return the sources of ``recipe.dataset`` by their keys, in order.

    Raises:
        LaunchError: CONFIG, as of ``parse_source``.
    """
    named = ((f"recipe.dataset[{index}]", text) for index, text in enumerate(dataset))
    return {key: parse_source(text, key) for key, text in named}


def split_count(dataset: str) -> tuple[str, str | None]:
    """Split a dataset's number of rows off; None without one.

    >>> split_count("a.jsonl#500"), split_count("hf://org/na#me/a.jsonl")
    (('a.jsonl', '500'), ('hf://org/na#me/a.jsonl', None))
    """
    rest, mark, count = dataset.rpartition("#")
    return (rest, count) if mark and "/" not in count else (dataset, None)


def _split_sample(text: str, key: str) -> tuple[str, int | None]:
    rest, count = split_count(text)
    if count is None:
        return text, None
    if not key.startswith("recipe.dataset"):
        raise _refusal(
            "source-count-misplaced",
            key,
            text,
            "has a row count (#), which is allowed for datasets only",
        )
    if not count.isascii() or not count.isdigit() or int(count) < 1:
        raise _refusal(
            "source-count",
            key,
            text,
            "has no valid row count after #",
            "#N with a whole number N of at least 1",
        )
    return rest, int(count)


def _relative(path: str, key: str, text: str) -> str:
    if path.startswith("/"):
        raise _refusal("source-absolute", key, text, "is an absolute path", f"file://{text}")
    parts = path.rstrip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise _refusal("source-parts", key, text, "has an empty part, . or .. in its path")
    return "/".join(parts)


def _absolute(path: str, key: str, text: str) -> str:
    if not path.startswith("/") or ".." in path.split("/"):
        raise _refusal(
            "source-relative", key, text, "is not an absolute path", "file:///absolute/path"
        )
    clean = "/" + os.path.normpath(path).lstrip("/")
    if clean == "/":
        raise _refusal("source-root", key, text, "is the root directory", "file:///absolute/path")
    return clean


def _refusal(id: str, key: str, text: str, wrong: str, wanted: str = "") -> LaunchError:
    form = FORMS if key.startswith("recipe.model") else f"{FORMS}, a path inside the clone"
    return LaunchError(Exit.CONFIG, f"{key}: {text!r} {wrong}", f"use {wanted or form}", id=id)


def is_in_place(source: Source, workspace: Workspace) -> bool:
    """Return whether a ``file`` source lies on the workspace or in a library: it is not copied."""
    places = (workspace.root, *workspace.libraries)
    return source.hub == "file" and any(_is_below(source, place) for place in places)


def _is_below(source: Source, place: Path) -> bool:
    return Path(source.repo).is_relative_to(place)


def home(source: Source, kind: RepoType, workspace: Workspace) -> Path:
    """Return the folder that holds the source's marker."""
    is_library = is_in_place(source, workspace) and not _is_below(source, workspace.root)
    slug = source.slug + ".library" * is_library  # a copy that another run has made stays
    return (workspace.model if kind == "model" else workspace.dataset)(slug)


def local(source: Source, kind: RepoType, workspace: Workspace, clone: Path | None) -> Path:
    """Return the source's path after the download stage, without reading the disk.

    Raises:
        LaunchError: CONFIG when it is a path inside the clone and ``code.url`` is empty.
    """
    if source.hub == "code":
        if clone is None:
            raise LaunchError(
                Exit.CONFIG,
                f"recipe.{kind}: {source.repo!r} is a path inside the clone, but code.url is empty",
                f"set code.url and code.ref, or use {FORMS}",
                id="source-no-clone",
            )
        return clone / source.repo
    if is_in_place(source, workspace):
        return Path(source.repo)
    return home(source, kind, workspace) / source.name
