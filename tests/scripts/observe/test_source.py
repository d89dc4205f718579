"""The files of a run are read in each way by one program; a way that is refused is named."""

import json
from pathlib import Path

import pytest

from scripts.control import cleaning
from scripts.doctor.api import Api
from scripts.observe.cluster import QUEUES, gather
from scripts.observe.command import Target
from scripts.observe.local_copy import copied
from scripts.observe.pods import _failure, execute, folder_in_pod, read_by_pod, reader_pod
from scripts.observe.source import Reading, read_files
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.problem import Problem
from tests.scripts.doctor.healthy import release
from tests.scripts.observe.fixtures import CORE, JOBSETS, at
from tests.scripts.observe.planted import (
    container_of,
    ended,
    event,
    jobset,
    pod,
    suspended,
    template_of,
    view,
)
from tests.scripts.observe.server import Cluster


def test_the_objects_of_a_run_are_gathered_with_rights_in_its_namespace_only(
    api: Api, cluster: Cluster
) -> None:
    cluster.put(f"{CORE}/events", event("Pulling", "x", of="dpo"))
    found = gather(api, "dpo")
    assert found.workload["metadata"]["name"] == "jobset-dpo-1"
    assert found.local_queue["spec"]["clusterQueue"] == "gpus"
    assert [each["metadata"]["name"] for each in found.events] == ["dpo.1"]
    assert found.missing_permissions == []
    outside = {each for each in cluster.asked if "/namespaces/team" not in each}
    assert outside == {
        "GET /apis",
        *(f"GET {path}" for path, _ in QUEUES.values()),
        "GET /apis/kueue.x-k8s.io/v1beta2/clusterqueues/gpus",
        "GET /apis/kueue.x-k8s.io/v1beta2/workloads",
    }


def test_all_workloads_are_listed_before_the_run_s_own_is_known(api: Api, cluster: Cluster) -> None:
    """The longest answer is not waited for last."""
    cluster.put(JOBSETS, suspended())
    gather(api, "dpo")
    asked = [each.removeprefix("GET ") for each in cluster.asked]
    (everywhere,) = (n for n, path in enumerate(asked) if path.endswith("v1beta2/workloads"))
    assert everywhere < asked.index("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/gpus")


def test_files_come_from_a_folder_a_running_pod_or_a_reader_pod_that_is_removed(
    api: Api, cluster: Cluster, workspace: Path
) -> None:
    def read(place: Path | None, source: Source = Source.AUTO) -> Reading:
        found = read_files(api, View(gather(api, "dpo")), place, source)
        assert bool(found.files) is (source is not Source.API)
        assert found.files is None or found.files.progress["stage"] == "clone"
        return found

    assert read(workspace).how == f"mounted at {workspace}"
    read(None, Source.API)
    assert cluster.changes == [] and not any("exec" in each for each in cluster.asked)
    assert read(None).how == "exec in pod dpo-node-0-0-x7k2p"
    cluster.forbidden.add("GET /exec")
    reading = read(None)
    assert reading.how.startswith("reader pod dpo-reader-")
    refused = 'failed: pods "x" is forbidden: cannot get pods/exec'
    assert reading.notes[0].startswith("exec in pod dpo-node-0-0-x7k2p (get and create pods/exec)")
    assert reading.notes[0].endswith(refused)
    assert [method for method, _, _ in cluster.changes] == ["POST", "DELETE"]
    assert not any("reader" in path for path in cluster.objects)


def test_without_any_way_the_api_alone_is_left_and_it_says_why(api: Api, cluster: Cluster) -> None:
    cluster.forbidden |= {"GET /exec", "POST /pods"}
    reading = read_files(api, View(gather(api, "dpo")), None)
    assert reading.files is None
    assert reading.how == "not read; what follows is from the API alone"
    assert len(reading.notes) == 2 and "a reader pod was refused" in reading.notes[1]
    with pytest.raises(Problem, match="pods/exec"):
        read_files(api, View(gather(api, "dpo")), None, Source.EXEC)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise SystemExit('no such folder')", "no such folder"),
        ("import launchers.none", "unpacked"),
    ],
)
def test_a_program_that_fails_in_the_pod_is_named_with_its_last_line(
    program: str, says: str, api: Api
) -> None:
    with pytest.raises(Problem, match=f"exec in pod dpo-node-0-0-x7k2p failed: .*{says}"):
        execute(api, "dpo-node-0-0-x7k2p", ["python3", "-c", program])


