"""Numbers of the values reach the launcher in the form that its parser reads."""

import json
from pathlib import Path

import pytest

from tests.chart.helm import CHART, KUBERNETES, call, env, jobs, merged, objects, recipe, render

TEMPLATE = ("template", "run", str(CHART), "--kube-version", KUBERNETES)
BASE_ARGS = {"num_train_epochs": "1"}
SPELLINGS = [
    ("5e-6", "5e-06"),
    ("5.0e-7", "5e-07"),
    ('"5e-6"', "5e-6"),
    ("1000000", "1000000"),
    ("1e6", "1000000"),
    ("1.0", "1"),
    ("0.05", "0.05"),
    ("-1", "-1"),
    ("123456789012", "123456789012"),
    ("true", "true"),
    ("yes", "true"),
    ("on", "true"),
    ('"yes"', "yes"),
    ('"0x1f"', "0x1f"),
    ('"1_000"', "1_000"),
    ("1e15", "1000000000000000"),
    ("9007199254740992", "9007199254740992"),
    ('"a: b # c \\"quoted\\" é"', 'a: b # c "quoted" é'),
]


@pytest.fixture(scope="module", params=["helm", "helm3"])
def documents(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, object]]:
    """Render all spellings at once, as recipe arguments and as environment."""
    flags = "".join(f"    flag_{n}: {text}\n" for n, (text, _) in enumerate(SPELLINGS))
    file = tmp_path_factory.mktemp("values") / "values.yaml"
    head = "recipe:\n  model: hf://o/m@r\n  dataset: [hf://o/d@r]\n  checkFlags: false\n"
    rest = f"  args:\n{flags}workspace: {{existingClaim: shared}}\nextraEnv:\n{flags}"
    file.write_text(head + rest, encoding="utf-8")
    done = call(*TEMPLATE, "-f", str(file), helm=request.param)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


@pytest.mark.parametrize("number", range(len(SPELLINGS)), ids=[text for text, _ in SPELLINGS])
def test_each_spelling_reaches_the_launcher(
    documents: list[dict[str, object]], number: int
) -> None:
    assert recipe(documents)["args"][f"flag_{number}"] == SPELLINGS[number][1]
    assert env(documents)[f"flag_{number}"] == SPELLINGS[number][1]


def test_lists_are_words() -> None:
    parsed = recipe(render({"recipe": {"args": {"report_to": ["a", 1, True], "system": [""]}}}))
    wanted = {"report_to": ["a", "1", "true"], "system": [""]}
    assert parsed["args"] == {**BASE_ARGS, **wanted}


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_a_map_reaches_the_trainer_as_typed_json(helm: str) -> None:
    from launchers.config.recipe import parse
    from launchers.flags.command_line import flatten

    given = {"min_lr": 5e-7, "n": 1000000, "b": True, "é": {'"<\\': [1e-05, None]}}
    layer = {"recipe": {"args": {"megatron_extra_kwargs": given}}}
    words = flatten(parse(recipe(render(layer, helm=helm))).args)
    word = words[words.index("--megatron_extra_kwargs") + 1]
    assert json.loads(word) == given


def test_an_empty_variable_stays_empty() -> None:
    assert env(render({"extraEnv": {"A": ""}}))["A"] == ""


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_a_null_drops_a_variable_and_an_annotation(helm: str) -> None:
    documents = render(
        {"network": {"env": {"NCCL_NET": None, "A": None}}, "podAnnotations": {"a/b": None}},
        {"extraEnv": {"NCCL_IB_DISABLE": None, "USER": None, "C": None}},
        helm=helm,
    )
    assert not {"NCCL_NET", "A", "NCCL_IB_DISABLE", "USER", "C"} & set(env(documents))
    assert "a/b" not in jobs(documents)["node"]["template"]["metadata"]["annotations"]
    assert "<nil>" not in str(jobs(documents))


@pytest.mark.parametrize("helm", ["helm", "helm3"])
@pytest.mark.parametrize("kept", [{}, {"b": "c"}])
def test_a_null_drops_a_label_and_a_node_label(helm: str, kept: dict[str, str]) -> None:
    given = {**kept, "team": None}
    documents = render({"podLabels": given, "nodeSelector": given}, helm=helm)
    found, plain = (jobs(each)["node"]["template"] for each in (documents, render()))
    assert found["metadata"]["labels"] == {**plain["metadata"]["labels"], **kept}
    assert found["spec"].get("nodeSelector", {}) == kept


def test_a_null_of_a_later_file_drops_a_flag(tmp_path: Path) -> None:
    words: list[str] = []
    for name, lr in (("a.yaml", 1), ("b.yaml", None)):
        file = tmp_path / name
        file.write_text(json.dumps(merged({"recipe": {"args": {"lr": lr}}})), encoding="utf-8")
        words += ["-f", str(file)]
    for helm in ("helm", "helm3"):
        assert recipe(objects(call(*TEMPLATE, *words, helm=helm).stdout))["args"] == BASE_ARGS


def test_a_value_set_on_the_command_line_is_the_same_text() -> None:
    source = "recipe.model=hf://o/m@r,recipe.dataset={hf://o/d@r},recipe.args.lr=5e-6"
    more = "workspace.existingClaim=x,recipe.args.save_steps=1000000"
    sets = ("--set", source, "--set", more, "--set", "recipe.args.num_train_epochs=1")
    done = call(*TEMPLATE, *sets)
    wanted = {**BASE_ARGS, "lr": "5e-6", "save_steps": "1000000"}
    assert recipe(objects(done.stdout))["args"] == wanted


def test_the_recipe_is_parsed_by_the_launcher_unchanged() -> None:
    from launchers.config.recipe import parse

    parsed = parse(recipe(render({"recipe": {"args": {"lr": 5e-6}}})))
    assert parsed.args == {**BASE_ARGS, "lr": "5e-06"}
    assert parsed.model == "hf://org/model@main"
