"""All checks of a release on a cluster, in the order of a report."""

from __future__ import annotations

from scripts.doctor import (
    admission,
    card,
    controllers,
    crds,
    image,
    kueue_config,
    namespace_quota,
    nodes,
    queue,
    quota,
    rights,
    secrets,
    server,
    storage,
    submission,
    topology,
)
from scripts.doctor.finding import Finding
from scripts.doctor.kinds import KUEUE
from scripts.doctor.release import Release, admitted
from scripts.doctor.seen import Seen


def examine(release: Release, seen: Seen) -> list[Finding]:
    """What is found; the first line alone where no server answers."""
    if not server.answers(seen):
        return server.check(seen)
    kept = admitted(release, seen.admitted())
    return [
        *server.check(seen),
        *crds.check(release, seen),
        *controllers.check(release, seen),
        *rights.check(seen),
        *submission.check(release, seen),
        *admission.check(release, seen),
        *submission.account(release, seen),
        *namespace_quota.check(kept, seen),
        *(_kueue(kept, seen) if _has_kueue(release, seen) else ()),
        *nodes.check(kept, seen),
        *card.check(kept, seen, card.wanted(release)),
        *storage.check(release, seen),
        *secrets.check(release, seen),
        *image.check(release),
    ]


def _has_kueue(release: Release, seen: Seen) -> bool:
    """Whether the queue's objects can be asked for; crds.py says it where they can't."""
    return not release.queue or "v1beta2" in seen.versions(KUEUE)


def _kueue(release: Release, seen: Seen) -> list[Finding]:
    return [
        *queue.check(release, seen),
        *quota.check(release, seen, kueue_config.read(seen.kueue)),
        *topology.check(release, seen),
    ]
