"""Every file of chart/networks: its fields, its result, and what README and NOTES say of it."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from launchers.exits import Exit
from tests.chart.fabrics import FOLDER, PROFILES, SCHEMA, row, selected, table
from tests.chart.helm import Document, env, jobs, kind, notes, pod, render
from tests.chart.levels import LEVELS, options
from tests.chart.test_crd import mistakes, validate_job

NAMES = sorted(PROFILES)
CPU: Document = {"recipe": {"backend": "transformers"}}


def test_the_issues_fabrics_are_there() -> None:
    wanted = "tcp ib-shared ib-sriov roce-hostnetwork aks-ib eks-efa oci-roce-vf gke-gib gke-tcpxo"
    assert {*wanted.split(), "custom"} <= set(PROFILES)


@pytest.mark.parametrize("profile", NAMES)
def test_a_profile_has_known_fields_only(profile: str) -> None:
    found = Draft7Validator(SCHEMA).iter_errors(PROFILES[profile])
    assert [f"{error.json_path}: {error.message}" for error in found] == []


@pytest.mark.parametrize("mistake", [{"hostnetwork": True}, {"podSecurity": "root"}, {"covers": 1}])
def test_a_planted_mistake_is_found(mistake: Document) -> None:
    assert list(Draft7Validator(SCHEMA).iter_errors({**PROFILES["tcp"], **mistake}))


def test_tcp_explains_every_field() -> None:
    text = (FOLDER / "tcp.yaml").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", "\n".join(re.findall(r"^#.*$", text, re.MULTILINE))))
    assert set(SCHEMA["properties"]) - words == set()


@pytest.mark.parametrize("profile", NAMES)
def test_what_was_not_run_says_so_with_its_sources(profile: str) -> None:
    comment = (FOLDER / f"{profile}.yaml").read_text(encoding="utf-8").partition("\nsummary:")[0]
    if "not run" in PROFILES[profile]["tried"]:
        assert "rom published manifests, not run" in comment
        assert re.search(r"^# Sources: \S", comment, re.MULTILINE)


@pytest.mark.parametrize("profile", NAMES)
def test_a_queue_must_cover_what_the_fabric_requests(profile: str) -> None:
    of = PROFILES[profile]
    assert of["covers"] == list(of.get("resources", {}))
    found = notes(selected(profile), {"kueue": {"queue": "team"}})
    names = sorted(["cpu", "memory", "nvidia.com/gpu", *of["covers"]])
    assert f"ClusterQueue of team must cover {', '.join(names)}.\n" in found


@pytest.mark.parametrize("profile", NAMES)
def test_the_readme_says_what_the_file_says(profile: str) -> None:
    assert row(profile) in table(), f"chart/networks/README.md needs the line\n{row(profile)}"


def test_the_readme_has_no_other_fabric() -> None:
    assert len(table()) == len(PROFILES)


@pytest.mark.parametrize("profile", NAMES)
def test_the_level_is_that_of_the_table_and_no_higher_than_needed(profile: str) -> None:
    levels = {values["network"]["profile"]: level for level, values in networks()}
    assert levels[profile] == PROFILES[profile]["podSecurity"]
    text = notes(selected(profile))
    found = dict(re.findall(r"^   (.+): (restricted|baseline|privileged)$", text, re.MULTILINE))
    own = found.pop(f"network.profile {profile}", "restricted")
    assert own == max(["restricted", *found.values()], key=LEVELS.index)


def networks() -> list[tuple[str, Document]]:
    """Return the rows of the README's table of levels that select a network."""
    return [(level, values) for level, values in options().values() if "network" in values]


@pytest.mark.parametrize("profile", NAMES)
def test_a_profile_does_not_depend_on_the_number_of_gpus(profile: str) -> None:
    bare = []
    for gpus in (0, 1, 4, 8):
        documents = render(selected(profile), CPU, {"gpusPerNode": gpus})
        for resources in pod(documents)["containers"][0]["resources"].values():
            for name in ("cpu", "memory", "nvidia.com/gpu"):
                resources.pop(name, None)
        spec = pod(documents)
        for name in ("DPO_GPUS_PER_NODE", "DPO_NETWORK_GBS"):
            kept = [e for e in spec["containers"][0]["env"] if e["name"] != name]
            spec["containers"][0]["env"] = kept
        bare.append(spec)
    assert bare[1:] == bare[:1] * 3


@pytest.mark.parametrize("profile", NAMES)
def test_a_profile_is_valid_to_the_api(profile: str) -> None:
    documents = render(selected(profile))
    assert mistakes(kind(documents, "JobSet")) == []
    for job in jobs(documents).values():
        validate_job(profile, job)
    spec = pod(documents)
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
        assert mounted <= {volume["name"] for volume in spec["volumes"]}


def test_the_host_is_in_the_network_of_no_other_profile() -> None:
    hosts = [name for name in NAMES if pod(render(selected(name))).get("hostNetwork")]
    assert hosts == ["roce-hostnetwork"]
    documents = render(selected("roce-hostnetwork"))
    assert pod(documents)["dnsPolicy"] == "ClusterFirstWithHostNet"
    # The name of rank 0 is the Service's, which holds for a pod with its host's address as well.
    assert env(documents)["DPO_MASTER_ADDR"] == "run-node-0-0.run"
    assert env(documents)["GLOO_SOCKET_IFNAME"] == "eth0"


