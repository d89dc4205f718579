"""Benchmarks after training: scores, failures and refusals, with a stand-in for evalscope.

Its report is the one that evalscope 1.14.1 wrote for general_qa, cut to what is read.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.settings import Launch, from_env
from launchers.evaluation import benchmarks
from launchers.exits import Exit, LaunchError
from launchers.storage import marker
from launchers.storage.marker import Marker
from tests.launchers.pods import PYTHONPATH, Pods

REPORT = {
    "dataset_name": "gsm8k",
    "metrics": [{"identity": {"name": "acc"}, "num": 4, "score": 0.75}, {"name": "pass@1"}],
}
CLI = f"""
import pathlib, sys
given = dict(zip(sys.argv, sys.argv[1:]))
if "hard" in sys.argv:
    sys.exit("no dataset hard")
assert (pathlib.Path(given["--model"]) / "config.json").exists()
folder = pathlib.Path(given["--work-dir"], "reports", "export")
folder.mkdir(parents=True)
(folder / "gsm8k.json").write_text({json.dumps(json.dumps(REPORT))})
print("measured", given.get("--limit"))
"""
Given = tuple[Launch, dict[str, str]]


def plant(folder: Path) -> None:
    for name, text in (
        ("api/registry.py", 'BENCHMARK_REGISTRY = {"gsm8k": 1, "hard": 1}'),
        ("cli/cli.py", CLI),
    ):
        (folder / "evalscope" / name).parent.mkdir(parents=True)
        (folder / "evalscope" / name).write_text(text)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Return a run with an export, and an environment with evalscope."""
    plant(tmp_path)
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_MASTER_ADDR": "localhost"}
    env |= {"PYTHONPATH": str(tmp_path), "DPO_BENCHMARKS": "gsm8k", "DPO_BENCHMARK_LIMIT": "4"}
    launch = from_env(env).launch
    launch.work.export.mkdir(parents=True)
    (launch.work.export / "config.json").write_text("{}")
    return launch, env


def log(launch: Launch) -> str:
    return (launch.work.home / "benchmarks.log").read_text()


def test_the_export_is_measured_once(given: Given) -> None:
    launch, env = given
    said = "gsm8k acc 0.75 (4 samples)"
    assert [benchmarks.measure(launch, env) for _ in range(2)] == [said, said]
    assert log(launch) == "measured 4\n"
    assert benchmarks.measure(launch, {**env, "DPO_BENCHMARK_LIMIT": ""}) == said
    assert log(launch) == "measured 4\nmeasured None\n"
    assert benchmarks.measure(launch, {**env, "DPO_BENCHMARKS": ""}) == ""


def test_a_failure_is_recorded_and_tried_again_by_the_next_start(given: Given) -> None:
    launch, env = given
    said = benchmarks.measure(launch, {**env, "DPO_BENCHMARKS": "gsm8k,hard"})
    assert said.startswith("evalscope ended with 1; see ") and "no dataset hard" in log(launch)
    assert json.loads(launch.work.benchmarks.read_text())["problem"] == said
    assert benchmarks.measure(launch, env) == "gsm8k acc 0.75 (4 samples)"
    (launch.work.export / "config.json").unlink()
    other = {**env, "DPO_BENCHMARK_LIMIT": "5"}
    assert "is an adapter" in benchmarks.measure(launch, other)


@pytest.mark.parametrize("text", ["{", "[]", '{"metrics": []}', '{"metrics": [{"score": 1}]}'])
def test_a_report_of_another_form_is_no_score_and_no_end_of_the_run(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "reports" / "export").mkdir(parents=True)
    (tmp_path / "reports" / "export" / "gsm8k.json").write_text(text)
    assert benchmarks.read_scores(tmp_path) == {}


def test_a_run_ends_with_the_scores_of_its_export(tmp_path: Path) -> None:
    plant(tmp_path)
    pods = Pods(tmp_path, nodes=1)
    more = {"PYTHONPATH": f"{PYTHONPATH}:{tmp_path}", "DPO_BENCHMARKS": "gsm8k"}
    pods.ended(**more)
    assert pods.progress()["stages"]["train"]["why"].endswith("gsm8k acc 0.75 (4 samples)")
    (pods.run / "benchmarks.json").unlink()
    pods.ended(**more)
    assert (pods.run / "benchmarks.json").exists(), "a run that is up to date measures what is left"


@pytest.mark.parametrize(
    ("change", "id", "says"),
    [
        ({"DPO_BENCHMARKS": "gsm8kk"}, "benchmarks-unknown", "use gsm8k"),
        ({"PYTHONPATH": ""}, "benchmarks-library", "an image with evalscope"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_training(
    given: Given, change: Mapping[str, str], id: str, says: str
) -> None:
    launch, env = given
    benchmarks.refuse_unknown(launch, env)
    with pytest.raises(LaunchError, match=says) as refused:
        benchmarks.refuse_unknown(launch, {**env, **change})
    assert (refused.value.code, refused.value.id) == (Exit.CONFIG, id)
    assert "scores" not in json.loads(launch.work.benchmarks.read_text())


def test_a_library_that_was_killed_is_none_that_lacks_a_name(given: Given, tmp_path: Path) -> None:
    (tmp_path / "evalscope/api/registry.py").write_text("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(LaunchError) as unknown:
        benchmarks.refuse_unknown(*given)
    assert (unknown.value.code, unknown.value.id) == (Exit.PEER, "benchmarks-unlisted")


def test_a_restart_with_the_same_image_does_not_list_the_names_again(given: Given) -> None:
    env = given[1]
    launch, other = (replace(given[0], image=f"registry.example/train:{tag}") for tag in "12")
    without = {**env, "PYTHONPATH": ""}
    benchmarks.refuse_unknown(launch, env)
    benchmarks.refuse_unknown(launch, without)
    for place, wanted in ((other, env), (launch, {**env, "DPO_BENCHMARKS": "hard"})):
        benchmarks.refuse_unknown(launch, env)
        with pytest.raises(LaunchError, match="an image with evalscope"):
            benchmarks.refuse_unknown(place, {**wanted, "PYTHONPATH": ""})
    benchmarks.refuse_unknown(launch, env)
    for _ in range(2):  # the scores stay, too
        assert benchmarks.measure(launch, env) == "gsm8k acc 0.75 (4 samples)"
        benchmarks.refuse_unknown(launch, without)
    assert log(launch).count("measured") == 1
    marker.write(launch.work.export, Marker(inputs={"steps": 2}, manifest={}))
    benchmarks.measure(launch, env)
    assert log(launch).count("measured") == 2, "another export is measured anew"
