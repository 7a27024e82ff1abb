"""A headless Chromium, driven over its own pipe by the DevTools protocol: no driver, no port, no dependency."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
PATIENCE = 60  # seconds for any one answer

# Chromium reads commands from descriptor 3 and writes to 4; the pipe's ends are put there just before it begins.
PLACE = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab. `errors` gathers what the console would show in red."""

    def __init__(self, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", PLACE, str(theirs_in), str(theirs_out), CHROMIUM, *flags],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._events: list[dict] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")
        self._process.wait(PATIENCE)
        os.close(self._out)
        os.close(self._in)

    # ------------------------------------------------------------------ protocol

    def send(self, method: str, **parameters):
        """One command and its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def wait_for(self, event: str) -> None:
        """Waits until an event has come since the last page was asked for."""
        while not any(one["method"] == event for one in self._events):
            self._note(self._receive())

    def _receive(self) -> dict:
        deadline = time.monotonic() + PATIENCE
        poll = select.poll()
        poll.register(self._in, select.POLLIN)
        while b"\0" not in self._buffer:
            ready = poll.poll(1000 * max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._in, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError("Chromium does not answer" if not ready else "Chromium has ended")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict) -> None:
        self._events.append(event)
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.errors.append(values["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.errors.append(str(values["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    # ------------------------------------------------------------------ what a person does

    def open(self, page: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Opens a file in a window of this size; below 500 pixels it is a phone's."""
        phone = width < 500
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self._events, self.errors, self.requests = [], [], []
        self.send("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")
        self.settle()

    def evaluate(self, expression: str):
        """The value of an expression on the page."""
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def settle(self) -> None:
        """Waits until what was asked for is drawn: two frames."""
        frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.evaluate(f"{frame}.then(() => {frame})")

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, scrolled to the middle of the window."""
        script = f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{block: "center"}});
            const {{left, top, width, height}} = node.getBoundingClientRect();
            return [left, top, width, height];
        }})()"""
        box = self.evaluate(script)
        self.settle()
        return tuple(box)

    def mouse(self, kind: str, x: float, y: float, pressed: bool = False, clicks: int = 0) -> None:
        button = "left" if kind != "mouseMoved" or pressed else "none"
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=int(pressed),
                  clickCount=clicks)  # fmt: skip

    def click(self, selector: str) -> None:
        left, top, width, height = self.box(selector)
        x, y = left + width / 2, top + height / 2
        self.mouse("mousePressed", x, y, pressed=True, clicks=1)
        self.mouse("mouseReleased", x, y, clicks=1)
        self.settle()

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drags from one place to another, both in shares of the element's width and height."""
        left, top, width, height = self.box(selector)
        (x0, y0), (x1, y1) = ((left + px * width, top + py * height) for px, py in (start, end))
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, pressed=True, clicks=1)
        for share in (0.3, 0.7, 1.0):
            self.mouse("mouseMoved", x0 + share * (x1 - x0), y0 + share * (y1 - y0), pressed=True)
        self.mouse("mouseReleased", x1, y1, clicks=1)
        self.settle()

    def swipe(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """The same with a finger."""
        left, top, width, height = self.box(selector)
        (x0, y0), (x1, y1) = ((left + px * width, top + py * height) for px, py in (start, end))
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x0, "y": y0}])
        for share in (0.2, 0.4, 0.6, 0.8, 1.0):
            point = {"x": x0 + share * (x1 - x0), "y": y0 + share * (y1 - y0)}
            self.send("Input.dispatchTouchEvent", type="touchMove", touchPoints=[point])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def hover(self, selector: str, x: float, y: float) -> None:
        left, top, width, height = self.box(selector)
        self.mouse("mouseMoved", left + x * width, top + y * height)
        self.settle()

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def choose(self, selector: str, value: str) -> None:
        """Chooses an option of a list, as its keyboard would."""
        self.evaluate(f"""(() => {{
            const list = document.querySelector({json.dumps(selector)});
            list.value = {json.dumps(value)};
            list.dispatchEvent(new Event("change", {{bubbles: true}}));
        }})()""")
        self.settle()

    def screenshot(self, file: Path, whole: bool = True) -> None:
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))
        file.write_bytes(base64.b64decode(answer["data"]))

    def _clip(self, whole: bool) -> dict:
        if not whole:
            return {}
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
