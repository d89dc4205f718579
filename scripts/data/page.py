"""The page of `megatron-dpo data`: one HTML file, in the style of a run's report."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.data import screen
from scripts.report.html.markup import Html, tag
from scripts.report.html.page import section, whole
from scripts.report.html.sections import table


def render(document: Mapping[str, Any]) -> str:
    """Return the page of a document of datasets."""
    names = [Path(each["file"]).name for each in document["datasets"]]
    title = " · ".join(names) or "no rows"
    head = tag("p", "Pairs", class_="kind"), tag("h1", title), tag("p", "", class_="subtitle")
    shown = [tag("main", [section(at, *each) for at, each in enumerate(_sections(document), 1)])]
    return whole(f"{title}: pairs", tag("header", head), *shown)


def _sections(document: Mapping[str, Any]) -> Iterator[tuple[str, Html]]:
    refused = document["refused"]
    unread = all(each["unread"] for each in document["datasets"])
    result = "refused" if refused else "not judged" if unread else "accepted"
    looks = {"refused": "failed", "accepted": "succeeded"}.get(result, "stopped")
    word = tag("span", result, class_=f"state {looks}")
    doubtful = ", with faults that are named below" * any(d["faults"] for d in document["datasets"])
    use = "" if refused else f" that a run would train on{doubtful}"
    says = "" if result == "not judged" else f"{document['pairs']:,} pairs{use}"
    yield (
        "Result",
        tag(
            "div",
            tag("p", word, says, class_="headline"),
            [tag("p", each, class_="why") for each in refused],
        ),
    )
    for each in document["datasets"]:
        yield Path(each["file"]).name, _facts(screen.dataset(each))
    if document["pairs"]:
        header = (document["unit"], "median", "p95", "max")
        yield "Lengths", table(header, screen.spreads(document), numbers=3)
        yield "Pairs", _facts(screen.numbers(document))


def _facts(lines: Iterator[tuple[str, str]]) -> Html:
    """Return labels and texts as a table; a line without a label continues the one before it."""
    rows: list[tuple[str, str]] = []
    for label, text in lines:
        if label or not rows:
            rows.append((label, text))
        else:
            rows[-1] = rows[-1][0], f"{rows[-1][1]}\n{text}"
    return table((), [(label, tag("pre", text) if "\n" in text else text) for label, text in rows])
