"""Chart and launcher take the same sources."""

import re

import pytest

from launchers.config.sources import parse_source
from launchers.exits import LaunchError
from tests.chart import judged
from tests.chart.helm import Document, Refused, env, merged, render, template

WORDS = (
    "hf://o/n@main ms://o/n@v1.0 hf://o/n@main/a/b.jsonl hf://o/n@refs/pr/3 hf://o/n hf://o@main "
    "hf://o/n@refs/convert/parquet/a hf://o/n@ hf://o/n@a@b hf://o/n@main/ hf://o/n@main//a "
    "hf://o/n@main/../a hf:///n@main hf://-o/n@main s3://o/n@main file:///a/b file://a/b file:/// "
    "file:///a/../b file:///a#5 hf://o/n@main#500 hf://o/n@main#0 hf://o/n@main#x data/a.parquet "
    "data/../a /data/a ./a a//b data/ #5 data/a#7 hf://o/n@main#-5 hf://o/n@main#10k gs://a/b"
)
TEXTS = [*WORDS.split(), "data/a b.jsonl", "", " a", "hf://o/n@main ", "hf://o/n@main\nb"]


def launcher_takes(text: str, key: str) -> bool:
    try:
        return parse_source(text, key).hub != "code" or key != "recipe.model"
    except LaunchError:
        return False


CODE: Document = {"code": {"url": "https://git.example.com/a", "ref": "v1"}}


def refusals(layer: Document) -> str:
    """Return the judge's lines of what Helm refuses by the schema."""
    try:
        template(merged(CODE, layer))
    except Refused:
        return "\n".join(judged.lines(merged(CODE, layer)))
    return ""


def test_a_dataset_is_taken_by_both_or_by_none() -> None:
    lines = refusals({"recipe": {"dataset": TEXTS}})
    reported = re.findall(r"^recipe\.dataset\[(\d+)\]: .* \[dataset-source\]$", lines, re.M)
    refused = [n for n, text in enumerate(TEXTS) if not launcher_takes(text, "recipe.dataset[0]")]
    assert [TEXTS[int(n)] for n in reported] == [TEXTS[n] for n in refused]
    assert 10 < len(refused) < len(TEXTS) - 8


@pytest.mark.parametrize("text", TEXTS)
def test_a_model_is_taken_by_both_or_by_none(text: str) -> None:
    reported = refusals({"recipe": {"model": text}})
    assert ("[model-source]" in reported) is not launcher_takes(text, "recipe.model")


def test_folders_to_import_from_reach_every_pod_that_may_train() -> None:
    code = {"url": "https://git.example.com/a.git", "ref": "v1", "pythonPath": ["src", "."]}
    assert env(render({"code": code}))["DPO_CODE_PYTHONPATH"] == "src:."
    assert "DPO_CODE_PYTHONPATH" not in env(render({"code": {**code, "pythonPath": []}}))


@pytest.mark.parametrize(
    "image",
    [{"tag": "latest", "digest": f"sha256:{'0' * 64}"}, {"tag": "latest", "allowMutableTag": True}],
)
def test_an_image_that_is_fixed_or_accepted_renders(image: dict[str, object]) -> None:
    assert str(image["tag"]) in str(render({"image": image}))


def test_what_is_below_a_read_only_mount_is_a_library() -> None:
    places = (("/models", True), ("/data", False), ("/models-old", True))
    mounts = [{"name": "a", "mountPath": path, "readOnly": fixed} for path, fixed in places]
    values: Document = {
        "extraVolumes": [{"name": "a", "nfs": {"server": "s", "path": "/a"}}],
        "extraVolumeMounts": mounts,
        "recipe": {"model": "file:///models/m", "dataset": ["file:///data/a.jsonl#5"]},
    }
    given = env(render(values))
    assert given["DPO_LIBRARIES"] == "/models"
    mounts[0]["readOnly"] = False
    assert "DPO_LIBRARIES" not in env(render(values))
