"""Judge the counts of a dataset's rows before the model is loaded: end the run, or warn. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launchers.exits import Exit, LaunchError
from launchers.training.tokens.pair_faults import NO_ANSWER, WARNED

TOO_LONG = "longer than max_length"


def refuse(found: Mapping[str, Any], limit: float) -> None:
    """End a run that would train on too few of its rows, or on pairs without a preference.

    Raises:
        LaunchError: DATA, naming reasons, files and rows.
    """
    read, kept = found["read"], found["kept"]
    gone = {why: each for why, each in found["reasons"].items() if each["dropped"]}
    if read and ((read - kept) / read > limit or not kept):
        top = next(iter(gone), "")
        remedy = "raise recipe.args.max_length, or set truncation_strategy"
        if top != TOO_LONG:
            remedy = "correct these rows (megatron-dpo data FILE)"
        raise LaunchError(
            Exit.DATA,
            f"recipe.dataset: {read - kept} of {read} rows are dropped: {words(gone)}",
            f"{remedy}; or raise recipe.maxDroppedRows {limit:g}",
            id="tokens-dropped" if kept else "tokens-none",
        )
    for why, each in found["reasons"].items():
        if each["dropped"] is False and why not in WARNED and each["count"] == kept:
            raise LaunchError(
                Exit.DATA,
                f"recipe.dataset: {words({why: each})} in all {kept} rows",
                "end each row with the assistant's answer"
                if why == NO_ANSWER
                else "give both sides one prompt and an answer of their own "
                "(megatron-dpo data FILE)",
                id="tokens-pairs",
            )


def dropped(found: Mapping[str, Any]) -> int:
    """Return the number of rows that are dropped."""
    return sum(int(each["count"]) for each in found["reasons"].values() if each["dropped"])


def complaints(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield each reason with its share, its file and its first rows."""
    for why, each in found["reasons"].items():
        of = found["read"] if each["dropped"] else found["kept"]
        is_dropped = "dropped: " if each["dropped"] else "trained on, but: "
        yield f"{is_dropped}{words({why: each})}, {each['count'] / max(1, of):.1%} of the rows"


def words(reasons: Mapping[str, Mapping[str, Any]]) -> str:
    """Return reasons with counts, files and rows, as one text.

    >>> words({"no answer": {"count": 4, "rows": [["/w/a.jsonl", 2], ["/w/a.jsonl", 5]],
    ...                      "example": ""}})
    'no answer: 4 (a.jsonl rows 2, 5)'
    """
    return "; ".join(_of(why, each) for why, each in list(reasons.items())[:4])


def _of(why: str, each: Mapping[str, Any]) -> str:
    files: dict[str, list[str]] = {}
    for file, row in each["rows"]:
        if row is not None:
            files.setdefault(Path(file).name, []).append(str(row))
    named = ", ".join(f"{name} rows {', '.join(rows)}" for name, rows in files.items())
    example = f"; e.g. {each['example']}" if " in " in why and each.get("example") else ""
    return f"{why}: {each['count']}" + (f" ({named})" if named else "") + example
