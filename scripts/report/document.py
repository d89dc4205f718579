"""The report as JSON. Times are Unix times or seconds, memory GiB; what is not known is null.

The format, version 1; `schema` rises when a field changes its meaning or goes:

    schema
    runs[{name, place, state, code, why, step, total, world, tokens, peak_gib,
          medians{seconds, tokens_per_second_per_gpu, mfu, fill},
          missing{column: {steps, last, is_newest}} (of loss and grad_norm: logged steps without a
          finite value),
          curves{column: {recorded, steps[], means[], lows[], highs[]}},
          ledger (the run's ``pairs/summary.json``),
          evaluations[{step, attempt, time, seconds, values{name: number}}],
          attempts[{number, resumed, began, trained_from, trained_until, first_step, last_step,
                    kept_seconds, lost_steps, lost_seconds, evaluation_seconds,
                    end{rank, code, class, id, cause, remedy}}],
          effective (share of the time since the first start, in steps that count),
          cost{gpu_hours{held, trained, evaluation, lost, waiting, epoch, thousand_pairs},
               amount{the same, in currency}, currency, kwh} (from the start of the pods),
          time{began, seconds, totals{waited, started, trained, between, lost, after}},
          planned[{measure, plan, actual, ratio}],
          versions{package: version}, checkpoints[], digests[{name, size, sha256}],
          progress, plan, changes[], notes[]}]

``progress`` and ``plan`` are the run's files (``launchers/progress/README.md``). Columns are those
of ``metrics.jsonl``; a curve of more than 360 values holds means, minima and maxima of equal groups
of consecutive steps.
"""

from collections.abc import Sequence
from typing import Any

from launchers.state.json_text import part
from scripts.observe import spent
from scripts.report import facts, timeline
from scripts.report.record import Attempt, RunRecord
from scripts.terminal import SCHEMA


def build(runs: Sequence[RunRecord], names: Sequence[str]) -> dict[str, Any]:
    """Return the document of runs and their distinct names."""
    return {
        "schema": SCHEMA,
        "runs": [_run(run, name) for run, name in zip(runs, names, strict=True)],
    }


def _run(run: RunRecord, name: str) -> dict[str, Any]:
    found = timeline.build(run)
    return {
        "name": name,
        "place": run.place,
        "state": run.progress.get("state"),
        "code": run.progress.get("code"),
        "why": run.progress.get("why"),
        "step": None if run.unread else run.step,
        "total": None if run.unread else run.total,
        "world": run.world,
        "tokens": run.tokens,
        "peak_gib": run.peak_gib,
        "medians": dict(run.medians),
        "missing": {column: vars(each) for column, each in run.missing.items()},
        "curves": {
            column: {
                "recorded": points.recorded,
                **{part: list(getattr(points, part)) for part in ("steps", "means")},
                **{part: list(getattr(points, part)) for part in ("lows", "highs")},
            }
            for column, points in run.curves.items()
        },
        "ledger": dict(run.pairs),
        "evaluations": [vars(each) | {"values": dict(each.values)} for each in run.evaluations],
        "attempts": [_attempt(each) for each in run.attempts],
        "effective": timeline.effective(run),
        "cost": spent.document(
            spent.spent(run.progress, run.plan), run.prices, part(run.plan, "gang").get("card")
        ),
        "time": found
        and {"began": found.began, "seconds": found.seconds, "totals": dict(found.totals)},
        "planned": [
            dict(zip(("measure", "plan", "actual", "ratio"), row, strict=True))
            for row in facts.planned(run)
        ],
        "versions": dict(facts.versions(run)),
        "checkpoints": list(run.checkpoints),
        "digests": [
            dict(zip(("name", "size", "sha256"), row, strict=True)) for row in facts.digests(run)
        ],
        "progress": dict(run.progress),
        "plan": dict(run.plan),
        "changes": list(run.changes),
        "notes": list(run.notes),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    left_out = ("kept_until", "end", "pods", "packing")
    end = attempt.end
    return {name: value for name, value in vars(attempt).items() if name not in left_out} | {
        "end": end
        and {
            "rank": end.rank,
            "code": end.code,
            "class": end.failure_class,
            "id": end.id,
            "cause": end.cause,
            "remedy": end.remedy,
        }
    }
