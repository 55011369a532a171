"""page.py - what tests of `ddprun report` need: a look at a page, and traces that no program writes.

page.py look PAGE [SUMMARY]        holds the page to what it must be, and its figures to those of a --summary-json
page.py agree PAGE SUMMARY STDERR TIMELINE TRACE   holds the figures of one run to each other, wherever they are shown
page.py write FOLDER hostile|long  writes a trace: with hostile names, or of 8 ranks and 10,000 steps
page.py known FOLDER               writes a trace without a summary, of four ranks and 20 steps, in which rank 2 is late
page.py failed PAGE RANK STEP       holds the page of a job in which RANK crashed after STEP steps to that
page.py straggler PAGE             holds the page of such a trace to what is in it
page.py grouped FOLDER             writes a trace of two ranks and two gradient groups, whose steps take turns; group 1 has most bytes
page.py groups PAGE                holds the page of such a trace to what is in it
"""
import html
import html.parser
import json
import math
import os
import re
import statistics
import sys

SECTIONS = ["verdict", "step-times", "spread", "timeline", "means", "buckets", "settings"]
ALONE = {"meta", "link", "br", "img", "input"}
AT_MOST = 2 << 20
HOSTILE = ["</script><script>alert(1)</script>", "'\"><img src=http://a.example/x onerror=alert(1)>", "&lt;b&gt; \u202e \x07 ]]>", "-->",
           "</title></svg></style>", "x" * 65536]

wrong = []


def complain(text):
    print(text)
    wrong.append(text)


class Page(html.parser.HTMLParser):
    """The page's elements, each closed where it should be; text by section; values by id."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.values, self.text, self.style = [], set(), {}, {}, ""

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in ("script", "iframe", "object", "embed", "img", "base", "form") or any(a.startswith("on") for a in attributes):
            complain("<%s %s> does not belong in a page" % (tag, attributes))
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            if name in attributes:
                complain("<%s %s='%s'> refers to something else" % (tag, name, attributes[name]))
        if "id" in attributes:
            if attributes["id"] in self.ids:
                complain("the id %s is there twice" % attributes["id"])
            self.ids.add(attributes["id"])
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy":
            self.values["policy"] = attributes["content"]
        for name in attributes.get("aria-labelledby", "").split():
            self.values.setdefault("labels", []).append(name)
        if tag not in ALONE:
            self.open.append((tag, attributes.get("id")))
        if "value" in attributes:
            self.values[attributes["id"]] = attributes["value"]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            complain("</%s> at %s closes %s" % (tag, self.getpos(), self.open[-1:]))
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "style":
            self.style += data
        hidden = self.open and self.open[-1][0] in ("title", "desc")  # shown where the pointer is
        for tag, name in self.open[-1:] if hidden else self.open:
            if name:
                self.text[name] = self.text.get(name, "") + data


def same(shown, wanted):
    return wanted is None or (shown is not None and math.isclose(float(shown), wanted, rel_tol=1e-4, abs_tol=1e-9))


def look(path, summary_path):
    raw = open(path, "rb").read()
    text = raw.decode("utf-8")  # an error is one of the page's
    page = Page()
    page.feed(text)
    page.close()
    if page.open:
        complain("%s are not closed" % page.open)
    if len(raw) > AT_MOST:
        complain("%d bytes are more than 2 MB" % len(raw))
    if "default-src 'none'" not in page.values.get("policy", ""):
        complain("there is no policy against requests and scripts")
    if re.search(r"url\(|@import|https?:", page.style):
        complain("the style refers to something else")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        complain("there is a control character")
    for section in SECTIONS:
        if len(page.text.get(section, "").strip()) < 40:
            complain("section %s has nothing in it" % section)
    for name in page.values.get("labels", []):
        if len(page.text.get(name, "")) < 1:
            complain("the picture's label %s is not there" % name)
    order = [text.index("id='%s'" % s) for s in SECTIONS if "id='%s'" % s in text]
    if order != sorted(order):
        complain("the sections are out of order")
    if summary_path:
        hold_to_summary(page, json.load(open(summary_path, encoding="utf-8")))
    print("%d bytes, %d ids, %d complaints" % (len(raw), len(page.ids), len(wrong)))


def hold_to_summary(page, summary):
    known = 0
    for name in ("steps_per_second", "items_per_second", "exposed_ms", "waiting_ms", "steps", "seconds"):
        known += "run-" + name in page.values
        if not same(page.values.get("run-" + name), summary[name]):
            complain("%s is %s, and %s in the summary" % (name, page.values.get("run-" + name), summary[name]))
    for name in ("comparisons", "parameter_hash", "parameter_elements", "nccl_version", "ddprun_version"):
        shown = page.text.get("run-" + name, "").replace(",", "")
        if shown != str(summary[name]):
            complain("%s is '%s', and '%s' in the summary" % (name, shown, summary[name]))
    if known < 4:
        complain("%d of the summary's figures are there" % known)


UNITS = {"\u00b5s": 1, "ms": 1000, "s": 1000000}


def us_of(text):
    """A time as a page or a line shows it, in microseconds; with three digits."""
    number, unit = text.replace("\u00a0", " ").split()
    return float(number) * UNITS[unit]


def shown_as(what, shown_us, wanted_us):
    """Three digits were kept, and 0.05 us are shown as 0."""
    if not math.isclose(shown_us, wanted_us, rel_tol=6e-3, abs_tol=0.06):
        complain("%s is %s us, and %s in the summary" % (what, shown_us, wanted_us))


def cells(section, heading):
    """Rows of a page's table, by the first cell: the cells under `heading`."""
    table = next((t for t in re.findall("<table>.*?</table>", section, re.S) if heading in t), "")
    names = [re.sub("<.*?>", "", h) for h in re.findall("<th scope='col'.*?</th>", table, re.S)]
    rows = re.findall("<tr><th scope='row'.*?</tr>", table, re.S)
    split = [[html.unescape(re.sub("<.*?>", "", c)) for c in re.findall("<t[hd].*?</t[hd]>", re.sub("<svg.*?</svg>", "", r), re.S)] for r in rows]
    return {row[0]: row[names.index(heading)] for row in split}


