"""The preflight of one rank: checks of pods, GPUs and network before training starts.

Each pod runs ``local`` at the container's start, before downloads; rank 0 runs ``meeting`` and the
peers ``answer`` in the handshake that starts the gang; all run ``collective`` before training.
Findings go to ``attempts/<n>/preflight-<rank>.json``; failures of ``local``, which come before an
attempt begins, to the run's folder.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Self

from launchers import logs
from launchers.config import gpu_models
from launchers.config.preflight import COLLECTIVE
from launchers.config.recipe import Backend, Recipe
from launchers.config.settings import Settings
from launchers.exits import Exit, LaunchError, during
from launchers.flags import features as all_features
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import Hello, Message, PreflightQuestion
from launchers.preflight import gang_checks, pod_checks
from launchers.preflight.collective import measure
from launchers.preflight.finding import failed, skipped
from launchers.preflight.gang_probes import (
    NONCE_FILE,
    PortProbe,
    port_for_now,
    read_nonce,
    read_word,
    write_nonce,
)
from launchers.preflight.judge import judge_measurements
from launchers.preflight.nvidia_smi import Smi
from launchers.preflight.probes import free, gather
from launchers.preflight.report import Report
from launchers.preflight.worker import CollectivePlan
from launchers.system.remedies import here

MEASUREMENT_MINIMUM_SECONDS = 10
"""Lower bound of the measurement's time limit, however much earlier checks have used."""


