"""The launcher's settings, parsed once from the environment that the chart writes.

Names are listed in ``_SETTINGS``; any other name that starts with ``DPO_`` or ``SKIP_`` is an
error, so that a misspelt setting is never ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launchers import PACKAGE, suggestion
from launchers.config import budget, env_from
from launchers.config import preflight as preflight_settings
from launchers.config.budget import Budget
from launchers.config.env import integer, is_one, port, required
from launchers.config.preflight import Preflight
from launchers.config.rank import Place, gpus_of, needs_master, place_of
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.hang import settings as hang_settings
from launchers.hang.settings import Hang

SKIPS = {
    "clone": "SKIP_CLONE",
    "download": "SKIP_DOWNLOAD",
    "convert": "SKIP_CONVERT",
    "train": "SKIP_TRAIN",
}
"""The stages, each with the setting that skips it."""
STAGES = tuple(SKIPS)
PREFIXES = ("DPO_", "SKIP_")
_SETTINGS = (
    *SKIPS.values(), "DPO_RUN", "DPO_WORKSPACE",
    "DPO_RECIPE", "DPO_LIBRARIES", "DPO_LAUNCHER_DIGEST", "DPO_LAUNCHER_VERSION", "DPO_IMAGE",
    "DPO_NODES", "DPO_GPUS_PER_NODE", "DPO_JOB_INDEX", "DPO_COMPLETIONS", "DPO_RESTART_ATTEMPT",
    "DPO_MASTER_ADDR", "DPO_MASTER_PORT", "DPO_GANG_PORT", "DPO_GANG_DEADLINE", "DPO_METRICS_PORT",
    "DPO_WEBHOOK_URL", "DPO_WEBHOOK_WAIT", "DPO_EVENTS", "DPO_JOBSET_UID", "DPO_GRACE_SECONDS",
    "DPO_RESTARTS_IN_PLACE", "DPO_STANDBY", "DPO_TERMINATION_LOG", "DPO_POD_NAME", "DPO_NODE_NAME",
    "DPO_CODE_URL", "DPO_CODE_REF", "DPO_CODE_SECRET", "DPO_CODE_PYTHONPATH", "DPO_JIT_CACHE",
    "DPO_REHEARSE", "DPO_BENCHMARKS", "DPO_BENCHMARK_LIMIT", "DPO_TEST_DEADLINE",
    "DPO_VERIFY_SECONDS", "DPO_STALL_SECONDS", "DPO_HOLD_SECONDS", "DPO_LOCAL_CHECKPOINTS",
    "DPO_LOCAL_BYTES", "DPO_RELEASE_RECORD",
    *preflight_settings.SETTINGS, *hang_settings.SETTINGS, *budget.SETTINGS, env_from.NAMES,
    env_from.SOURCES,
)  # fmt: skip
_USER_SETTINGS = ("DPO_ACCEPT_PATCHES", "DPO_EXPORT_TEST")
"""Set by the user in ``extraEnv`` (``upstream/patches.py``, ``rehearsal/read_back.py``)."""
_SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://.+")

DEFAULT_GRACE_SECONDS = 30
"""Kubernetes' and Slurm's default time from SIGTERM to SIGKILL."""
DEFAULT_VERIFY_SECONDS = 20
DEFAULT_STALL_SECONDS = 120
DEFAULT_RESTARTS_IN_PLACE = 3
"""The chart's default, ``restarts.inPlace``."""
REHEARSAL = "rehearsal"
"""Folder ``runs/<run>.rehearsal``, report ``runs/<run>/rehearsal.json``; no release has a dot."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """The training code to clone; an empty ``url`` means none."""

    url: str
    ref: str
    secret: Path | None
    """Folder of a mounted Secret: ``token``, or ``ssh-privatekey`` and ``known_hosts``."""
    python_path: tuple[str, ...] = ()
    """Folders of the clone from which training imports before the image's packages."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start of the launcher: of which run, in which pod, on which rank."""

    run: str
    workspace: Path
    libraries: tuple[Path, ...] = ()
    rehearse: bool = False
    """Whether this start rehearses the run instead of training it."""
    local_checkpoints: Path | None = None
    """A disk of this node to which checkpoints are written first; None without one."""
    place: Place
    gpus_per_node: int
    """GPUs of this pod; 0 on CPU, where one process runs per node."""
    pod: str
    image: str = ""
    node: str
    grace: int
    """Seconds from SIGTERM to SIGKILL."""
    jobset_uid: str
    restart_attempt: int

    @property
    def work(self) -> Workspace:
        """Return the paths of this run; a rehearsal has its own, next to those of the run."""
        name = f"{self.run}.{REHEARSAL}" if self.rehearse else self.run
        return Workspace(root=self.workspace, run=name, libraries=self.libraries)

    @property
    def local(self) -> Path | None:
        """Return this run's folder on the node's disk for checkpoints; None without one."""
        disk = self.local_checkpoints
        return None if disk is None else disk / self.work.run

    @property
    def rehearsal_report(self) -> Path:
        """Return the path of the report of a rehearsal, in the folder of the run itself."""
        return Workspace(root=self.workspace, run=self.run).home / f"{REHEARSAL}.json"

    @property
    def nproc_per_node(self) -> int:
        """Return the number of training processes per node."""
        return max(1, self.gpus_per_node)

    @property
    def world_size(self) -> int:
        """Return the number of training processes of the gang."""
        return self.place.nodes * self.nproc_per_node


