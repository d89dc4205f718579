"""Helm 4 and Helm 3, the directory and the archive give the same objects."""

import io
import tarfile
from pathlib import Path

import pytest
from yamllint import linter  # type: ignore[import-untyped]
from yamllint.config import YamlLintConfig  # type: ignore[import-untyped]

from scripts import archive
from scripts.doctor.control_plane import OLDEST_KUBERNETES
from tests.chart import helm
from tests.chart.helm import BASE, CHART, KUBERNETES, LIBRARY, ROOT, call, merged, objects, template
from tests.chart.test_crd import FULL
from tests.e2e.cluster.kind import config as kind_config

FILES = sorted((ROOT / "values").glob("*.yaml"))
# toYaml writes lists at their key's column, and image names are long.
LINT = """
extends: default
rules:
  line-length: disable
  indentation: {indent-sequences: whatever}
  comments: {min-spaces-from-content: 1}
  empty-lines: disable
  braces: {max-spaces-inside: 1}
"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_both_helms_render_the_same_objects(file: Path, frozen: Path) -> None:
    four, three = (helm.template_file(file, chart=frozen, helm=each) for each in (None, "helm3"))
    assert four == three


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_the_package_holds_all_and_renders_the_same(
    frozen: Path, tmp_path: Path, helm: str
) -> None:
    done = call("package", str(frozen), "--destination", str(tmp_path), helm=helm)
    assert done.returncode == 0, done.stderr
    [package] = tmp_path.glob("*.tgz")
    with tarfile.open(package) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        assert all(member.isfile() for member in tar.getmembers())
        for place in archive.PLACES:
            [packed] = [m for m in tar.getmembers() if m.name.endswith(place)]
            held = tar.extractfile(packed)
            assert held is not None
            assert held.read() == (frozen / place).read_bytes()
    data = {
        str(p.relative_to(CHART))
        for folder in (LIBRARY / "flags", "networks")
        for p in (CHART / folder).glob("*.yaml")
    }
    own = {"exits.yaml", "values.schema.json", *archive.PLACES, archive.DIGEST, archive.DEFAULTS}
    assert data | own <= names
    assert not {name for name in names if name.endswith(".py")}
    rendered = objects(template(BASE, chart=package, helm=helm))
    assert rendered == objects(template(BASE, chart=frozen))


def test_rendered_yaml_is_clean() -> None:
    config = YamlLintConfig(LINT)
    for values in (BASE, merged(FULL)):
        problems = [str(p) for p in linter.run(io.StringIO(template(values)), config)]
        assert problems == []


def test_every_place_names_the_same_supported_versions_of_kubernetes() -> None:
    lowest, newest = KUBERNETES.removesuffix(".0"), max(kind_config.IMAGES)
    stated = {
        "chart/CLUSTERS.md": f"Kubernetes ≥ {lowest} (tested to {newest})",
        "chart/README.md": f"Kubernetes ≥ {lowest},",
        "tests/api/README.md": f"({lowest}, the lowest",
        "chart/values.schema.json": f"from Kubernetes {lowest};",
    }
    for path, words in stated.items():
        assert words in (ROOT / path).read_text(encoding="utf-8"), path
    assert min(kind_config.IMAGES) == lowest
    assert "{}.{}".format(*OLDEST_KUBERNETES) == lowest
