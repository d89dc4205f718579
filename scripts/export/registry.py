"""A tag of an OCI registry, by the program `oras`: one layer for each file, none sent twice."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from launchers.system.atomic_file import FOREIGN
from scripts.export.remote import refusal
from scripts.problem import Problem

KIND = "application/vnd.megatron-dpo.export"
TITLE = "org.opencontainers.image.title"
_STATUS = (
    (429, r"toomanyrequests|status code 429"),
    (404, r"name_unknown|manifest_unknown|status code 404"),
    (401, r"unauthorized|authentication required|credential|status code 401"),
    (403, r"denied|forbidden|status code 403"),
    (400, r"response status code 4\d\d|invalid reference|quota"),
)
"""HTTP status by what `oras` prints, which is not always the status."""


class Tag:
    """One tag; `oras pull` restores the folder."""

    def __init__(self, name: str, token: str, user: str) -> None:
        """Use a token, or without one that of `oras login`."""
        self._name, self._token = name, token
        form = ["--username", user, "--password-stdin"] if user else ["--identity-token-stdin"]
        self._login = form if token else []

    def files(self) -> Mapping[str, str]:
        """Return the digest of each layer by its title; none without the tag."""
        done = self._oras(["manifest", "fetch", self._name])
        absent = re.compile(rf"{re.escape(self._name.partition('/')[2])}: not found")
        if _status(done) == 404 or (done.returncode and absent.search(done.stderr)):
            return {}
        try:
            layers = json.loads(self._output(done)).get("layers", [{"digest": "of an index"}])
            return {
                each.get("annotations", each).get(TITLE, "?"): each["digest"] for each in layers
            }
        except FOREIGN as error:
            raise refusal(f"oci://{self._name}", 0, f"no manifest: {error!r}", "") from None

    def push(self, folder: Path, files: Sequence[str], changed: Sequence[str]) -> str:
        """Push all files as one artifact; return its digest."""
        words = ["push", "--artifact-type", KIND, "--format", "json", "--no-tty", self._name]
        done = self._oras([*words, *(f"{name}:application/octet-stream" for name in files)], folder)
        try:
            return str(json.loads(self._output(done))["digest"])
        except FOREIGN as error:
            raise refusal(f"oci://{self._name}", 0, f"no digest: {error!r}", "") from None

    def _oras(
        self, words: Sequence[str], folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        command, pipe = ["oras", *words, *self._login], subprocess.PIPE
        try:
            return subprocess.run(
                command, cwd=folder, input=self._token, stdout=pipe, stderr=pipe, text=True
            )
        except FileNotFoundError:
            said = "oci:// needs the program oras: https://oras.land/docs/installation"
            raise Problem(f"{said} [push-client]") from None

    def _output(self, done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode:
            raise refusal(f"oci://{self._name}", _status(done), done.stderr, self._token)
        return done.stdout


def _status(done: subprocess.CompletedProcess[str]) -> int:
    said = done.stderr.lower() if done.returncode else ""
    return next((status for status, form in _STATUS if re.search(form, said)), 0)
