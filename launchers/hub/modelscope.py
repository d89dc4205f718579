"""The ModelScope hub, through ``modelscope_hub``, which ``modelscope`` >= 1.38 brings along."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from launchers.config.sources import Kind, Source
from launchers.exits import Exit, LaunchError
from launchers.hub.fetch import Failure
from launchers.hub.http_errors import is_network, status_of
from launchers.hub.listing import HubFile, Listing
from launchers.storage import disk
from launchers.system.retry import is_transient

SECRET = "set secrets.modelscope.existingSecret to a Secret with a token that may read it"


class ModelScope:
    """One repository of the hub; honours MODELSCOPE_ENDPOINT and MODELSCOPE_API_TOKEN."""

    def __init__(self, source: Source, kind: Kind) -> None:
        """Name the repository; nothing is asked yet.

        Raises:
            LaunchError: CONFIG when the client is not installed.
        """
        self._source, self._kind = source, kind
        # the launcher has its own lock, and theirs needs flock on the shared cache
        os.environ.setdefault("MODELSCOPE_DOWNLOAD_FILE_LOCK", "false")
        try:
            import modelscope_hub
        except ImportError:
            raise LaunchError(
                Exit.CONFIG,
                "modelscope_hub is not installed in this image",
                "use an image with modelscope >= 1.38, or use hf:// or file:// sources",
                id="modelscope-missing",
            ) from None
        self._hub = modelscope_hub
        self._api: Any = None

    def list(self) -> Listing:
        """List the files, with sizes and digests; the hub has no commit for the whole."""
        asked = os.environ.get("MODELSCOPE_ENDPOINT") or None
        token = os.environ.get("MODELSCOPE_API_TOKEN") or None
        first = self._hub.HubApi(endpoint=asked, token=token)
        # without an endpoint: the Chinese site, otherwise the international one
        endpoint = first.resolve_endpoint_for_read(self._source.repo, repo_type=self._kind)
        self._api = self._hub.HubApi(endpoint=endpoint, token=token)
        found = self._api.list_repo_files(
            self._source.repo, self._kind, revision=self._source.revision
        )
        files = tuple(_file(entry) for entry in found if entry.type != "tree")
        return Listing(commit=self._source.revision, files=files)

    def fetch(self, file: HubFile, commit: str, folder: Path, *, afresh: bool) -> None:
        """Fetch one file; the client resumes, checks the digest and tries again by itself."""
        self._api.download_file(
            self._source.repo,
            self._kind,
            file.path,
            revision=commit,
            local_dir=folder,
            force=afresh,
            file_size=file.size,
            expected_sha256=file.digest or None,
        )

    def translate(self, error: Exception) -> Failure | None:
        """Translate an error of the client, by its HTTP status or its type."""
        name, what = type(error).__name__, f"recipe.{self._kind}: {self._source.text}"
        status = status_of(error)
        if status in (401, 403) or name in ("AuthenticationError", "PermissionDeniedError"):
            remedy = f"check the name, and {SECRET}"
            return _failure(
                "modelscope-access", Exit.AUTH, f"{what}: the hub denied access", remedy
            )
        if status == 404 or name == "NotExistError":
            remedy = f"check name, revision and path; if it is private, {SECRET}"
            return _failure(
                "modelscope-not-found", Exit.INPUT_MISSING, f"{what}: not found", remedy
            )
        if name in ("FileIntegrityError", "FileSizeMismatchError"):
            remedy = "try again later, or check the proxy between the pods and the hub"
            return _failure("modelscope-digest", Exit.IO, f"{what}: {error}", remedy)
        if status is not None and status < 600:
            return _unavailable(f"{what}: the hub returned HTTP {status}", is_transient(status))
        if is_network(error) or getattr(error, "retryable", False):
            return _unavailable(f"{what}: the hub did not answer: {error}", transient=True)
        if isinstance(error, OSError):
            found = disk.meaning(error, Path("the workspace"))
            return None if found is None else Failure(error=found, transient=False)
        if isinstance(error, self._hub.HubError):
            return _unavailable(f"{what}: {error}", transient=False)
        return None


def _file(entry: Any) -> HubFile:
    digest = entry.sha256 or ""
    kind: Any = "sha256" if len(digest) == 64 else "none"
    return HubFile(path=entry.path, size=entry.size, digest=digest, kind=kind)


def _failure(id: str, code: Exit, cause: str, remedy: str) -> Failure:
    return Failure(error=LaunchError(code, cause.splitlines()[0], remedy, id=id), transient=False)


def _unavailable(cause: str, transient: bool) -> Failure:
    remedy = (
        "check the pods' network access to the hub (MODELSCOPE_ENDPOINT, proxy); a restart resumes"
    )
    error = LaunchError(
        Exit.UNAVAILABLE, cause.splitlines()[0], remedy, id="modelscope-unavailable"
    )
    return Failure(error=error, transient=transient)
