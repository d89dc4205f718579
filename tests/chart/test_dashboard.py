"""The dashboard's queries, evaluated by Prometheus' own engine over scrapes of real runs.

The runs: one on CPU with evaluations, whose `progress.json` is kept as its launcher wrote it
(`progress.json`), and one of 48 layers on 4 GPUs, whose rows are those of its committed result.
The engine is built by `make test-chart` (tests/e2e/tools/promql).
"""

import itertools
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.progress import prometheus
from launchers.progress.progress import Progress
from launchers.progress.training import Timeline
from scripts.dev import results
from scripts.report.metrics_file import TRAINER
from tests.chart.helm import CHART, LIBRARY, ROOT
from tests.launchers.progress.test_exporter import get, serving

PROGRAM = ROOT / ".tools" / "cluster" / "bin" / "promql"
ON_CPU = Path(__file__).parent / "progress.json"
RUN = "48-layers"
pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="no .tools/cluster/bin/promql: `make test-chart` builds it"
)
Answer = Mapping[str, Any]
"""`error`, and `samples` with `labels` and `value`."""


def run_rows(run: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of the steps of a run, as far as its result has them."""
    log, steps, world = run["log"], run["each_step"], run["world"]
    ends = itertools.accumulate(steps["seconds"])  # the result has no clock times
    for at, (end, seconds) in enumerate(zip(ends, steps["seconds"], strict=True)):
        tokens = steps["tokens"][at]
        yield Row(
            step=at + 1,
            total=len(steps["seconds"]),
            attempt=1,
            time=end,
            seconds=seconds,
            tokens=tokens,
            world=world,
            tokens_per_second_per_gpu=tokens / seconds / world,
            reserved_gib=log["memory(GiB)"][at],
            token_balance=steps["balance"][at],
            grad_norm=log["grad_norm"][at],
            learning_rate=log["learning_rate"][at],
            values={name: log[name][at] for name in TRAINER},
        )


def on_gpus(folder: Path) -> str:
    """progress.json of a run on 4 GPUs; its result keeps some numbers as medians."""
    result = results.read(prefix="bench-4gpu-split")["bench-4gpu-split"]
    run = result["runs"]["tuned"]
    names = ("fill", "expert_load", "expert_load_worst", "data_seconds")
    median = {name: run["metrics"][name] for name in names}
    timeline = Timeline()
    median["watts"] = 4 * 610.0  # of another run: the result is older than the column
    timeline.add([rows.line(replace(row, mfu=run["mfu"], **median)) for row in run_rows(run)])
    progress = Progress(path=folder / "gpus.json", run=RUN, digest="d")
    assert timeline.last is not None
    progress.training = timeline.summary(timeline.last.time, 0.0)
    progress.begin("train")
    progress.finish("succeeded")
    return progress.path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the exporter's answers, by run."""
    folder = tmp_path_factory.mktemp("runs")
    documents = {"demo": ON_CPU.read_text(encoding="utf-8"), RUN: on_gpus(folder)}
    found = {}
    for run, text in documents.items():
        with serving(folder, text) as url:
            found[run] = get(f"{url}/metrics")
    return found


def evaluated(scrape: str, queries: list[str]) -> dict[str, Answer]:
    request = {"scrape": scrape, "content_type": prometheus.CONTENT_TYPE, "queries": queries}
    done = subprocess.run(
        [PROGRAM], input=json.dumps(request), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    lines = [line for line in scrape.splitlines() if line and line[0] != "#"]
    assert document["series"] == len(lines) > 10
    return dict(zip(queries, document["results"], strict=True))


def targets() -> Iterator[tuple[str, str, str]]:
    """Yield title, query and legend of each line of a panel, as Grafana sends it for all runs."""
    dashboard = json.loads((CHART / LIBRARY / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for each in panel["targets"]:
            assert each["expr"].count("$") == each["expr"].count("$run") > 0
            yield panel["title"], each["expr"].replace("$run", ".+"), each["legendFormat"]


def test_each_query_of_a_panel_has_a_value_of_a_real_run(scrapes: dict[str, str]) -> None:
    queries = [query for _, query, _ in targets()]
    answers = [evaluated(scrape, queries) for scrape in scrapes.values()]
    for title, query, legend in targets():
        found = [answer[query] for answer in answers]
        assert [each["error"] for each in found] == ["", ""], title
        samples = [sample for each in found for sample in each["samples"]]
        assert samples, f"{title}: no sample for {query}"
        for sample in samples:
            assert set(re.findall(r"{{(\w+)}}", legend)) <= set(sample["labels"]), title
            assert sample["labels"]["run"] in scrapes


def test_the_values_are_those_of_the_runs(scrapes: dict[str, str]) -> None:
    by_title = {title: query for title, query, _ in targets()}

    def values(run: str, title: str) -> list[float]:
        (answer,) = evaluated(scrapes[run], [by_title[title]]).values()
        return [sample["value"] for sample in answer["samples"]]

    kept = json.loads(ON_CPU.read_text(encoding="utf-8"))
    assert values("demo", "Progress") == values(RUN, "Progress") == [1.0]
    assert values("demo", "Loss") == [pytest.approx(kept["training"]["held_out"]["last"]["loss"])]
    (age,) = values("demo", "Time since the last write")
    assert age == pytest.approx(time.time() - kept["updated"], abs=60)
    result = results.read(prefix="bench-4gpu-split")["bench-4gpu-split"]
    run = result["runs"]["tuned"]
    assert values(RUN, "GPU memory, largest rank") == [pytest.approx(run["log"]["memory(GiB)"][-1])]
    assert values(RUN, "Gradient norm") == [pytest.approx(run["log"]["grad_norm"][-1])]
    assert values(RUN, "Pack fill") == [pytest.approx(run["metrics"]["fill"])]
    assert values("demo", "GPU memory, largest rank") == [], "a CPU has none"


def test_a_run_is_chosen_by_its_name_and_a_wrong_query_is_an_error(scrapes: dict[str, str]) -> None:
    chosen, other = (f'dpo_training_step{{run=~"{run}"}}' for run in ("demo|x", "dem"))
    wrong, choices = 'dpo_training_step{run=~"demo"', "dpo_run_state"
    found = evaluated(scrapes["demo"], [chosen, other, wrong, choices])
    assert len(found[chosen]["samples"]) == 1
    assert found[other] == {"error": "", "samples": []}
    assert "parse error" in found[wrong]["error"]
    (sample,) = found[choices]["samples"]
    assert sample["labels"] == {"__name__": "dpo_run_state", "run": "demo", "state": "succeeded"}
