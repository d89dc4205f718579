"""The download stage: the model and the datasets, verified, on the workspace."""

from collections.abc import Callable
from pathlib import Path

from launchers import logs
from launchers.config import sources
from launchers.config.sources import RepoType, Source
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.hub.fetch import REPOSITORY, client_for, fetch
from launchers.inputs.model_weights import is_pointer
from launchers.stages import local_files
from launchers.storage import marker
from launchers.storage.output import RECORD, Made, Outcome, produce, trusted
from launchers.system import lookup

STAGE = "download"


def download(
    recipe_model: str,
    recipe_dataset: tuple[str, ...],
    workspace: Workspace,
    clone: Path | None,
    *,
    skip: bool,
    holder: str,
    judge: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """Download the datasets, then the model, to the workspace.

    ``skip`` leaves the files unverified; ``judge`` checks the datasets before the model comes.

    Returns:
        The model's outcome, then the datasets'.

    Raises:
        LaunchError: what ``judge`` raises; CONFIG for an invalid source; INPUT_MISSING, AUTH,
            UNAVAILABLE, QUOTA or IO when the download fails. No incomplete output is left under a
            final name.
    """

    def fetch(source: Source, kind: RepoType) -> Outcome:
        place = sources.local(source, kind, workspace, clone)
        return _one(source, kind, place, workspace, skip=skip, holder=holder)

    model = sources.parse_source(recipe_model, "recipe.model")
    datasets = sources.parse_datasets(recipe_dataset).values()
    made = [fetch(each, "dataset") for each in datasets]
    judge()
    return [fetch(model, "model"), *made]


def _one(
    what: Source, kind: RepoType, place: Path, workspace: Workspace, *, skip: bool, holder: str
) -> Outcome:
    if what.hub == "code":
        return _in_clone(what, kind, place)
    if what.name in (REPOSITORY, RECORD, marker.NAME):
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.{kind}: {what.text} ends in a name that the launcher uses for its own files",
            "rename the file or folder",
            id="source-own-name",
        )
    home = sources.home(what, kind, workspace)
    if skip:
        return trusted(STAGE, what.text, home, place)
    if what.hub == "file":
        if sources.is_in_place(what, workspace):
            return local_files.use_in_place(what, home, holder=holder)
        return local_files.copy(what, home, holder=holder)

    def make(partial: Path) -> Made:
        return fetch(client_for(what, kind), what, kind, partial)

    inputs = {"source": what.text}
    return produce(STAGE, what.text, home, inputs, make, skip=False, holder=holder, verifies=True)


def _in_clone(what: Source, kind: RepoType, place: Path) -> Outcome:
    """Check that a path inside the clone exists; the clone's marker covers its content."""
    if not lookup.exists(place):
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"recipe.{kind}: {what.repo!r} is not in the clone",
            f"correct the path or code.ref; if it is on a hub, use hf://{what.repo}@REVISION",
            id="clone-path",
        )
    if is_pointer(place):
        raise LaunchError(
            Exit.DATA,
            f"recipe.{kind}: {what.repo!r} is a git-lfs pointer; git did not fetch its content",
            "use an image with git-lfs installed, or store the data on a hub or the workspace",
            id="git-lfs-pointer",
        )
    logs.info("download up to date: in the clone", name=what.repo, path=place)
    return Outcome(STAGE, what.repo, "up to date", "in the clone", place)
