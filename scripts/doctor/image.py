"""What can be said of the image without pulling it."""

from __future__ import annotations

from scripts.doctor.finding import Finding, ok, warn
from scripts.doctor.release import Release


def check(release: Release) -> list[Finding]:
    """Advice on tag and pull policy; no cluster says beforehand whether a pull will work."""
    container = release.gang.spec["containers"][0]
    image, policy = str(container["image"]), str(container.get("imagePullPolicy", ""))
    name, _, tag = image.rpartition(":")
    if "@sha256:" in image:
        return [ok("image", f"pinned by digest, pulled {policy}")]
    if "/" in tag or not name or tag == "latest":
        found = f"{image} is whatever was pushed last; some clusters refuse it"
        return [warn("image", found, "write image.digest, or a tag that does not move")]
    if policy == "Never":
        found = f"{image} is never pulled"
        return [
            warn("image", found, "it must be on every node; else image.pullPolicy: IfNotPresent")
        ]
    return [warn("image", f"tag {tag} may be pushed again", "write image.digest to pin it")]