def test_an_exec_is_whole_without_a_closing_frame_and_where_frames_cut_characters(
    api: Api, cluster: Cluster
) -> None:
    cluster.closes, cluster.frame_bytes = False, 7
    command = ["python3", "-c", "print('Prüfung ' * 50)"]
    assert execute(api, "dpo-node-0-0-x7k2p", command).decode() == "Prüfung " * 50 + "\n"


def test_an_exec_that_the_runtime_refuses_is_named(api: Api, cluster: Cluster) -> None:
    said = 'exec: "python3": executable file not found in $PATH'
    cluster.exec_status = {"status": "Failure", "reason": "InternalError", "message": said}
    with pytest.raises(Problem, match="executable file not found"):
        execute(api, "dpo-node-0-0-x7k2p", ["true"])
    assert (
        _failure({"status": b'{"status": "Succ'}, 1.0) == "the connection ended within its status"
    )


@pytest.fixture
def launcher(cluster: Cluster, tmp_path: Path) -> Path:
    """The program of another launcher in the run's pods."""
    folder = tmp_path / "opt" / "launchers"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    cluster.working_folder = folder.parent
    return folder / "__main__.py"


@pytest.fixture
def old_launcher(cluster: Cluster, workspace: Path, launcher: Path) -> None:
    """The run's launcher knows no command `state`, and refuses it as every launcher does."""
    launcher.write_text(OLD)
    run = at(jobset(), workspace)
    container_of(run)["command"] = ["python3", "-c", OLD, "run"]
    run["metadata"]["labels"]["helm.sh/chart"] = "megatron-dpo-0.0.9"
    cluster.put(JOBSETS, run)


OLD = """import sys
print('ERROR run ended code=64 cause="unknown command state" id=command-unknown')
sys.exit(64)
"""


@pytest.mark.usefixtures("old_launcher")
@pytest.mark.parametrize("source", [Source.AUTO, Source.POD])
def test_a_run_with_an_older_launcher_is_shown_from_the_api_with_its_version(
    source: Source, api: Api, cluster: Cluster
) -> None:
    run = View(gather(api, "dpo"))
    said = "the launcher of megatron-dpo-0.0.9, which has no such command"
    if source is Source.POD:
        with pytest.raises(Problem, match=said):
            read_files(api, run, None, source)
    else:
        reading = read_files(api, run, None, source)
        assert reading.files is None and said in reading.notes[0] and len(reading.notes) == 1
        assert cluster.changes == [], "a reader pod would have the same launcher"
    with pytest.raises(Problem, match=said), copied(api, run, [r".*\.json"], source=source):
        pass
    with pytest.raises(Problem, match=said):
        cleaning.read(Target(run="dpo", source=source))


def test_a_document_of_a_shape_that_is_not_known_is_a_problem(api: Api, launcher: Path) -> None:
    unknown = ['{"schema": 1}', "[1]", "null", "{", '{"schema": 2}', '{"schema": 1, "run": 3}']
    for printed in unknown:
        launcher.write_text(f"print({printed!r})")
        reading = read_files(api, View(gather(api, "dpo")), None)
        assert reading.files is None and len(reading.notes) == 1, printed


def test_a_way_that_does_not_work_says_why(api: Api, cluster: Cluster) -> None:
    cluster.put(f"{CORE}/pods", *(pod(rank, ended(0)) for rank in (0, 1)))
    with pytest.raises(Problem, match="no pod of dpo runs"):
        read_files(api, View(gather(api, "dpo")), None, Source.EXEC)
    for source in (Source.EXEC, Source.POD):
        unknown = read_files(api, View(gather(api, "other")), None, source)
        assert (unknown.files, unknown.notes) == (None, ()), "`why` says that there is no such run"


def test_a_run_that_never_started_needs_no_reader_pod(
    api: Api, cluster: Cluster, workspace: Path
) -> None:
    cluster.put(JOBSETS, at(suspended(), workspace))
    cluster.drop_pods()
    reading = read_files(api, View(gather(api, "dpo")), None)
    assert (reading.files, reading.notes, cluster.changes) == (None, (), [])


