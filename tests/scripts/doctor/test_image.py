"""The tag of the training image."""

import pytest

from scripts.doctor.references import check_image
from tests.scripts.doctor.healthy import release


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ("ubuntu22.04-cuda13.0.3-py312-torch2.11.0-swift4.4.1", ["image-tag"]),
        ("ubuntu22.04-cuda13.0.3-py312-torch2.12.0-swift4.4.1", ["image-torch"]),
        ("ubuntu22.04-torch3.0-swift4.4.1", ["image-torch"]),
        ("ubuntu22.04-torch2.12.0-swift4.4.1@sha256:00ff", ["image-torch"]),
        ("ubuntu22.04-torch2.11.0-swift4.4.1@sha256:00ff", ["image-ok"]),
        ("ubuntu22.04-cuda13.0.3-py312-torch2.13.0-swift4.5.3", ["image-tag"]),
        ("ubuntu22.04-torch2.13.0", ["image-torch"]),
        ("mine", ["image-tag"]),
    ],
)
def test_a_torch_with_which_megatron_cannot_save_is_seen_in_the_tag(
    tag: str, found: list[str]
) -> None:
    container = {**release().gang.container, "image": f"registry.example.com/swift:{tag}"}
    other = release().with_pods({"node": {**release().gang.pod, "containers": [container]}})
    assert [each.id for each in check_image(other)] == found
