"""Features that a recipe loads for the weights of its pairs."""

from typing import Any

import pytest

from launchers.config.recipe import parse
from launchers.flags.features import names

OF_BACKEND = {"megatron": "pair_weights", "transformers": "pair_weights_transformers"}


def loaded(**given: Any) -> list[str]:
    """List the features of a packed recipe with changed keys."""
    recipe = {"task": "rlhf", "model": "hf://o/m@v", "dataset": ["hf://o/d@v"]}
    return names(parse({**recipe, "args": {"packing": True}, **given}), on_cpu=False)


@pytest.mark.parametrize("backend", OF_BACKEND)
def test_only_packed_dpo_with_equal_weights_replaces_the_loss(backend: str) -> None:
    own = OF_BACKEND[backend]
    assert set(loaded(backend=backend)) & set(OF_BACKEND.values()) == {own}
    others: list[dict[str, Any]] = [
        {"pairWeights": "pack"},
        {"args": {}},
        {"args": {"packing": True, "rlhf_type": "rm"}},
        {"task": "sft"},
    ]
    for given in others:
        assert not set(loaded(backend=backend, **given)) & set(OF_BACKEND.values()), given


def test_equal_weights_wrap_the_trainer_of_a_precomputed_reference() -> None:
    found = loaded(backend="megatron", reference="precomputed")
    assert found.index("reference") < found.index("pair_weights") > found.index("packing")