class Preflight:
    """One rank's preflight, from its start to its report."""

    def __init__(
        self,
        settings: Settings,
        backend: Backend | None,
        own: Hello,
        env: Mapping[str, str],
        features: Sequence[str] = (),
    ) -> None:
        """Create the preflight of one rank.

        ``features``: those whose patches are judged on the image's packages (``of_run``).
        """
        self.features = features
        self.settings, self.backend, self.own, self.env = settings, backend, own, env
        self.report = Report(own, settings.stages.preflight)
        self.gpu_model = ""
        self.smi: Smi | None = None
        self.adapters = 0

    @classmethod
    def of_run(cls, settings: Settings, recipe: Recipe, own: Hello, env: Mapping[str, str]) -> Self:
        """Create the preflight of one rank of a run.

        Patches are not judged where training imports packages of the clone: there is none yet.
        """
        on_cpu = settings.launch.gpus_per_node == 0
        from_clone = bool(settings.stages.code.python_path)
        names = () if from_clone else all_features.names(recipe, on_cpu=on_cpu)
        return cls(settings, recipe.backend, own, env, names)

    @property
    def unwanted(self) -> str:
        """Return why this pod is not checked; empty if it is."""
        if self.settings.stages.preflight.skip:
            return "SKIP_PREFLIGHT=1"
        trains = "train" not in self.settings.stages.skips or self.settings.stages.preflight.only
        return "" if trains else "SKIP_TRAIN=1"

    @property
    def gpu_name(self) -> str:
        """Return the planner's name of this pod's GPUs; empty if it does not know them."""
        known = self.settings.stages.preflight.gpu or gpu_models.by_smi_name(self.gpu_model)
        return known.name if known else ""

    def local(self, needed: int | None = None) -> None:
        """Check this pod.

        ``needed``: bytes that checkpoints will still need; None if unknown.

        Raises:
            LaunchError: PREFLIGHT, or a user code, with all failures.
        """
        if self.unwanted:
            logs.info("preflight skipped", why=self.unwanted)
            return
        with self.report.timed():
            launch = self.settings.launch
            facts = gather(
                self.env,
                launch.work.root,
                self.backend,
                gpus=launch.gpus_per_node > 0,
                features=self.features,
                scratch=launch.work.home,
            )
            self.adapters, self.smi = facts.adapters, facts.smi
            self.gpu_model = facts.smi.gpus[0].name if facts.smi and facts.smi.gpus else ""
            found = pod_checks.judge_pod(facts, self.settings, self.backend, needed)
            self.report.settle(found, launch.work.home)

    def space(self, needed: int | None) -> None:
        """Check the workspace's free space again, once the model's sizes are known.

        Raises:
            LaunchError: QUOTA, with the free and the needed bytes.
        """
        if needed is not None and not self.unwanted:
            with self.report.timed():
                left = free(self.settings.launch.workspace)
                self.report.settle([pod_checks.disk(left, needed)], self.settings.launch.work.home)

    @contextmanager
    def meeting(
        self, folder: Path, why: str = ""
    ) -> Iterator[tuple[PreflightQuestion | None, Callable[[Sequence[Message]], None]]]:
        """Ask the peers (rank 0), with the master port open meanwhile.

        ``why`` there is nothing to train; empty if there is.

        Yields:
            The question for the start message, and the function that judges the answers.
        """
        if self.settings.stages.preflight.skip or why:
            yield None, lambda answers: None
            return
        with self.report.timed():
            nonce = write_nonce(folder)
            door = self._door(nonce, folder)

        def judge(answers: Sequence[Message]) -> None:
            if answers:
                answers_read = [gang_checks.answer_of(answer) for answer in answers]
                with during("preflight"):
                    self.report.settle(
                        gang_checks.judge_answers(answers_read, nonce, self.gpu_model), folder
                    )

        with door:
            path = str(folder / NONCE_FILE)
            yield PreflightQuestion(nonce=path, collective_port=port_for_now()), judge

    def _door(self, nonce: str, folder: Path) -> AbstractContextManager[object]:
        """Open the master port, which torchrun needs and peers will connect to."""
        if not self.settings.stages.preflight.wants("port"):
            return nullcontext()
        port = self.settings.launch.place.master_port
        try:
            return PortProbe(port, nonce, self.own.nodes)
        except OSError as error:
            other = here("rendezvous.masterPort", "MASTER_PORT on all hosts")
            remedy = f"free the port, or set another one: {other}"
            self.report.settle([failed("port", f"master port {port}: {error}", remedy)], folder)
            return nullcontext()

    def answer(self, question: PreflightQuestion | None) -> Message:
        """Answer rank 0 (peers)."""
        if question is None:
            return {}
        with self.report.timed():
            place, port = self.settings.launch.place, ""
            if self.settings.stages.preflight.wants("port"):
                try:
                    port = read_word(place.master_addr, place.master_port)
                except OSError as error:
                    port = str(error)
            nonce = read_nonce(Path(question.nonce))
        return {"preflight": {"nonce": nonce, "port": port, "card": self.gpu_model}}

    def collective(
        self, folder: Path, question: PreflightQuestion | None, peers: PeerMonitor
    ) -> None:
        """Measure all GPUs of the gang together; write the report.

        Raises:
            LaunchError: PREFLIGHT with all failures, equal on every rank.
        """
        if question is None:
            return
        with self.report.timed():
            why = self._no_collective()
            if why:
                self.report.findings += [skipped(name, why) for name in sorted(COLLECTIVE)]
            else:
                self._measure(folder, question.collective_port, peers)
        self.report.passed(folder)

    def _no_collective(self) -> str:
        """Return why the GPUs are not measured; empty if they are."""
        if self.settings.launch.gpus_per_node == 0:
            return "no GPU"
        wants = self.settings.stages.preflight.wants
        if not wants("collective") or not any(wants(name) for name in COLLECTIVE):
            return "preflight.skipChecks"
        return "one GPU" if self.settings.launch.world_size == 1 else ""

    def _measure(self, folder: Path, port: int, peers: PeerMonitor) -> None:
        logs.info("preflight of the GPUs", world_size=self.settings.launch.world_size)
        plan = self._plan(folder)
        try:
            records = measure(plan, self.settings.launch.place, port, self.env, peers)
        except LaunchError as error:
            if error.code == Exit.PREFLIGHT:
                self.report.settle([failed("collective", error.cause, error.remedy)], folder)
            raise
        self.report.records = records
        wanted = self.settings.stages.preflight
        found = judge_measurements(records, plan, wanted, self.env, adapters=self.adapters)
        self.report.settle(found, folder)

    def _plan(self, folder: Path) -> CollectivePlan:
        own = self.own
        return CollectivePlan(
            folder=str(folder / "preflight"),
            result=str(folder / "preflight" / f"records-{own.rank}.json"),
            nodes=own.nodes,
            nproc=self.settings.launch.nproc_per_node,
            node_rank=own.rank,
            pod=own.pod,
            node=own.node,
            seconds=max(
                MEASUREMENT_MINIMUM_SECONDS,
                int(self.settings.stages.preflight.deadline - self.report.spent),
            ),
            cuda=True,
        )
