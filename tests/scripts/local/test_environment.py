"""A pod's environment is what its spec gives, and little else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.local.environment import PASSED, localise, resolve
from scripts.local.pods import Pod, expand
from scripts.manifest import parse
from scripts.problem import Problem
from tests.scripts.local.rendered import field, job, manifest

NAMES = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", min_size=1)


def pod(*env: dict[str, Any]) -> Pod:
    return expand(parse(manifest(jobs=[job("node", 12, env=env)])))[1]


def resolved(*env: dict[str, Any], **caller: str) -> dict[str, str]:
    return resolve(pod(*env), caller, {"settings": {"key": "value"}}, [], {})


def test_the_index_and_no_gpu_are_always_given() -> None:
    assert resolved() == {"JOB_COMPLETION_INDEX": "1", "CUDA_VISIBLE_DEVICES": ""}


@given(st.dictionaries(NAMES, st.text()))
def test_the_callers_shell_does_not_leak_in(caller: dict[str, str]) -> None:
    known = {"JOB_COMPLETION_INDEX", "CUDA_VISIBLE_DEVICES", *PASSED}
    assert set(resolve(pod(), caller, {}, [], {})) <= known


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "run-node-0-1"),
        ("metadata.namespace", "default"),
        ("spec.nodeName", "local-1"),
        ("metadata.labels['jobset.sigs.k8s.io/job-index']", "0"),
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", "1"),
        ("metadata.labels['absent']", ""),
    ],
)
def test_the_downward_api_is_answered(path: str, value: str) -> None:
    assert resolved({"name": "X", "valueFrom": field(path)})["X"] == value


def test_an_unknown_field_names_the_known_ones() -> None:
    with pytest.raises(Problem, match=r"field status.phase; known locally are metadata.name"):
        resolved({"name": "X", "valueFrom": field("status.phase")})


def secret(**more: bool) -> dict[str, Any]:
    reference = {"name": "hub", "key": "token", **more}
    return {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}


def test_a_secret_is_the_callers_variable_of_its_name_asked_for_or_left_out() -> None:
    assert resolved(secret(), HF_TOKEN="abc")["HF_TOKEN"] == "abc"
    with pytest.raises(Problem, match="Secret hub .*set HF_TOKEN in your own environment"):
        resolved(secret())
    assert "HF_TOKEN" not in resolved(secret(optional=True))


def test_a_config_map_is_read_and_another_source_refused_with_the_key_to_write() -> None:
    reference = {"configMapKeyRef": {"name": "settings", "key": "key"}}
    assert resolved({"name": "X", "valueFrom": reference})["X"] == "value"
    with pytest.raises(Problem, match="resourceFieldRef.*extraEnv: {X: ...}"):
        resolved({"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("r-node-0-1.r:29500", "127.0.0.1:29500"),
        ("r-node-0-10.r", "127.0.0.1"),
        ("my-r-node-0-1.r", "my-r-node-0-1.r"),
        ("/tmpfile", "/tmpfile"),
    ],
)
def test_a_pods_name_is_loopback_and_only_whole_names_and_paths_are_moved(
    text: str, value: str
) -> None:
    assert localise(text, ["r-node-0-1.r", "r-node-0-10.r"], {"/tmp": "/pod/tmp"}) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)/x", "a/x"),
        ("$(B)$(A)", "$(B)a"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$A ${A} $(A $", "$A ${A} $(A $"),
    ],
)
def test_a_reference_to_an_earlier_variable_is_expanded_as_by_the_kubelet(
    text: str, value: str
) -> None:
    env = [{"name": "A", "value": "a"}, {"name": "X", "value": text}, {"name": "B", "value": "b"}]
    assert resolved(*env, B="the caller's")["X"] == value


def test_what_a_reference_gives_is_moved_and_a_secret_is_no_text_to_expand() -> None:
    env = [secret(), {"name": "A", "value": "/tmp"}, {"name": "X", "value": "$(A)/$(HF_TOKEN)"}]
    found = resolve(pod(*env), {"HF_TOKEN": "$$(A)"}, {}, [], {"/tmp": "/pod/tmp"})
    assert (found["HF_TOKEN"], found["X"]) == ("$$(A)", "/pod/tmp/$$(A)")
