"""report.py - the report in a page of `ddprun report`, as data, for tests; and what the page's text says of it."""
import html
import json
import re

UNITS = {"\u00b5s": 1, "ms": 1000, "s": 1000000, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "%": 0.01}


def report_of(page):
    """The JSON in a page."""
    return json.loads(re.search('<script type="application/json" id="report">(.*?)</script>', page, re.S)[1])


def section(report, name):
    return next((s for s in report["sections"] if s["id"] == name), None)


def figure(report, name):
    return next(f["value"] for s in report["sections"] for f in s.get("figures", []) if f["id"] == name)


def rows(report, name, title):
    """Of a table of a section: its rows, by the names of columns."""
    table = next((t for t in section(report, name).get("tables", []) if t["title"] == title), {"columns": [], "rows": []})
    return [dict(zip((c["name"] for c in table["columns"]), row)) for row in table["rows"]]


def plain(markup):
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", markup)))


def parts(page):
    """The page's sections, as markup."""
    return dict(re.findall(r"<section id='([a-z-]+)'>\n(.*?)</section>", page.split('<script type="application/json"')[0], re.S))


def number(text):
    """What a text of the page is: a number with a unit, in microseconds, bytes or parts; "-" is None."""
    text = text.strip()
    if text == "-":
        return None
    digits, unit = (text.replace(",", "").replace("\u00a0", " ").split(" ") + [""])[:2]
    return float(digits) * UNITS.get(unit, 1)
