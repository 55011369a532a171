"""browser.py CHROMIUM PAGE [FOLDER] - looks at a page of `ddprun report` in headless Chromium, over the DevTools protocol by a pipe.

At 400, 500 and 1200 pixels of width, light and dark: no message on the console, no request but for the page itself, nothing wider than
the window except inside a box that scrolls, every section with something in it, and text that stands out from what is behind it.
Pictures go to FOLDER, if it is given. Prints what is wrong; exit code 1.
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SECTIONS = ["verdict", "step-times", "timeline", "means", "buckets", "settings"]

# What reaches beyond the window. A box that scrolls is itself looked at, but not what is in it.
WIDE = """(() => {
  const wide = [];
  if (document.documentElement.scrollWidth > innerWidth) wide.push('the page: ' + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll('main, main *')) {
    const box = e.closest('.box'), place = e.getBoundingClientRect();
    if ((box && e !== box) || place.width === 0 || e.closest('defs, title, desc')) continue;
    if (place.right > innerWidth + 1 || place.left < -1)
      wide.push(e.tagName + '.' + e.getAttribute('class') + ' ' + e.textContent.slice(0, 40) + ': ' + place.left + ' to ' + place.right);
  }
  return wide;
})()"""

# Labels of one picture that lie over each other.
CROWDED = """(() => {
  const crowded = [];
  for (const picture of document.querySelectorAll('svg.chart')) {
    const texts = [...picture.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    for (let i = 0; i < texts.length; ++i)
      for (let k = 0; k < i; ++k) {
        const a = texts[i][1], b = texts[k][1];
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
          crowded.push(texts[k][0] + ' / ' + texts[i][0]);
      }
  }
  return crowded;
})()"""

# Contrast of text with what is behind it, by WCAG 2.1; 4.5 is enough for ordinary text.
PALE = """(() => {
  const numbers = c => c.match(/[0-9.]+/g).map(Number);
  const light = c => { const [r, g, b] = numbers(c).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                       return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const pale = [];
  for (const e of document.querySelectorAll('h1, h2, h3, p, td, th, dt, dd, small, li, footer, .key, text.tick, text.lane')) {
    if (e.textContent.trim() === '') continue;
    let behind = e;
    while (behind && (numbers(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
    const style = getComputedStyle(e), ink = e.tagName === 'text' ? style.fill : style.color;
    const one = light(ink), two = light(getComputedStyle(behind || document.body).backgroundColor);
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < 4.5) pale.push(e.tagName + ' ' + e.textContent.slice(0, 30) + ': ' + contrast.toFixed(2));
  }
  return pale;
})()"""

wrong = []


def complain(text):
    if len(wrong) < 20:
        print(text)
    wrong.append(text)


class Browser:
    """Messages end with a NUL byte; the browser reads descriptor 3 and writes descriptor 4."""

    def __init__(self, program, folder):
        to_browser, self.to = os.pipe()
        self.at, from_browser = os.pipe()

        def place_descriptors():
            reads, writes = os.dup(to_browser), os.dup(from_browser)  # either may be 3 or 4 itself
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
             "--user-data-dir=" + folder, "about:blank"],
            preexec_fn=place_descriptors, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.count, self.bytes, self.events, self.session = 0, b"", [], None

    def receive(self):
        while b"\0" not in self.bytes:
            more = os.read(self.at, 1 << 20)
            if not more:
                sys.exit("the browser has ended")
            self.bytes += more
        message, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    sys.exit("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self.receive())

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")


def look(browser, page, folder, width, scheme):
    name = "%d pixels, %s" % (width, scheme)
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Page.navigate", url=page)
    browser.wait("Page.loadEventFired")
    for what, expression in (("beyond the window", WIDE), ("over each other", CROWDED), ("pale", PALE)):
        for one in browser.evaluate(expression) or []:
            complain("%s: %s: %s" % (name, what, one))
    for section in SECTIONS:
        filled = browser.evaluate("(e => e ? e.textContent.trim().length : -1)(document.getElementById('%s'))" % section)
        if filled < 40:
            complain("%s: section %s has %s characters" % (name, section, filled))
    behind = browser.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]")
    if (behind < 128) != (scheme == "dark"):
        complain("%s: the page is not %s" % (name, scheme))
    if folder:
        size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": width, "height": min(size["height"], 12000), "scale": 1}
        picture = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        pathlib.Path(folder, "page-%d-%s.png" % (width, scheme)).write_bytes(base64.b64decode(picture))
    for event in browser.events:
        method, values = event.get("method"), event.get("params", {})
        if method in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            complain("%s: on the console: %s" % (name, json.dumps(values)[:300]))
        if method == "Network.requestWillBeSent" and values["request"]["url"] != page:
            complain("%s: a request: %s" % (name, values["request"]["url"][:200]))


def main():
    program, page, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve().as_uri(), sys.argv[3] if len(sys.argv) > 3 else None
    if folder:
        os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as own:
        browser = Browser(program, own)
        targets = browser.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(domain + ".enable")
        for width in (400, 500, 1200):
            for scheme in ("light", "dark"):
                look(browser, page, folder, width, scheme)
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait(30)
    print("6 looks, %d complaints%s" % (len(wrong), ", as " + wrong[0] if wrong else ""))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
