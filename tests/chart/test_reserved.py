"""Names of the chart that a user cannot set, one by one."""

import re

import pytest

from launchers.config import env_from
from launchers.config.settings import _SETTINGS, Code
from launchers.exits import LaunchError
from launchers.stages.clone import _check
from tests.chart import judged
from tests.chart.helm import Document, Refused, merged, render, template

NAMES = (
    "JOB_COMPLETION_INDEX GPU_MODEL NETWORK_TRANSPORT NETWORK_FLOOR_GBS CUDA_VISIBLE_DEVICES "
    "PET_NNODES TORCHELASTIC_RUN_ID DPO_ANY SKIP_ANY HF_TOKEN HF_HUB_TOKEN HUGGING_FACE_HUB_TOKEN "
    "HUGGINGFACE_HUB_TOKEN MODELSCOPE_API_TOKEN MODELSCOPE_SDK_TOKEN"
)
PREFIXED = [f"{prefix}X" for prefix in env_from.PREFIXES]
ENVIRONMENT = [*_SETTINGS, *env_from.RANKS, *PREFIXED, *NAMES.split()]
SYSTEM = (
    "/ /bin /dev /dev/x /dev/shm /etc /etc/x /lib64 /proc/1 /sys /usr/local /opt /opt/launchers "
    "/opt/launchers/x /tmp /var /root /home"
)
CODE: Document = {
    "code": {"url": "https://git.example.com/a", "ref": "v1", "existingSecret": "git"}
}
URLS = (
    "https://git.example.com/a.git http://h/a ssh://git@h/a git@h:a/b.git git://h/a file:///a/b "
    "https://user:S3CRET@h/a https://S3CRET@h/a ssh://git:S3CRET@h/a ftp://h/S3CRET git@h: "
    "-uhttp://S3CRET --upload-pack=S3CRET h/S3CRET https://h a:S3CRET@h:b /local/S3CRET"
)
BLANKS = ("https://h/a S3CRET", "ext::sh -c S3CRET", "https://S3 CRET@h/a")
REFS = "main v1.0 refs/heads/a 0a1b2c3 feature/x --upload-pack=x -x a..b a~1 a^ a:b a? a* a[0] a\\b"


def refusal(values: Document) -> str:
    """Return what Helm prints if it refuses values, and what the judge says."""
    said = "\n".join(f"- {line}" for line in judged.lines(merged(values)))
    try:
        template(merged(values))
    except Refused as refused:
        return f"{refused}\n{said}"
    return said


@pytest.mark.parametrize("key", ["extraEnv", "network.env"])
def test_no_variable_of_the_launcher_is_the_users(key: str) -> None:
    values: Document = dict.fromkeys(ENVIRONMENT, "x")
    message = refusal({"extraEnv": values} if key == "extraEnv" else {"network": {"env": values}})
    for name in ENVIRONMENT:
        assert f"- {key}.{name}: reserved" in message


def test_variables_of_the_launcher_that_are_the_users() -> None:
    assert render({"extraEnv": {"DPO_ACCEPT_PATCHES": "all", "DPO_EXPORT_TEST": "compare"}})
    message = refusal({"extraEnv": {"DPO_ACCEPT_PATCH": "chunked-adam"}})
    assert "- extraEnv.DPO_ACCEPT_PATCH: reserved" in message


def test_a_variable_from_a_secret_is_no_secret_in_the_open() -> None:
    reference = {"valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
    assert render({"extraEnv": {"WANDB_API_KEY": reference, "MY_TOKEN": None}})
    for name in ("WANDB_API_KEY", "my_token", "PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        message = refusal({"extraEnv": {name: "S3CRET"}})
        assert re.search(rf"^- extraEnv\.{name}: .* \[env-secret\]$", message, re.MULTILINE)
        assert "S3CRET" not in message


def test_no_volume_of_the_chart_is_the_users() -> None:
    names = ["launchers", "package", "workspace", "shm", "tmp", "release", "code-secret"]
    message = refusal({**CODE, "extraVolumes": [{"name": n, "emptyDir": {}} for n in names]})
    for name in names:
        assert f"extraVolumes: the name {name} is in use" in message
    assert render({"extraVolumes": [{"name": "code-secret", "emptyDir": {}}]})


def test_no_path_of_the_chart_is_the_users() -> None:
    paths = ["/opt/launchers", "/opt/launchers/x", "/workspace", "/dev/shm", "/tmp"]
    paths += ["/etc/megatron-dpo/launchers", "/etc/megatron-dpo/launchers/x"]
    paths += ["/etc/megatron-dpo/code-secret", "/etc/megatron-dpo/release"]
    mounts = [{"name": "shm", "mountPath": path} for path in paths]
    message = refusal({**CODE, "extraVolumeMounts": mounts})
    for path in paths:
        assert f"extraVolumeMounts: {path} is in use" in message
    shared = {"name": "shm", "mountPath": "/workspace/"}
    assert "/workspace is in use" in refusal({"extraVolumeMounts": [shared]})


@pytest.mark.parametrize("path", SYSTEM.split())
def test_the_workspace_hides_no_folder_of_the_system(path: str) -> None:
    message = refusal({"workspace": {"mountPath": path}})
    assert f'workspace.mountPath: "{path}" ' in message and "[mount-path-taken]" in message


@pytest.mark.parametrize("path", ["/workspace", "/tmp/x", "/home/me/x", "/var/lib/x", "/etcetera"])
def test_the_workspace_may_be_elsewhere(path: str) -> None:
    assert render({"workspace": {"mountPath": path}})


def launcher_takes(url: str, ref: str) -> bool:
    try:
        _check(Code(url=url, ref=ref, secret=None))
    except LaunchError:
        return False
    return True


@pytest.mark.parametrize("url", [*URLS.split(), *BLANKS])
def test_a_url_is_taken_by_both_or_by_none_and_never_shown(url: str) -> None:
    message = refusal({"code": {"url": url, "ref": "main"}})
    assert ("- code.url: " in message) is not launcher_takes(url, "main")
    assert not re.search("S3CRET|S3 CRET", message)


@pytest.mark.parametrize("ref", [*REFS.split(), "a b"])
def test_a_ref_is_taken_by_both_or_by_none(ref: str) -> None:
    message = refusal({"code": {"url": "https://git.example.com/a", "ref": ref}})
    assert ("- code.ref: " in message) is not launcher_takes("https://git.example.com/a", ref)
