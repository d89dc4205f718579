"""JobSet's in-place restarts (KEP-467) with the agent of JobSet's own module, built into an image.

The kubelets here are of Kubernetes 1.34, which drops `restartPolicyRules`: a pod whose launcher
fails is replaced instead of restarted, and JobSet synchronizes the new pods by their agents.
"""

import tarfile
from pathlib import Path

import pytest

from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.cluster import image_archive
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.faults import Faults
from tests.e2e.measured import measured
from tests.e2e.release import Refused
from tests.e2e.runs import GANG, Run
from tests.e2e.space import Space

PROGRAM = "in-place-restart-agent"
IMAGE = "localhost/megatron-dpo-restart-agent:1"
ATTEMPT = "jobset.sigs.k8s.io/in-place-restart-attempt"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
VALUES: Object = {"restarts": {"agentImage": IMAGE, "inPlace": 0}}


@pytest.fixture(scope="module")
def agent(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load an image of the agent on the nodes."""
    program = cluster.layout.bin / PROGRAM
    if not program.exists():
        pytest.skip(f"no {program}: only the cluster of processes builds it")
    folder = tmp_path_factory.mktemp("agent")
    cluster.load_image(_image(program, folder))


def _image(program: Path, folder: Path) -> Path:
    layer, target = folder / "layer.tar", folder / "agent.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(program, PROGRAM)
    image_archive.write(target, IMAGE, layer, {"Entrypoint": [f"/{PROGRAM}"]})
    return target


@pytest.fixture
def gated(queued: Space, faults: Faults, agent: None) -> Space:
    """A queue, the agent's image, and a JobSet controller with the feature gate."""
    faults.configure_jobset({"featureGates": {"InPlaceRestart": True}})
    return queued


def attempts(run: Run) -> list[str]:
    chosen = f"jobset.sigs.k8s.io/jobset-name={run.name},{GANG}"
    pods = run.space.kubectl.items("pods", selector=chosen)
    alive = [pod for pod in pods if pod["status"]["phase"] != "Failed"]
    return [pod["metadata"]["annotations"].get(ATTEMPT, "") for pod in alive]


def test_jobset_refuses_the_agent_without_its_feature_gate(queued: Space) -> None:
    release, _ = standin.release(queued, "dpo", VALUES)
    # JobSet 0.10 knows neither the strategy nor the rules.
    with pytest.raises(Refused, match="InPlaceRestart|restartPolicyRules"):
        release.install()


def test_a_failed_rank_starts_the_next_attempt_of_all_agents(gated: Space) -> None:
    _, run, first = standin.train(gated, VALUES)
    assert attempts(run) == ["0", "0"]
    assert run.jobset["status"]["currentInPlaceRestartAttempt"] == 0
    script = f"test -e {TOKEN} || echo no token"
    words = ("exec", first[0].name, "--container=launcher", "--", "sh", "-c", script)
    assert gated.kubectl.run(*words).strip() == "no token"
    standin.order(run, "kill 9", "1-1")
    with measured("with JobSet's agent, a rank killed: to all ranks of the next attempt"):
        after = run.training(2, but=[pod.uid for pod in first])
    assert not {pod.uid for pod in first} & {pod.uid for pod in after}
    assert set(attempts(run)) == {"1"}
    assert run.jobset["status"]["currentInPlaceRestartAttempt"] == 1
    # JobSet has made no Job anew.
    assert run.restarts == (0, 0)
    standin.finish(run)
    assert run.progress["attempt"] == 2


def test_a_user_error_still_fails_the_run_at_once(gated: Space) -> None:
    _, run, _ = standin.train(gated, VALUES)
    standin.order(run, "fail ValueError: no such template", "1-1")
    run.ended("Failed")
    assert run.restarts == (0, 0)
