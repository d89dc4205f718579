"""What users of other systems start the launcher with: ``starts`` of tests/seeds.yaml."""

from typing import Any

import pytest

from launchers.config.recipe_file import load
from launchers.config.settings import from_env
from launchers.exits import Exit, LaunchError
from launchers.yaml_file import read_yaml
from scripts.helm import ROOT

STARTS: list[dict[str, Any]] = read_yaml(ROOT / "tests" / "seeds.yaml")["starts"]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: str(start["brought"]))
def test_a_start_has_its_outcome(start: dict[str, Any]) -> None:
    given = {"DPO_RUN": "a", "DPO_WORKSPACE": "/w", **start["env"]}
    env = {name: value for name, value in given.items() if value is not None}
    if "refused" in start:
        with pytest.raises(LaunchError) as raised:
            from_env(env)
        assert (raised.value.code, raised.value.id) == (Exit.CONFIG, start["refused"])
        assert "kubectl" not in raised.value.remedy
        return
    settings = from_env(env)
    launch, place = settings.launch, settings.launch.place
    found = {"nodes": place.nodes, "rank": place.rank, "gpus": launch.gpus_per_node}
    assert start["place"] == found | {"master": f"{place.master_addr}:{place.master_port}"}
    if "DPO_RECIPE" in env:
        assert load(ROOT / settings.stages.recipe).backend == "transformers"
