"""``progress.json`` in Prometheus' text format, without the client library, which the image lacks.

Format: https://prometheus.io/docs/instrumenting/exposition_formats (version 0.0.4). A number that
is not known has no line.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from launchers.metrics.rows import is_number

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "dpo_"
GAUGES = {
    "step": "Optimizer steps done.",
    "total": "Optimizer steps of the whole run.",
    "attempt": "Number of the attempt that trains.",
    "eta_seconds": "Seconds to the last step, at the speed of the last steps.",
    "step_seconds": "Median seconds of the last steps.",
    "loss": "Training loss of the last step.",
    "margin": "Reward margin of the last step.",
    "accuracy": "Share of the last step's pairs with the chosen answer preferred.",
    "tokens_per_second_per_gpu": "Real tokens per second and process of the last step.",
    "mfu": "Model FLOP utilisation of the last step, as a fraction.",
    "data_share": "Fraction of the last step that waited for data.",
    "watts": "Mean power of all GPUs in the last step.",
    "kwh": "Energy of all GPUs in the steps and between them, of all attempts.",
    "reserved_gib": "Peak GPU memory that the allocator holds on the largest rank, in GiB.",
    "fill": "Real tokens over the capacity of the last step's packs.",
    "expert_load": "Largest over mean number of rows of an expert, averaged over the layers.",
    "expert_load_worst": "The same ratio in the layer where it is highest.",
    "grad_norm": "Gradient norm of the last step, before clipping.",
    "goodput": "Fraction of the time since the first start spent in steps that count.",
}
"""Numbers of the state of training (``training.py``) and their help."""
_HELD_OUT = ("step", "loss", "accuracy", "margin")
_RUN = {
    "started": "Unix time at which this start of the run began.",
    "updated": "Unix time of the last change of the run's state.",
    "code": "Exit code of the run; 0 while it runs.",
}

Sample = tuple[Mapping[str, str], float]


def text(document: Mapping[str, Any]) -> str:
    """Return the metrics of a run.

    ``document``: the content of ``progress.json``; an empty one gives no metric.

    >>> print(text({"run": "r", "state": "running", "training": {"step": 3, "loss": None}}), end="")
    # HELP dpo_run_state The run's state: 1 for the current one.
    # TYPE dpo_run_state gauge
    dpo_run_state{run="r",state="running"} 1
    # HELP dpo_training_step Optimizer steps done.
    # TYPE dpo_training_step gauge
    dpo_training_step{run="r"} 3
    """
    return "".join(_lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    run = {"run": str(document.get("run", ""))}
    training, stages = _part(document, "training"), _part(document, "stages")
    if state := document.get("state"):
        yield from _metric(
            "run_state", "The run's state: 1 for the current one.", [({**run, "state": state}, 1)]
        )
    for name, help in _RUN.items():
        suffix = "" if name == "code" else "_timestamp_seconds"
        yield from _metric(f"run_{name}{suffix}", help, _known(document, name, run))
    yield from _metric(
        "stage_seconds",
        "Seconds of each stage that has ended.",
        [s for n in stages for s in _known(_part(stages, n), "seconds", {**run, "stage": n})],
    )
    for name, help in GAUGES.items():
        yield from _metric(f"training_{name}", help, _known(training, name, run))
    held_out = _part(training, "held_out")
    for name in _HELD_OUT:
        found = [
            sample
            for which in ("first", "last", "best")
            for sample in _known(_part(held_out, which), name, {**run, "evaluation": which})
        ]
        yield from _metric(f"held_out_{name}", f"{name.capitalize()} of an evaluation.", found)


def _known(part: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> list[Sample]:
    value = part.get(name)
    return [(labels, float(value))] if is_number(value) else []


def _metric(name: str, help: str, samples: list[Sample]) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} gauge\n"
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        yield f"{PREFIX}{name}{{{inside}}} {value:.12g}\n"


def _escaped(label: str) -> str:
    r"""Return a label's value as the format wants it.

    >>> _escaped('a"b\\')
    'a\\"b\\\\'
    """
    return str(label).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