@dataclass(frozen=True, kw_only=True)
class Gang:
    """How the ranks meet."""

    port: int
    deadline: int
    """Seconds within which every rank must join the gang."""
    launcher_digest: str
    """Digest of the launcher that the chart brings; empty where it is computed."""
    launcher_version: str
    """Version that an image's own launcher must have; empty where the chart brings the launcher."""


@dataclass(frozen=True, kw_only=True)
class Stages:
    """What the run does: its recipe, and the parts that are skipped."""

    recipe: Path
    code: Code
    skips: frozenset[str]
    preflight: Preflight


@dataclass(frozen=True, kw_only=True)
class Training:
    """How training is started, watched and restarted on a node."""

    budget: Budget
    hang: Hang
    restarts_in_place: int
    """Restarts of the training processes in the same pods without a higher checkpoint."""
    standby: bool = False
    """Whether the processes of the next restart in place are started in advance."""
    jit_cache: bool
    """Whether to keep kernels compiled at run time on the workspace."""
    verify_seconds: int
    """Time in which a node compares its share of the checkpoint with its digests before a resume;
    0 compares nothing."""
    stall_seconds: int
    """Time after which a workspace that gives no answer ends the launcher, once training has ended;
    a failover of a file server takes less."""


@dataclass(frozen=True, kw_only=True)
class Reports:
    """How the state and the end of the run are reported and seen, and what the helm test reads."""

    metrics_port: int
    """Port of rank 0 on which the run's state is served to Prometheus; 0 for none."""
    webhook_url: str = field(repr=False)
    """A secret; empty for no messages."""
    webhook_wait: int
    """Seconds without the whole gang after which a message is sent."""
    events: bool
    termination_log: Path | None
    alive_file: Path | None
    """File whose content a liveness probe compares with the uptime; None without a probe."""
    hold_seconds: int
    """Time for which the launcher of a run stays after its end; 0 for none."""
    release_record: Path | None
    """Helm's release record, mounted from its Secret: holds the time of installation."""
    test_deadline: int
    """Seconds to wait for the run's end in the helm test."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The launcher's settings from the environment; a function takes the groups that it needs."""

    launch: Launch
    gang: Gang
    stages: Stages
    training: Training
    reports: Reports


