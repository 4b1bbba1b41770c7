"""A headless Chromium, steered over its DevTools protocol, for the tests marked `browser`."""

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


@dataclass
class Page:
    """One tab of the browser, and everything that it complained about or asked for."""

    socket: aiohttp.ClientWebSocketResponse
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _loaded: bool = False

    async def open(self, path: Path, *, width: int = 1400, height=900, dark=False, touch=False):
        """Show a file and wait until it is loaded; scripts at its end have run by then."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.send(f"{domain}.enable")
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        await self.send("Emulation.setTouchEmulationEnabled", enabled=touch)
        await self.emulate_mode(dark=dark)
        await self.send("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._note(await self.socket.receive_json())

    async def emulate_mode(self, *, dark: bool):
        """Tell the page that its reader prefers dark or light."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[feature])

    async def evaluate(self, expression: str):
        """Return the value of a JavaScript expression; promises are awaited."""
        answer = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def wait_until(self, condition: str):
        """Wait until a JavaScript expression is true; fails after a minute."""
        await self.evaluate(
            f"""new Promise(done => {{
              const look = () => ({condition}) ? done() : setTimeout(look, 20);
              look();
            }})"""
        )

    async def send(self, method: str, **params):
        number = next(self._numbers)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        while True:
            message = await self.socket.receive_json(timeout=60)
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message):
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """The address of a browser that all tests share; each has a tab of its own."""
    binary = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if binary is None:
        pytest.skip(f"needs headless Chromium: none of {', '.join(_CHROMIUM)} is on the PATH")
    profile = tmp_path_factory.mktemp("chromium")
    process = subprocess.Popen(
        [binary, *_SWITCHES, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # its children end with it
    )
    try:
        yield f"http://127.0.0.1:{_debugging_port(profile / 'DevToolsActivePort', process)}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)


@pytest.fixture
async def page(chromium):
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{chromium}/json/new?about:blank") as answer:
            tab = await answer.json()
        async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            yield Page(socket)
        async with session.get(f"{chromium}/json/close/{tab['id']}"):
            pass


def _debugging_port(file: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + 60
    while not (file.exists() and "\n" in file.read_text()):
        assert process.poll() is None, f"Chromium ended with {process.returncode}"
        assert time.monotonic() < deadline, "Chromium did not say its port within a minute"
        time.sleep(0.05)
    return int(file.read_text().splitlines()[0])


on_every_screen = pytest.mark.parametrize(
    ("width", "touch", "dark"),
    [(1400, False, False), (390, True, True)],
    ids=["wide and light", "phone and dark"],
)
"""For tests of a page as it is drawn."""
