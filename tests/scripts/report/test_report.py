"""The report's parts that need no browser."""

import errno
import html
import json
import math
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from launchers.metrics import rows
from launchers.system import atomic_file
from scripts.observe.command import Target
from scripts.observe.ways import Source
from scripts.prices import Prices
from scripts.problem import Problem
from scripts.report import (
    Format,
    command,
    curves,
    document,
    facts,
    metrics_file,
    output_file,
    reading,
    timeline,
)
from scripts.report.columns import COLUMNS, Points, reduce
from scripts.report.command import Request
from scripts.report.html import chart, page
from scripts.report.record import RunRecord
from tests.scripts.report.planted import HOSTILE, plant, row


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    return reading.read(plant(tmp_path))


def test_steps_that_were_trained_again_count_once(run: RunRecord) -> None:
    first, second = run.attempts
    assert (run.rows, run.step, run.tokens) == (20, 20, 20_000)
    assert (first.lost_steps, first.lost_seconds, first.kept_seconds) == (4, 8.0, 16.0)
    assert (second.lost_steps, second.kept_seconds) == (0, 24.0)
    assert first.end is not None and first.end.code == 75
    speeds = sorted(125.0 + step for step in range(2, 21) if step != 9)
    median = (speeds[8] + speeds[9]) / 2
    assert run.medians["tokens_per_second_per_gpu"] == median, "first steps are not in it"
    assert run.peak_gib == 68.0


def test_the_times_sum_up_to_the_whole(run: RunRecord) -> None:
    found = timeline.build(run)
    assert found is not None
    totals = {"trained": 40.0, "between": 6.0, "started": 20.0 + 30.0, "waited": 10.0 + 56.0}
    assert found.totals == pytest.approx(totals | {"lost": 8.0})
    assert sum(found.totals.values()) == pytest.approx(found.seconds) == pytest.approx(170)
    begins = [span.begin for span in found.spans]
    assert begins == sorted(begins)


def figures(run: RunRecord) -> dict[str, tuple[str, str]]:
    return {name: (value, note) for name, value, note in facts.figures(run)}


def with_goodput(run: RunRecord, goodput: object) -> RunRecord:
    return replace(run, progress={**run.progress, "training": {"goodput": goodput}})


def test_the_effective_training_time_is_the_launchers_and_the_timelines(run: RunRecord) -> None:
    """The timeline ends where the launcher's number does: 40 s of steps of 200 s are 20 %."""
    measured = with_goodput(run, 0.2)
    found = timeline.build(measured)
    assert found is not None
    assert found.seconds == pytest.approx(200)
    assert found.totals["after"] == pytest.approx(30)
    assert sum(found.totals.values()) == pytest.approx(found.seconds)
    assert found.share("trained") == pytest.approx(0.2)
    assert timeline.effective(measured) == document.build([measured], ["a"])["runs"][0]["effective"]
    assert figures(measured)["Effective training"][0] == "20 %"
    shown = command.render([measured])
    assert re.findall(r"trained</th><td[^>]*>[^<]*</td><td[^>]*>(\d+ %)", shown) == ["20 %"]
    assert "trained 40 s (20 %)" in command.render([measured], "md")


def test_gpu_hours_are_those_that_status_shows(run: RunRecord) -> None:
    gang = {"gang": {"nodes": 2, "gpus_per_node": 8, "card": "h200"}}
    held = {**run.progress, "held_seconds": 225.0}
    prices = Prices(currency="EUR", gpu_hour={"h200": 9.0})
    shown = figures(replace(run, plan=gang, progress=held, prices=prices))["GPU-hours"]
    assert shown[0].startswith("1.0 GPU-hours, 9.00 EUR")
    assert "GPU-hours" not in figures(run), "a run without GPUs"


@pytest.mark.parametrize("goodput", [None, 0.25, 0, -1, 7, "x"])
def test_a_number_of_before_the_last_steps_does_not_shorten_the_time(
    run: RunRecord, goodput: object
) -> None:
    """As of a run that was killed before the launcher read its last rows."""
    found = timeline.build(with_goodput(run, goodput))
    assert found is not None and found == timeline.build(run)
    assert timeline.effective(with_goodput(run, goodput)) == found.share("trained")
    assert "after" not in found.totals
    assert timeline.effective(RunRecord(name="n", place="p")) is None


def test_units_are_those_of_what_is_shown(run: RunRecord) -> None:
    def shown(*runs: RunRecord) -> set[str]:
        return {each.chart.unit for each in curves.drawings(runs) if each.chart.id == "speed"}

    on_cpu = replace(run, plan={}, peak_gib=None)
    assert shown(run) == {"tokens/s per GPU"}
    assert shown(on_cpu) == shown(run, on_cpu) == {"tokens/s per process"}