def test_the_reader_pod_is_restricted_and_bounded_and_no_gang_of_kueue() -> None:
    tcp = release(
        "network.profile=tcp",
        "network.resourceName=",
        "nodeSelector.pool=gpu",
        "tolerations[0].key=gpu",
        "tolerations[0].operator=Exists",
    )
    made = reader_pod(view(dict(tcp.jobset.manifest)), ["true"], "x")
    spec = made["spec"]
    (container,) = spec["containers"]
    assert spec["activeDeadlineSeconds"] == 60 and spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["nodeSelector"] == {"pool": "gpu"}
    assert {"key": "gpu", "operator": "Exists"} in spec["tolerations"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["volumeMounts"][0]["readOnly"] is True
    assert [each["name"] for each in spec["volumes"]] == ["workspace", "launchers", "package"]
    sources = spec["volumes"][1]["projected"]["sources"]
    assert {each["configMap"]["name"] for each in sources} == {"dpo-launchers", "dpo-training"}
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert mounts == {"/workspace", "/etc/megatron-dpo/launchers", "/opt/launchers"}
    assert "env" not in container and "envFrom" not in container
    assert not any("gpu" in name for name in container["resources"]["limits"])
    assert not any("kueue" in name or "jobset" in name for name in made["metadata"]["labels"])


def test_the_reader_pod_finds_python_where_the_gang_does() -> None:
    given = release("extraEnv.PATH=/opt/venv/bin:/usr/bin", "extraEnv.NCCL_DEBUG=INFO")
    made = reader_pod(view(dict(given.jobset.manifest)), ["true"], "x")
    (container,) = made["spec"]["containers"]
    assert container["env"] == [{"name": "PATH", "value": "/opt/venv/bin:/usr/bin"}]


def test_the_reader_pod_gets_the_launcher_as_the_gang_does(api: Api) -> None:
    """A fabric's shell, whose libraries a reader does not mount, is left out."""
    image = release("launcher.from=image")
    shell = release("network.profile=gke-gib", "network.resourceName=")
    made = reader_pod(view(jobset()), ["state"], "x")["spec"]["containers"][0]["command"]
    plain = [word.strip() for word in made]
    assert plain[:2] == ["python3", "-c"] and plain[3:] == ["state"]
    for brings, wanted in ((image, ["python3", "-m", "launchers", "state"]), (shell, plain)):
        run = view(dict(brings.jobset.manifest))
        assert brings is image or run.gang_pod["spec"]["containers"][0]["command"][0] == "bash"
        spec = reader_pod(run, ["state"], "x")["spec"]
        assert [word.strip() for word in spec["containers"][0]["command"]] == wanted
        assert (len(spec["volumes"]) == 1) == (brings is image)


def test_the_reader_pod_mounts_the_image_of_the_launcher_where_the_gang_does() -> None:
    run = jobset()
    container_of(run)["command"] = ["python3", "-m", "launchers", "run"]
    volumes = template_of(run)["spec"]["volumes"]
    [package] = (each for each in volumes if each["name"] == "package")
    del package["emptyDir"]
    package["image"] = {"reference": f"registry.example.com/launchers@sha256:{'5e' * 32}"}
    spec = reader_pod(view(run), ["state"], "x")["spec"]
    assert spec["containers"][0]["command"] == ["python3", "-m", "launchers", "state"]
    assert package in spec["volumes"]


def test_what_kubernetes_would_expand_reaches_the_reader_pods_program(
    api: Api, cluster: Cluster, workspace: Path
) -> None:
    """A pattern may hold `$$`, which Kubernetes makes one `$`, or `$(NAME)`."""
    (workspace / "a.log").write_text("a $(HOME)\n$(HOME)$$\nb\n")
    request = {"path": str(workspace / "a.log"), "offset": 0, "tail": None, "limit": 99}
    request |= {"pattern": "[$(HOME)]$$", "seconds": 9, "last": True}
    _, text = read_by_pod(api, View(gather(api, "dpo")), ["state", "--log", json.dumps(request)])
    assert text.splitlines()[1:] == ["a $(HOME)", "$(HOME)$$"]
    [made] = [content for _, _, content in cluster.changes if content.get("kind") == "Pod"]
    assert "[$$(HOME)]$$$$" in made["spec"]["containers"][0]["command"][-1]


def test_a_reader_pod_is_refused_where_it_would_see_nothing() -> None:
    run = jobset()
    template_of(run)["spec"]["volumes"] = [{"name": "workspace", "emptyDir": {}}]
    with pytest.raises(Problem, match="not a volume that another pod can mount"):
        reader_pod(view(run), ["true"], "x")
    with pytest.raises(Problem, match="DPO_WORKSPACE"):
        folder_in_pod(view({"metadata": {"name": "x"}, "spec": {"replicatedJobs": []}}))
