"""browser.py CHROMIUM PAGE... - looks at pages of `ddprun report` in headless Chromium, over the DevTools protocol by a pipe.

At 400 and 1000 pixels of width, light and dark, printed, and without JavaScript: no message on the console, no request but for the page
itself, nothing wider than the window except inside a box that scrolls, every section with something in it, and text that stands out from
its background. Then clicks on headings must sort, wheel, keys and buttons must zoom, and values must be shown at the pointer.
Prints what is wrong; exit code 1.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SECTIONS = ["head", "verdict", "step-times", "timeline", "means", "buckets", "settings"]

# What reaches beyond the window. A box that scrolls is itself looked at, but not what is in it.
WIDE = """(() => {
  const wide = [];
  if (document.documentElement.scrollWidth > innerWidth) wide.push('the page: ' + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll('main, main *')) {
    const box = e.closest('.box'), place = e.getBoundingClientRect();
    if ((box && e !== box) || place.width === 0 || e.closest('defs, title, desc, details:not([open]) > div')) continue;
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
  for (const e of document.querySelectorAll('h1, h2, h3, p, td, th, dt, dd, small, button, figcaption, .key, text')) {
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

seen, wrong = [], []  # pages, and what is wrong with them


def complain(text):
    text = "%s: %s" % (seen[-1], text)
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
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)["result"].get("value")


# Headings of a table, and whether its rows are in the order of the numbers in a column: 1 up, -1 down, 0 neither.
ORDER = """(column => {
  const numbers = [...document.querySelector('#buckets details[open] table').tBodies[0].rows].map(r => parseFloat(r.cells[column].textContent.replaceAll(',', '')));
  const up = numbers.every((v, i) => i === 0 || numbers[i - 1] <= v), down = numbers.every((v, i) => i === 0 || numbers[i - 1] >= v);
  return up === down ? 0 : up ? 1 : -1;
})(%d)"""
# Microseconds in a pixel of the timeline, by its axis.
SCALE = """(() => {
  const ticks = [...document.querySelectorAll('#timeline text.tick')].map(t => [parseFloat(t.textContent) * {'\u00b5s': 1, ms: 1e3, s: 1e6}[t.textContent.split(/\\s/)[1]], +t.getAttribute('x')]);
  return (ticks[1][0] - ticks[0][0]) / (ticks[1][1] - ticks[0][1]);
})()"""
SIGHT = "(e => { e.scrollIntoView({block: 'center'}); const p = e.getBoundingClientRect(); return [p.left + p.width / 2, p.top + p.height / 2]; })(%s)"
# What is folded opens by a click; all else is there to be read.
CURVE = "[...document.querySelectorAll('section:not(#late) details')].find(d => d.querySelector('th')?.textContent === 'Step')"
WITHOUT = """(() => [...document.querySelectorAll('td, dd, p')].filter(e => !e.closest('details:not([open])')
  && e.textContent.trim() !== '' && e.getBoundingClientRect().height === 0).map(e => e.textContent.slice(0, 60)))()"""


def mouse(browser, kind, place, **more):
    browser.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], **more)
    browser.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 20)))")


def click(browser, element):
    place = browser.evaluate(SIGHT % element)
    for kind in ("mousePressed", "mouseReleased"):
        mouse(browser, kind, place, button="left", clickCount=1)


