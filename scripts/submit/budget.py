"""`submit --by` and `--budget`: choose a gang and layout that meets both, and set `budget`."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from launchers.units import count_text
from scripts.plan import command as planning
from scripts.plan.units import time_text
from scripts.prices import FILE, FORM, Prices, money
from scripts.problem import Problem

CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
MOST_MINUTES = 1_000_000_000
"""Most that `budget.gpuMinutes` allows."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may cost, and when it must have ended."""

    by: float | None = None
    """Unix time by the API server's clock."""
    money: float | None = None
    """In the currency of the prices."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A gang with a layout, and what the plan predicts of it."""

    name: str
    files: Sequence[Path]
    sets: Sequence[str]
    gpus: int
    hours: float
    high: float
    step_seconds: float
    steps: int
    price: float
    """Of a GPU-hour; 0 without `--budget`."""

    @property
    def cost(self) -> float:
        """Return the predicted price of all steps."""
        return self.hours * self.gpus * self.price

    def left(self, limits: Limits, now: float) -> float:
        """Return the hours that the limits leave to it."""
        paid = limits.money / (self.gpus * self.price) if limits.money and self.price else math.inf
        return min(paid, math.inf if limits.by is None else (limits.by - now) / 3600)


def limits(by: str | None, amount: str | None, now: float) -> Limits:
    """Parse the options.

    ``by`` is a time of day in UTC or a date and time, ``amount`` in the prices' currency.

    Raises:
        Problem: one has another form, is negative, or lies in the past.

    >>> limits("08:00", "400", 0.0), limits("1970-01-01T01:00+01:00", None, -9.0).by
    (Limits(by=28800.0, money=400.0), 0.0)
    """
    found = None
    if amount is not None:
        try:
            found = float(amount)
        except ValueError:
            found = math.nan
        if not 0 < found < math.inf:
            raise Problem(f"--budget {amount}: use an amount above 0, such as 400 [budget-amount]")
    return Limits(by=None if by is None else _time(by, now), money=found)


def _time(text: str, now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    if found := CLOCK.fullmatch(text):
        then = today.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        return (then if then > today else then + timedelta(days=1)).timestamp()
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        raise Problem(
            f"--by {text}: use a time of day in UTC, such as 08:00, or a date and time, such as "
            "2026-12-01T08:00Z [budget-time]"
        ) from None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    if then <= today:
        raise Problem(
            f"--by {text} has passed: it is {today:%Y-%m-%dT%H:%MZ} by the API server's clock; "
            "use a later time [budget-past]"
        )
    return then.timestamp()


def choices(
    request: planning.Request, among: Sequence[Path], prices: Prices
) -> tuple[list[Choice], list[str]]:
    """Return what may be submitted: the values alone and with each file, and their fastest layouts.

    Also why other files are left out.
    ``among`` are values files of other gangs.

    Raises:
        Problem: nothing can be planned.
    """
    found: list[Choice] = []
    problems: list[Problem] = []
    for file in (None, *among):
        files = [*request.files, *([file] if file else [])]
        try:
            found += _of(planning.Request(run=request.run, files=files, sets=request.sets), prices)
        except Problem as problem:
            problems.append(problem)
    if problems and not found:
        raise problems[0]
    return found, [f"left out: {problem}" for problem in problems]


def _of(request: planning.Request, prices: Prices) -> Iterator[Choice]:
    found, plan, verdict = planning.predict(request)
    run, speed, training = plan.duration, plan.speed, plan.training
    if plan.gpu is None or speed is None or training is None:
        why = plan.unknown.get("speed", "it has no GPUs")
        raise Problem(f"the plan has no speed, so that nothing can be chosen: {why}")
    if run is None:
        raise Problem("the number of steps is not known: set recipe.args.max_steps, or see plan")
    price = prices.gpu_hour.get(plan.gpu.name, 0.0)
    if prices.currency and not price:
        raise Problem(f"{FILE} has no price of {plan.gpu.name}; {FORM} [budget-no-price]")
    name = request.files[-1].stem if request.files else request.run
    sides = [(name, list(request.sets), speed.step_seconds, bool(verdict.refusals))]
    for best in planning.search_of(found, plan).best(1):
        sets = [f"recipe.args.{n}={'null' if v is None else v}" for n, v in best.changes.items()]
        if sets:
            named = f"{name}, layout of plan --search"
            sides.append((named, [*request.sets, *sets], best.speed.step_seconds, False))
    for named, sets, seconds, is_refused in sides:
        if not is_refused:
            scale = seconds / speed.step_seconds
            yield Choice(
                name=named,
                files=request.files,
                sets=sets,
                gpus=training.layout.world,
                hours=run.hours * scale,
                high=run.high * scale,
                step_seconds=seconds,
                steps=run.steps,
                price=price,
            )


def choose(found: Sequence[Choice], given: Limits, now: float) -> tuple[Choice, list[str]]:
    """Return the cheapest choice that meets the limits, or the one that trains most; warnings.

    Raises:
        Problem: there is none, or the limits do not pay for one step.
    """
    if not found:
        raise Problem("no gang or layout fits; see megatron-dpo plan [budget-no-layout]")
    meets = [each for each in found if each.hours <= each.left(given, now)]
    if meets:
        best = min(meets, key=lambda each: (each.cost, each.hours))
        if best.high <= best.left(given, now):
            return best, []
        late = f"up to {time_text(3600 * best.high)} are possible, and "
        left = f"the limits leave {time_text(3600 * best.left(given, now))}"
        return best, [f"it may be missed: {late}{left}; the queue's wait is not counted"]
    best = max(found, key=lambda each: each.left(given, now) / each.hours)
    share = best.left(given, now) / best.hours
    steps = int(best.steps * share)
    if steps < 1:
        raise Problem(
            f"the limits leave {time_text(3600 * best.left(given, now))} of {best.gpus} GPUs, and "
            f"one step takes {time_text(best.step_seconds)} (predicted); allow more [budget-small]"
        )
    return best, [
        f"no gang and layout meets the limits: the run ends at about step {steps:,} of "
        f"{best.steps:,}, with a checkpoint and an export; allow {1 / share:.2f} times as much"
    ]


def assignments(choice: Choice, given: Limits) -> list[str]:
    """Return the values that carry the limits: whole GPU-minutes, and the time in UTC."""
    found = []
    if given.money is not None:
        minutes = math.floor(min(60 * given.money / choice.price, MOST_MINUTES))
        found.append(f"budget.gpuMinutes={max(1, minutes)}")
    if given.by is not None:
        found.append(f"budget.by={datetime.fromtimestamp(given.by, UTC):%Y-%m-%dT%H:%M:%SZ}")
    return found


def said(found: Sequence[Choice], best: Choice, prices: Prices) -> Iterator[str]:
    """Yield a line for each choice; all numbers are predicted."""
    for each in found:
        cost = f", {money(each.cost)} {prices.currency}" if each.price else ""
        mark = "chosen" if each is best else "      "
        gpus = count_text(each.gpus, "GPU")
        yield f"{mark} {each.name}: {time_text(3600 * each.hours)} on {gpus}{cost}"
