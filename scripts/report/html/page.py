"""The whole page: one file without any external resource."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from scripts.report import facts
from scripts.report.html import sections
from scripts.report.html.markup import Html, tag
from scripts.report.html.sections import Section, rows_of
from scripts.report.record import RunRecord

FOLDER = Path(__file__).parent
SECTIONS: Sequence[tuple[str, Section]] = (
    ("Result", sections.result),
    ("Curves", sections.all_curves),
    ("Time and attempts", sections.time),
    ("Plan and actual", rows_of(("measure", "plan", "actual", "ratio"), facts.planned, numbers=3)),
    ("Not predicted", rows_of(("part", "reason"), facts.unknown)),
    ("Environment", rows_of((), facts.environment)),
    ("Pods", rows_of(("rank", "pod", "node", "preflight of the newest attempt"), facts.pods)),
    ("Start", rows_of(("phase of the newest start", "seconds"), facts.start_phases, numbers=1)),
    ("Rows", rows_of(("rows", "number"), facts.rows, numbers=1)),
    ("Packs", rows_of(("measure", "value"), facts.packs, numbers=1)),
    ("Pairs", rows_of(("pairs", "value"), facts.pairs)),
    (
        "Worst pairs",
        rows_of(
            ("file", "row", "mean margin", "margin in each epoch"),
            facts.worst_pairs,
            fold="Pairs with the lowest margins: look whether their answers are exchanged",
            numbers=2,
        ),
    ),
    ("Versions", rows_of(("package", "version"), facts.versions)),
    (
        "Patches",
        rows_of(
            ("patch", "effect", "state", "functions, with the digest of the replaced source"),
            facts.patches,
            fold="Patches of upstream in the newest checkpoint",
        ),
    ),
    (
        "Digests",
        rows_of(("input or output", "size", "SHA-256"), facts.digests, fold="Inputs and outputs"),
    ),
    ("Recipe", rows_of(("argument", "value"), facts.arguments, fold="Training arguments")),
)


def render(runs: Sequence[RunRecord], names: Sequence[str], made: str) -> str:
    """Return the page; ``made`` is the time in its footer."""
    title = f"{' · '.join(names)}: training report"
    shown = [
        (name, content)
        for name, section in SECTIONS
        if (content := section(runs, names)) is not None
    ]
    missing = [name for name, _ in SECTIONS if name not in dict(shown)]
    return whole(
        title,
        tag("a", "Skip to the result", href="#s1", class_="skip"),
        _patterns(),
        _header(runs, names, [name for name, _ in shown]),
        tag("main", [section(at, *each) for at, each in enumerate(shown, 1)]),
        _footer(runs, missing, made),
    )


def whole(title: str, *body: Html) -> str:
    """Return a page of one file: style and script are part of it, and it loads nothing."""
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    # The page may run this script and load nothing, even if the text of a run contains HTML.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html((FOLDER / "page.css").read_text(encoding="utf-8"))),
    )
    shown = tag("body", body, tag("script", Html(script)))
    return f"<!doctype html>\n{tag('html', head, shown, lang='en')}\n"


def _header(runs: Sequence[RunRecord], names: Sequence[str], titles: Sequence[str]) -> Html:
    links = [tag("li", tag("a", title, href=f"#s{at}")) for at, title in enumerate(titles, 1)]
    return tag(
        "header",
        tag("p", "Training report", class_="kind"),
        tag("h1", " · ".join(names)),
        tag("p", _subtitle(runs), class_="subtitle"),
        tag("nav", tag("ol", links), aria_label="Sections"),
    )


def _subtitle(runs: Sequence[RunRecord]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs side by side"
    known = dict(facts.environment(runs[0]))
    return " · ".join(known[name] for name in ("recipe", "nodes", "first start") if name in known)


def section(at: int, title: str, content: Html) -> Html:
    """Return a numbered section."""
    name = f"s{at}"
    heading = tag("h2", tag("span", at, class_="number"), title, id=f"{name}-title")
    kind = title.lower().replace(" ", "-")
    return tag("section", heading, content, id=name, class_=kind, aria_labelledby=f"{name}-title")


def _patterns() -> Html:
    """Return the hatchings, so that kinds of time differ without colour."""

    def hatch(name: str, path: str) -> Html:
        return tag(
            "pattern",
            tag("rect", width=6, height=6),
            tag("path", d=path),
            id=f"hatch-{name}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )

    shapes = hatch("waited", "M0 6L6 0"), hatch("lost", "M0 0L6 6M0 6L6 0")
    return tag("svg", tag("defs", shapes), class_="patterns", aria_hidden="true")


def _footer(runs: Sequence[RunRecord], missing: Sequence[str], made: str) -> Html:
    notes = [tag("li", f"{run.name}: {note}.") for run in runs for note in run.notes]
    if missing:
        notes.append(tag("li", f"Not recorded: {', '.join(missing).lower()}."))
    rows = sum(run.rows for run in runs)
    text = (
        f"Made by megatron-dpo report on {made} from {rows:,} recorded steps. "
        "Curves: means of consecutive steps, at most 360 points each, no value cut off. "
        "Passwords and tokens are replaced by [redacted]."
    )
    return tag("footer", tag("p", text), tag("ul", notes) if notes else None)
