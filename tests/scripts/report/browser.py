"""A headless Chromium, driven through its debugging pipe; nothing but the standard library."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
DEADLINE_SECONDS = 60.0
_PIPES = 'exec "$0" "$@" 3<&{read} 4>&{write}'


class Browser:
    def __init__(self, requests: int, replies: int) -> None:
        self._requests, self._replies = requests, replies
        self._rest, self._next, self._session = b"", 0, ""
        self.complaints: list[str] = []
        """Errors and warnings of the page's console, and requests that it made."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Show a file at a width in CSS pixels, in light or dark mode."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=page.as_uri())
        stop = time.monotonic() + DEADLINE_SECONDS
        while self.run("document.readyState + location.href") != f"complete{page.as_uri()}":
            assert time.monotonic() < stop, "the page does not load"
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "Home": 36, "End": 35}[key]
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def picture(self, path: Path) -> None:
        found = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def print(self, path: Path) -> None:
        """Write the page as it would be printed on A4."""
        found = self._call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        path.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._next += 1
        message = {"id": self._next, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while (reply := self._read()).get("id") != self._next:
            self._note(reply)
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    def _note(self, event: dict[str, Any]) -> None:
        name, params = event.get("method"), event.get("params", {})
        is_loud = name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning")
        is_request = name == "Network.requestWillBeSent" and params["type"] != "Document"
        if name in ("Runtime.exceptionThrown", "Log.entryAdded") or is_loud or is_request:
            self.complaints.append(json.dumps(params))

    def _read(self) -> dict[str, Any]:
        stop = time.monotonic() + DEADLINE_SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._replies], [], [], stop - time.monotonic())
            assert ready, "the browser does not answer"
            chunk = os.read(self._replies, 1 << 20)
            assert chunk, "the browser has ended"
            self._rest += chunk
        whole, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(whole)
        return message


def _pipe(theirs: int) -> tuple[int, int]:
    """Return a pipe; the browser's end is moved away from 3 and 4, where it expects its pipes."""
    ends = list(os.pipe())
    moved = fcntl.fcntl(ends[theirs], fcntl.F_DUPFD, 10)
    os.close(ends[theirs])
    ends[theirs] = moved
    return ends[0], ends[1]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    theirs_in, ours_out = _pipe(0)
    ours_in, theirs_out = _pipe(1)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]
    silent: Any = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    pipes = _PIPES.format(read=theirs_in, write=theirs_out)
    process = subprocess.Popen(
        ["bash", "-c", pipes, CHROMIUM, *options],
        pass_fds=(theirs_in, theirs_out),
        start_new_session=True,
        **silent,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
