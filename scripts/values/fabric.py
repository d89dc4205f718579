"""The fabric of values as the chart merges it, and what its parts require of each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from launchers.refusal import Refusal
from launchers.yaml_file import read_yaml
from scripts.quantity import is_resource
from scripts.values.flags import CHART

Values = Mapping[str, Any]
_MAPS = ("annotations", "env", "resources")
_LISTS = ("initContainers", "libraryPath", "volumes", "volumeMounts")
_NOT_FIELDS = ("profile", "resourceName", "resourceCount", "floorGBs", "imageRegistry")
_HOST_PORTS = (2379, 2380, 2381, 6443, 9100, 10248, 10249, 10250, 10256, 10257, 10259)
"""Of etcd, the API server, Prometheus's node exporter, the kubelet and kube-proxy."""
_TAKEN = range(30000, 61000)
"""NodePorts, and Linux's range of outgoing connections."""


def fabric(values: Values) -> dict[str, Any]:
    """Return the profile with ``network.*`` over it, as pod/_network.tpl merges them.

    An unknown profile, which the chart refuses, has no fields. ``devices`` are the names of device
    plugins' resources.
    """
    user = values["network"]
    file = CHART / "networks" / f"{user['profile']}.yaml"
    profile = read_yaml(file) if file.is_file() else {}
    found: dict[str, Any] = {**{key: {} for key in _MAPS}, **{key: [] for key in _LISTS}, **profile}
    for field, given in user.items():
        if field in _NOT_FIELDS or given is None:
            continue
        if isinstance(given, Mapping) and isinstance(below := found.get(field), Mapping):
            given = {key: value for key, value in {**below, **given}.items() if value is not None}
        found[field] = given
    extra = {each["name"]: each for each in values["extraInitContainers"]}
    own = [{**each, **extra.pop(each["name"], {})} for each in found["initContainers"]]
    resources = dict(found["resources"])
    devices = sorted(name for name in resources if "/" in name)
    name = user["resourceName"] or next(iter(devices), "")
    if len(devices) <= 1 and name:
        count = resources.pop(next(iter(devices), ""), None)
        resources[name] = count if user["resourceCount"] is None else user["resourceCount"]
        devices = [name]
    merged = {"initContainers": [*own, *extra.values()], "resources": resources}
    return {**found, **merged, "devices": devices}


def refusals(values: Values, network: Values) -> Iterator[Refusal]:
    """Yield what cannot work with this fabric.

    ``values`` have the chart's defaults.
    """
    yield from _counts(values["network"], network)
    for name, count in sorted(network["resources"].items()):
        if name == values["gpuResource"]:
            says = f"{name} is gpuResource, whose count is gpusPerNode; use the fabric's device or "
            says += 'network.resourceName: ""'
            yield Refusal(id="network-device-is-gpu", path="network.resourceName", says=says)
        elif "/" not in name and not name.startswith("hugepages-"):
            says = f"{name} is not a device; use resources.limits.{name}"
            yield Refusal(id="network-resource-no-device", path="network.resources", says=says)
        elif not is_resource(name):
            says = f"{name} is not a resource; use the name of a device plugin, such as rdma/hca"
            yield Refusal(id="resource-name", path="network.resources", says=says)
        elif str(count or 0) == "0":
            says = f"{name} has no count with profile {values['network']['profile']}; set "
            says += 'network.resourceName: "" if the fabric needs no device, or '
            says += "network.resourceCount: 1"
            yield Refusal(id="network-device-no-count", path="network.resourceName", says=says)
    yield from _volumes(values, network)
    if values["hostUsers"] is False and "IPC_LOCK" in (network.get("capabilities") or ()):
        says = "false, and IPC_LOCK of these users does not lift the limit of locked memory "
        says += f"(profile {values['network']['profile']}); set hostUsers: null, or "
        says += "network.capabilities: [] if the container runtime sets no such limit"
        yield Refusal(id="host-users", path="hostUsers", says=says)
    if network.get("hostNetwork"):
        for path, says, id in _host(values, network):
            yield Refusal(id=id, path=path, says=says)


