"""Refusals that no values file shows; those that one shows are in tests/refusals."""

import re
import shutil
from pathlib import Path

import pytest

from launchers.flags.renames import RENAMED
from launchers.rules.table import SWIFT
from launchers.yaml_file import read_yaml
from scripts import archive
from tests.chart import judged
from tests.chart.helm import CHART, LIBRARY, STAGED, Document, Refused, merged, rejected, template
from tests.chart.test_values import SCHEMA, VALUES


def test_all_mistakes_are_reported_at_once() -> None:
    values = merged({"network": {"profile": "x"}, "recipe": {"model": ""}})
    lines = re.findall(r"^- (\S+(?: name)?):", rejected(values, name="1a"), re.MULTILINE)
    assert lines == ["release name", "recipe.model", "network.profile"]


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_relations_are_refused_by_the_schema_of_each_helm_with_their_paths(helm: str) -> None:
    layer: Document = {
        "gpusPerNode": 0,
        "kueue": {"topology": {"mode": "required"}},
        "workspace": {"emptyDir": {}},
        "code": {"ref": "v1"},
        "tolerations": [{"operator": "Exists", "value": "a"}],
        "extraEnv": {"OMP_NUM_THREADS": "many"},
        "podSpec": {"hostIPC": True},
    }
    found = set(re.findall(r"at '/([^']+)'", rejected(merged(layer), helm=helm)))
    paths = "gpusPerNode kueue/topology/mode workspace/emptyDir code/url tolerations/0/value"
    assert found >= {*paths.split(), "extraEnv/OMP_NUM_THREADS", "podSpec/hostIPC"}


@pytest.mark.parametrize("jobs, longest", [(False, 47), (True, 44)])
def test_the_longest_release_name_renders_and_a_longer_one_is_refused_with_the_limit(
    jobs: bool, longest: int
) -> None:
    cpu: Document = {"gpusPerNode": 0, "recipe": {"backend": "transformers"}, "nodes": 100}
    values = merged(cpu, STAGED if jobs else {})
    assert template(values, name="a" * longest)
    message = rf"has {longest + 1} characters.* at most {longest} \[release-name-length\]"
    with pytest.raises(Refused, match=message):
        template(values, name="a" * (longest + 1))


@pytest.mark.parametrize("name", ["1run", "my.run"])
def test_a_name_that_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=rf'release name: "{name}" .* \[release-name-form\]'):
        template(merged(), name=name)


@pytest.mark.parametrize("missing", [*archive.PLACES, archive.DIGEST])
@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_a_checkout_that_was_not_built_is_refused_unless_the_image_brings_the_launcher(
    tmp_path: Path, missing: str, helm: str
) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / missing).unlink()
    said = r"chart/charts/launcher-archive: .*`make chart`.*\[chart-launcher\]"
    with pytest.raises(Refused, match=said):
        template(merged(), chart=chart, helm=helm)
    assert template(merged({"launcher": {"from": "image"}}), chart=chart, helm=helm)


def test_the_schema_and_the_default_name_releases_with_a_table() -> None:
    tables = sorted(path.stem.removeprefix("ms-swift-") for path in CHART.rglob("ms-swift-*.json"))
    recipe = SCHEMA["properties"]["recipe"]["properties"]
    assert [each for each in recipe["swiftVersion"]["enum"] if each] == tables
    chart = read_yaml(CHART / "Chart.yaml")
    assert VALUES["recipe"]["swiftVersion"] == SWIFT == chart["appVersion"]
    assert VALUES["image"]["tag"].endswith(f"swift{SWIFT}")


@pytest.mark.parametrize(
    "swift, given, refused",
    [
        ("4.6.0", {"args": {"muon_lr": 1e-3, "optimizer": "muon"}}, ""),
        ("4.6.0", {"args": {"muon_rl": 1e-3}}, "flag-unknown"),
        ("4.4.1", {"args": {"muon_lr": 1e-3}}, "flag-unknown"),
        ("4.6.0", {"args": {"tuner_type": "lora", "lora_alpha": 0.5}}, ""),
        ("4.4.1", {"args": {"tuner_type": "lora", "lora_alpha": 0.5}}, "lora_alpha"),
        ("4.6.0", {"args": {"tuner_type": "lora", "ref_adapters": ["/w/a"]}}, ""),
        ("4.4.1", {"args": {"tuner_type": "lora", "ref_adapters": ["/w/a"]}}, "reference-adapter"),
        ("4.6.0", {"args": {"use_megatron_fsdp": True}}, "megatron-fsdp"),
    ],
)
def test_flags_are_those_of_the_ms_swift_that_is_named(
    swift: str, given: Document, refused: str
) -> None:
    image: Document = {"image": {"tag": f"torch2.11.0-swift{swift}"}}
    values = merged(image, {"recipe": {"swiftVersion": swift, **given}})
    if refused:
        with pytest.raises(Refused, match=refused):
            template(values)
    else:
        assert f'swiftVersion: "{swift}"' in str(template(values))


