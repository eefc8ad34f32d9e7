"""Headless Chromium, spoken to over a pipe in its DevTools protocol: pages, keys, the pointer, and what a page says."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

ANSWERS_WITHIN_S = 30
LOOKS_EVERY_S = 0.02

# Name in the protocol: code, and what it writes.
KEYS = {
    "Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""),
    "ArrowLeft": (37, ""), "Backspace": (8, ""), " ": (32, " "),
}


class Chromium:
    """A browser of its own, with nothing kept. It ends with `close`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="silverback-chromium-")
        read_by_it, self.to_it = os.pipe()
        self.from_it, written_by_it = os.pipe()
        arguments = [
            "chromium", "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-extensions", "--disable-background-networking", "--no-first-run", "--hide-scrollbars",
            f"--user-data-dir={self.profile}", "about:blank",
        ]
        # It reads file 3 and writes file 4.
        shell = ["bash", "-c", f'exec "$@" 3<&{read_by_it} 4>&{written_by_it}', "bash", *arguments]
        self.process = subprocess.Popen(
            shell, pass_fds=(read_by_it, written_by_it), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_by_it)
        os.close(written_by_it)
        self.last_id = 0
        self.received = b""
        self.events = []

    def close(self):
        os.close(self.to_it)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_it)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, **parameters):
        """The result of a command."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.to_it, rest):]
        until = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            message = self._next(until)
            if message.get("id") == self.last_id:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def _next(self, until):
        while b"\0" not in self.received:
            if not select.select([self.from_it], [], [], max(until - time.monotonic(), 0))[0]:
                raise AssertionError("Chromium doesn't answer")
            part = os.read(self.from_it, 1 << 20)
            if not part:
                raise AssertionError("Chromium has ended")
            self.received += part
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def open(self, url, width, height=900, scheme="light"):
        """A page of this size and colour scheme."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.go(url)
        return page


class Page:
    """One tab."""

    def __init__(self, browser, target, session):
        self.browser = browser
        self.target = target
        self.session = session

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.querySelector('.panel') !== null")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def evaluate(self, expression):
        """The value of an expression, once it has one."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        """Waits until it is so, and gives what it is."""
        until = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > until:
                raise AssertionError(f"never: {expression}; the page: {self.evaluate('document.body.innerText')}")
            time.sleep(LOOKS_EVERY_S)

    def type(self, text):
        """As if typed, letter by letter."""
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=letter, unmodifiedText=letter, key=letter)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def press(self, key, ctrl=False):
        code, text = KEYS[key]
        key_event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 2 if ctrl else 0}
        down = {"text": text} if text and not ctrl else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if down else "rawKeyDown", **key_event, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key_event)

    def box(self, selector):
        """Left, top, width and height of an element, in pixels."""
        found = f"document.querySelector({json.dumps(selector)})"
        return self.evaluate(f"(({{x, y, width, height}}) => [x, y, width, height])({found}.getBoundingClientRect())")

    def mouse(self, kind, x, y, buttons=0, modifiers=0):
        button = "left" if kind != "mouseMoved" or buttons else "none"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1, modifiers=modifiers)

    def click(self, selector, ctrl=False):
        left, top, width, height = self.box(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, left + width / 2, top + height / 2, 1, 2 if ctrl else 0)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """Errors and broken policies that the page has had; not the statuses of what it asked for."""
        self.evaluate("0")
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, told = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"])
            elif method == "Runtime.consoleAPICalled" and told["type"] == "error":
                found.append(told["args"])
            elif method == "Log.entryAdded" and told["entry"]["level"] == "error" and told["entry"]["source"] != "network":
                found.append(told["entry"])
        return found
