"""`megatron-dpo logs`: print the output of ranks."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from launchers.logs import printable
from scripts.doctor.api import Api
from scripts.logs.files import Wanted, absent, read_log
from scripts.logs.follow import LONGEST_SECONDS, POLL_SECONDS, Reader
from scripts.logs.lines import Format, batches, compile_pattern
from scripts.observe.changes import changes
from scripts.observe.command import Exit, Target, observe
from scripts.observe.pods import is_open, run_in_pod
from scripts.observe.view import View
from scripts.problem import Problem, WrongUse
from scripts.why.reasons import missing_run
from scripts.why.words import addressed


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selection of the lines to print."""

    rank: int | None = None
    """None: rank 0, and all ranks of stacks."""
    all_ranks: bool = False
    attempt: int | None = None
    """None: the pods', and if they are gone the newest attempt's."""
    follow: bool = False
    grep: str | None = None
    tail: int | None = None
    stacks: bool = False
    """The stacks of their training processes now, in place of their output."""
    as_data: bool = False
    """Each line as a JSON document of one line (`lines.py`)."""


def run(target: Target, chosen: Selection) -> int:
    """Print the lines to stdout; notes to stderr.

    Raises:
        Problem: the run or rank does not exist, or no log can be read.
    """
    pattern = compile_pattern(chosen.grep)
    api = target.reach()
    view = _first_view(target, api, chosen)
    ranks = _ranks(view, chosen)
    width = len(str(max(ranks)))
    formats = {
        each: Format(rank=each, width=width, pattern=pattern, as_data=chosen.as_data)
        for each in ranks
    }
    if chosen.stacks:
        _print_stacks(api, view, chosen, list(formats.values()))
        return int(Exit.OK)
    if chosen.attempt is None and view.jobset:
        reader = Reader(
            api=api,
            run=target.run,
            formats=formats,
            follow=chosen.follow,
            tail=chosen.tail,
            note=_note,
        )
        reader.read(_write)
        formats = {each: formats[each] for each in sorted(reader.missing)}
        for why in sorted(set(reader.missing.values())):
            _note(why)
    if formats:
        _print_files(api, view, target, chosen, list(formats.values()))
    return int(Exit.OK)


def _first_view(target: Target, api: Api, chosen: Selection) -> View:
    """Return the run; with `--follow`, once its objects can be read."""
    wait, noted = POLL_SECONDS, ""
    while True:
        view, _ = observe(target, api, queue=False, reader=False)
        lost = view.snapshot.lost
        if not lost or not chosen.follow:
            return view
        if lost != noted:
            _note(f"no answer of the API server ({lost}); it is asked again")
        noted, wait = lost, min(2 * wait, LONGEST_SECONDS)
        time.sleep(wait)


def _ranks(view: View, chosen: Selection) -> list[int]:
    """Return the ranks that are printed."""
    if not view.jobset and not (view.files and view.files.exists):
        raise missing_run(view)
    nodes = view.nodes or 1
    if not view.jobset and view.files and view.files.attempts:
        nodes = len(view.files.attempts[-1].logs) or 1
    if chosen.all_ranks or (chosen.stacks and chosen.rank is None):
        return list(range(nodes))
    rank = chosen.rank or 0
    if rank >= nodes and view.jobset:
        raise Problem(f"run {view.run} has ranks 0 to {nodes - 1}, not {rank}")
    return [rank]


def _print_stacks(api: Api, view: View, chosen: Selection, formats: Sequence[Format]) -> None:
    """Print what each rank's training processes are doing; note the ranks that give no answer.

    Raises:
        WrongUse: an option does not fit.
        Problem: no rank gives an answer.
    """
    if chosen.follow or chosen.attempt is not None or chosen.tail is not None:
        raise WrongUse("--stacks is of now: use it without --follow, --attempt and --tail")
    pods, answers = {each.number: each for each in view.ranks}, 0
    for form in formats:
        rank = pods.get(form.rank)
        if rank is None or not is_open(rank):
            _note(f"no pod of rank {form.rank} runs")
            continue
        try:
            text = run_in_pod(api, view, rank.pod, ("state", "--stacks"))
        except Problem as problem:
            _note(str(problem))
            continue
        answers += 1
        for lines in batches([text]):
            _write(form.apply(lines))
    if not answers:
        raise Problem(f"no rank of run {view.run} has given its stacks")


def _print_files(
    api: Api, view: View, target: Target, chosen: Selection, formats: Sequence[Format]
) -> None:
    if view.files is None:
        reread, reading = observe(target, api, queue=False)
        view = reread
        if reading.files is None:
            denied = view.snapshot.missing_permissions
            lacks = f"you lack the permission: {', '.join(denied)}" if denied else ""
            why = "; ".join(reading.notes) or lacks or "the run has had no pods yet"
            raise Problem(f"no pod of run {view.run} has a log, and its files: {why}")
    assert view.files is not None
    attempts = [each.number for each in view.files.attempts]
    attempt = chosen.attempt or (attempts[-1] if attempts else 0)
    if not attempt:
        see = addressed(f"`megatron-dpo why {view.run}`", view)
        raise absent(view, f"run {view.run} has no log yet; see {see}")
    for note in changes(view):
        _note(note)
    if attempt in attempts:
        _note(f"from the files of attempt {attempt}")
    for form in formats:
        wanted = Wanted(attempt=attempt, rank=form.rank, tail=chosen.tail, grep=chosen.grep)
        blocks = read_log(api, view, wanted, target.workspace, target.source, _note)
        for lines in batches(blocks):
            _write(form.apply(lines))


def _note(text: str) -> None:
    print(printable(text), file=sys.stderr)


def _write(text: str) -> None:
    """Write text; `rich` would take longer to style a line than a rank to print it."""
    sys.stdout.write(text)
    sys.stdout.flush()
