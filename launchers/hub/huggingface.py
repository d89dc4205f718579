"""The Hugging Face hub, through ``huggingface_hub`` (imported where used)."""

from __future__ import annotations

import os
from pathlib import Path

from launchers.config.sources import Kind, Source
from launchers.exits import Exit, LaunchError
from launchers.hub.fetch import Failure
from launchers.hub.http_errors import from_text, is_network, status_of
from launchers.hub.listing import HubFile, Listing
from launchers.storage import disk
from launchers.system.retry import is_transient

SECRET = "set secrets.hf.existingSecret to a Secret with a token that may read it"


class HuggingFace:
    """One repository of the hub; honours HF_ENDPOINT, HF_TOKEN and the client's other names."""

    def __init__(self, source: Source, kind: Kind) -> None:
        """Name the repository; nothing is asked yet.

        Raises:
            LaunchError: CONFIG when the client is not installed.
        """
        self._source, self._kind = source, kind
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when it is imported
        try:
            import huggingface_hub
        except ImportError:
            raise LaunchError(
                Exit.CONFIG,
                "huggingface_hub is not installed in this image",
                "use an image that has it, or use file:// or ms:// sources",
                id="huggingface-missing",
            ) from None
        self._hub = huggingface_hub
        self._endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None

    def list(self) -> Listing:
        """Ask for the files, with sizes and digests."""
        info = self._hub.HfApi(endpoint=self._endpoint).repo_info(
            self._source.repo,
            revision=self._source.revision,
            repo_type=self._kind,
            files_metadata=True,
            timeout=60,
        )
        files = tuple(_file(sibling) for sibling in getattr(info, "siblings", None) or ())
        return Listing(commit=info.sha or self._source.revision, files=files)

    def fetch(self, file: HubFile, commit: str, folder: Path, *, afresh: bool) -> None:
        """Fetch one file; the client resumes from its ``.incomplete`` file."""
        self._hub.hf_hub_download(
            self._source.repo,
            file.path,
            repo_type=self._kind,
            revision=commit,
            local_dir=folder,
            endpoint=self._endpoint,
            force_download=afresh,
        )

    def translate(self, error: Exception) -> Failure | None:
        """Translate an error of the client, by its HTTP status or its type."""
        name, what = type(error).__name__, f"recipe.{self._kind}: {self._source.text}"
        if name == "OfflineModeIsEnabled":
            remedy = "remove HF_HUB_OFFLINE from extraEnv, or set stages.download.skip: true"
            return _failure("hub-offline", Exit.CONFIG, f"{what}: HF_HUB_OFFLINE is set", remedy)
        if name == "HFValidationError":
            return _failure(
                "huggingface-name", Exit.CONFIG, f"{what}: {error}", "use hf://org/name@revision"
            )
        status = status_of(error)
        if name == "GatedRepoError":
            remedy = f"accept its licence on the hub, and {SECRET}"
            return _failure("huggingface-gated", Exit.AUTH, f"{what} is gated", remedy)
        if status in (401, 403):
            remedy = f"check the name, and {SECRET}"
            return _failure(
                "huggingface-access", Exit.AUTH, f"{what}: the hub returned HTTP {status}", remedy
            )
        if status == 404:
            missing = "no such revision" if name == "RevisionNotFoundError" else "not found"
            remedy = f"check name, revision and path; if it is private, {SECRET}"
            return _failure(
                "huggingface-not-found", Exit.INPUT_MISSING, f"{what}: {missing}", remedy
            )
        if status is not None:
            return _unavailable(f"{what}: the hub returned HTTP {status}", is_transient(status))
        if is_network(error) or name == "LocalEntryNotFoundError":
            return _unavailable(f"{what}: the hub did not answer: {error}", transient=True)
        return self._from_system(error, what)

    def _from_system(self, error: Exception, what: str) -> Failure | None:
        if isinstance(error, OSError):
            found = disk.meaning(error, Path("the workspace"))
            if found is not None:
                return Failure(error=found, transient=False)
            if "Consistency check failed" in str(error):
                return _unavailable(f"{what}: the connection was closed early", transient=True)
        if isinstance(error, RuntimeError):  # hf_xet, whose errors are texts
            found = from_text(str(error))
            if found is not None:
                return Failure(error=found, transient=False)
            return _unavailable(f"{what}: {error}", transient=True)
        return None


def _file(sibling: object) -> HubFile:
    """Read one entry of the hub's list: large files have a SHA-256, others git's blob id."""
    path, size = str(getattr(sibling, "rfilename", "")), getattr(sibling, "size", None) or 0
    lfs, blob = getattr(sibling, "lfs", None), getattr(sibling, "blob_id", None)
    if lfs is not None:
        return HubFile(path=path, size=size, digest=lfs.sha256, kind="sha256")
    return HubFile(path=path, size=size, digest=blob or "", kind="git" if blob else "none")


def _failure(id: str, code: Exit, cause: str, remedy: str) -> Failure:
    return Failure(error=LaunchError(code, cause, remedy, id=id), transient=False)


def _unavailable(cause: str, transient: bool) -> Failure:
    remedy = "check the pods' network access to the hub (HF_ENDPOINT, proxy); a restart resumes"
    return Failure(
        error=LaunchError(
            Exit.UNAVAILABLE, cause.splitlines()[0], remedy, id="huggingface-unavailable"
        ),
        transient=transient,
    )
