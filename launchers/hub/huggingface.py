"""The Hugging Face hub, through ``huggingface_hub`` (imported where used)."""

import os
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from launchers.config.sources import RepoType, Source
from launchers.exits import Exit, LaunchError
from launchers.hub.client import (
    UNKNOWN,
    Failure,
    HubFile,
    Listing,
    disk_failure,
    disk_failure_from_text,
    http_host,
    http_status,
    is_network_error,
    is_page,
    permanent,
    unavailable,
)
from launchers.system.retry import is_transient

SECRET_REMEDY = "set secrets.hf.existingSecret to a Secret with a token that may read it"
_unavailable = partial(
    unavailable,
    remedy="check the pods' network access to the hub (HF_ENDPOINT, proxy); a restart resumes",
    id="huggingface-unavailable",
)


class HuggingFace:
    """One repository of the hub; honours HF_ENDPOINT, HF_TOKEN and the client's other variables."""

    def __init__(self, source: Source, repo_type: RepoType) -> None:
        """Prepare the client; no request is sent.

        Raises:
            LaunchError: CONFIG if the client is not installed.
        """
        self._source, self._repo_type = source, repo_type
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read at import
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
        """List the files with sizes and digests."""
        info = self._hub.HfApi(endpoint=self._endpoint).repo_info(
            self._source.repo,
            revision=self._source.revision,
            repo_type=self._repo_type,
            files_metadata=True,
            timeout=60,
        )
        if (siblings := getattr(info, "siblings", None)) is None:
            raise ConnectionError("the hub returned no list of files")
        files = tuple(_file(sibling) for sibling in siblings)
        return Listing(commit=info.sha or self._source.revision, files=files)

    def fetch(self, file: HubFile, commit: str, folder: Path, *, from_scratch: bool) -> None:
        """Download one file; the client resumes from its ``.incomplete`` file."""
        self._hub.hf_hub_download(
            self._source.repo,
            file.path,
            repo_type=self._repo_type,
            revision=commit,
            local_dir=folder,
            endpoint=self._endpoint,
            force_download=from_scratch,
        )

    def translate(self, error: Exception) -> Failure | None:
        """Classify an error of the client by its HTTP status or its class."""
        name, what = type(error).__name__, f"recipe.{self._repo_type}: {self._source.text}"
        if name == "OfflineModeIsEnabled":
            remedy = "remove HF_HUB_OFFLINE from extraEnv, or set stages.download.skip: true"
            return permanent(
                Exit.CONFIG, f"{what}: HF_HUB_OFFLINE is set", remedy, id="hub-offline"
            )
        if name == "HFValidationError":
            return permanent(
                Exit.CONFIG, f"{what}: {error}", "use hf://org/name@revision", id="huggingface-name"
            )
        status = http_status(error)
        if name == "GatedRepoError":
            remedy = f"accept its licence on the hub, and {SECRET_REMEDY}"
            return permanent(Exit.AUTH, f"{what} is gated", remedy, id="huggingface-gated")
        own = urlsplit(self._hub.HfApi(endpoint=self._endpoint).endpoint).hostname
        if status in (403, 404) and name == "HfHubHTTPError" and http_host(error) != own:
            # of the storage, by an address that the hub has signed for some time
            return _unavailable(f"{what}: the hub's storage returned HTTP {status}", transient=True)
        is_unnamed = status == 404 and name == "HfHubHTTPError"  # the hub names what is missing
        if is_unnamed or (status in (401, 403) and is_page(error)):
            return _unavailable(f"{what}: HTTP {status}, not of the hub", transient=True)
        if status in (401, 403):
            remedy = f"check the name, and {SECRET_REMEDY}"
            return permanent(
                Exit.AUTH,
                f"{what}: the hub returned HTTP {status}",
                remedy,
                id="huggingface-access",
            )
        if status == 404:
            missing = "no such revision" if name == "RevisionNotFoundError" else "not found"
            remedy = f"check name, revision and path; if it is private, {SECRET_REMEDY}"
            return permanent(
                Exit.INPUT_MISSING, f"{what}: {missing}", remedy, id="huggingface-not-found"
            )
        if status is not None:
            return _unavailable(
                f"{what}: the hub returned HTTP {status}", transient=is_transient(status)
            )
        if is_network_error(error) or name == "LocalEntryNotFoundError":
            return _unavailable(f"{what}: the hub did not answer: {error}", transient=True)
        return self._from_system(error, what)

    def _from_system(self, error: Exception, what: str) -> Failure | None:
        if isinstance(error, OSError):
            found = disk_failure(error)
            if found is not None:
                return found
            if "Consistency check failed" in str(error):
                return _unavailable(f"{what}: the connection was closed early", transient=True)
        if isinstance(error, RuntimeError):  # of hf_xet, which keeps only the text
            found = disk_failure_from_text(str(error))
            return found or _unavailable(f"{what}: {error}", transient=True)
        return None


def _file(sibling: object) -> HubFile:
    """Convert one entry of the listing: large files have a SHA-256, others git's blob id."""
    path, size = str(getattr(sibling, "rfilename", "")), getattr(sibling, "size", None)
    size = UNKNOWN if size is None else size
    lfs, blob = getattr(sibling, "lfs", None), getattr(sibling, "blob_id", None)
    if lfs is not None:
        return HubFile(path=path, size=size, digest=lfs.sha256, digest_type="sha256")
    return HubFile(path=path, size=size, digest=blob or "", digest_type="git" if blob else "none")