def _counts(user: Values, network: Values) -> Iterator[Refusal]:
    devices, attachment = network["devices"], network.get("attachment")
    listed = f"is ambiguous: the devices are {', '.join(devices)}"
    for key in ("resourceName", "resourceCount"):
        if len(devices) > 1 and user[key]:
            says = f"{user[key]} {listed}; use network.resources: {{NAME: COUNT}}"
            yield Refusal(id="network-device-ambiguous", path=f"network.{key}", says=says)
    if attachment and len(devices) > 1:
        use = "use network.annotations: {k8s.v1.cni.cncf.io/networks: ...}"
        says = f"{attachment} {listed}; {use}"
        yield Refusal(id="network-attachment-ambiguous", path="network.attachment", says=says)
    elif attachment and not devices:
        says = f"{attachment} requires a device, and none is set; set network.resourceName and "
        says += "resourceCount, or network.annotations"
        yield Refusal(id="network-attachment-no-device", path="network.attachment", says=says)
    if user["resourceCount"] and not devices:
        says = f"{user['resourceCount']} without a resource; set network.resourceName or "
        path = "network.resourceCount"
        yield Refusal(id="network-count-no-device", path=path, says=f"{says}{path}: null")


def _volumes(values: Values, network: Values) -> Iterator[Refusal]:
    """Yield containers without an image, and those that mount a volume which is not there."""
    known = {"launchers", "workspace", "shm", "tmp"}
    known |= {"code-secret"} if values["code"]["existingSecret"] else set()
    known |= {"local-checkpoints"} if any(values["localCheckpoints"].values()) else set()
    known |= {each["name"] for each in (*network["volumes"], *values["extraVolumes"])}
    extra = {each["name"]: each.get("volumeMounts") for each in values["extraInitContainers"]}
    for container in network["initContainers"]:
        name = container["name"]
        if not container.get("image"):
            says = f"{name} has no image, and profile {values['network']['profile']} has no such "
            says += "container; set its image"
            yield Refusal(id="init-container-image-missing", path="extraInitContainers", says=says)
        for mount in container.get("volumeMounts") or ():
            if mount["name"] not in known:
                is_extra = mount in (extra.get(name) or ())
                path = "extraInitContainers" if is_extra else "network.initContainers"
                says = f"{name} mounts {mount['name']}, and there is no such volume; add it to "
                yield Refusal(id="network-init-volume", path=path, says=f"{says}extraVolumes")


def _host(values: Values, network: Values) -> Iterator[tuple[str, str, str]]:
    """Yield path, words and id of what pods on the host network cannot have."""
    profile = f"(profile {values['network']['profile']})"
    on = f"pods on the host network {profile}"
    if other := network.get("attachment"):
        says = f"true, and pods on the host network do not get {other}; set "
        path = "network.hostNetwork"
        yield path, f"{says}{path}: false", "network-host-attachment"
    if values["hostUsers"] is False:
        says = f"false, and {on} must use the host's users; set hostUsers: null"
        yield "hostUsers", says, "host-users"
    if values["networkPolicy"]["enabled"]:
        path = "networkPolicy.enabled"
        says = f"true, and a NetworkPolicy does not apply to {on}; set {path}: false"
        yield path, says, "network-policy-host"
    if values["podSpec"].get("dnsPolicy") == "ClusterFirst":
        says = f"ClusterFirst uses the host's servers on the host network {profile}, which do not "
        says += "know the ranks; use ClusterFirstWithHostNet or remove it"
        yield "podSpec.dnsPolicy", says, "pod-spec-dns-host"
    for path in ("monitoring.port", "rendezvous.gangPort", "rendezvous.masterPort"):
        group, _, key = path.partition(".")
        port = int(values[group][key])
        if port in _TAKEN or port in _HOST_PORTS:
            says = f"{port} may be in use on the host, whose network the pods share {profile}; use "
            yield path, f"{says}a port from 20000 to 29999", "host-port"