def from_env(env: Mapping[str, str]) -> Settings:
    """Parse the environment.

    Raises:
        LaunchError: CONFIG, naming the setting, what was given and what is allowed.
    """
    env_from.refuse(env)
    _refuse_unknown(env)
    integer(env, "DPO_LOCAL_BYTES", 0, lowest=0)  # read in the training processes
    if not (env.get("DPO_RUN") and env.get("DPO_WORKSPACE")):  # name all that are missing
        required(env, "DPO_RUN", "DPO_WORKSPACE", "DPO_RECIPE", *needs_master(env))
    launch = _launch(env)
    return Settings(
        launch=launch,
        gang=Gang(
            port=_gang_port(env, launch.place.master_port),
            deadline=integer(env, "DPO_GANG_DEADLINE", 1800),
            launcher_digest=env.get("DPO_LAUNCHER_DIGEST", ""),
            launcher_version=env.get("DPO_LAUNCHER_VERSION", ""),
        ),
        stages=Stages(
            recipe=Path(env.get("DPO_RECIPE") or PACKAGE / "recipe.yaml"),
            code=_code(env),
            skips=frozenset(stage for stage, name in SKIPS.items() if is_one(env, name)),
            preflight=preflight_settings.from_env(env),
        ),
        training=_training(env),
        reports=_reports(env),
    )


def _launch(env: Mapping[str, str]) -> Launch:
    place = place_of(env)
    return Launch(
        run=_run(env),
        workspace=_absolute("DPO_WORKSPACE", required(env, "DPO_WORKSPACE")),
        libraries=tuple(_absolute("DPO_LIBRARIES", each) for each in _listed(env, "DPO_LIBRARIES")),
        rehearse=is_one(env, "DPO_REHEARSE"),
        local_checkpoints=_path(env, "DPO_LOCAL_CHECKPOINTS"),
        place=place,
        gpus_per_node=gpus_of(env, place.source),
        pod=env.get("DPO_POD_NAME", "") or env.get("HOSTNAME", ""),
        image=env.get("DPO_IMAGE", ""),
        node=env.get("DPO_NODE_NAME", ""),
        grace=integer(env, "DPO_GRACE_SECONDS", DEFAULT_GRACE_SECONDS),
        jobset_uid=env.get("DPO_JOBSET_UID", ""),
        restart_attempt=integer(env, "DPO_RESTART_ATTEMPT", 0, lowest=0),
    )


def _training(env: Mapping[str, str]) -> Training:
    restarts = integer(env, "DPO_RESTARTS_IN_PLACE", DEFAULT_RESTARTS_IN_PLACE, lowest=0)
    return Training(
        budget=budget.from_env(env),
        hang=hang_settings.from_env(env),
        restarts_in_place=restarts,
        standby=is_one(env, "DPO_STANDBY") and restarts > 0,
        jit_cache=is_one({"DPO_JIT_CACHE": "1", **env}, "DPO_JIT_CACHE"),
        verify_seconds=integer(env, "DPO_VERIFY_SECONDS", DEFAULT_VERIFY_SECONDS, lowest=0),
        stall_seconds=integer(env, "DPO_STALL_SECONDS", DEFAULT_STALL_SECONDS),
    )


def _reports(env: Mapping[str, str]) -> Reports:
    return Reports(
        metrics_port=port(env, "DPO_METRICS_PORT", 1) if env.get("DPO_METRICS_PORT") else 0,
        webhook_url=env.get("DPO_WEBHOOK_URL", ""),
        webhook_wait=integer(env, "DPO_WEBHOOK_WAIT", 900),
        events=is_one(env, "DPO_EVENTS"),
        termination_log=_path(env, "DPO_TERMINATION_LOG"),
        alive_file=_path(env, "DPO_ALIVE_FILE"),
        hold_seconds=integer(env, "DPO_HOLD_SECONDS", 0, lowest=0),
        release_record=_path(env, "DPO_RELEASE_RECORD"),
        test_deadline=integer(env, "DPO_TEST_DEADLINE", 240),
    )


def _run(env: Mapping[str, str]) -> str:
    """Return the name of the run, which names its folder and files."""
    name = required(env, "DPO_RUN")
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise LaunchError(
            Exit.CONFIG,
            f"DPO_RUN={name!r} is not a name of one folder",
            "begin with a letter or digit, and use letters, digits, ., _ and - only",
            id="env-run",
        )
    return name


