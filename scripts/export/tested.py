"""The test of the export as rows of text: is it what was trained, and how does it score."""

from collections.abc import Iterator, Mapping
from typing import Any

from launchers.state.json_text import part
from scripts.report.numbers import percent

Row = tuple[str, ...]


def rows(test: Mapping[str, Any]) -> Iterator[Row]:
    """Yield whether the export is what was trained, and base against tuned on the same pairs."""
    compared = part(test, "compared")
    if problems := test.get("problems"):
        yield "Export", "differs", "; ".join(map(str, problems))
    elif compared:
        shown = f"{_small(compared.get('difference'))} nats a token from the trainer's, bound "
        yield "Export", f"{compared.get('pairs')} pairs", shown + _small(compared.get("bound"))
    elif why := test.get("not_compared"):
        yield "Export", "not compared", str(why)
    before, after = compared.get("base_accuracy"), compared.get("tuned_accuracy")
    if isinstance(before, int | float) and isinstance(after, int | float):
        margin = f"log-ratio of chosen over rejected {_small(compared.get('margin'))} nats higher"
        yield "Chosen likelier", f"{percent(before)} → {percent(after)}", f"base → tuned; {margin}"


def scores(found: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the export's scores of benchmarks, from the run's ``benchmarks.json``."""
    for task, each in part(found, "scores").items():
        score = each.get("score")
        shown = f"{score:.3g}" if isinstance(score, int | float) else "–"
        yield str(task), shown, f"{each.get('metric')}; {each.get('samples')} samples"
    if found.get("problem"):
        yield "Benchmarks", "failed", str(found["problem"])


def _small(value: object) -> str:
    return f"{value:.2g}" if isinstance(value, int | float) else "–"