def test_the_daemon_is_a_sidecar_that_ends_with_the_launcher() -> None:
    sidecars = {c["name"]: c for c in pod(render(selected("gke-tcpxo")))["initContainers"]}
    found = {name: container.get("restartPolicy") for name, container in sidecars.items()}
    assert found == {"nccl-plugin": None, "tcpxo-daemon": "Always"}
    [script] = sidecars["tcpxo-daemon"]["args"]
    after = script.partition("alsologtostderr &\n")[2].replace("wait $!", "kill $$; wait $!")
    done = subprocess.run(["/bin/bash", "-ec", f"sleep 60 &\n{after}"], timeout=20)
    assert done.returncode == 0


def wrapped(profile: str, folder: Path, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a profile's command with a folder's files and a launcher that prints its arguments."""
    command = pod(render(selected(profile)))["containers"][0]["command"]
    program = folder / "bin" / "python3"
    program.parent.mkdir(exist_ok=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nenv\n', encoding="utf-8")
    program.chmod(0o755)
    script = command[-1].replace(". /usr", f". {folder}/usr")
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        [*command[:-1], script], env={**path, **given}, capture_output=True, text=True, timeout=20
    )


@pytest.mark.parametrize("profile", [n for n in NAMES if "envFile" in PROFILES[n]])
def test_the_fabrics_script_adds_to_the_environment_and_the_pods_own_wins(
    profile: str, tmp_path: Path
) -> None:
    file = tmp_path / PROFILES[profile]["envFile"].removeprefix("/")
    file.parent.mkdir(parents=True)
    file.write_text("export NEW=1 MINE=theirs\nexport LD_LIBRARY_PATH=/theirs\n", encoding="utf-8")
    done = wrapped(profile, tmp_path, {"MINE": "a 'b'\n\"c\" $d", "LD_LIBRARY_PATH": "/image"})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    unpack = pod(render())["containers"][0]["command"][2].splitlines()
    assert lines[: len(unpack) + 3] == ["-c", "", *unpack, "run"]
    assert "NEW=1\n" in done.stdout
    assert "MINE=a 'b'\n\"c\" $d\n" in done.stdout
    path = ":".join([*PROFILES[profile]["libraryPath"], "/image"])
    assert f"LD_LIBRARY_PATH={path}\n" in done.stdout


def test_a_fabric_without_its_script_fails_the_preflight(tmp_path: Path) -> None:
    assert wrapped("gke-gib", tmp_path, {}).returncode == Exit.PREFLIGHT


def test_libraries_come_first_where_the_image_has_no_path(tmp_path: Path) -> None:
    done = wrapped("eks-efa", tmp_path, {})
    assert f"LD_LIBRARY_PATH={':'.join(PROFILES['eks-efa']['libraryPath'])}\n" in done.stdout


def test_every_profile_is_admitted_by_the_settings_of_the_launcher() -> None:
    for profile in NAMES:
        found = env(render(selected(profile)))
        assert found.get("DPO_NETWORK_TRANSPORT", "") == PROFILES[profile]["transport"]
        expect = PROFILES[profile].get("expect", {"busbwGBs": 0})["busbwGBs"]
        assert float(found.get("DPO_NETWORK_GBS", 0)) == pytest.approx(expect, abs=0.06)


def test_yaml_of_the_annotations_is_what_their_readers_parse() -> None:
    gib, tcpxo = (PROFILES[name]["annotations"] for name in ("gke-gib", "gke-tcpxo"))
    for given, prefix in ((gib, "rdma-"), (tcpxo, "vpc")):
        interfaces = json.loads(given["networking.gke.io/interfaces"])
        names = [interface["network"] for interface in interfaces]
        assert (names[0], given["networking.gke.io/default-interface"]) == ("default", "eth0")
        assert len({i["interfaceName"] for i in interfaces}) == 9
        assert all(name.startswith(prefix) for name in names[1:])
    devices = yaml.safe_load(tcpxo["devices.gke.io/container.tcpxo-daemon"])
    assert len([d for d in devices if re.fullmatch(r"/dev/nvidia\d", d["path"])]) == 8


@pytest.mark.parametrize("seconds, is_warned", [(0, True), (60, False), (None, False)])
def test_notes_warn_of_a_run_that_is_deleted_when_it_ends(
    seconds: int | None, is_warned: bool
) -> None:
    text = notes({"ttlSecondsAfterFinished": seconds})
    assert ("Warning: ttlSecondsAfterFinished 0 deletes the JobSet" in text) is is_warned
    assert ("or a number of seconds, such as 86400." in text) is is_warned


@pytest.mark.parametrize(
    "name, gpus, own, is_warned",
    [
        ("nvidia.com/gpu", 8, 1, True),
        ("nvidia.com/mig-3g.40gb", 8, 1, True),
        ("nvidia.com/gpu", 4, 1, False),
        ("nvidia.com/gpu", 8, 0, False),
    ],
)
def test_notes_warn_of_a_sidecar_whose_gpus_few_nodes_have(
    name: str, gpus: int, own: int, is_warned: bool
) -> None:
    limits = {"limits": {name: own}} if own else {}
    judge = {"name": "judge", "image": "a:1", "restartPolicy": "Always", "resources": limits}
    given = {"gpuResource": name, "gpusPerNode": gpus, "extraInitContainers": [judge]}
    warning = f"Warning: sidecar judge asks for {name} 1, which adds to gpusPerNode 8: without\n"
    assert (f"{warning}a node that has 9, the pods" in notes(given)) is is_warned


def test_notes_say_of_a_fabric_how_it_was_tested() -> None:
    for profile, words in (("aks-ib", "not run, only rendered"), ("tcp", "tested: run on CPU")):
        assert f"profile {profile} ({words}" in notes(selected(profile))
