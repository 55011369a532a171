"""shoot.py CHROMIUM PAGE FOLDER - takes the pictures of the README from a page of `ddprun report`, in headless Chromium."""
import base64
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "end_to_end"))
from browser import Browser  # noqa: E402

WIDTH = 1000
MARGIN = 12
PICTURES = {"report.png": ("#head", "#step-times"), "timeline.png": ("#timeline", "#timeline")}  # from the top of one to the end of another


def main():
    program, page, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve().as_uri(), sys.argv[3]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as own:
        browser = Browser(program, own)
        targets = browser.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.call("Page.enable")
        browser.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=900, deviceScaleFactor=1, mobile=False)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        browser.call("Page.navigate", url=page)
        browser.wait("Page.loadEventFired")
        for name, (first, last) in PICTURES.items():
            place = "document.querySelector('%s').getBoundingClientRect().%s"
            top, bottom = browser.evaluate(place % (first, "top")) - MARGIN, browser.evaluate(place % (last, "bottom")) + MARGIN
            clip = {"x": 0, "y": max(top, 0), "width": WIDTH, "height": bottom - max(top, 0), "scale": 1}
            picture = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
            pathlib.Path(folder, name).write_bytes(base64.b64decode(picture))
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait(30)


main()
