"""Keys of the values that are no parts of a pod but end in one: names, labels, resources, sizes."""

from collections.abc import Callable
from typing import Any

from tests.api.parts import LABEL_VALUES, LABELS, NAMES, TEXTS, Parts, Pool
from tests.chart.helm import Document
from tests.chart.test_values import nested

DEVICES: Pool = (
    ("rdma/hca", "nvidia.com/gpu", "example.com/nic"),
    (
        "gpu",
        "kubernetes.io/gpu",
        "a.kubernetes.io/x",
        "requests.example.com/x",
        "a..b/nic",
        "hugepages-2Mi",
        "Example.com/nic",
        "rdma/",
        "a" * 60 + "/" + "b" * 64,
        "a" * 64 + ".com/x",
        ".".join(["a" * 60] * 5) + "/x",
    ),
)
QUEUES: Pool = (("team-a", "a"), (*TEXTS, "a.b", "a" * 63))
KEYS: Pool = (("key", "token.txt"), TEXTS)
COUNTS: Pool = ((1, 8), (0, "1", 1.5))
IMAGES: Pool = (("example.com/a", "busybox"), (*TEXTS, "a//b", "A/b", "a:5000/b"))
SIZES: Pool = (("1Gi", "64Gi", "512Mi"), ("0", "1", "1m", "1K", "-1Gi", "1e3", "0.5", 1, 1.5))
PATHS: Pool = (("/workspace", "/data/a"), TEXTS)


def draw(parts: Parts) -> Document:
    return parts.chance.choice(_DRAWN)(parts)


def _at(path: str, value: Callable[[Parts], Any]) -> Callable[[Parts], Document]:
    """Return the draw of a layer with a value at a path such as ``kueue.queue``."""
    return lambda parts: nested(path, value(parts))


def _one(pool: Pool) -> Callable[[Parts], Any]:
    return lambda parts: parts.pick(pool)


def _list(pool: Pool) -> Callable[[Parts], Any]:
    return lambda parts: parts.some(lambda: parts.pick(pool), 3)


def _map(names: Pool, values: Pool) -> Callable[[Parts], Any]:
    return lambda parts: {parts.pick(names): parts.pick(values) for _ in range(2)}


def _topology(parts: Parts) -> Document:
    mode = parts.chance.choice(("required", "preferred"))
    slices = {"size": parts.pick(((2, 1), (0, 3))), "key": parts.pick(LABELS)}
    topology = {"mode": mode, "key": parts.pick(LABELS)}
    if parts.chance.random() < 0.4:
        topology |= {"slice": slices}
    return {"kueue": {"queue": "team-a", "topology": topology}}


_DRAWN: tuple[Callable[[Parts], Document], ...] = (
    _at("image.pullSecrets", _list(NAMES)),
    _at("image.repository", _one(IMAGES)),
    _at("image.tag", _one((("v1", "1.2.3"), TEXTS))),
    _at("gpuResource", _one(DEVICES)),
    _at("kueue.queue", _one(QUEUES)),
    lambda parts: {"kueue": {"queue": "team-a", "priorityClass": parts.pick(QUEUES)}},
    _topology,
    _at("network.resources", lambda parts: {parts.pick(DEVICES): parts.pick(COUNTS)}),
    _at("network.annotations", _map(LABELS, LABEL_VALUES)),
    _at("network.capabilities", _list((("IPC_LOCK", "SYS_NICE"), ("", "ipc_lock", "CAP_A")))),
    _at("secrets.hf", lambda parts: {"existingSecret": parts.pick(NAMES), "key": parts.pick(KEYS)}),
    _at(
        "code",
        lambda parts: {"url": "https://h/a", "ref": "v1", "existingSecret": parts.pick(NAMES)},
    ),
    _at("sharedMemory.sizeLimit", _one(SIZES)),
    _at("localCheckpoints.emptyDir.sizeLimit", _one(SIZES)),
    _at("localCheckpoints.hostPath.path", _one(PATHS)),
    _at("workspace.mountPath", _one(PATHS)),
    _at("monitoring.port", _one(((9400, 0), (80, 65536, 29500)))),
    _at("jobset.managedBy", _one((("example.com/a",), TEXTS))),
    _at("jobset.activeDeadlineSeconds", _one(((600, 1), (0, 2**31, 2**31 - 1)))),
    _at("budget.gpuMinutes", _one(((1, 600), (0, -1, 1.5)))),
    _at("benchmarks.limit", _one(((1, 600), (0, -1, 1.5)))),
    _at("budget.by", _one((("2026-12-01T08:00:00Z",), TEXTS))),
    _at("ttlSecondsAfterFinished", _one(((0, 600), (2**31 - 1, 2**31)))),
    _at("terminationGracePeriodSeconds", _one(((60, 600), (86400, 86401)))),
    _at("restarts.nodeLostSeconds", _one(((0, 60), (86400, -1)))),
)
