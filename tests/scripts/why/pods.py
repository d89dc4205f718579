"""States of pods that are not created, scheduled or started.

Messages are those of the controllers' sources: Kueue 0.19.2, JobSet 0.12.0, Kubernetes 1.34.
"""

from collections.abc import Callable
from typing import Any

from scripts.observe.view import View
from tests.scripts.observe import planted
from tests.scripts.observe.planted import RUNNING, Object, condition, event, pod, view, waiting
from tests.scripts.why.planted import States, each_of

LOST = pod(1, RUNNING, condition("Ready", "False", ""))
GATED = pod(0, None, condition("PodScheduled", "False", "SchedulingGated"))
GATED["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
END = {"deletionTimestamp": "2026-11-18T10:30:00Z", "deletionGracePeriodSeconds": 300}
GIB = {"name": "gib", "state": {"running": {}}}
INIT = pod(1, waiting("PodInitializing"), initContainerStatuses=[GIB])


def unscheduled(said: str, **answers: Any) -> View:
    text = f"0/3 nodes are available: {said}"
    pods = [pod(n, None, condition("PodScheduled", "False", "Unschedulable", text)) for n in (0, 1)]
    return view(planted.jobset(), pods=pods, **answers)


def failed_create(said: str) -> View:
    return view(planted.jobset(), events=[event("FailedCreate", f"Error creating: {said}")])


def not_created(said: str) -> View:
    return failed_create(f'pods "dpo-node-0-0-" is forbidden: {said}')


def stuck(reason: str, message: str = "", *events: Object) -> View:
    peer = pod(1, waiting(reason, message))
    return view(planted.jobset(), pods=[pod(0, RUNNING), peer], events=events)


def creating(reason: str, message: str) -> View:
    return stuck("ContainerCreating", "", event(reason, message))


def with_peer(peer: Object) -> View:
    return view(planted.jobset(), pods=[pod(0, RUNNING), peer])


def short(reason: str, message: str) -> View:
    return unscheduled("2 Insufficient nvidia.com/gpu.", events=[event(reason, message)])


SANDBOX = 'plugin type="calico" failed (add): no IPs available'
PREEMPTED = "default-scheduler: preempting to accommodate a higher priority pod"
PREEMPTION = condition("DisruptionTarget", "True", "PreemptionByScheduler", PREEMPTED)
READY = condition("Ready", "True", "")
OWN = "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"
MORE: list[tuple[str, Callable[[], View], str]] = [
    ("unschedulable", lambda: unscheduled('persistentvolumeclaim "ws" is being deleted'), "ws"),
    ("unschedulable", lambda: unscheduled("3 had volume node affinity conflict."), "affinity"),
    (
        "unschedulable-affinity",
        lambda: unscheduled(f"{OWN}, 2 node(s) didn't match Pod's node affinity/selector."),
        "selector",
    ),
    ("unschedulable-taint", lambda: unscheduled(f"{OWN}."), "control-plane"),
    ("image-pull", lambda: stuck("ErrImagePull", "content digest sha256:2: not found"), "digest"),
    ("image-pull-denied", lambda: stuck("ErrImagePull", "x/swift:1-snapshot: not found"), "swift"),
    (
        "unschedulable-taint",
        lambda: unscheduled(
            "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 2 node(s) had "
            "untolerated taint {gpu: reserved}."
        ),
        "gpu",
    ),
    ("container-not-started", lambda: stuck("CrashLoopBackOff", "back-off"), "back-off"),
    ("container-not-started", lambda: creating("FailedCreatePodSandBox", SANDBOX), "no IPs"),
    (
        "image-pull-denied",
        lambda: stuck("ErrImagePull", "manifests/1: no basic auth credentials"),
        "no basic auth credentials",
    ),
    ("image-pull", lambda: stuck("SignatureValidationFailed", "no key"), "no key"),
    ("terminating", lambda: with_peer(pod(1, RUNNING, READY, PREEMPTION, metadata=END)), PREEMPTED),
]
"""More ways into a state."""
SHM = 'Usage of EmptyDir volume "shm" exceeds the limit "64Gi".'
LOCALITY = "Pod was rejected: Resources cannot be allocated with Topology locality"
HOOK = 'Internal error occurred: failed calling webhook "mpod.kb.io": context deadline exceeded'
CUDA = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0"
DRA = "FailedPrepareDynamicResources"
AGENT = 'plugin type="cilium-cni" failed (add): unable to connect to Cilium agent'
ADDRESS = 'plugin type="aws-cni" failed (add): failed to assign an IP address to container'
LONG = f"{'x ' * 400}no IPs available for the pod"
FILE = "/etc/a: not a directory: Are you trying to mount a directory onto a file"
CSI = "driver name fsx.csi.aws.com not found in the list of registered CSI drivers"


def ended_by(reason: str, message: str) -> View:
    return with_peer(pod(1, phase="Failed", reason=reason, message=message))


SAID: list[tuple[Callable[[], View], str]] = [
    (lambda: ended_by("Evicted", SHM), "sharedMemory.sizeLimit"),
    (lambda: ended_by("Evicted", "exceeded its local ephemeral storage limit"), "limits.eph"),
    (lambda: ended_by("TopologyAffinityError", LOCALITY), "NUMA"),
    (lambda: ended_by("UnexpectedAdmissionError", "no NUMA nodes with enough memory"), "NUMA"),
    (lambda: unscheduled("2 node(s) didn't find available persistent volumes to bind."), "pvc"),
    (lambda: creating("FailedAttachVolume", "code = ResourceExhausted desc = x"), "attached"),
    (lambda: creating("FailedCreatePodSandBox", "pinns: No space left on device"), "disk for"),
    (lambda: ended_by("SysctlForbidden", 'forbidden sysctl: "net.x"'), "Remove the sysctl"),
    (lambda: failed_create(HOOK), "do not answer"),
    (lambda: not_created("failed quota: a: must specify limits.cpu"), "resources.limits"),
    (lambda: not_created("unable to validate against any security context constraint"), "-scc-"),
    (lambda: stuck("ErrImagePull", "toomanyrequests: pull rate limit"), "image.pullSecrets"),
    (lambda: stuck("ErrImagePull", "status code https://x/sha256:a401b: 429 Too Many"), "mirror"),
    (lambda: stuck("ErrImageNeverPull", "not present with pull policy of Never"), "pullPolicy"),
    (lambda: stuck("ErrImagePull", "write /var/x: no space left on device"), "disk for images"),
    (lambda: stuck("ErrImagePull", "no match for platform in manifest"), "kubernetes.io/arch"),
    (lambda: stuck("ErrImagePull", "x509: signed by unknown authority"), "trust"),
    (lambda: creating("FailedAttachVolume", "Multi-Attach error for volume"), "ReadWriteMany"),
    (lambda: creating("FailedMount", CSI), "CSI driver"),
    (lambda: creating("FailedMount", "failed to sync configmap cache: timed out"), "by itself"),
    (lambda: creating("FailedMount", "rpc error: code = PermissionDenied desc = x"), "refuses"),
    (lambda: creating("FailedMount", "mount.nfs: access denied by server"), "export"),
    (lambda: creating("FailedMount", "hostPath type check failed: /mnt"), "every node"),
    (lambda: creating("FailedMount", "mount: wrong fs type, bad option"), "client"),
    (lambda: stuck("CreateContainerConfigError", "container has runAsNonRoot"), "runAsUser"),
    (lambda: stuck("RunContainerError", CUDA), "newer driver"),
    (lambda: stuck("RunContainerError", "nvml error: driver not loaded"), "repairs the node"),
    (lambda: stuck("RunContainerError", "/usr/bin/python3: exec format error"), "/arch"),
    (lambda: stuck("RunContainerError", "container init was OOM-killed"), "limits.memory"),
    (
        lambda: creating("FailedCreatePodSandBox", "cannot find a network-attachment-definition"),
        "podAnnotations",
    ),
    (lambda: stuck("RunContainerError", 'exec: "python3": executable file not found'), "python3"),
    (lambda: stuck("CreateContainerError", "mkdir /var/x: no space left"), "disk for images"),
    (lambda: stuck("CreateContainerError", "failed to create subPath directory"), "writable"),
    (lambda: ended_by("Evicted", "The node was low on resource: inodes."), "TMPDIR"),
    (lambda: ended_by("Evicted", "The node was low on resource: pids."), "data workers"),
    (lambda: not_created("maximum memory usage per Container is 5Gi"), "LimitRange"),
    (lambda: stuck("ErrImagePull", "pull QPS exceeded"), "by itself"),
    (lambda: stuck("ErrImagePull", "server gave HTTP response to HTTPS client"), "TLS"),
    (lambda: creating("FailedAttachVolume", "rpc error: code = NotFound desc = x"), "any more"),
    (lambda: creating("FailedAttachVolume", "maximum number of attachments"), "attached"),
    (lambda: ended_by("DeadlineExceeded", "longer than the specified deadline"), "a longer one"),
    (lambda: not_created("namespace team because it is being terminated"), "another one"),
    (lambda: failed_create('object is being deleted: pods "dpo" already exists'), "last start"),
    (lambda: not_created('pod rejected: RuntimeClass "nvidia" not found'), "runtimeClassName"),
    (lambda: short("TriggeredScaleUp", "pod triggered scale-up: [{gpu 0->2 (max: 8)}]"), "adds"),
    (lambda: short("FailedScaleUp", "zones a failed: GCE out of resources."), "machine free"),
    (lambda: short("NotTriggerScaleUp", "2 max node group size reached"), "limit of its"),
    (lambda: short("FailedScheduling", 'incompatible with nodepool "gpu"'), "No node group"),
    (lambda: unscheduled('claim "a" bound to non-existent persistentvolume "b".'), "another claim"),
    (lambda: unscheduled("8 node(s) did not have enough free storage."), "over the network"),
    (lambda: unscheduled("3 node(s) didn't have free ports."), "hostNetwork"),
    (lambda: unscheduled("8 node(s) didn't match pod topology spread constraints."), "topologySp"),
    (lambda: unscheduled("8 node(s): ReadWriteOncePod already in-use."), "ReadWriteMany"),
    (lambda: stuck("ErrImagePull", "failed to extract layer: invalid tar header"), "damaged part"),
    (lambda: creating("FailedMount", "rpc error: code = Aborted desc = x"), "earlier operation"),
    (lambda: creating("FailedMount", "code = Internal desc = 'fsck' found errors"), "repairs it"),
    (lambda: creating("FailedMount", "applyFSGroup failed for vol ws: lchown /a"), "fsGroup"),
    (lambda: creating("FailedMount", "code = Internal desc = no clusterID"), "driver's conf"),
    (lambda: creating("FailedCreatePodSandBox", "failed to get sandbox image"), "pause image"),
    (lambda: creating("FailedCreatePodSandBox", "SRIOV-CNI failed: VF pci addr"), "SR-IOV"),
    (lambda: creating("FailedCreatePodSandBox", ADDRESS), "subnet"),
    (lambda: creating("FailedCreatePodSandBox", LONG), "subnet"),
    (lambda: creating("FailedCreatePodSandBox", AGENT), "network plugin"),
    (lambda: stuck("RunContainerError", "unresolvable CDI devices nvidia.com/gpu=0"), "toolkit"),
    (lambda: stuck("RunContainerError", FILE), "mountPath"),
    (lambda: stuck("RunContainerError", "mkdir /workspace: read-only file system"), "lacks a f"),
    (lambda: stuck("RunContainerError", 'exec: "/entry.sh": permission denied'), "executable"),
    (lambda: stuck("CreateContainerError", "cannot load seccomp profile /x"), "security profile"),
    (lambda: stuck("RunContainerError", "no matching entries in passwd file"), "a number"),
    (lambda: stuck("RunContainerError", "expected a path for systemd cgroups"), "cgroup drivers"),
    (lambda: stuck("RunContainerError", "apply cgroup: no space left on device"), "kernel"),
    (lambda: stuck("RunContainerError", "error setting rlimit type 8"), "that limit"),
    (lambda: creating("FailedCreatePodSandBox", 'no runtime for "nvidia"'), "runtimeClassName"),
    (lambda: creating(DRA, "Failed to prepare dynamic resources: x"), "ResourceClaim"),
    (lambda: creating("NetworkNotReady", "network is not ready: cni"), "network plugin"),
    (lambda: unscheduled("3 node(s) had volume node affinity conflict."), "zone"),
    (lambda: unscheduled("3 cannot allocate all claims."), "resourceclaims"),
    (lambda: unscheduled("binding volumes: context deadline exceeded"), "describe pvc"),
    (lambda: unscheduled("3 node(s) exceed max volume count."), "attached"),
    (lambda: unscheduled("3 Too many pods."), "maxPods"),
    (lambda: unscheduled("3 node(s) didn't match pod anti-affinity rules."), "anti-affinity"),
]
"""Messages of controllers, and a word of the remedy that each chooses."""
STATES: States = each_of(
    not_created,
    {
        "pods-refused-security": (
            'violates PodSecurity "restricted:latest": unrestricted capabilities (container '
            '"launcher" must not include "IPC_LOCK" in securityContext.capabilities.add)',
            "IPC_LOCK",
        ),
        "pods-refused-quota": (
            "exceeded quota: team, requested: requests.nvidia.com/gpu=8, used: "
            "requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
            "limited: requests.nvidia.com/gpu=8",
        ),
        "service-account-missing": (
            'error looking up service account team/trainer: serviceaccount "trainer" not found',
            "ServiceAccount trainer",
        ),
        "pod-priority-missing": (
            "no PriorityClass with name urgent was found",
            "PriorityClass urgent",
        ),
        "pods-refused": ("maximum cpu usage per Pod is 8", "maximum cpu usage"),
    },
)
STATES |= each_of(
    unscheduled,
    {
        "unschedulable-resources": (
            "3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption "
            "victims found for incoming pod.",
            "No node has room for ranks 0-1, because nvidia.com/gpu is short",
        ),
        "nodes-unhealthy": (
            "3 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }.",
            "{node.kubernetes.io/disk-pressure: }",
        ),
        "unschedulable-taint": (
            "3 node(s) had untolerated taint {gpu: reserved}.",
            "{gpu: reserved}",
        ),
        "unschedulable-affinity": (
            "3 node(s) didn't match Pod's node affinity/selector.",
            "didn't match Pod's node affinity/selector",
        ),
        "unschedulable": ("3 node(s) didn't have free ports.", "free ports"),
    },
)
STATES |= {
    "pods-refused-webhook": (
        lambda: failed_create(
            'admission webhook "policy.example.com" denied the request: no label team'
        ),
        "no label team",
    ),
    "scheduling-gated": (
        lambda: view(planted.jobset(), pods=[GATED, pod(1, RUNNING)]),
        "kueue.x-k8s.io/topology",
    ),
    "claim-missing": (
        lambda: unscheduled(
            'persistentvolumeclaim "training" not found.',
            get_persistentvolumeclaims_of_training=planted.refused(404),
        ),
        "Claim training",
    ),
    "claim-unbound": (
        lambda: unscheduled(
            "pod has unbound immediate PersistentVolumeClaims.",
            get_persistentvolumeclaims_of_training=planted.found({"status": {"phase": "Pending"}}),
        ),
        "unbound immediate PersistentVolumeClaims",
    ),
    "nodes-cordoned": (
        lambda: unscheduled(
            "3 node(s) were unschedulable.",
            list_nodes=planted.listed([{"metadata": {"name": "node-1"}}]),
        ),
        "3 node(s) were unschedulable",
    ),
    "image-name-invalid": (
        lambda: stuck(
            "InvalidImageName", 'Failed to apply default image tag "A:b": invalid format'
        ),
        "invalid format",
    ),
    "pull-secret-missing": (
        lambda: stuck(
            "ErrImagePull",
            "401 Unauthorized",
            event(
                "FailedToRetrieveImagePullSecret",
                "Unable to retrieve some image pull secrets (hub, mirror); attempting to pull the "
                "image may not succeed.",
            ),
        ),
        "Secret hub of image.pullSecrets",
    ),
    "image-pull-denied": (
        lambda: stuck(
            "ImagePullBackOff",
            'Back-off pulling image "example.com/swift:1"',
            event("Failed", "Failed to pull image: example.com/swift:1: not found", "p"),
            event("Failed", "Error: ImagePullBackOff", "p"),
        ),
        "example.com/swift:1: not found",
    ),
    "image-pull": (
        lambda: stuck("ErrImagePull", "dial tcp: i/o timeout"),
        "pulled for rank 1 (dpo-node-0-1-x7k2p on node-2): dial tcp: i/o timeout",
    ),
    "secret-missing": (
        lambda: stuck("CreateContainerConfigError", 'secret "hf-token" not found'),
        "Secret hf-token",
    ),
    "config-map-missing": (
        lambda: creating(
            "FailedMount",
            'MountVolume.SetUp failed for volume "launchers" : configmap "dpo-launchers" not found',
        ),
        "ConfigMap dpo-launchers",
    ),
    "key-missing": (
        lambda: stuck(
            "CreateContainerConfigError", "couldn't find key token in Secret team/hf-token"
        ),
        "Secret team/hf-token, required by rank 1 (dpo-node-0-1-x7k2p on node-2), has no key token",
    ),
    "mount-failed": (
        lambda: creating(
            "FailedMount", 'MountVolume.SetUp failed for volume "workspace" : mount failed'
        ),
        "mount failed",
    ),
    "container-not-started": (
        lambda: stuck("CreateContainerError", "failed to reserve container name"),
        "CreateContainerError",
    ),
    "init-container": (lambda: with_peer(INIT), "Init container gib"),
    "node-lost": (lambda: with_peer(LOST), "Node node-2 of rank 1"),
    "terminating": (lambda: with_peer(pod(1, RUNNING, metadata=END)), "node-2), awaited for 100 s"),
    "pulling": (
        lambda: stuck(
            "ContainerCreating", "", event("Pulling", "Pulling image", when="2026-11-18T10:25:40Z")
        ),
        "node-2) for 60 s",
    ),
    "starting": (lambda: stuck("ContainerCreating"), "rank 1 (dpo-node-0-1-x7k2p"),
}