def use(browser):
    """A page with buckets and a timeline."""
    for wanted in (1, -1):
        click(browser, "document.querySelectorAll('#buckets [open] th button')[1]")
        if browser.evaluate(ORDER % 1) not in (wanted, 0) or browser.evaluate("document.querySelector('#buckets [open] th:nth-child(2)').ariaSort") != \
                ("ascending" if wanted > 0 else "descending"):
            complain("a click on a heading does not sort: %s" % browser.evaluate(ORDER % 1))
    click(browser, "document.querySelectorAll('#buckets [open] th button')[0]")
    click(browser, "document.querySelectorAll('#buckets [open] th button')[0]")
    if browser.evaluate("document.querySelectorAll('#buckets [open] table tbody tr').length") < 2 or browser.evaluate(ORDER % 0) != -1:
        complain("a second click on a heading does not sort downwards")
    picture = "document.querySelector('#timeline svg.chart')"
    place, scales = browser.evaluate(SIGHT % (picture + ".querySelector('rect.before')")), [browser.evaluate(SCALE)]
    mouse(browser, "mouseMoved", place)
    if "Part: before backward" not in browser.evaluate("tip.hidden ? '' : tip.textContent") or "Takes: " not in browser.evaluate("tip.textContent"):
        complain("a slice under the pointer says '%s'" % browser.evaluate("tip.textContent"))
    mouse(browser, "mouseWheel", place, deltaX=0, deltaY=-100)
    scales.append(browser.evaluate(SCALE))
    browser.evaluate(picture + ".focus()")
    for key in "+-":
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        scales.append(browser.evaluate(SCALE))
    click(browser, "[...document.querySelectorAll('#timeline button')].find(b => b.textContent === 'whole step')")
    scales.append(browser.evaluate(SCALE))
    if any(abs(scale / scales[0] - wanted) > 0.03 for scale, wanted in zip(scales, (1, 1 / 1.5, 1 / 1.5 ** 2, 1 / 1.5, 1))):
        complain("wheel, +, - and the button zoom to %s" % scales)
    mouse(browser, "mouseMoved", browser.evaluate(SIGHT % "document.querySelector('#step-times svg.chart')"))
    if not re.match(r"step \d+: \S+ (.s|s)", browser.evaluate("tip.textContent")):
        complain("the curve under the pointer says '%s'" % browser.evaluate("tip.textContent"))


def look(browser, page, width, scheme, media="", script=True):
    name = "%d pixels, %s%s%s" % (width, scheme, media and ", " + media, "" if script else ", without JavaScript")
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setScriptExecutionDisabled", value=not script)
    browser.call("Page.navigate", url=page)
    browser.wait("Page.loadEventFired")
    if script:
        browser.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 20)))")
    for what, expression in (("beyond the window", WIDE), ("over each other", CROWDED), ("pale", PALE)) + ((("not to be seen", WITHOUT),) if not script else ()):
        for one in browser.evaluate(expression) or []:
            complain("%s: %s: %s" % (name, what, one))
    for section in SECTIONS:
        filled = browser.evaluate("(e => e ? e.textContent.trim().length : -1)(document.getElementById('%s'))" % section)
        if filled < 20:
            complain("%s: section %s has %s characters" % (name, section, filled))
    pictures = browser.evaluate("document.querySelectorAll('svg.chart').length")
    if (pictures > 0) != script:
        complain("%s: there are %d pictures" % (name, pictures))
    behind = browser.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]")
    if not media and (behind < 128) != (scheme == "dark"):
        complain("%s: the page is not %s" % (name, scheme))
    for event in browser.events:
        method, values = event.get("method"), event.get("params", {})
        if method in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            complain("%s: on the console: %s" % (name, json.dumps(values)[:300]))
        if method == "Network.requestWillBeSent" and values["request"]["url"] != page:
            complain("%s: a request: %s" % (name, values["request"]["url"][:200]))


def look_at(browser, page):
    seen.append(page)
    for width in (400, 1000):
        for scheme in ("light", "dark"):
            look(browser, page, width, scheme)
    if browser.evaluate("document.querySelector('#timeline svg.chart rect.before') && document.querySelectorAll('#buckets td').length > 0"):
        use(browser)
    look(browser, page, 700, "light", "print")
    look(browser, page, 400, "light", script=False)
    if browser.evaluate(CURVE + " !== undefined"):
        place = browser.evaluate(SIGHT % (CURVE + ".querySelector('summary')"))
        for kind in ("mousePressed", "mouseReleased"):
            browser.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
        if not browser.evaluate(CURVE + ".open"):
            complain("without JavaScript, the values of a curve cannot be read")


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as own:
        browser = Browser(sys.argv[1], own)
        targets = browser.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(domain + ".enable")
        for page in sys.argv[2:]:
            look_at(browser, pathlib.Path(page).resolve().as_uri())
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait(30)
    print("%d pages, %d complaints%s" % (len(seen), len(wrong), ", as " + wrong[0] if wrong else ""))
    sys.exit(0 if seen and not wrong else 1)


if __name__ == "__main__":
    main()
