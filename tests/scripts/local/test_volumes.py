"""A pod's volumes are folders below its own folder, or the same folder of this machine."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from scripts.local.environment import localise
from scripts.local.pods import Pod, expand
from scripts.local.volumes import place, working_dir
from scripts.manifest import parse
from scripts.problem import Problem
from tests.scripts.local.rendered import job, manifest

MAPS = {"run-launchers": {"__main__.py": b"print(1)"}}


def pod(volume: dict[str, Any] | None = None, mount: dict[str, Any] | None = None) -> Pod:
    volumes = [{"name": "extra", **volume}] if volume else []
    mounts = [{"name": "extra", **mount}] if mount else []
    jobs = [job("node", 1, volumes=volumes, mounts=mounts)]
    return expand(parse(manifest(jobs=jobs)))[0]


def test_files_of_a_pod_have_places_below_its_folder_and_its_working_folder(tmp_path: Path) -> None:
    mounts = place(pod(), tmp_path, tmp_path / "s", MAPS)
    assert (tmp_path / "opt/launchers/__main__.py").read_text() == "print(1)"
    assert working_dir(pod(), [tmp_path / "s", tmp_path], mounts) == tmp_path / "opt"
    assert mounts["/tmp"] == str(tmp_path / "s/tmp") and (tmp_path / "s/tmp").is_dir()
    assert mounts["/dev/termination-log"] == str(tmp_path / "dev/termination-log")


def test_the_working_folder_is_above_an_empty_dir_as_well(tmp_path: Path) -> None:
    unpacked = pod({"emptyDir": {}}, {"mountPath": "/opt/more"})
    mounts = place(unpacked, tmp_path, tmp_path / "s", MAPS)
    assert working_dir(unpacked, [tmp_path / "s", tmp_path], mounts) == tmp_path / "s" / "opt"
    bare = {path: here for path, here in mounts.items() if not path.startswith("/opt")}
    assert working_dir(unpacked, [tmp_path / "s", tmp_path], bare) == Path("/opt")


def test_shared_memory_stays_the_hosts(tmp_path: Path) -> None:
    with_shm = pod({"emptyDir": {"medium": "Memory"}}, {"mountPath": "/dev/shm"})
    assert "/dev/shm" not in place(with_shm, tmp_path, tmp_path, MAPS)


def test_a_host_path_is_used_as_it_is_even_below_the_pods_tmp() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        folder = Path(own) / "pod"
        here = pod({"hostPath": {"path": own}}, {"mountPath": own})
        mounts = place(here, folder, folder / "s", MAPS)
        assert localise(f"{own}/runs", [], mounts) == f"{own}/runs"
        assert localise("/tmp/x", [], mounts) == f"{folder}/s/tmp/x"
        assert working_dir(pod(), [folder / "s", folder], mounts) == folder / "opt"


@pytest.mark.parametrize(
    ("volume", "mount", "message"),
    [
        ({"hostPath": {"path": "/a"}}, {"mountPath": "/b"}, "write mountPath: /a"),
        ({"hostPath": {"path": "/a"}}, {"mountPath": "/a", "subPath": "x"}, "no subPath"),
        ({"hostPath": {"path": "/absent"}}, {"mountPath": "/absent"}, "make the folder first"),
        ({"nfs": {"server": "s", "path": "/"}}, {"mountPath": "/w"}, r"extra \(nfs\) at /w"),
        ({"secret": {"secretName": "s"}}, {"mountPath": "/s"}, r"extra \(secret\) at /s"),
        ({"configMap": {"name": "other"}}, {"mountPath": "/o"}, "ConfigMap other"),
    ],
)
def test_a_volume_that_is_not_here_is_refused_with_the_way_out(
    tmp_path: Path, volume: dict[str, Any], mount: dict[str, Any], message: str
) -> None:
    with pytest.raises(Problem, match=message):
        place(pod(volume, mount), tmp_path, tmp_path, MAPS)