def test_an_mfu_says_whether_it_counts_the_references_pass(run: RunRecord) -> None:
    """Of runs that differ in it, MFU does not follow the tokens per second."""

    def with_reference(kind: str) -> RunRecord:
        return replace(run, plan={**run.plan, "recipe": {"reference": kind}})

    online, precomputed = with_reference("online"), with_reference("precomputed")
    notes = [figures(each)["MFU"][1] for each in (run, online, precomputed)]
    assert notes == ["median", "median, with the reference's pass", "median, of the policy alone"]
    note = html.escape(curves.MFU_NOTE)
    assert command.render([online, precomputed]).count(note) == 2, "also without a curve of it"
    assert command.render([online, online]).count(note) == 1


def test_a_number_of_parameters_has_a_unit_that_fits_it(run: RunRecord) -> None:
    def parameters(**model: object) -> str:
        plan = {**run.plan, "model": {"layers": 2, **model}}
        return dict(facts.environment(replace(run, plan=plan)))["parameters"]

    assert parameters(parameters=557_800, active_parameters=557_800) == "557.8 k, 2 layers"
    large = parameters(parameters=30_532_122_624, active_parameters=3_345_123_456, experts=128)
    assert large == "30.53 B, 3.345 B active, 2 layers, 128 experts"


def series_of(points: Points) -> curves.Series:
    return curves.Series(run=0, part=0, label="x", points=points)


def test_the_labels_of_a_huge_axis_are_powers() -> None:
    points = reduce([1, 2], [1e234, 2.5e234])
    spec = next(each for each in curves.CHARTS if each.id == "gradient")
    drawing = curves.Drawing(chart=spec, series=[series_of(points)])
    labels = re.findall(r'class="y">([^<]*)<', str(chart.draw(drawing, ["a"])))
    assert labels == ["0", "5e233", "1e234", "1.5e234", "2e234", "2.5e234"]


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.just(math.nan), st.floats(-1e6, 1e6)), min_size=1, max_size=300),
    st.integers(1, 50),
)
def test_a_reduced_series_keeps_its_extremes_and_its_mean(
    values: list[float], columns: int
) -> None:
    there = [value for value in values if math.isfinite(value)]
    found = reduce(range(len(values)), values, columns)
    assert found.recorded == len(there)
    assert len(found.steps) <= columns
    assert list(found.steps) == sorted(found.steps)
    if there:
        assert (min(found.lows), max(found.highs)) == (min(there), max(there))
    for low, mean, high in zip(found.lows, found.means, found.highs, strict=True):
        assert low - 1e-6 <= mean <= high + 1e-6


@settings(deadline=None)
@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40))
def test_no_recorded_value_is_outside_the_axes(values: list[float]) -> None:
    steps = range(1, len(values) + 1)
    for spec in curves.CHARTS:
        drawing = curves.Drawing(chart=spec, series=[series_of(reduce(steps, values))])
        scale = chart.axes(drawing)
        assert scale.y[0] <= min(values) and max(values) <= scale.y[1]
        drawn = elements(chart.draw(drawing, ["r"])).coordinates
        assert drawn and all(map(math.isfinite, drawn))


def test_a_long_run_makes_a_small_page() -> None:
    lines = (rows.line(row(step, 1, 2.0 * step, 20_000)) for step in range(1, 20_001))
    metrics = metrics_file.read_lines(lines)
    run = RunRecord(name="long", place="", **reading.from_metrics(metrics))
    assert all(len(points.steps) <= COLUMNS for points in run.curves.values())
    assert len(page.render([run], ["long"], "now")) < 700_000


