"""What GPU-hours cost: a table of the user's own prices; none is shipped."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from launchers.config.gpu_models import GPU_MODELS
from scripts.problem import Problem

FILE = "MEGATRON_DPO_PRICES"
"""Variable with the path of the table: ``currency: EUR``, and ``gpuHour`` with a price by
``gpuModel``; optional: ``watts``, of a GPU in training."""
FORM = "write e.g. currency: EUR and gpuHour: {h100-80g: 2.5}"


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The table."""

    currency: str
    gpu_hour: Mapping[str, float]
    watts: Mapping[str, float] = field(default_factory=dict)
    """Power of one GPU in training, by model."""

    def of(self, gpu_model: str | None, gpu_hours: float) -> str:
        """Return what GPU-hours cost, for people; empty if the model has no price.

        >>> Prices(currency="EUR", gpu_hour={"h200": 3.0}).of("h200", 1234.5)
        '3,704 EUR'
        """
        each = self.gpu_hour.get(gpu_model or "")
        return "" if each is None else f"{money(each * gpu_hours)} {self.currency}"


NONE = Prices(currency="", gpu_hour={})
"""No table."""


def money(amount: float) -> str:
    """Return an amount with cents where they matter.

    >>> money(3.456), money(1234.5)
    ('3.46', '1,234')
    """
    return f"{amount:.2f}" if amount < 100 else f"{amount:,.0f}"


def read(file: str | None = None) -> Prices:
    """Read the table; an empty one if there is none.

    ``file``: its path; by default that of the variable ``FILE``.

    Raises:
        Problem: it can't be read, is of another form, or names a GPU model that is not known.
    """
    path = os.environ.get(FILE, "") if file is None else file
    if not path:
        return NONE
    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise Problem(f"{FILE}={path}: cannot be read: {error}; {FORM}") from None
    if not isinstance(found, dict) or {*found} - {"watts"} != {"currency", "gpuHour"}:
        raise Problem(f"{FILE}={path}: {found!r:.100} is not a table of prices; {FORM}")
    if not found["currency"] or not isinstance(found["currency"], str):
        raise Problem(
            f"{FILE}={path}: currency must be a text that is not empty, gpuHour a map; {FORM}"
        )
    prices, watts = (_numbers(found, key, path) for key in ("gpuHour", "watts"))
    return Prices(currency=found["currency"], gpu_hour=prices, watts=watts)


def _numbers(found: Mapping[str, object], key: str, path: str) -> Mapping[str, float]:
    table = found.get(key, {})
    if not isinstance(table, dict):
        raise Problem(f"{FILE}={path}: currency must be a text, {key} a map; {FORM}")
    for model, number in table.items():
        if model not in GPU_MODELS:
            known = ", ".join(GPU_MODELS)
            raise Problem(f"{FILE}={path}: {key}.{model} is not known; use one of {known}")
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not 0 <= number < math.inf:
            raise Problem(f"{FILE}={path}: {key}.{model}: {number!r}; use a number from 0")
    return table
