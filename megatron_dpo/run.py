"""A run: what the verbs of `megatron-dpo` do, by the same functions."""

import contextlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from megatron_dpo.documents import (
    Data,
    Fixed,
    Line,
    Plan,
    Repair,
    Report,
    Status,
    Submission,
    Why,
)
from scripts.observe.command import Target
from scripts.observe.ways import Source

Confirm = Callable[..., object]
"""Takes a `scripts.fix.cluster.Repair`, returns whether its command is run."""
Answer = Callable[..., object]
"""Takes a `scripts.fix.change.Remedy`, returns one of its choices or None."""


@dataclass(frozen=True)
class Run:
    """A run of a cluster or a workspace, or one that is not submitted yet.

    Each method raises `Problem` with one message where the verb prints it and exits with 1; a run
    that is refused, waits or has failed is an answer, not an error.
    """

    name: str
    """Of the Helm release."""
    files: str | Path | Sequence[str | Path] = field(default=(), kw_only=True)
    """A values file, or several; later ones take precedence."""
    sets: Mapping[str, object] = field(default_factory=dict, kw_only=True)
    """Values by path, over the files, as ``--set`` reads them."""
    namespace: str | None = field(default=None, kw_only=True)
    """None: the context's."""
    context: str | None = field(default=None, kw_only=True)
    """None: the kubeconfig's current one."""
    workspace: str | Path | None = field(default=None, kw_only=True)
    """Folder where the workspace is mounted here; None for nowhere."""
    source: str = field(default="auto", kw_only=True)
    """How the workspace is read: auto, mount, exec, pod or api."""

    def plan(
        self,
        *,
        gpu: str = "",
        model_config: str | Path | None = None,
        pairs: int | None = None,
        tokens: float | None = None,
    ) -> Plan:
        """Predict memory, time and workspace; a refused plan says why and how to fix it.

        Args:
            gpu: GPU model, such as a100-80g; empty: ``gpuModel``.
            model_config: the model's config.json.
            pairs: number of pairs in the dataset.
            tokens: mean tokens of a pair, both answers with the prompt.
        """
        from scripts.plan import command

        config = Path(model_config) if model_config else None
        request = command.Request(
            run=self.name,
            files=self._files(),
            sets=self._sets(),
            gpu=gpu,
            model_config=config,
            pairs=pairs,
            tokens=tokens,
        )
        return Plan.of(command.document_of(request))

    def fix(self, answer: Answer | None = None, *, write: bool = False) -> Fixed:
        """Apply the remedies of the values' refusals; nothing is written by default.

        Args:
            answer: chooses among the changes of a remedy; None applies those that need no answer.
            write: write the files; the difference is in the result in either case.
        """
        from scripts.fix import command
        from scripts.plan.command import Request, refusals

        request = Request(run=self.name, files=self._files(), sets=self._sets())
        found = command.fixed(request, answer or command.sure)  # type: ignore[arg-type]
        files = found.after.write(found.before) if write else []
        left = found.left if write else refusals(request)
        return Fixed.of(command.document(found, [str(file) for file in files], left))

    def submit(self, *, dry_run: bool = False) -> Submission:
        """Plan, check and install the run; a refused one says what refused it.

        Args:
            dry_run: plan and check only.
        """
        from scripts.submit import command

        request = command.Request(
            target=self._target(), files=self._files(), sets=self._sets(), dry_run=dry_run
        )
        outcome = command.Outcome(context=self.context, namespace=self.namespace)
        command.submit(request, Console(file=io.StringIO()), outcome)
        return Submission.of(command.document(request, outcome))

    def status(self) -> Status:
        """Return how far the run is, how fast and how good."""
        from scripts.status import command

        return Status.of(command.document(*command.seen(self._target())))

    def why(self, *, fix: bool | Confirm = False) -> Why:
        """Return why the run waits, fails or has ended, and what to do.

        Args:
            fix: run the command of the first remedy that has one, then look again. True runs only
                one that no person has to judge; a function is shown the command, and returns
                whether it is run.
        """
        from scripts.fix import cluster
        from scripts.why import command

        run: list[Repair] = []

        def confirm(one: cluster.Repair) -> bool:
            run.append(Repair.of(cluster.document(one)))
            return fix is True or (callable(fix) and bool(fix(one)))

        is_fixed = bool(fix) and cluster.fix(self._target(), confirm, yes=fix is True) is not None
        found = Why.of(command.document(*command.seen(self._target())))
        return replace(found, fixed=run[0]) if is_fixed else found

    def logs(
        self, rank: int | None = 0, *, tail: int | None = None, grep: str | None = None
    ) -> tuple[Line, ...]:
        """Return lines of a rank's output.

        Args:
            rank: the rank; None for all.
            tail: last lines of each rank only.
            grep: only lines with this pattern.
        """
        from scripts.logs import command

        chosen = command.Selection(
            rank=rank, all_ranks=rank is None, tail=tail, grep=grep, as_data=True
        )
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            command.run(self._target(), chosen)
        return tuple(Line.of(json.loads(line)) for line in said.getvalue().splitlines())

    def report(self, *others: str) -> Report:
        """Return the report of the run; a notebook shows its page with the curves.

        Args:
            others: more runs of the workspace, drawn together.
        """
        from scripts.report import command, document

        runs = (self.name, *others)
        request = command.Request(targets=[replace(self._target(), run=run) for run in runs])
        records = command.records(request)
        found = Report.of(document.build(records, command.distinct(records)))
        return replace(found, records=records)

    def data(self, *paths: str | Path, held_out: Sequence[str | Path] = ()) -> Data:
        """Return what files of rows hold, judged by the run's values.

        Args:
            paths: files or folders of rows.
            held_out: rows that training evaluates on.
        """
        from scripts.data import command

        request = command.Request(
            paths=[Path(path) for path in paths],
            files=self._files(),
            sets=self._sets(),
            held_out=[Path(path) for path in held_out],
        )
        return Data.of(command.document_of(request))

    def _target(self) -> Target:
        return Target(
            run=self.name,
            namespace=self.namespace,
            context=self.context,
            workspace=Path(self.workspace) if self.workspace else None,
            source=Source(self.source),
        )

    def _files(self) -> list[Path]:
        files = [self.files] if isinstance(self.files, str | Path) else self.files
        return [Path(file) for file in files]

    def _sets(self) -> list[str]:
        return [f"{path}={_text(value)}" for path, value in self.sets.items()]


def _text(value: object) -> str:
    """Return a value as ``--set`` reads it.

    >>> _text(None), _text(True), _text(0.1), _text(["a", 1])
    ('null', 'true', '0.1', '{a,1}')
    """
    if isinstance(value, list | tuple):
        return f"{{{','.join(map(_text, value))}}}"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
