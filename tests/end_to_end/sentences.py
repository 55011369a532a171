"""sentences.py KIND PAGE SUMMARY STDERR - holds each sentence about a run to the figures beside it: closing lines, summary and page. A word has one value wherever it stands; what must be there depends on KIND. Prints what is
wrong; exit code 1.
"""
import html
import json
import math
import re
import sys

from report import number, parts, plain, report_of, rows

UNITS = {"\u00b5s": 0.001, "ms": 1, "s": 1000}
# kinds of runs in which steps have times, and what else each of them must say
TIMED = {"balanced", "slow", "turns", "link", "host", "nan", "failed", "restarted", "plan"}
MUST = {
    "slow": [("closing", r"waiting for rank 1: "), ("page", r"waiting for rank 1: "), ("page", r"look at rank 1 ")],
    "turns": [("closing", r"waiting for each other: "), ("page", r"Most of the lost time is waiting for other ranks: ")],
    "nan": [("closing", r"has NaN in step \d+, before averaging"), ("page", r"has NaN in step \d+, before averaging")],
    "failed": [("page", r"The job failed with exit code 139: rank 1 was ended by SIGSEGV")],
    "hung": [("closing", r"rank 1 .* keeps the others waiting: .*; rank 0 .* has waited"), ("page", r"rank 1 .* keeps the others waiting: ")],
    "restarted": [("closing", r"restart 1 of 1: DDPRUN_RESTART=1 tells "), ("closing", r"; restarts: 1")],
    "plan": [("page", r"With --plan a step is a round of")],
    "regions": [("page", r"The ranks take turns \(DDP_TURN_BEGIN\): after the first batch a step is a round of 2 of 41 batches"),
                ("closing", r"steps \(each a round of 2 of 41 batches in turns"), ("page", r"batches in turns")],
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


def find(word, where, pattern, text, read):
    for found in re.finditer(pattern, text):
        say(word, where, read(found[1]))


def read_closing(text):
    find("exposed", "closing", r"exposed communication: (\S+) ms per step", text, float)
    find("waiting", "closing", r"waiting for (?:rank \d+|each other): (\S+) ms", text, float)
    find("straggler", "closing", r"waiting for rank (\d+):", text, int)
    find("last", "closing", r"(last to arrive in \d+ of \d+)", text, str)
    find("rate", "closing", r"(\S+) steps/s", text, float)
    find("window", "closing", r"of the (steps \d+ to \d+)\)", text, str)


def read_summary(summary):
    for word, member in (("step", "step_ms"), ("exposed", "exposed_ms"), ("waiting", "waiting_ms"), ("straggler", "waited_for"), ("rate", "steps_per_second")):
        if summary[member] is not None:
            say(word, "summary", summary[member])
    if summary["first_measured"]:
        say("window", "summary", "steps %d to %d" % (summary["first_measured"], summary["last_measured"]))
    if summary["nonfinite"]:
        say("nonfinite", "summary", summary["nonfinite"]["text"])


def read_page(page, summary):
    report, markup = report_of(page), parts(page)
    head, verdict, times = (plain(markup[name]) for name in ("head", "verdict", "step-times"))
    find("step", "page's verdict", r"A step takes (\d\S* \S+)\.", verdict, ms)
    for word in ("exposed", "waiting"):
        find(word, "page's verdict", r"Most of the lost time is %s [^:]*: (\S+ \S+) per step\." % word, verdict, ms)
    find("straggler", "page's verdict", r"Most of the lost time is waiting for rank (\d+):", verdict, int)
    for word, name, read in (("step", "step", ms), ("exposed", "exposed", ms), ("waiting", "waiting", ms), ("alone", "alone", ms),
                             ("efficiency", "efficiency", lambda text: 100 * number(text)), ("rate", "steps_per_second", number)):
        find(word, "page's figure", r"<dd id='run-%s'>(\d[^<]*)<" % name, markup["verdict"], read)
    window = re.search(r"of (steps \d+ to \d+)[ .]", verdict)
    table = {str(row["Rank"]): row for row in rows(report, "step-times", "What each rank does in a step")}
    if table:
        if window and "Means of %s." % window[1] not in times:
            complain("the head is of %s, and the table is not" % window[1])
        if summary["waited_for"] is not None:
            count = table[str(summary["waited_for"])]["Came last in steps"]
            say("last", "page's table", "last to arrive in %d of %d" % (count, summary["measured_steps"]))
        for rank, row in table.items() if summary["exposed_ms"] is not None else ():
            say("exposed", "page's table, rank " + rank, row["Exposed"] / 1000)
        if summary["waiting_ms"] is not None:
            others = [row["Waits for ranks"] / 1000 for rank, row in table.items() if rank != str(summary["waited_for"])]
            say("waiting", "page's table, in all", sum(others) / len(others))
    found = re.search(r"<p class='bad'>([^<]* has (?:an infinite|NaN)[^<]*)</p>", markup["head"])
    if found and summary["nonfinite"]:
        say("nonfinite", "page", html.unescape(found[1]))
    for row in rows(report, "warnings", "Kinds of warnings") if "warnings" in markup else ():
        if row["Kind"] == "nonfinite" and [row["Rank"], row["Step"]] != [summary["nonfinite"][name] for name in ("rank", "step")]:
            complain("the warning of NaN is of rank %s and step %s" % (row["Rank"], row["Step"]))
    if summary["reason"] and plain(summary["reason"]).strip() not in head:
        complain("the page does not begin with '%s'" % summary["reason"])
    return head + verdict + times


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
    kind, (page, summary, closing) = sys.argv[1], (open(p, encoding="utf-8").read() for p in sys.argv[2:5])
    summary = json.loads(summary)
    texts = {"closing": closing}
    read_closing("\n".join(line for line in closing.splitlines() if line.startswith("ddprun: ")))
    read_summary(summary)
    texts["page"] = read_page(page, summary)
    for where, pattern in MUST.get(kind, []):
        if not re.search(pattern, texts[where], re.S):
            complain("the %s does not say /%s/" % (where, pattern))
    for word in ("step", "exposed", "waiting", "rate") if kind in TIMED and kind != "failed" else ():
        if len(said.get(word, [])) < 2:
            complain("%s stands in %s only" % (word, said.get(word)))
    if "alone" in said:
        say("efficiency", "quotient of its figures", 100 * said["alone"][0][1] / said["step"][0][1])
    judge()
    print("%d words in %d places" % (len(said), sum(len(v) for v in said.values())))
    sys.exit(1 if wrong else 0)


main()
