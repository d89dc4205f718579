"""Profiles are merged as Helm merges values, and parsed by the launcher's own functions."""

from pathlib import Path

import pytest
import yaml

from scripts.helm import template
from scripts.plan.submission import read_submission
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import shared
from tests.bench.speed.profiles import ROOT, parse

SEED = "tests/bench/baselines/seed.yaml"


@pytest.mark.parametrize("file", ["values/a100-2node.yaml", SEED])
def test_values_are_composed_as_helm_composes_them(file: str, tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    args = {"lr": 0.001, "moe_aux_loss_coeff": None, "external_plugins": None, "packing": False}
    volume = {"workspace": {"existingClaim": "training"}}
    over.write_text(yaml.safe_dump({"recipe": {"args": args}, "extraEnv": {"A": 1}, **volume}))
    paths = [*bench_profiles.below(ROOT / file), over]
    helms = read_submission(template("bench", paths))
    profile = parse(",".join(map(str, paths)))
    ours = bench_profiles.recipe(profile.values(), {})
    kept = {k: v for k, v in helms.recipe.args.items() if k not in bench_profiles.REPLACED}
    assert ours.args.pop("model_type") == "qwen3_moe"
    assert {k: number(v) for k, v in ours.args.items()} == {k: number(v) for k, v in kept.items()}
    assert bench_profiles.environment(profile.values()).items() <= dict(helms.env).items()


def number(value: object) -> object:
    """Normalize the formats of a value: Helm writes 5e-7 as 5e-07, and a map as JSON."""
    try:
        return float(str(value))
    except ValueError:
        return yaml.safe_load(value) if isinstance(value, str) and value[0] == "{" else value


def test_a_path_of_the_values_is_changed_too() -> None:
    text = f"x:{ROOT / SEED},recipe.reference=precomputed,extraEnv.A=2,lr=null"
    values = parse(text).values()
    parsed = bench_profiles.recipe(values, {})
    assert parsed.reference == "precomputed" and "lr" not in parsed.args
    assert bench_profiles.environment(values)["A"] == "2"
    assert bench_profiles.job(parsed, 8).reference is False


def test_nothing_but_plugins_lies_where_the_trainer_looks_for_modules_first() -> None:
    names = [path.name for path in shared.PLUGINS.iterdir() if path.name != "__pycache__"]
    assert names and all(name.startswith("swift_") for name in names)
