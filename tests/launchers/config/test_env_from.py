"""Variables that a Secret or ConfigMap of ``envFrom`` may not set."""

import pytest

from launchers.config import env_from
from launchers.config.settings import from_env
from launchers.exits import Exit, LaunchError

SET = {"DPO_RUN": "r", "DPO_WORKSPACE": "/w"}
ENV = {
    **SET,
    "DPO_ENV_FROM": "Secret/tracker=WANDB_,ConfigMap/team=",
    "DPO_ENV_NAMES": ",".join((*SET, "DPO_ENV_FROM", "DPO_ENV_NAMES", "SKIP_CLONE")),
}


def refusal(env: dict[str, str]) -> LaunchError:
    with pytest.raises(LaunchError) as refused:
        from_env(env)
    return refused.value


NOT_SET = ("DPO_ACCEPT_PATCHES", "SKIP_TRAIN")
"""Known settings that the chart does not set."""


@pytest.mark.parametrize("name", [*env_from.RANKS, *(f"{p}X" for p in env_from.PREFIXES), *NOT_SET])
def test_a_reserved_variable_of_a_config_map_is_refused_by_name_and_source(name: str) -> None:
    error = refusal({**ENV, name: "1"})
    assert (error.id, error.code) == ("env-from", Exit.CONFIG)
    assert f"{name} comes by envFrom from ConfigMap team" in error.cause
    assert name in error.remedy


def test_every_source_that_may_have_set_it_is_named() -> None:
    env = {**ENV, "DPO_ENV_FROM": "Secret/a=,Secret/b=R,Secret/c=W", "WORLD_SIZE": "2"}
    assert "Secret a or Secret c," in refusal(env).cause


def test_what_the_chart_sets_or_no_source_can_have_set_is_accepted() -> None:
    assert from_env({**ENV, "SKIP_CLONE": "1", "SOME_KEY": "x"}).stages.skips == {"clone"}
    # none of the prefixes is that of the variable; without envFrom all are the starter's
    from_env({**ENV, "DPO_ENV_FROM": "Secret/tracker=WANDB_", "NNODES": "1"})
    from_env({**SET, "NODE_RANK": "0", "NNODES": "1", "SKIP_CLONE": "1"})
