"""The ModelScope hub, through ``modelscope_hub``, a dependency of ``modelscope`` >= 1.38."""

import os
from functools import partial
from pathlib import Path
from typing import Any

from launchers.config.sources import RepoType, Source
from launchers.exits import Exit, LaunchError
from launchers.hub.client import (
    Failure,
    HubFile,
    Listing,
    disk_failure,
    http_status,
    is_network_error,
    permanent,
    unavailable,
)
from launchers.system.retry import is_transient

SECRET_REMEDY = "set secrets.modelscope.existingSecret to a Secret with a token that may read it"
_unavailable = partial(
    unavailable,
    remedy="check network access to the hub (MODELSCOPE_ENDPOINT, proxy); a restart resumes",
    id="modelscope-unavailable",
)


class ModelScope:
    """One repository of the hub; honours MODELSCOPE_ENDPOINT and MODELSCOPE_API_TOKEN."""

    def __init__(self, source: Source, repo_type: RepoType) -> None:
        """Prepare the client; no request is sent.

        Raises:
            LaunchError: CONFIG if the client is not installed.
        """
        self._source, self._repo_type = source, repo_type
        # the launcher has its own lock, and the client's needs flock on the shared cache
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
        """List the files with sizes and digests; the hub names no commit."""
        asked = os.environ.get("MODELSCOPE_ENDPOINT") or None
        token = os.environ.get("MODELSCOPE_API_TOKEN") or None
        first = self._hub.HubApi(endpoint=asked, token=token)
        # without an endpoint: the Chinese site, otherwise the international one
        endpoint = first.resolve_endpoint_for_read(self._source.repo, repo_type=self._repo_type)
        self._api = self._hub.HubApi(endpoint=endpoint, token=token)
        found = self._api.list_repo_files(
            self._source.repo, self._repo_type, revision=self._source.revision
        )
        files = tuple(_file(entry) for entry in found if entry.type != "tree")
        return Listing(commit=self._source.revision, files=files)

    def fetch(self, file: HubFile, commit: str, folder: Path, *, from_scratch: bool) -> None:
        """Download one file; the client itself resumes, verifies the digest and retries."""
        self._api.download_file(
            self._source.repo,
            self._repo_type,
            file.path,
            revision=commit,
            local_dir=folder,
            force=from_scratch,
            file_size=file.size,
            expected_sha256=file.digest or None,
        )

    def translate(self, error: Exception) -> Failure | None:
        """Classify an error of the client by its HTTP status or its class."""
        name, what = type(error).__name__, f"recipe.{self._repo_type}: {self._source.text}"
        status = http_status(error)
        is_json = isinstance(getattr(error, "response_body", None), dict)
        if status in (401, 403, 404) and not is_json:
            return _unavailable(f"{what}: HTTP {status}, not of the hub", transient=True)
        if status in (401, 403) or name in ("AuthenticationError", "PermissionDeniedError"):
            remedy = f"check the name, and {SECRET_REMEDY}"
            return permanent(
                Exit.AUTH, f"{what}: the hub denied access", remedy, id="modelscope-access"
            )
        if status == 404 or name == "NotExistError":
            remedy = f"check name, revision and path; if it is private, {SECRET_REMEDY}"
            return permanent(
                Exit.INPUT_MISSING, f"{what}: not found", remedy, id="modelscope-not-found"
            )
        if name in ("FileIntegrityError", "FileSizeMismatchError"):
            remedy = "try again later, or check the proxy between the pods and the hub"
            return permanent(
                Exit.IO, f"{what}: {error}".splitlines()[0], remedy, id="modelscope-digest"
            )
        if status is not None and status < 600:
            return _unavailable(
                f"{what}: the hub returned HTTP {status}", transient=is_transient(status)
            )
        if is_network_error(error) or getattr(error, "retryable", False):
            return _unavailable(f"{what}: the hub did not answer: {error}", transient=True)
        if isinstance(error, OSError):
            return disk_failure(error)
        if isinstance(error, self._hub.HubError):
            return _unavailable(f"{what}: {error}", transient=False)
        return None


def _file(entry: Any) -> HubFile:
    digest = entry.sha256 or ""
    digest_type: Any = "sha256" if len(digest) == 64 else "none"
    return HubFile(path=entry.path, size=entry.size, digest=digest, digest_type=digest_type)
