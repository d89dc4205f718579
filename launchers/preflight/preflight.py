"""The checks of pods, GPUs and network before a run may cost anything.

In every pod: ``local`` at the container's start, before the downloads; ``meeting`` (rank 0) and
``answer`` (the others) in the handshake that starts the gang; ``collective`` before training. All
that was found goes to ``attempts/<n>/preflight-<rank>.json``; what fails ``local`` does so before
an attempt begins, and goes to the run's own folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from launchers import logs
from launchers.config.preflight import COLLECTIVE
from launchers.config.recipe import Backend
from launchers.config.settings import Settings
from launchers.exits import Exit, LaunchError, during
from launchers.gang.barrier import Bond
from launchers.gang.protocol import Hello, Message
from launchers.preflight import gang_checks, pod_checks
from launchers.preflight import judge as preflight_verdict
from launchers.preflight import nonce as preflight_nonce
from launchers.preflight.collective import measure
from launchers.preflight.finding import failed, skipped
from launchers.preflight.host_checks import disk
from launchers.preflight.nvidia_smi import Smi
from launchers.preflight.port import Door, free_port, knock
from launchers.preflight.probes import free
from launchers.preflight.report import Report
from launchers.preflight.worker import Plan

LEAST = 10
"""Seconds that the GPUs have at least: what came before them may not use up the deadline."""


class Preflight:
    """One rank's preflight, from its start to its report."""

    def __init__(
        self, settings: Settings, backend: Backend | None, own: Hello, env: Mapping[str, str]
    ) -> None:
        """Note who checks what; ``backend`` is the recipe's, None where there is no recipe."""
        self.settings, self.backend, self.own, self.env = settings, backend, own, env
        self.report = Report(own, settings.preflight)
        self.card = ""
        self.smi: Smi | None = None
        self.adapters = 0

    @property
    def unwanted(self) -> str:
        """Return why this pod is not checked; empty where it is."""
        if self.settings.preflight.skip:
            return "SKIP_PREFLIGHT=1"
        return "SKIP_TRAIN=1" if "train" in self.settings.skips else ""

    def local(self, needed: int | None = None) -> None:
        """Check this pod.

        Args:
            needed: bytes that checkpoints will still take; None where not known.

        Raises:
            LaunchError: PREFLIGHT, or a user code, with all that failed.
        """
        if self.unwanted:
            logs.info("preflight skipped", why=self.unwanted)
            return
        with self.report.timed():
            facts = pod_checks.facts(self.settings, self.backend, self.env)
            self.adapters, self.smi = facts.adapters, facts.smi
            self.card = facts.smi.gpus[0].name if facts.smi and facts.smi.gpus else ""
            found = pod_checks.judge(facts, self.settings, self.backend, needed)
            self.report.settle(found, self.settings.work.home)

    def space(self, needed: int | None) -> None:
        """Check the workspace's room once more: the model's sizes may be known only now.

        Raises:
            LaunchError: QUOTA, with what is free and what checkpoints will take.
        """
        if needed is not None and not self.unwanted:
            with self.report.timed():
                left = free(self.settings.workspace)
                self.report.settle([disk(left, needed)], self.settings.work.home)

    @contextmanager
    def meeting(
        self, folder: Path, why: str = ""
    ) -> Iterator[tuple[Message, Callable[[Sequence[Message]], None]]]:
        """Ask the others (rank 0), with the master port open meanwhile.

        Args:
            folder: of the attempt.
            why: there is nothing to train; empty when there is.

        Yields:
            What goes with the message ``prepared``, and what judges the answers.
        """
        if self.settings.preflight.skip or why:
            yield {}, lambda answers: None
            return
        with self.report.timed():
            nonce = preflight_nonce.write(folder)
            door = self._door(nonce, folder)

        def judge(answers: Sequence[Message]) -> None:
            if answers:
                told = [gang_checks.answer_of(answer) for answer in answers]
                with during("preflight"):
                    self.report.settle(gang_checks.judge(told, nonce, self.card), folder)

        with door:
            question = {"nonce": str(folder / preflight_nonce.NAME), "collective": free_port()}
            yield {"preflight": question}, judge

    def _door(self, nonce: str, folder: Path) -> AbstractContextManager[object]:
        """Open the master port, if there is anybody to knock."""
        if self.own.nodes == 1 or not self.settings.preflight.wants("port"):
            return nullcontext()
        port = self.settings.place.master_port
        try:
            return Door(port, nonce, self.own.nodes)
        except OSError as error:
            remedy = "free the port or set rendezvous.masterPort"
            self.report.settle([failed("port", f"master port {port}: {error}", remedy)], folder)
            return nullcontext()

    def answer(self, prepared: Message) -> Message:
        """Answer rank 0 (any other rank)."""
        if "preflight" not in prepared:
            return {}
        with self.report.timed():
            place, port = self.settings.place, ""
            if self.settings.preflight.wants("port"):
                try:
                    port = knock(place.master_addr, place.master_port)
                except OSError as error:
                    port = str(error)
            nonce = preflight_nonce.read(Path(prepared["preflight"]["nonce"]))
        return {"preflight": {"nonce": nonce, "port": port, "card": self.card}}

    def collective(self, folder: Path, prepared: Message, bond: Bond) -> None:
        """Let the GPUs of the gang measure together; write the report.

        Raises:
            LaunchError: PREFLIGHT with all that failed, on every rank alike.
        """
        if "preflight" not in prepared:
            return
        with self.report.timed():
            why = self._no_collective()
            if why:
                self.report.findings += [skipped(name, why) for name in sorted(COLLECTIVE)]
            else:
                self._measure(folder, int(prepared["preflight"]["collective"]), bond)
        self.report.passed(folder)

    def _no_collective(self) -> str:
        """Say why the GPUs do not measure; empty when they do."""
        if self.settings.gpus_per_node == 0:
            return "no GPU"
        wants = self.settings.preflight.wants
        if not wants("collective") or not any(wants(name) for name in COLLECTIVE):
            return "preflight.skipChecks"
        return "one GPU" if self.settings.world_size == 1 else ""

    def _measure(self, folder: Path, port: int, bond: Bond) -> None:
        logs.info("preflight of the GPUs", world_size=self.settings.world_size)
        plan = self._plan(folder)
        try:
            records = measure(plan, self.settings.place, port, self.env, bond)
        except LaunchError as error:
            if error.code == Exit.PREFLIGHT:
                self.report.settle([failed("collective", error.cause, error.remedy)], folder)
            raise
        self.report.records = records
        wanted = self.settings.preflight
        found = preflight_verdict.judge(records, plan, wanted, self.env, adapters=self.adapters)
        self.report.settle(found, folder)

    def _plan(self, folder: Path) -> Plan:
        own = self.own
        return Plan(
            folder=str(folder / "preflight"),
            result=str(folder / "preflight" / f"records-{own.rank}.json"),
            nodes=own.nodes,
            nproc=self.settings.nproc_per_node,
            node_rank=own.rank,
            pod=own.pod,
            node=own.node,
            seconds=max(LEAST, int(self.settings.preflight.deadline - self.report.spent)),
            cuda=True,
        )