def _gang_port(env: Mapping[str, str], master_port: int) -> int:
    """Return the gang's port; where the starter took the default one for torchrun, the next."""
    number = port(env, "DPO_GANG_PORT", 29400 + (master_port == 29400))
    if number == master_port:
        cause, remedy = f"DPO_GANG_PORT={number} is MASTER_PORT, too", "set another on all hosts"
        raise LaunchError(Exit.CONFIG, cause, remedy, id="rendezvous-ports")
    return number


def _code(env: Mapping[str, str]) -> Code:
    if env.get("DPO_CODE_URL") or env.get("DPO_CODE_REF"):
        required(env, "DPO_CODE_URL", "DPO_CODE_REF")
    return Code(
        url=env.get("DPO_CODE_URL", ""),
        ref=env.get("DPO_CODE_REF", ""),
        secret=_path(env, "DPO_CODE_SECRET"),
        python_path=_listed(env, "DPO_CODE_PYTHONPATH"),
    )


def _listed(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, env.get(name, "").split(":")))


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return _absolute(name, env[name]) if env.get(name) else None


def _absolute(name: str, text: str) -> Path:
    if not text.startswith("/"):
        cause = f"{name}={text!r} is not an absolute path"
        remedy = "write the path of a folder of this host from / on; a bucket must be mounted there"
        raise LaunchError(Exit.CONFIG, cause, remedy, id="env-absolute")
    return Path(text)


def refuse_contradictions(settings: Settings) -> None:
    """Refuse settings that contradict each other.

    Raises:
        LaunchError: CONFIG, naming both.
    """
    checks, trains = settings.stages.preflight, "train" not in settings.stages.skips
    if settings.launch.rehearse and not trains:
        raise LaunchError(
            Exit.CONFIG,
            "DPO_REHEARSE=1 trains a few steps, and SKIP_TRAIN=1 trains none",
            "unset one of the two",
            id="rehearse-train",
        )
    if checks.only and (checks.skip or trains):
        other = "SKIP_PREFLIGHT=1 skips it" if checks.skip else "SKIP_TRAIN is not 1"
        raise LaunchError(
            Exit.CONFIG,
            f"DPO_PREFLIGHT_ONLY=1 runs nothing but the preflight, and {other}",
            "set SKIP_TRAIN=1, and unset SKIP_PREFLIGHT",
            id="preflight-only",
        )


def describe(settings: Settings) -> dict[str, object]:
    """Return the fields of the first log line; settings hold no secrets."""
    launch, place = settings.launch, settings.launch.place
    return {
        "run": launch.run,
        "nodes": place.nodes,
        "gpus_per_node": launch.gpus_per_node,
        "rank_from": place.source,
        "master": f"{place.master_addr}:{place.master_port}",
        "restart_attempt": launch.restart_attempt,
        "workspace": launch.workspace,
        "skips": ",".join(sorted(settings.stages.skips)),
        **({"rehearse": True} if launch.rehearse else {}),
        "pod": launch.pod,
        "node": launch.node,
    }


def _refuse_unknown(env: Mapping[str, str]) -> None:
    for name in sorted(env):
        if not name.startswith(PREFIXES) or name in (*_SETTINGS, *_USER_SETTINGS):
            continue
        if not _is_service_link(name, env[name]):
            raise LaunchError(
                Exit.CONFIG,
                f"{name} is not a setting of the launcher",
                f"unset it; {suggestion.remedy(name, _SETTINGS)}",
                id="env-unknown",
            )


def _is_service_link(name: str, value: str) -> bool:
    """Return whether Kubernetes set the variable for a Service named dpo-...

    ``DPO_X_PORT`` may be a misspelt setting, so its value decides (``tcp://10.0.0.1:80``).
    """
    found = _SERVICE_LINK.search(name)
    if found is None:
        return False
    return found.group(1) != "PORT" or _SERVICE_URL.fullmatch(value) is not None
