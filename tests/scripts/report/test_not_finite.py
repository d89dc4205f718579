"""Numbers that are not finite are left out with a note; a step without a loss is named."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.console import Console

from launchers.config.workspace import Workspace
from launchers.metrics import rows
from launchers.state import json_text
from scripts.observe.command import notes
from scripts.observe.source import Reading
from scripts.observe.view import View
from scripts.observe.watch import Look
from scripts.observe.workspace import read_run
from scripts.report import Format, command, facts, reading
from scripts.report.columns import reduce
from scripts.status import screen
from scripts.status.command import document
from scripts.status.summary import Status, summarise
from tests.scripts.observe.planted import rewrite, view
from tests.scripts.report.planted import BEGAN, plan, plant, progress, row
from tests.scripts.report.test_report import figures

BROKEN = {
    "eta_seconds": math.inf,
    "goodput": math.nan,
    "mfu": -math.inf,
    "step_seconds": 10**400,
    "tokens_per_second_per_gpu": math.nan,
    "held_out": {"last": {"step": 20, "loss": math.nan, "accuracy": 0.5, "margin": math.inf}},
}


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """A run whose files hold what Python writes for numbers that are not finite."""
    made = plant(tmp_path)
    phases = {"container": BEGAN, "gang": math.nan}
    running = {**progress("dpo-42"), "state": "running", "training": BROKEN, "phases": phases}
    made.progress.write_text(json.dumps(running))
    speed = {"step_seconds": math.nan, "tokens_per_second_per_gpu": math.inf, "mfu": 0.2}
    made.plan.write_text(json.dumps({**plan(), "speed": speed}).replace("139.8", "1e999"))
    return made


def strict(text: str) -> Any:
    """Parse JSON as other programs do, which know no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def seen(work: Workspace) -> View:
    return view(files=read_run(work.root, work.run))


def printed(status: Status) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        screen.show(status, console, "mounted", [])
    return captured.get()


def lines_of(work: Workspace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in work.metrics.read_text().splitlines()]


def write(work: Workspace, lines: list[dict[str, Any]]) -> None:
    work.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_the_report_is_json_and_names_the_files(work: Workspace) -> None:
    run = reading.read(work)
    found = strict(command.render([run], "json"))["runs"][0]
    assert found["progress"]["training"]["eta_seconds"] is None
    named = ("progress.json", "plan.json")
    assert set(found["notes"]) == {f"{name}: {json_text.NOT_FINITE}" for name in named}
    for kind in ("html", "md"):
        text = command.render([run], kind)
        assert ">inf<" not in text and "Infinity" not in text and "NaN" not in text


def test_status_prints_json_and_no_infinite_time(work: Workspace) -> None:
    shown = seen(work)
    status = summarise(shown)
    look = Look(view=shown, reading=Reading(files=shown.files, how="mounted"))
    found = strict(json.dumps(document(status, look, notes(shown, look.reading))))
    assert (found["eta_seconds"], found["effective"], found["mfu"]["value"]) == (None, None, None)
    assert found["held_out"]["last"] == {"step": 20, "loss": None, "accuracy": 0.5, "margin": None}
    assert f"progress.json: {json_text.NOT_FINITE}" in found["notes"]
    assert not any("torn" in each for each in found["notes"])
    assert " inf" not in printed(status) and "nan" not in printed(status)


def test_a_last_step_without_a_loss_is_named(tmp_path: Path) -> None:
    work = plant(tmp_path)
    run = reading.read(work)
    assert run.missing == {}
    last = row(20, 2, BEGAN + 175)
    with work.metrics.open("a") as handle:
        handle.write(rows.line(replace(last, values={**last.values, "loss": math.inf})) + "\n")
    run = reading.read(work)
    assert figures(run)["Training loss"] == ("0.225", "last finite one; step 20 has none")
    assert figures(run)["Without a finite loss"] == ("1 step", "last: step 20")
    for kind in ("html", "md"):
        assert "Without a finite loss" in command.render([run], kind)
    found = strict(command.render([run], "json"))["runs"][0]
    assert found["missing"] == {"loss": {"steps": 1, "last": 20, "is_newest": True}}
    status = summarise(seen(work))
    assert status.loss is None and "step 20 has no finite loss" in printed(status)


def test_a_loss_that_is_missing_earlier_does_not_touch_the_last(tmp_path: Path) -> None:
    work = plant(tmp_path)
    lines = lines_of(work)
    next(line for line in lines if line["step"] == 15).update({"loss": None, "grad_norm": None})
    write(work, lines)
    found = figures(reading.read(work))
    assert found["Training loss"] == ("0.2", "last step")
    assert found["Without a finite loss"] == ("1 step", "last: step 15")
    assert found["Without a finite gradient norm"] == ("1 step", "last: step 15")


def test_a_step_that_the_trainer_did_not_log_lacks_nothing(tmp_path: Path) -> None:
    """With `logging_steps: 2` each second row has the launcher's own numbers alone."""
    work = plant(tmp_path)
    lines = lines_of(work)
    for line in lines:
        if "seconds" in line and line["step"] % 2 == 0:
            line["grad_norm"] = None
            for name in [each for each in line if "/" in each] + ["loss"]:
                del line[name]
    write(work, lines)
    run = reading.read(work)
    assert len(run.curves["loss"].steps) == 10 and run.missing == {}
    status = summarise(seen(work))
    assert (status.step, status.lacks_loss) == (20, None)
    assert status.loss == pytest.approx(0.225)


def test_planned_steps_are_compared_with_those_that_were_trained(tmp_path: Path) -> None:
    work = plant(tmp_path)
    assert ("steps", "20", "20", "× 1.00") in facts.planned(reading.read(work))
    work.metrics.write_text(rows.line(row(1, 1, BEGAN + 32)) + "\n")
    assert ("steps", "20", "1", "× 0.05") in facts.planned(reading.read(work))


@pytest.mark.parametrize("values", [(1.7e308, -1.7e308), (1.7e308,) * 2, (9e299, -9e299)])
def test_numbers_at_the_end_of_a_float_have_a_page(
    tmp_path: Path, values: tuple[float, float]
) -> None:
    work = plant(tmp_path)
    lines = lines_of(work)
    for at, line in enumerate(lines):
        names = ("grad_norm", "loss") if "seconds" in line else ("eval_loss",)
        line.update(dict.fromkeys(names, values[at % 2]))
    write(work, lines)
    rewrite(work.plan, memory={"total_gib": values[0], "card_gib": values[1]})
    run = reading.read(work)
    assert all("dpo-42" in command.render([run], kind) for kind in get_args(Format))
    is_drawn = abs(values[0]) < 1e300
    assert ("loss" in run.curves) is is_drawn and ("loss" in run.missing) is not is_drawn


def test_a_mean_of_the_largest_numbers_is_finite() -> None:
    found = reduce([1, 2, 3], [1.7e308] * 3, columns=1)
    assert found.means == pytest.approx((1.7e308,))
