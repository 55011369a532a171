"""sentences.py KIND PAGE SUMMARY STDERR PREDICT - holds each sentence about a run to the figures beside it: closing lines, summary, page, and
`ddprun predict DIR`, whose file may be empty. A word has one value wherever it stands; what must be there depends on KIND. Prints what is
wrong; exit code 1.
"""
import html
import json
import math
import re
import sys

UNITS = {"\u00b5s": 0.001, "ms": 1, "s": 1000}
# kinds of runs in which steps have times, and what else each of them must say
TIMED = {"balanced", "slow", "turns", "link", "host", "nan", "failed", "restarted", "plan"}
MUST = {
    "slow": [("closing", r"waiting for rank 1: "), ("page", r"waiting for rank 1: "), ("page", r"look at rank 1 "), ("predict", r"look at rank 1 ")],
    "turns": [("closing", r"waiting for each other: "), ("page", r"waiting for each other: "), ("predict", r"waiting for each other: ")],
    "nan": [("closing", r"has NaN in step \d+, before averaging"), ("page", r"has NaN in step \d+, before averaging")],
    "failed": [("page", r"The job failed with exit code 139: rank 1 was ended by SIGSEGV")],
    "hung": [("closing", r"rank 1 .* keeps the others waiting: .*; rank 0 .* has waited"), ("page", r"rank 1 .* keeps the others waiting: ")],
    "restarted": [("closing", r"restart 1 of 1: DDPRUN_RESTART=1 tells "), ("closing", r"; restarts: 1")],
    "plan": [("page", r"With --plan a step is a round of")],
    "graphs": [("page", r"steps in CUDA graphs have no times")],
}

wrong = []
said = {}  # word: [(where, value)]


def complain(text):
    print(text)
    wrong.append(text)


def say(word, where, value):
    said.setdefault(word, []).append((where, value))


def ms(text):
    number, unit = text.replace("\u00a0", " ").split()
    return float(number) * UNITS[unit]


def plain(text):
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<title>.*?</title>", "", text))))


def find(word, where, pattern, text, read):
    for found in re.finditer(pattern, text):
        say(word, where, read(found[1]))


def rows(section, heading):
    """Of a table of the page: its rows by their first cell, and the names of its columns."""
    table = next((t for t in re.findall("<table>.*?</table>", section, re.S) if heading in t), "")
    names = [plain(h) for h in re.findall("<th scope='col'.*?</th>", table, re.S)]
    cells = [[plain(c) for c in re.findall("<t[hd].*?</t[hd]>", re.sub("<svg.*?</svg>", "", r, flags=re.S), re.S)] for r in re.findall("<tr><th scope='row'.*?</tr>", table, re.S)]
    return {c[0]: dict(zip(names, c)) for c in cells}


def read_closing(text):
    find("exposed", "closing", r"exposed communication: (\S+) ms per step", text, float)
    find("waiting", "closing", r"waiting for (?:rank \d+|each other): (\S+) ms", text, float)
    find("straggler", "closing", r"waiting for rank (\d+):", text, int)
    find("rate", "closing", r"(\S+) steps/s", text, float)
    find("window", "closing", r"sampled from (steps \d+ to \d+)\)", text, str)


def read_summary(summary):
    for word, member in (("exposed", "exposed_ms"), ("waiting", "waiting_ms"), ("straggler", "waited_for"), ("rate", "steps_per_second")):
        if summary[member] is not None:
            say(word, "summary", summary[member])
    if summary["first_measured"]:
        say("window", "summary", "steps %d to %d" % (summary["first_measured"], summary["last_measured"]))
    if summary["nonfinite"]:
        say("nonfinite", "summary", summary["nonfinite"]["text"])


