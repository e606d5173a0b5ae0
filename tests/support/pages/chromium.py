"""Headless Chromium, driven over its DevTools pipe: opens a file as a screen of some width shows it, says what is wrong and takes
a picture. Debian's package (tools/setup --pages); nothing besides Python's own library."""
import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
         "--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe")
HEIGHT = 900
TALLEST = 12000  # of a picture

# What a person would call broken: wider than the screen, text too small to read, something that runs.
MEASURE = """(() => {
  const small = [], wide = [], seen = document.scrollingElement;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, of = text.parentElement;
    if (!text.data.trim() || !of.getClientRects().length || of.closest('style,title')) continue;
    let size = parseFloat(getComputedStyle(of).fontSize);
    if (of.ownerSVGElement) { const m = of.getScreenCTM(); size *= Math.hypot(m.a, m.b); }
    if (size < 11) small.push(size.toFixed(1) + ' px: ' + text.data.trim().slice(0, 40));
  }
  if (seen.scrollWidth > innerWidth)
    for (const part of document.body.querySelectorAll('*'))
      if (part.getBoundingClientRect().right > innerWidth + 1 && !part.closest('.scroll'))
        wide.push(part.tagName.toLowerCase() + '.' + part.getAttribute('class'));
  return {width: seen.scrollWidth, height: seen.scrollHeight, inner: innerWidth, small, wide, scripts: document.scripts.length};
})()"""


class Shown:
    """A page on a screen: faults in words, and the picture."""

    def __init__(self, faults, picture):
        self.faults, self.picture = faults, picture


class Chromium:
    def __init__(self, program, profile):
        def above(pipe):  # out of the way of 3 and 4, where the browser looks for its pipe
            high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in pipe]
            for end in pipe:
                os.close(end)
            return high

        its_input, self._commands = above(os.pipe())
        self._answers, its_output = above(os.pipe())
        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"], pass_fds=(3, 4), start_new_session=True,
            preexec_fn=lambda: (os.dup2(its_input, 3), os.dup2(its_output, 4)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(its_input)
        os.close(its_output)
        self._unread, self._number, self._events = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session = None

    def _next(self):
        """The next message; BLOCKS until there is one."""
        while b"\0" not in self._unread:
            more = os.read(self._answers, 1 << 16)
            if not more:
                raise RuntimeError(f"Chromium has gone with {self.process.wait()}")
            self._unread += more
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._events.append(answer)

    def _wait_for(self, method):
        while not any(event.get("method") == method for event in self._events):
            self._events.append(self._next())

    def _told(self):
        """What the console of the page has to say, and what it asked the network for."""
        for event in self._events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                yield "exception: " + params["exceptionDetails"]["text"]
            elif event.get("method") == "Runtime.consoleAPICalled":
                yield f"console.{params['type']}: {params['args']}"
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] != "verbose":
                yield f"console: {params['entry']['text']}"
            elif event.get("method") == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                yield f"asks for {params['request']['url']}"

    def show(self, page, width, dark, height=None, begin=None):
        """Opens a file. The picture is the whole page, or `height` pixels of it, from what the selector `begin` names on."""
        self._events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=Path(page).resolve().as_uri())
        self._wait_for("Page.loadEventFired")
        found = self.call("Runtime.evaluate", expression=MEASURE, returnByValue=True)["result"]["value"]
        faults = list(self._told())
        if found["width"] > found["inner"]:
            faults.append(f"{found['width']} px wide on a screen of {found['inner']}: {found['wide'][:5]}")
        faults += [f"text of {small}" for small in found["small"][:5]]
        if found["scripts"]:
            faults.append(f"{found['scripts']} scripts")
        top = self.value(f"document.querySelector({json.dumps(begin)}).getBoundingClientRect().top") if begin else 0
        clip = {"x": 0, "y": top, "width": width, "height": height or min(found["height"], TALLEST), "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return Shown(faults, base64.b64decode(taken["data"]))

    def check(self, selector):
        """Presses what `selector` names."""
        self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)}).click()")

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def close(self):
        os.close(self._commands)
        os.close(self._answers)
        with contextlib.suppress(ProcessLookupError):  # its renderers are of its own session
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def chromium():
    program = shutil.which("chromium")
    if not program:
        raise FileNotFoundError("no chromium: tools/setup --pages installs it")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        browser = Chromium(program, profile)
        try:
            yield browser
        finally:
            browser.close()