def durations_of(folder):
    """Of each step that all ranks have, without control steps: what it took, the middle of the ranks."""
    ranks = []
    for path in sorted(os.listdir(folder)):
        lines = [json.loads(one) for one in open("%s/%s" % (folder, path), encoding="utf-8")]
        ranks.append({one["step"]: one for one in lines if "released_us" in one and "graph" not in one})
    for step in sorted(set.intersection(*(set(r) for r in ranks))):
        if not any(r[step].get("control") for r in ranks):
            known = [max(0, r[step]["released_us"]) - r[step]["interval_us"] for r in ranks if r[step].get("interval_us") is not None]
            if known:
                yield statistics.median(known)


def agree(path, summary_path, closing_path, timeline_path, trace_path):
    text = open(path, encoding="utf-8").read()
    sections = {s: text[text.index("<section id='%s'" % s):].split("</section>")[0] for s in SECTIONS}
    summary = json.load(open(summary_path, encoding="utf-8"))
    closing = open(closing_path, encoding="utf-8").read()
    exposed_us, waiting_us = 1000 * summary["exposed_ms"], 1000 * summary["waiting_ms"]
    first, last, count = summary["first_measured"], summary["last_measured"], summary["measured_steps"]

    # the closing line
    found = re.search(r"exposed communication: (\S+) ms per step \(median of (\d+) steps, sampled from steps (\d+) to (\d+)\)", closing)
    if not found or [int(found[i]) for i in (2, 3, 4)] != [count, first, last]:
        complain("the closing line is of other steps than %d to %d: %s" % (first, last, closing))
    else:
        shown_as("exposed in the closing line", us_of(found[1] + " ms"), exposed_us)
    found = re.search(r"waiting for [a-z0-9 ]+: (\S+) ms", closing)
    if found:
        shown_as("waiting in the closing line", us_of(found[1] + " ms"), waiting_us)
    elif waiting_us >= max(1000, 1e5 / summary["steps_per_second"]):
        complain("the closing line has no waiting, which is %s us" % waiting_us)
    if ("for rank %s:" % summary["waited_for"] in closing) != (summary["waited_for"] is not None):
        complain("the closing line names another straggler than %s" % summary["waited_for"])

    # the page: each place where a word has a figure
    lead = re.search(r"A step takes ([^<]+)</strong>, with ([^(]+) \([^)]*\) of exposed communication \(median\) and ([^(]+) \([^)]*\) of waiting for other ranks \(mean\); "
                     r"the step is the mean of steps (\d+) to (\d+)\. (?:Without averaging a step would take [^:]+: the efficiency is |Steps vary too much to say what averaging costs)", sections["verdict"])
    if not lead or not first <= int(lead[4]) <= int(lead[5]) <= last:
        complain("the verdict is not of steps %d to %d: %s" % (first, last, lead and lead[0]))
        return
    step_us = us_of(lead[1])
    shown_as("exposed in the verdict", us_of(lead[2]), exposed_us)
    shown_as("waiting in the verdict", us_of(lead[3]), waiting_us)
    for name in ("exposed", "waiting"):
        tile = re.search(r"<data id='run-%s_ms' value='([^']*)'>(.*?)</data>" % name, sections["verdict"])
        shown_as(name + " in its tile", us_of(tile[2]), 1000 * summary[name + "_ms"])
    durations = sorted(durations_of(trace_path))
    said = re.search(r"Percentiles of (\d+) steps in the trace \(start-up included, control steps excluded\): (.*?)\.</p>", sections["spread"])
    if not said or int(said[1]) != len(durations):
        complain("percentiles are of %s steps, and the trace has %d" % (said and said[1], len(durations)))
    for share, shown in re.findall(r"<strong>p(\d+)</strong> ([^,<]+)", said[2]):
        shown_as("p" + share, us_of(html.unescape(shown)), durations[max(0, math.ceil(len(durations) * int(share) / 100) - 1)])
    bars = [int(n) for n in re.findall(r"<title>(\d+) from ", sections["spread"])]
    if sum(bars) != len(durations):
        complain("the bars are of %d steps, and the trace has %d" % (sum(bars), len(durations)))
    exposed = cells(sections["step-times"], "Exposed")
    if len(exposed) != summary["ranks"]:
        complain("there are %d ranks in the table of steps" % len(exposed))
    for rank, shown in exposed.items():
        shown_as("exposed of rank %s" % rank, us_of(shown), exposed_us)
    sentence = re.search(r"<p id='run-waiting'>In these steps: (waiting for (?:rank (\d+)|each other): (\S+) ms per step(?:.*?last (?:to arrive )?in (\d+) of (\d+))?)", sections["step-times"])
    shown_as("waiting under the steps of ranks", us_of(sentence[3] + " ms"), waiting_us)
    if sentence[2] != (None if summary["waited_for"] is None else str(summary["waited_for"])):
        complain("'%s' is beside %s in the summary" % (sentence[1], summary["waited_for"]))
    named = re.search(r"rank (\d+)", sentence[1])
    if named:
        share = 100 * int(sentence[4]) / int(sentence[5])
        if abs(share - float(cells(sections["step-times"], "Arrived last")[named[1]].split("\u00a0")[0])) > 0.51:
            complain("'%s' is above %s" % (sentence[1], cells(sections["step-times"], "Arrived last")))

    # the timeline: the same steps. Its events on the device are others than the summary's, and a busy machine may come between.
    steps, controls = {}, set()
    for event in json.load(open(timeline_path, encoding="utf-8"))["traceEvents"]:
        if event["ph"] == "X" and "waiting_us" in event.get("args", {}):
            steps.setdefault(event["args"]["step"], {})[event["pid"]] = event["args"]
        if event["ph"] == "X" and event["name"] == "control step":
            controls.add(event["args"]["step"])
    of = [args for step, args in steps.items() if first <= step <= last and step not in controls and len(args) == summary["ranks"]]
    shown_us = statistics.median(args[0]["exposed_us"] for args in of)
    if not math.isclose(shown_us, exposed_us, rel_tol=0.25, abs_tol=500):
        complain("exposed is %.1f us by the timeline's %d steps, and %.1f in the summary" % (shown_us, len(of), exposed_us))
    for rank, waits in cells(sections["step-times"], "Waits").items():
        mean_us = statistics.mean(args[int(rank)]["waiting_us"] for args in of)
        shown_as("what rank %s waits for others, of the timeline's %d steps," % (rank, len(of)), us_of(waits), mean_us)
    if any(a["exposed_us"] != args[0]["exposed_us"] or abs(a["exposed_us"] + a["waiting_us"] - a["waited_us"]) > 1 for args in of for a in args.values()):
        complain("a step of the timeline has different figures on its ranks")
    print("exposed %.1f us, waiting %.1f us, of %d steps: %d complaints" % (exposed_us, waiting_us, len(of), len(wrong)))


