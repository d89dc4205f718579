from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.config import sources
from launchers.config.sources import parse_source
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError

KEY = "recipe.dataset[0]"
WORK = Workspace(root=Path("/ws"), run="r")

word = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}", fullmatch=True).filter(
    lambda w: w not in (".", "..")
)
revision = st.one_of(word, word.map(lambda w: f"refs/pr/{w}"))
path = st.lists(word, max_size=3).map("/".join)


@st.composite
def remote(draw: st.DrawFn) -> str:
    hub, org, name = draw(st.sampled_from(["hf", "ms"])), draw(word), draw(word)
    inside = draw(path)
    return f"{hub}://{org}/{name}@{draw(revision)}" + (f"/{inside}" if inside else "")


local = st.lists(word, min_size=1, max_size=4).map("/".join)
anything = st.one_of(remote(), local.map(lambda p: f"file:///{p}"), local)


@given(anything)
def test_a_source_prints_as_it_was_given(text: str) -> None:
    assert parse_source(text, KEY).text == text


@given(st.lists(anything, min_size=2, max_size=8, unique=True))
def test_two_sources_never_share_a_folder(texts: list[str]) -> None:
    slugs = [parse_source(text, KEY).slug for text in texts]
    assert len(set(slugs)) == len(texts)


@given(anything)
def test_a_slug_is_one_safe_folder_name(text: str) -> None:
    slug = parse_source(text, KEY).slug
    assert slug not in (".", "..")
    assert len(slug.encode()) < 180
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-")


@given(anything, st.integers(1, 10**9))
def test_a_sample_changes_nothing_but_the_sample(text: str, count: int) -> None:
    plain, sampled = parse_source(text, KEY), parse_source(f"{text}#{count}", KEY)
    assert sampled.sample == count
    assert (sampled.text, sampled.slug, sampled.name) == (plain.text, plain.slug, plain.name)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused_with_its_key(text: str) -> None:
    try:
        found = parse_source(text, KEY)
    except LaunchError as error:
        assert error.code == Exit.CONFIG
        assert error.cause.startswith(f"{KEY}: ")
        assert error.remedy.startswith("use ")
    else:
        assert ".." not in Path(found.repo).parts
        assert found.name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hf://a/b--c@main", "hf://a--b/c@main"),
        ("hf://a/b@main", "ms://a/b@main"),
        ("hf://a/b@refs/pr/1", "hf://a/b@refs--pr--1"),
        ("hf://a/b@main/x/y", "hf://a/b@main/x--y"),
        ("file:///a/x.jsonl", "file:///b/x.jsonl"),
        ("a/b", "a--b"),
    ],
)
def test_lookalikes_have_different_slugs(one: str, other: str) -> None:
    assert parse_source(one, KEY).slug != parse_source(other, KEY).slug


@pytest.mark.parametrize(
    ("text", "id", "remedy"),
    [
        ("hf://Qwen/Qwen3-0.6B", "source-no-revision", "hf://Qwen/Qwen3-0.6B@REVISION"),
        ("ms://Qwen/Qwen3-0.6B", "source-no-revision", "ms://Qwen/Qwen3-0.6B@REVISION"),
        ("hf://Qwen@main", "source-form", "hf://org/name@revision"),
        ("s3://bucket/x", "source-scheme", "hf://org/name@revision"),
        ("/data/x.jsonl", "source-absolute", "file:///data/x.jsonl"),
        ("file://data/x", "source-relative", "file:///absolute/path"),
        ("file:///", "source-root", "file:///absolute/path"),
        ("data/../../etc", "source-parts", "hf://"),
        ("hf://a/b@main/../c", "source-parts", "hf://"),
        ("x.jsonl#", "source-count", "#N"),
        ("x.jsonl#0", "source-count", "#N"),
        ("x.jsonl#many", "source-count", "#N"),
        ("", "source-blank", "hf://"),
        (" x", "source-blank", "hf://"),
        ("a\nb", "source-blank", "hf://"),
    ],
)
def test_a_bad_source_is_refused_with_a_remedy(text: str, id: str, remedy: str) -> None:
    with pytest.raises(LaunchError) as caught:
        parse_source(text, KEY)
    assert (caught.value.code, caught.value.id) == (Exit.CONFIG, id)
    assert KEY in caught.value.cause
    assert remedy in caught.value.remedy


def test_a_model_takes_no_sample() -> None:
    with pytest.raises(LaunchError, match="recipe.model: ") as refusal:
        parse_source("hf://a/b@main#5", "recipe.model")
    assert refusal.value.id == "source-count-misplaced"


def test_a_revision_with_a_slash_is_taken_whole() -> None:
    found = parse_source("hf://a/b@refs/pr/7/data/x.jsonl", KEY)
    assert (found.revision, found.path) == ("refs/pr/7", "data/x.jsonl")


def place(text: str, kind: sources.RepoType = "dataset", clone: Path | None = None) -> str:
    return str(sources.local(parse_source(text, KEY), kind, WORK, clone))


def test_downloads_keep_the_name_that_ms_swift_knows_them_by() -> None:
    slug = "hf--Qwen--Qwen3-0.6B@main"
    assert place("hf://Qwen/Qwen3-0.6B@main", "model") == f"/ws/models/{slug}/Qwen3-0.6B"
    assert place("hf://Qwen/Qwen3-0.6B@main") == f"/ws/datasets/{slug}/Qwen3-0.6B"
    assert place("hf://o/n@main/a/b.parquet").endswith("/b.parquet")
    assert place("file:///other/pairs.jsonl#9").endswith("/pairs.jsonl")


def test_files_of_the_workspace_and_of_the_clone_are_used_where_they_are() -> None:
    assert place("file:///ws/runs/old/export", "model") == "/ws/runs/old/export"
    assert place("file:///wsx/export", "model") != "/wsx/export"
    assert place("data/x.parquet", clone=Path("/ws/code/c")) == "/ws/code/c/data/x.parquet"


def test_a_relative_path_without_a_clone_is_refused_with_both_ways_out() -> None:
    with pytest.raises(LaunchError) as caught:
        place("Qwen/Qwen3-0.6B", "model")
    assert caught.value.code == Exit.CONFIG
    assert "code.url" in caught.value.remedy
    assert "hf://" in caught.value.remedy
