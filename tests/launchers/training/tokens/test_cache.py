"""Rows are tokenised once: ms-swift for real in the training Python, on CPU, two starts."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from launchers.flags import external_plugins, features
from launchers.progress.training import rows_of
from launchers.proof import cases, prove
from scripts.demo.sources import PLUGIN
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training import demo_run
from tests.launchers.training_environment import ORACLE, needs_oracle, needs_training

pytestmark = needs_training
ROWS = 120
ROLES = "a turn of an unknown role or without content"
LONG = "longer than max_length"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = demo_run.sources_of(tmp_path_factory.mktemp("tokens"), rows=ROWS).root
    (home / "ws" / "runs" / "one").mkdir(parents=True)
    return home


def write(made: Path, name: str, rows: Iterable[Any]) -> None:
    (made / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def probe(made: Path, model: str = "model", **env: str) -> tuple[dict[str, Any], str]:
    code, output = ended(made, model, **env)
    assert code == 0, output[-3000:]
    line = next(line for line in output.splitlines() if line.startswith("PROBE "))
    found: dict[str, Any] = json.loads(line.removeprefix("PROBE "))
    return found, output


def ended(
    made: Path, model: str = "model", dataset: str = "pairs.jsonl", **env: str
) -> tuple[int, str]:
    task, module = env.pop("task", "dpo"), env.pop("module", "tokens_probe")
    own = json.loads(env.pop("flags", "{}"))
    flags = {
        **({} if task == "sft" else {"rlhf_type": task}),
        **({"ref_model": made / "model"} if task in ("dpo", "kto") else {}),
        "model": made / model,
        "model_type": "qwen3",
        "template": "qwen3_nothinking",
        "tuner_type": "full",
        "torch_dtype": "float32",
        "use_cpu": "true",
        "gradient_accumulation_steps": 4,
        "dataset": made / dataset,
        "max_length": 256,
        "split_dataset_ratio": 0.5,
        "output_dir": made / "out",
        "add_version": "false",
        "dataset_num_proc": env.pop("processes", "1"),
        "check_model": "false",
        "report_to": "none",
        **own,
    }
    plugins = [str(external_plugins.PLUGIN), str(PLUGIN)]
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    words += ["--external_plugins", *plugins]
    base = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    base |= {"MODELSCOPE_CACHE": str(made / "cache"), features.VARIABLE: "tokens"}
    base |= {"DPO_RUN_FOLDER": str(made / "ws" / "runs" / "one")}
    done = subprocess.run(
        [str(warm.python()), "-m", f"tests.launchers.training.tokens.{module}", *words],
        cwd=ROOT,
        env={**os.environ, **base, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_rows_are_those_of_ms_swift_and_a_second_start_only_reads_them(made: Path) -> None:
    first, log = probe(made)
    assert "tokens done" in log
    assert first["rows"] == [ROWS // 2, ROWS // 2]
    assert first["equal"] == first["compared"] == ROWS
    assert set(first["same_batch"]) >= {"input_ids", "labels"}
    assert all(first["same_batch"].values()) and first["texts"]
    [folder] = (made / "ws" / "cache" / "tokens").iterdir()
    os.utime(folder, (0, 0))
    second, log = probe(made, PROBE_NEVER="1")
    assert "tokens up to date" in log
    assert second["rows"] == first["rows"]
    assert second["new_token_counts"]  # a tokenizer with one more makes other rows
    assert folder.stat().st_mtime > 0  # unused entries are recognised by their age
    shutil.copytree(made / "model", made / "checkpoint")
    (made / "checkpoint" / "args.json").write_text("{}")
    resumed, log = probe(made, "checkpoint", PROBE_NEVER="1")
    assert resumed["held_out"] == second["held_out"] == first["held_out"]
    assert [each["shared"] for each in (first, second, resumed)] == [0, 0, 0]
    assert "tokens up to date" in log  # the policy is a checkpoint now, its reference is not
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".complete.json", "train.arrow", "val.arrow", "val_dataset.jsonl"]


@pytest.mark.parametrize("env", [{"DPO_RUN_FOLDER": "/proc/no/where"}, {"PROBE_UNREADABLE": "1"}])
def test_what_cannot_be_written_or_compared_is_left_to_ms_swift(
    made: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    found, log = probe(made, DPO_ATTEMPT_FOLDER=str(tmp_path), **env)
    assert log.count("tokens are not kept: [Errno 2]") == 1
    assert "rows are counted while they are read: the workspace did not take the tokens" in log
    counts = rows_of(tmp_path)
    assert (counts["rows_read"], counts["rows_kept"]) == (2 * ROWS, 2 * ROWS)  # the probe's too
    assert found["equal"] == found["compared"] == ROWS


def asked(n: int, question: str = "how is the file parsed") -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{question} {n}"}]


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def planted(n: int) -> dict[str, Any]:
    """Return a pair; those of some numbers are dropped, or have no preference."""
    chosen, rejected = [*asked(n), assistant(f"good {n}")], [*asked(n), assistant(f"bad {n}")]
    if n == 2:
        rejected = [*asked(n), assistant("long " * 400)]
    elif n in (4, 6):
        chosen[0]["role"] = "customer"
    elif n == 8:
        rejected = chosen
    elif n == 10:
        rejected[:1] = asked(n, "another question")
    elif n == 12:
        rejected = [*rejected, *asked(n, "and then")]
    return {"messages": chosen, "rejected_messages": rejected}


def test_each_row_is_counted_and_each_pair_has_two_sides_and_one_prompt(
    made: Path, tmp_path: Path
) -> None:
    write(made, "planted.jsonl", map(planted, range(1, 101)))
    given = {"DPO_ATTEMPT_FOLDER": str(tmp_path), "dataset": "planted.jsonl", "processes": "2"}
    found, log = probe(made, **given, DPO_MAX_DROPPED_ROWS="0.05")
    assert sum(found["rows"]) == 97 and found["equal"] == found["compared"]
    counts = json.loads((tmp_path / "packing.json").read_text())
    assert (counts["rows_read"], counts["rows_kept"]) == (100, 97)
    assert counts["rows_dropped"] == {ROLES: 2, LONG: 1}
    assert counts["pairs_doubtful"] == {
        "equal sides": 1,
        "prompts that differ between the sides": 1,
        "no token of the rejected answer to train on": 1,
    }
    assert "content: 2 (planted.jsonl rows 4, 6), 2.0% of the rows" in log
    assert "equal sides: 1 (planted.jsonl rows 8)" in log
    _, log = ended(made, **given, DPO_MAX_DROPPED_ROWS="0.01")
    assert "3 of 100 rows are dropped" in log and "maxDroppedRows 0.01" in log


@pytest.mark.parametrize(
    "flags, env, drawn",
    [
        ({"streaming": "true", "max_steps": 9}, {}, 0),
        ({"lazy_tokenize": "true"}, {"PROBE_MULTIMODAL": "1"}, 98),
        ({}, {"PROBE_MULTIMODAL": "1"}, 0),
        ({}, {"DPO_CACHE_TOKENS": "0", "processes": "2"}, 0),
    ],
    ids=["stream", "drawn", "multimodal", "no cache"],
)
def test_rows_without_kept_tokens_are_counted_while_they_are_read(
    made: Path, tmp_path: Path, flags: dict[str, Any], env: dict[str, str], drawn: int
) -> None:
    rows = [planted(n) for n in range(1, 101)]
    rows[1], rows[49] = rows[49], rows[1]
    write(made, "uncached.jsonl", rows)
    own = {"DPO_ATTEMPT_FOLDER": str(tmp_path), "dataset": "uncached.jsonl"}
    own |= {"module": "running_probe"}
    own["flags"] = json.dumps({"split_dataset_ratio": 0, **flags})
    code, log = ended(made, **own, **env, DPO_MAX_DROPPED_ROWS="0.05")
    assert code == 0 and "rows are counted while they are read" in log, log[-3000:]
    counts = rows_of(tmp_path)
    if drawn:
        assert (counts["rows_read"], counts["rows_kept"]) == (100, 98)
        assert counts["rows_dropped"] == {ROLES: 2}
        # another row is drawn in place of the one that is too long
        assert counts["rows_drawn"] == drawn + 1 and counts["rows_replaced"] == {LONG: 1}
    else:
        assert (counts["rows_read"], counts["rows_kept"]) == (100, 97)
        assert counts["rows_dropped"] == {ROLES: 2, LONG: 1}
    if "streaming" not in flags:
        code, log = ended(made, **own, **env, DPO_MAX_DROPPED_ROWS="0.01")
        assert code == 1 and "of 100 rows are dropped" in log


def labelled(n: int, task: str) -> dict[str, Any]:
    """Return a row of a task; those of some numbers are dropped."""
    row: dict[str, Any] = {"messages": [*asked(n), assistant(f"good {n}")]}
    if task != "sft":
        row["rejected_response" if task != "kto" else "label"] = n % 2 == 0
    if task in ("orpo", "rm"):
        row["rejected_response"] = f"bad {n}"
    if n == 2:
        row["messages"][1]["content"] = "long " * 400
    elif n in (4, 6):
        row["messages"][0]["role"] = "customer"
    return row


@pytest.mark.parametrize(
    ("task", "too_long"),
    [("kto", 2), ("sft", 1), ("orpo", 1), ("rm", 1)],  # KTO: the long text is a KL answer too
)
def test_rows_of_each_task_are_counted(
    made: Path, tmp_path: Path, task: str, too_long: int
) -> None:
    write(made, f"{task}.jsonl", [labelled(n, task) for n in range(1, 103)])
    given = {"DPO_ATTEMPT_FOLDER": str(tmp_path), "dataset": f"{task}.jsonl", "task": task}
    found, _ = probe(made, **given, DPO_MAX_DROPPED_ROWS="0.05")
    counts = json.loads((tmp_path / "packing.json").read_text())
    assert counts["rows_dropped"] == {ROLES: 2, LONG: too_long}
    assert (counts["rows_read"], counts["rows_kept"]) == (102, 100 - too_long)
    assert not counts["pairs_doubtful"]
    assert sum(found["rows"]) == found["equal"] == found["compared"] == 100 - too_long
    assert all(found["same_batch"].values())
    _, log = ended(made, **given, DPO_MAX_DROPPED_ROWS="0.01")
    assert f"{2 + too_long} of 102 rows are dropped" in log
    assert f"content: 2 ({task}.jsonl rows 4, 6)" in log


@needs_oracle
def test_rows_of_kto_are_counted_on_megatron_too(tmp_path: Path) -> None:
    def row(n: int) -> dict[str, Any]:
        label = None if n == 5 else n % 2 == 0
        question = {"role": "customer" if n == 9 else "user", "content": f"w{n}"}
        turns = [question, assistant(f"w{39 - n}"), *(asked(n, "w2") if n == 7 else [])]
        return {"messages": turns, "label": label}

    home = tmp_path / "ws" / "runs"
    home.mkdir(parents=True)
    write(tmp_path, "rows.jsonl", map(row, range(40)))
    kto = f"rlhf_type=kto dataset={tmp_path / 'rows.jsonl'} rpo_alpha="
    flags = cases.flags(cases.ALL, cases.OF_BACKEND["megatron"], kto)
    flags = {name: value.format(inputs=home, base=home) for name, value in flags.items()}
    job = {"name": "one", "backend": "megatron", "ranks": 1, "features": ["tokens"], "flags": flags}
    (home / "jobs.json").write_text(json.dumps([job]))
    env = {**os.environ, **prove.ON_CPU, "PYTHONPATH": f"{ROOT}:{ORACLE}"}
    words = [str(warm.python(oracle=True)), "-m", prove.RUN, str(home), str(home / "jobs.json")]
    subprocess.run(words, cwd=ROOT, env=env, capture_output=True, check=True)
    counts = rows_of(home / "one")  # gloo has no scalars for KTO's metrics: no step ends
    # of 37 good rows one is alone in a batch of two: it is its own KL answer
    assert sorted(counts["rows_dropped"].values()) == [1, 1, 1, 1]
    assert (counts["rows_read"], counts["rows_kept"]) == (40, 36)


def test_rows_that_kto_cannot_use_are_counted(made: Path) -> None:
    rows = [labelled(n, "kto") for n in range(11, 111)]
    rows[1]["label"] = rows[2]["label"] = None
    rows[4]["messages"] += asked(5, "and then")
    rows[6]["messages"] = rows[7]["messages"] = [*asked(8), assistant("yes")]
    write(made, "bad.jsonl", rows)
    given = {"task": "kto", "dataset": "bad.jsonl"}
    code, log = ended(made, **given, DPO_MAX_DROPPED_ROWS="0.01")
    assert code == 1 and " of 100 rows are dropped" in log
    assert "neither true nor false: 2 (bad.jsonl rows 2, 3)" in log
    assert "not end with the assistant: 1 (bad.jsonl rows 5)" in log


def test_pairs_without_any_preference_end_the_run(made: Path) -> None:
    turns = [*asked(1), assistant("good")]
    write(made, "ties.jsonl", [{"messages": turns, "rejected_messages": turns}] * 8)
    code, log = ended(made, dataset="ties.jsonl")
    assert code == 1 and "equal sides: 8 (ties.jsonl rows 1, 2, 3) in all 8 rows" in log


@pytest.mark.parametrize("text, why", [("", "or without content"), ("long " * 400, "max_length")])
def test_a_dataset_of_which_no_row_is_left_names_the_reason(
    made: Path, text: str, why: str
) -> None:
    answer = {"role": "assistant" if text else "customer", "content": text}
    write(made, "none.jsonl", [{"messages": [*asked(1), answer], "rejected_response": "bad"}] * 8)
    code, log = ended(made, dataset="none.jsonl")
    assert code == 1 and "8 of 8 rows are dropped" in log and why in log
