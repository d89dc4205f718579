"""A model repository of the Hugging Face hub, by its official client, `huggingface_hub`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.export.remote import GIT, SHA256, refusal
from scripts.problem import Problem

ATTRIBUTES = ".gitattributes"
"""File that the hub adds to each repository."""
SILENCE_SECONDS = 60.0
"""Without an answer, after which the client gives up or tries again; its default is to wait."""


class Repository:
    """One repository."""

    def __init__(self, name: str, token: str) -> None:
        """Use a token, or without one that of `HF_TOKEN` or of `hf auth login`."""
        try:
            import huggingface_hub
        except ImportError:
            said = "hf:// needs the hub's client: pip install 'huggingface_hub>=1' [push-client]"
            raise Problem(said) from None
        self._name, self._token, self._client = name, token, huggingface_hub
        self._api = huggingface_hub.HfApi(token=token or None)
        huggingface_hub.get_session().timeout = SILENCE_SECONDS

    def files(self) -> Mapping[str, str]:
        """Return the digest of each file on the main branch; none without a repository."""
        with self._refusing():
            self._api.whoami()  # to a wrong token the hub answers that there is no repository
            try:
                found = [*self._api.list_repo_tree(self._name, recursive=True)]
            except self._client.errors.RepositoryNotFoundError:
                return {}
        return {
            each.path: f"{SHA256}{each.lfs.sha256}" if each.lfs else f"{GIT}{each.blob_id}"
            for each in found
            if isinstance(each, self._client.hf_api.RepoFile) and each.path != ATTRIBUTES
        }

    def push(self, folder: Path, files: Sequence[str], changed: Sequence[str]) -> str:
        """Add the changed files in one commit and return its id; a new repository is private.

        The client sends large files before the commit, and none that the hub has.
        """
        adds = [self._client.CommitOperationAdd(name, folder / name) for name in changed]
        with self._refusing():
            self._api.create_repo(self._name, private=True, exist_ok=True)
            message = "Push an export of megatron-dpo"
            return str(self._api.create_commit(self._name, adds, commit_message=message).oid)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        place, errors = f"hf://{self._name}", self._client.errors
        try:
            yield
        except errors.LocalTokenNotFoundError:
            raise refusal(place, 401, "there is none", "") from None
        except (errors.HTTPError, LookupError, OSError, RuntimeError, ValueError) as error:
            cause = error.__cause__ if isinstance(error, RuntimeError) else error  # of an upload
            status = cause.response.status_code if isinstance(cause, errors.HfHubHTTPError) else 0
            said = getattr(cause, "server_message", None) or str(cause)
            raise refusal(place, status, said, self._token) from None