@pytest.mark.parametrize("backend", RENAMED)
def test_each_flag_of_another_name_is_refused_with_its_advice(backend: str) -> None:
    given: Document = {"backend": backend, "args": dict.fromkeys(RENAMED[backend], 1)}
    said = "\n".join(judged.lines(merged({"recipe": given})))
    form = r"^recipe\.args\.(\w+): ms-swift \S+ has no such flag; (.*) \[flag-renamed\]$"
    assert dict(re.findall(form, said, re.M)) == RENAMED[backend]


def test_unchecked_flags_pass_but_not_the_launchers_own() -> None:
    unchecked: Document = {"recipe": {"checkFlags": False, "args": {"save_interval": 10}}}
    assert template(merged(unchecked))
    with pytest.raises(Refused, match=r"recipe.args.model: .* \[flag-owned\]"):
        template(merged(unchecked, {"recipe": {"args": {"model": "x"}}}))


LONG = {"a": "x" * 130_000}
HUGE = {"a": "x" * 250_000}
WORD = "x" * 2**17
OBJECT = r"extraObjects\[0\]"
INIT = r"extraInitContainers\[0\]"
COPIED: Document = {
    "jobset": {"managedBy": "kueue.x-k8s.io/multikueue"},
    "launcher": {"from": "image"},
    "kueue": {"queue": "a"},
    "recipe": {"dataset": [f"file:///{number:0999}" for number in range(251)]},
}
"""A JobSet that another cluster runs: the recipe travels in an annotation."""
FABRIC: Document = {"network": {"annotations": {"example.com/b": LONG["a"]}}}
ACCOUNT: Document = {"serviceAccount": {"create": True, "annotations": HUGE}}
BINARY = {"b": "A" * (2**20 // 3 * 4 + 8)}
VARIABLES: Document = {"extraEnv": {f"A{number}": LONG["a"] for number in range(4)}}


def extra(kind: str = "ConfigMap", annotations: Document | None = None, **more: object) -> Document:
    metadata = {"name": "a", "annotations": annotations or {}}
    return {"extraObjects": [{"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}]}


def init(**more: object) -> Document:
    return {"extraInitContainers": [{"name": "a", "image": "b:1", **more}]}


@pytest.mark.parametrize(
    "id, path, layer",
    [
        ("size-annotations", "podAnnotations", {"podAnnotations": HUGE}),
        ("size-annotations", "podAnnotations", {"podAnnotations": LONG, **FABRIC}),
        ("size-annotations", "podAnnotations", COPIED),
        ("size-annotations", "jobset.annotations", {"jobset": {"annotations": HUGE}}),
        ("size-annotations", "serviceAccount.annotations", ACCOUNT),
        ("size-annotations", rf"{OBJECT}.metadata.annotations", extra(annotations=HUGE)),
        ("size-config-map", "recipe", {"recipe": {"args": {"template": "x" * 1_000_000}}}),
        ("size-config-map", OBJECT, extra(data={"a": "x" * 2**20, "b": "c"})),
        ("size-config-map", OBJECT, extra(data={"a": "x"}, binaryData=BINARY)),
        ("size-object", OBJECT, extra("Thing", spec={"a": "x" * 1_500_000})),
        ("size-object", "values", {**STAGED, **VARIABLES}),
        ("size-word", "extraEnv.A", {"extraEnv": {"A": WORD}}),
        ("size-word", "network.env.A", {"network": {"env": {"A": WORD}}}),
        ("size-word", "recipe.args.template", {"recipe": {"args": {"template": WORD}}}),
        ("size-word", rf"{INIT}.args\[1\]", init(args=["a", WORD])),
        ("size-word", rf"{INIT}.env.A", init(env=[{"name": "A", "value": WORD}])),
    ],
)
def test_what_is_too_large_is_said_by_the_judge(id: str, path: str, layer: Document) -> None:
    said = judged.lines(merged(layer))
    assert any(re.fullmatch(rf"{path}: .* \[{id}\]", line) for line in said), said


def test_what_is_just_small_enough_is_accepted() -> None:
    texts = {"a": "x" * 124_000, "b": "x" * 124_000}
    given: Document = {
        "podAnnotations": texts,
        "jobset": {"annotations": texts},
        "extraEnv": {f"A{number}": "x" * 130_000 for number in range(6)},
    }
    more = extra(annotations=texts, data={"a": "x" * 2**20})
    assert not judged.lines(merged(given, init(args=[LONG["a"]]), more))


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("defaults.yaml", r"chart/defaults.yaml: .*`make chart`.*\[chart-defaults\]"),
        (
            f"{LIBRARY}/flags/ms-swift-{SWIFT}.json",
            rf"library/flags/ms-swift-{SWIFT}.json: .*`make flags`.*\[chart-flags\]",
        ),
    ],
)
def test_a_chart_without_a_file_that_is_made_is_refused(
    tmp_path: Path, missing: str, said: str
) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / missing).unlink()
    with pytest.raises(Refused, match=said):
        template(merged(), chart=chart)