def failed(path, rank, step):
    """Who, where, and the steps of each rank."""
    text = open(path, encoding="utf-8").read()
    section = text[text.index("<section id='failure'"):].split("</section>")[0]
    ends, steps = cells(section, "End"), cells(section, "Steps")
    if ends.pop(str(rank), "") != "SIGSEGV" or "SIGSEGV" in ends.values():
        complain("rank %d crashed, and the page says %s" % (rank, ends))
    if any(abs(int(s) - step) > 1 for s in steps.values()):
        complain("rank %d ended after %d steps, and the page says %s" % (rank, step, steps))
    if not re.search("<p class='bad'>The job failed with exit code 139: [^<]*rank %d[^<]*SIGSEGV" % rank, text):
        complain("the page does not begin with the reason")


def line(of, **fields):
    of.write(json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n")


def bucket(number, begin, end):
    return {"bucket": number, "early": True, "ready_us": begin - 5, "begin_us": begin, "end_us": end, "bytes": 4096, "path": "in place",
            "type": "float32", "communicator": 0}


def write(folder, ranks, steps, names):
    os.makedirs(folder)
    for rank in range(ranks):
        with open("%s/rank-%d.jsonl" % (folder, rank), "wb") as of:
            line(of, ddprun_trace=1, job=7, rank=rank, world=ranks, host=names[0], at_ns=1000, unix_ns=1700000000000000000)
            line(of, exchange=1, about=names[0], begin_ns=1000 + rank, end_ns=2000 + rank)
            tensors = [{"name": n, "place": n, "type": n, "elements": 4, "bytes": 16} for n in names]
            line(of, plan=1, group=0, after_step=0, at_ns=2000, tensors=tensors,
                 buckets=[{"bytes": 16, "tensors": list(range(len(names)))}, {"bytes": 16, "tensors": [1 << 40]}])
            for step in range(1, steps + 1):
                at = 10000000 + step * 1000000 + (step * 7919 + rank * 104729) % 300000
                line(of, step=step, overlapped=True, group=0, boundary_ns=at, error_ns=50, interval_us=-900.0, backward_us=-500.0,
                     released_us=90.0 + (step * 31 + rank) % 50, entered_ns=at - 1000, left_ns=at + 1000, exposed_us=80.0,
                     buckets=[bucket(0, -300.0, -200.0), bucket(1, -100.0, 80.0)])
                if rank == 0:
                    for i, name in enumerate(names[:40]):
                        line(of, mean=name, place="t.c:%d" % i, after_step=step, at_ns=at, value=3e13 + step % 2 / 128 if i == 1 else 1.0 / step if step % 9
                             else float("nan"))
            line(of, end=True, at_ns=5000)
            if rank == 0:
                line(of, summary={"exit_code": 1, "reason": names[0], "steps": steps, "ddprun_version": names[1], "seconds": 1.5},
                     settings={names[0]: names[1], "a": names[-1]}, program=names[0], arguments=names)


KEPT_US, STEP_US, NETWORK_US = 4000, 20000, 500


def known(folder):
    """Each step takes 20 ms: 10 before backward, in rank 2 four more; backward 5.5; the network's part is 0.5."""
    os.makedirs(folder)
    for rank in range(4):
        late = KEPT_US if rank == 2 else 0
        with open("%s/rank-%d.jsonl" % (folder, rank), "wb") as of:
            line(of, ddprun_trace=1, job=7, rank=rank, world=4, host="h%d" % rank, at_ns=1000, unix_ns=1700000000000000000)
            line(of, exchange=1, about="a", begin_ns=1000, end_ns=2000)
            line(of, plan=1, group=0, after_step=0, at_ns=2000, tensors=[{"name": "w", "place": "t.c:1", "type": "float32", "elements": 4,
                 "bytes": 16}], buckets=[{"bytes": 16, "tensors": [0]}, {"bytes": 16, "tensors": []}])
            for step in range(1, 21):
                boundary = 1000000000 + step * STEP_US * 1000 - (KEPT_US - late + NETWORK_US) * 1000
                wait = KEPT_US - late + NETWORK_US
                line(of, step=step, overlapped=True, group=0, boundary_ns=boundary, error_ns=50, interval_us=wait - STEP_US, backward_us=-5500.0,
                     released_us=wait, entered_ns=boundary, left_ns=boundary + 1000, exposed_us=wait, predicted_us=400.0, bound_us=300.0,
                     buckets=[bucket(0, -5000.0, -4000.0), bucket(1, wait - 300.0, wait)])
            line(of, end=True, at_ns=5000)


def grouped(folder):
    """A step of each group every 20 ms; group 0 has an all-reduce of 1 ms, group 1 of 2 ms, of which 0.8 are exposed."""
    os.makedirs(folder)
    for rank in range(2):
        with open("%s/rank-%d.jsonl" % (folder, rank), "wb") as of:
            line(of, ddprun_trace=1, job=7, rank=rank, world=2, host="h", at_ns=1000, unix_ns=1700000000000000000)
            line(of, exchange=1, about="a", begin_ns=1000, end_ns=2000)
            for group, size in enumerate((16, 64)):
                line(of, plan=1, group=group, after_step=0, at_ns=2000, tensors=[{"name": "w%d" % group, "place": "t.c:1", "type": "float32",
                     "elements": size // 4, "bytes": size}], buckets=[{"bytes": size, "tensors": [0]}])
            for step in range(1, 41):
                group = 1 - step % 2
                end = 800.0 if group else 100.0
                line(of, step=step, overlapped=True, group=group, boundary_ns=1000000000 + step * 10000000 - int(1000 * end), error_ns=50,
                     interval_us=end - STEP_US, backward_us=-3000.0, released_us=end, entered_ns=1, left_ns=2, exposed_us=end,
                     buckets=[bucket(0, end - 1000 * (group + 1), end)])
            line(of, end=True, at_ns=5000)


GROUPS = {"verdict": ["A step takes 20.0 ms, with 800 \u00b5s (4.0 %) of exposed communication (median) and 0 \u00b5s (0.0 %) of waiting for other ranks (mean); "
                      "the step is the median of steps 2 to 40, from one step of group 1 to the next step of that group", "2 ranks made 100 steps per second after start-up, over 2 gradient groups"],
          "step-times": ["Of 2 gradient groups this is group 1, the one with the most bytes", "0h16.2 ms3.00 ms800 \u00b5s0 \u00b5s20.0 ms"],
          "timeline": ["took 20.0 ms, with 800 \u00b5s", "The first row of each rank is group 1"],
          "buckets": ["Buckets of group 0", "014.00 KiB905 \u00b5s1.00 ms", "w0t.c:1float32416 bytes0", "Buckets of group 1",
                      "014.00 KiB1.21 ms2.00 ms", "w1t.c:1float321664 bytes0"]}


def hold_to_known(path, wanted=None):
    page = Page()
    page.feed(open(path, encoding="utf-8").read())
    wanted = wanted or {"verdict": ["50.0 steps per second", "A step takes 20.0 ms, with 500 \u00b5s (2.5 %) of exposed", "for rank 2, per step",
              "Largest loss of time: waiting for rank 2: 4 ms per step, last to arrive in 20 of 20 steps; look at rank 2 (h2)"],
              "step-times": ["2h214.0 ms5.50 ms500 \u00b5s0 \u00b5s20.0 ms", "0h010.0 ms5.50 ms500 \u00b5s4.00 ms20.0 ms",
                             "waiting for rank 2: 4 ms per step, last to arrive in 20 of 20 steps. Without it, the other ranks would finish a step 4.00 ms earlier"],
              "timeline": ["took 20.0 ms, with 500 \u00b5s of exposed", "predicted 400 \u00b5s", "any bucket layout is 300 \u00b5s"],
              "buckets": ["wt.c:1float32416 bytes0"]}
    for section, texts in wanted.items():
        shown = "".join(page.text.get(section, "").split())
        for one in texts:
            if one.replace(" ", "") not in shown:
                complain("%s lacks '%s': %s" % (section, one, page.text.get(section)))


def main():
    if sys.argv[1] == "look":
        look(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    elif sys.argv[1] == "agree":
        agree(*sys.argv[2:7])
    elif sys.argv[1] == "failed":
        failed(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "known":
        known(sys.argv[2])
    elif sys.argv[1] == "straggler":
        hold_to_known(sys.argv[2])
    elif sys.argv[1] == "grouped":
        grouped(sys.argv[2])
    elif sys.argv[1] == "groups":
        hold_to_known(sys.argv[2], GROUPS)
    elif sys.argv[3] == "hostile":
        write(sys.argv[2], 2, 12, HOSTILE + [b"\xff\xfe\xc0\x80".decode("utf-8", "surrogateescape") + "\ud800"[:0]])
    else:
        write(sys.argv[2], 8, 10000, ["tensor %d" % i for i in range(3)])
    sys.exit(1 if wrong else 0)


main()
