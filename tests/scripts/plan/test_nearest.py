"""The proposals, against looking at all ways to train."""

from scripts.plan.search import nearest
from tests.scripts.plan.searches import cluster, everything, seconds


def test_the_nearest_change_the_fewest_flags() -> None:
    search = cluster(2)
    fewest = sorted(len(each.changes) for each in everything(search))[:3]
    near = nearest(search, 3)
    assert sorted(len(each.changes) for each in near) == fewest
    assert seconds(near) == sorted(seconds(near))


def test_nothing_is_proposed_where_the_model_is_too_large() -> None:
    assert nearest(cluster(1, "a100-40g", "Qwen3-235B-A22B"), 3) == []
