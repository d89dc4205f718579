"""The features of this process, and the patches that they consist of."""

from launchers.upstream.patches import Verdict

INSTALLED: list[str] = []
"""Names of the features, in the order in which ``loading`` installed them."""
VERDICTS: dict[str, Verdict] = {}
"""Their patches of upstream by feature, also of those that were left out."""