class _Elements(HTMLParser):
    """Collects what a browser would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.coordinates: list[float] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] = self.names.get(tag, 0) + 1
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
            if name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy"):
                self.coordinates.append(float((value or "").rstrip("%")))
            if name == "d":
                self.coordinates += map(float, re.findall(r"[^MLlhzZ ]+", value or ""))


def elements(text: str) -> _Elements:
    found = _Elements()
    found.feed(text)
    return found


def test_text_of_a_run_is_never_markup(tmp_path: Path) -> None:
    plain = elements(command.render([reading.read(plant(tmp_path / "a"))]))
    run = reading.read(plant(tmp_path / "b", text=HOSTILE))
    hostile, text = command.render([run]), command.render([run], "md")
    found = elements(hostile)
    assert hostile.count("hacked=1") > 20  # it is shown, as text
    assert "img" not in found.names and not found.handlers
    assert found.names["script"] == plain.names["script"]
    hostile.encode()  # a lone surrogate of a torn file must not end the command
    assert "<script" not in text and "<img" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 5)


def test_the_page_loads_nothing(run: RunRecord) -> None:
    text = command.render([run])
    assert all(link.startswith("#") for link in elements(text).links)
    assert "url(" not in text.replace("url(#", "")
    assert "@import" not in text and "default-src 'none'" in html.unescape(text)


def test_the_json_has_a_version_and_no_number_that_is_not_finite(run: RunRecord) -> None:
    document = json.loads(command.render([run, run], "json"))
    assert document["schema"] == 1
    one, other = document["runs"]
    assert (one["name"], other["name"]) == ("dpo-42", "dpo-42 (2)")
    assert one["curves"]["loss"]["steps"] == [float(step) for step in range(1, 21)]
    assert one["attempts"][0]["end"]["class"] == "preemption"
    assert sum(one["time"]["totals"].values()) == pytest.approx(one["time"]["seconds"])


@pytest.mark.parametrize("broken", ["", "[1]", '{"torn', "\x00", "nul"])
def test_broken_files_are_named_and_the_rest_is_shown(tmp_path: Path, broken: str) -> None:
    work = plant(tmp_path)
    for path in (work.progress, work.plan, work.inputs):
        path.write_text(broken)
    with work.metrics.open("a") as handle:
        handle.write('{"step": 21, "tot')
    run = reading.read(work)
    named = {note.split(":")[0] for note in run.notes}
    assert named == {"metrics.jsonl", "progress.json", "plan.json", "inputs.json"}
    assert run.rows == 20
    assert all("dpo-42" in command.render([run], kind) for kind in get_args(Format))


def test_parts_of_another_type_are_left_out(tmp_path: Path) -> None:
    work = plant(tmp_path)
    training = {"eta_seconds": "x", "step": [], "held_out": 3}
    document = {"state": "running", "training": training, "phases": {"gang": "x"}, "stages": 4}
    work.progress.write_text(json.dumps(document))
    work.plan.write_text(json.dumps({"speed": 3, "length": {"hours": "x"}, "gang": []}))
    run = reading.read(work)
    assert all("dpo-42" in command.render([run], kind) for kind in get_args(Format))


def test_a_run_without_a_step_has_a_page(tmp_path: Path) -> None:
    work = plant(tmp_path)
    work.metrics.unlink()
    run = reading.read(work)
    assert "No step has been recorded" in command.render([run])
    assert "No step has been recorded" in command.render([run], "md")


def test_a_run_is_found_by_name_and_folder_and_another_name_gets_the_nearest(
    tmp_path: Path,
) -> None:
    work = plant(tmp_path)
    for name, place in (("dpo-42", tmp_path), (str(work.home), Path("elsewhere"))):
        assert reading.find(name, place).home == work.home
    for name, place in (("dpo-24", tmp_path), (str(tmp_path), Path("elsewhere"))):
        with pytest.raises(Problem, match="its runs: dpo-42;"):
            reading.find(name, place)


def test_the_command_writes_a_file_and_prints_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path, "a")
    plant(tmp_path, "b")
    monkeypatch.chdir(tmp_path)
    runs = [Target(run=run, workspace=tmp_path, source=Source.MOUNT) for run in "ab"]
    assert command.run(Request(targets=runs), Console(width=60)) == 0
    assert f"{tmp_path}/report-a-b.html" in capsys.readouterr().out
    assert "2 runs side by side" in (tmp_path / "report-a-b.html").read_text()
    files = {*tmp_path.iterdir()}
    with monkeypatch.context() as full, pytest.raises(OSError, match="No space"):
        full.setattr(atomic_file, "flush", no_space)
        command.run(Request(targets=runs[:1], file=tmp_path / "report-a-b.html"), Console())
    assert "2 runs side by side" in (tmp_path / "report-a-b.html").read_text()
    assert {*tmp_path.iterdir()} == files


def no_space(path: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


def test_a_result_goes_where_a_link_or_a_pipe_leads(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    output_file.write(tmp_path / "link", "new")
    assert (tmp_path / "old").read_text() == "new" and (tmp_path / "link").is_symlink()
    read, write = os.pipe()
    output_file.write(Path(f"/dev/fd/{write}"), "page")
    assert os.read(read, 9) == b"page"
    os.close(read)
    os.close(write)


def test_too_many_runs_are_refused(run: RunRecord) -> None:
    with pytest.raises(Problem, match="at most 12"):
        command.render([run] * 13)