def read_page(text, summary):
    sections = {s: t.split("</section>")[0] for s, t in re.findall(r"<section id='([a-z-]+)'(.*?</section>)", text, re.S)}
    head, verdict = plain(text.split("</header>")[0]), plain(sections["verdict"])
    find("step", "page's head", r"A step takes (\d\S* \S+),", verdict, ms)
    find("exposed", "page's head", r"with (\S+ \S+) \([^)]*\) of exposed", verdict, ms)
    find("waiting", "page's head", r"communication \(median\) and (\S+ \S+) \([^)]*\) of waiting", verdict, ms)
    find("alone", "page's head", r"Without averaging a step would take ([^:]+):", verdict, ms)
    find("efficiency", "page's head", r"the efficiency is (\S+) %", verdict, float)
    find("rate", "page's head", r"made (\S+) steps per second", verdict, float)
    find("waiting", "page's losses", r"waiting for (?:rank \d+|each other): (\S+) ms", verdict, float)
    find("straggler", "page's losses", r"waiting for rank (\d+):", verdict, int)
    for word, member in (("exposed", "exposed_ms"), ("waiting", "waiting_ms"), ("rate", "steps_per_second")):
        find(word, "page's tile", r"id='run-%s' value='([^']*)'" % member, sections["verdict"], float)
    window = re.search(r"the step is the mean of (steps \d+ to \d+)", verdict)
    under = re.search(r"In these steps: (.*?)\.(?: Without it|</p>)", sections["step-times"], re.S)
    if under:
        find("waiting", "page under its table", r"waiting for (?:rank \d+|each other): (\S+) ms", under[1], float)
        find("straggler", "page under its table", r"waiting for rank (\d+):", under[1], int)
        table = rows(sections["step-times"], "Arrived last")
        if window and "Medians of %s without control steps" % window[1] not in plain(sections["step-times"]):
            complain("the head is of %s, and the table is not" % window[1])
        for rank, count, of in re.findall(r"rank (\d+)(?:: \S+ ms per step, last to arrive| arrived last) in (\d+) of (\d+)", under[1]):
            shown = float(table[rank]["Arrived last"].split()[0].replace("\u00a0%", "").split("\u00a0")[0])
            if abs(100 * int(count) / int(of) - shown) > 0.51 or (" arrived last in " in under[1] and 2 * int(count) <= int(of)):
                complain("'%s' is under %s %%" % (under[1], shown))
        for rank, row in table.items():
            say("exposed", "page's table, rank " + rank, ms(row["Exposed"]))
    found = re.search(r"id='run-nonfinite'>(.*?)</p>", text)
    if found:
        say("nonfinite", "page", html.unescape(found[1])[:190])
    if summary["reason"] and summary["reason"].split("\n")[0][:150] not in head:
        complain("the page does not begin with '%s'" % summary["reason"])
    return head + verdict + plain(sections["step-times"])


def read_predict(text, ranks):
    for line in text.splitlines():
        cells = line.split()
        if len(cells) == 8 and cells[0] == str(ranks):
            say("step", "predict DIR", float(cells[1]))
            say("exposed", "predict DIR", float(cells[2]))
            if cells[6] != "-":
                say("efficiency", "predict DIR", 100 * float(cells[6]))
    find("alone", "predict DIR", r"without averaging a step takes (\S+) ms", text, float)
    find("waiting", "predict DIR", r"waiting for (?:rank \d+|each other): (\S+) ms", text, float)
    find("straggler", "predict DIR", r"waiting for rank (\d+):", text, int)


def judge():
    """Three digits are kept; a tenth of a percent of what is shown with fewer."""
    for word, values in said.items():
        first = values[0][1]
        for where, value in values[1:]:
            if isinstance(first, str):
                same = value[:150] == first[:150]
            else:
                same = math.isclose(value, first, rel_tol=6e-3, abs_tol={"efficiency": 0.6, "rate": 0.06}.get(word, 6e-4))
            if not same:
                complain("%s is %s in the %s, and %s in the %s" % (word, first, values[0][0], value, where))


def main():
    kind, (page, summary, closing, predict) = sys.argv[1], (open(p, encoding="utf-8").read() for p in sys.argv[2:6])
    summary = json.loads(summary)
    texts = {"closing": closing, "predict": predict}
    read_closing("\n".join(line for line in closing.splitlines() if line.startswith("ddprun: ")))
    read_summary(summary)
    texts["page"] = read_page(page, summary)
    read_predict(predict, summary["ranks"])
    for where, pattern in MUST.get(kind, []):
        if not re.search(pattern, texts[where], re.S):
            complain("the %s does not say /%s/" % (where, pattern))
    varies = "Steps vary too much" in texts["page"]
    for word in ("step", "exposed", "waiting", "efficiency", "alone", "rate") if kind in TIMED and kind != "failed" else ():
        if len(said.get(word, [])) < 2 and not (varies and word in ("efficiency", "alone")):
            complain("%s stands in %s only" % (word, said.get(word)))
    judge()
    print("%d words in %d places" % (len(said), sum(len(v) for v in said.values())))
    sys.exit(1 if wrong else 0)


main()
