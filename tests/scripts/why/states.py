"""Each state of `why`, planted alone: the view, and a fact that its sentence must contain."""

from tests.scripts.why import access, admission, endings, pods, progress, queueing
from tests.scripts.why.planted import States

STATES: States = access.STATES | admission.STATES | endings.STATES
STATES |= queueing.STATES | pods.STATES | progress.STATES
