"""figures.py KIND FOLDER - reads each figure of a run from every output in FOLDER (figures.sh), and holds them to each other: to the digit
that is printed, parts to their whole, and the sums to those that it takes from the ranks' raw events. Prints what is wrong; exit code 1.
"""
import html
import itertools
import json
import math
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../end_to_end"))
from report import UNITS, parts, plain, report_of, rows, section

kind, folder = sys.argv[1:3]
LATE_MS, LATE_STEPS = 5, range(10, 31)
wrong, said = [], {}  # said: {figure: [(output, value, half of its last digit)]}
complain = wrong.append


def read(name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def say(figure, output, text, unit=1):
    """`text`: as it is printed, perhaps with a unit of its own, or a number; times are told in ms."""
    if text is None or str(text).strip() in ("-", ""):
        return
    if isinstance(text, float):  # --summary-json has seven digits, and so have the figures that a page takes from it
        value = text * unit
        said.setdefault(figure, []).append((output, value, 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - 6) if value else 1e-6))
        return
    words = str(text).replace("\u00a0", " ").replace(",", "").split()
    scale = unit * (UNITS[words[1]] * (1 if words[1] == "%" else 1e-3) if len(words) > 1 else 1)
    digits = words[0].split("e")[0]
    half = 0.5 * 10.0 ** -len(digits.split(".")[1]) if "." in digits else 0.5 if len(words) > 1 or unit != 1 else 0
    said.setdefault(figure, []).append((output, float(words[0]) * scale, half * scale))


def find(figure, output, pattern, text, unit=1):
    for found in re.finditer(pattern, text, re.M):
        say(figure, output, found[1], unit)


def rounded(figure, output, pattern, text, digits=3):
    """Of a number that is printed with so many digits."""
    for found in re.finditer(pattern, text, re.M):
        value = float(found[1])
        said.setdefault(figure, []).append((output, value, 0.5 * 10.0 ** (math.floor(math.log10(value)) - digits + 1) if value > 0 else 5e-4))


def read_closing(text):
    text = "\n".join(line for line in text.splitlines() if line.startswith("ddprun: "))
    find("rate", "closing", r"after start-up \(steps \d+ to \d+\) (\S+) steps/s", text)
    find("rate_slow", "closing", r"after start-up \(steps \d+ to \d+\) (\S+) s a step", text)
    find("first", "closing", r"after start-up \(steps (\d+) to \d+\)", text)
    find("last", "closing", r"after start-up \(steps \d+ to (\d+)\)", text)
    said["rate"] = [(o, v, max(h, 0.05)) for o, v, h in said.get("rate", [])]
    find("items", "closing", r", (\S+) items/s", text)
    said["items"] = [(o, v, 0.5 if v >= 100 else 0.05) for o, v, h in said.get("items", [])]
    find("seconds", "closing", r"wall time (\S+) s", text)
    said["seconds"] = [(o, v, 0.005 if v < 10 else 0.05) for o, v, h in said.get("seconds", [])]
    rounded("exposed", "closing", r"exposed communication: (\S+) ms per step", text)
    rounded("bound", "closing", r"lower bound for any bucket layout: (\S+?) ms", text)
    rounded("slowed", "closing", r"exposed communication: .*; kernels slowed by all-reduces: ([0-9.]+) ms per step", text)
    rounded("waiting", "closing", r"waiting for (?:rank \d+|each other): (\S+) ms per step", text)
    find("straggler", "closing", r"waiting for rank (\d+): \S+ ms", text)
    find("steps", "closing", r"ranks, (\d+) steps?", text)
    find("overlapped", "closing", r"(\d+) of them overlapped", text)
    find("measured", "closing", r"mean of (\d+) measured steps", text)


def read_status(text):
    """The progress line after the last step."""
    find("steps", "status", r"^ddprun: step (\d+),", text)
    find("rate", "status", r", (\S+) steps/s", text)
    find("rate_slow", "status", r", (\S+) s a step", text)
    rounded("exposed", "status", r", exposed (\S+) ms", text)
    rounded("waiting", "status", r"waiting for (?:rank \d+|each other): (\S+) ms per step", text)
    find("straggler", "status", r"waiting for rank (\d+): \S+ ms", text)


def hold_waiting(summary):
    """Where it is worth a sentence, closing line and status have the same one; the page has one nowhere else, of that rank."""
    sentence = r"waiting for (?:rank \d+|each other): [^;,\n]*(?:, last to arrive in \d+ of \d+ steps)?"
    closing, status = (re.findall(sentence, read(name)) for name in ("closing", "status"))
    worth = summary["waited_for"] is not None or (summary["waiting_ms"] or 0) >= max(0.1 * (summary["step_ms"] or 0), 1)
    if len(closing) != worth or status != closing:
        complain("waiting is worth %d sentences; closing lines have %s, the status %s" % (worth, closing, status))
    for output in ("page.html", "report.html"):
        text = plain(parts(read(output))["verdict"])
        found = re.search(r"lost time is waiting|look at rank|Against waiting for ranks may help: ", text, re.M)
        rank = re.search(r"waiting for rank (\d+)", text)
        if found and not worth or rank and int(rank[1]) != summary["waited_for"]:
            complain("%s has '%s', and waiting is worth %d sentences, of rank %s" % (output, (rank or found)[0], worth, summary["waited_for"]))


MEMBERS = {"step": "step_ms", "rate": "steps_per_second", "items": "items_per_second", "exposed": "exposed_ms", "planned": "exposed_planned_ms", "bound": "exposed_bound_ms",
           "slowed": "slowed_ms", "waiting": "waiting_ms", "straggler": "waited_for", "steps": "steps", "overlapped": "overlapped_steps",
           "measured": "measured_steps", "first": "first_measured", "last": "last_measured", "seconds": "seconds", "ranks": "ranks", "buckets": "buckets"}
METRICS = {"step": ("step_seconds", 1e3), "rate": ("steps_per_second", 1), "items": ("items_per_second", 1), "exposed": ("exposed_seconds", 1e3),
           "bound": ("exposed_bound_seconds", 1e3), "slowed": ("slowed_seconds", 1e3), "waiting": ("waiting_seconds", 1e3), "steps": ("steps_total", 1),
           "ranks": ("ranks", 1), "buckets": ("buckets", 1)}
FIGURES = {"step": "step", "rate": "steps_per_second", "items": "items_per_second", "exposed": "exposed", "slowed": "slowed",
           "waiting": "waiting", "steps": "steps", "seconds": "seconds", "ranks": "ranks", "alone": "alone", "efficiency": "efficiency"}
NAMES = {"step": "a step takes", "rate": "steps per second", "items": "items per second", "exposed": "exposed communication per step",
         "slowed": "kernels slowed by all-reduces", "waiting": "waiting for other ranks", "steps": "steps", "seconds": "wall time",
         "ranks": "ranks", "alone": "without averaging", "efficiency": "efficiency"}
COUNTS = {"straggler", "steps", "overlapped", "measured", "first", "last", "ranks", "buckets"}


def read_summary(summary):
    for figure, member in MEMBERS.items():
        value = summary[member]
        say(figure, "summary", str(value) if figure in COUNTS and value is not None else float(value) if value is not None else None)


def read_metrics(text):
    for figure, (name, unit) in METRICS.items():
        found = re.search(r"^ddprun_%s\{[^}]*\} (\S+)$" % name, text, re.M)
        if found:
            say(figure, "metrics", float(found[1]), unit)
    found = re.search(r"^ddprun_straggler_rank\{[^}]*\} (\S+)$", text, re.M)
    if found and float(found[1]) >= 0:
        say("straggler", "metrics", found[1])


def read_page(output, page, summary):
    report, markup = report_of(page), parts(page)
    figures = {one["id"]: one for one in section(report, "verdict")["figures"]}
    for figure, name in FIGURES.items():
        one = figures.get(name)
        if one is None:  # it is not known, and has no row
            if summary and summary.get(MEMBERS.get(figure)) is not None:
                complain("%s has no %s" % (output, name))
            continue
        say(figure, output + "'s data", float(one["value"]), 1 if one["kind"] != "time" else 1e-6 if name == "seconds" else 1e-3)
        shown = re.search(r"<dd id='run-%s'>([^<]*)" % name, markup["verdict"])
        if one["kind"] == "time" and shown:
            say(figure, output, html.unescape(shown[1]), 1e-3 if name == "seconds" else 1)
        elif (figure in COUNTS or one["kind"] == "share") and shown:
            say(figure, output, html.unescape(shown[1]))
        if one["kind"] == "share" and not 0 <= one["value"] <= 1:
            complain("%s is %s of the whole" % (name, one["value"]))
    verdict, times = plain(markup["verdict"]), plain(markup["step-times"])
    find("step", output + "'s verdict", r"A step takes (\d\S* \S+)\. ", verdict)
    for text in (verdict, times):
        find("first", output + "'s text", r"Means (?:are )?of steps (\d+) to", text)
        find("last", output + "'s text", r"Means (?:are )?of steps \d+ to (\d+)", text)
    hold_losses(output, report, figures, verdict)
    if kind != "captured":
        hold_picture(output, report, summary)
    table = rows(report, "step-times", "What each rank does in a step")
    for row in table:
        say("exposed", "%s's rank %d" % (output, row["Rank"]), row["Exposed"], 1e-3)
        each = summary["each_rank"][row["Rank"]]
        rank = "rank %d " % row["Rank"]
        say("step" if row["Rank"] == 0 else rank + "step", "%s's rank %d" % (output, row["Rank"]), row["Step"], 1e-3)
        say("step" if row["Rank"] == 0 else rank + "step", "summary of ranks", each["step_ms"])
        say(rank + "waiting", output, row["Waits for ranks"], 1e-3)
        say(rank + "last in", output, str(int(row["Came last in steps"])) if summary["waiting_ms"] is not None else None)
        if None in row.values():  # in graphs
            continue
        named = [row[name] for name in ("Before backward", "Backward", "Exposed", "Waits for ranks")]
        if not math.isclose(sum(named), row["Step"], rel_tol=1e-4) or min(named) < 0:
            complain("the parts of rank %d's step are %s us, and it takes %s" % (row["Rank"], named, row["Step"]))
        before, backward = parts_of_own(summary, row["Rank"])
        if not math.isclose(row["Before backward"] * backward, row["Backward"] * before, rel_tol=1e-3, abs_tol=1e-3 * backward):
            complain("rank %d's step divides into %s and %s us, by the raw events into %s and %s" % (row["Rank"], *named[:2], before, backward))
        if each["waiting_ms"] is not None:
            say(rank + "waiting", "summary", each["waiting_ms"])
            say(rank + "last in", "summary", str(each["last_steps"]))


def hold_losses(output, report, figures, verdict):
    """The largest loss is named."""
    named = re.search(r"Most of the lost time is (waiting|exposed|kernels)", verdict)
    names = {"waiting": "waiting", "exposed": "exposed", "kernels": "slowed"}
    losses = {word: figures[name]["value"] for word, name in names.items() if name in figures}
    largest = max(losses, key=losses.get, default=None)
    if named and largest != named[1] or not named and "waiting" in losses and largest != "waiting":
        complain("the %s names '%s' of the losses %s" % (output, named and named[1], losses))
    no_setting = "No setting of ddprun is known" in verdict
    wants_larger_batch = no_setting and largest == "exposed" and figures["speedup"]["value"] < 1
    if wants_larger_batch != ("use a larger batch, or fewer ranks" in verdict):
        complain("the %s advises a larger batch, or does not: losses %s, speed-up %s" % (output, losses, figures["speedup"]))


def hold_picture(output, report, summary):
    """The picture of one step has that step's raw events: what each rank waits and exposes, and all-reduces that end together."""
    number = int(re.search(r"Step (\d+) took", section(report, "timeline")["notes"][0])[1])
    of = [lines_of(rank)[number] for rank in range(summary["ranks"])]
    exposed, slices = min(line["released_us"] for line in of), rows(report, "timeline", "What each device did")
    for rank, line in enumerate(of):
        shown = {row["Part"]: row for row in slices if row["Rank"] == rank and row["Track"] == "device"}
        for part, us in (("exposed communication", exposed), ("waits for other ranks", line["released_us"] - exposed)):
            if abs((shown[part]["Takes"] if part in shown else 0) - us) > 1:
                complain("%s: step %d of rank %d has %s of %.3f us by the raw events, and in the picture %s" % (output, number, rank, part, us, shown.get(part)))
        end, last = (max([row["Begin"] + row["Takes"] for row in slices if row["Track"] == "collectives" and row["Rank"] in of], default=0) for of in ([rank], [0]))
        if abs(end - last) > 1 or any(row["Begin"] < -1 for row in shown.values()):
            complain("%s: the last all-reduce of step %d ends on rank %d at %.3f us, and on rank 0 at %.3f" % (output, number, rank, end, last))


def read_compared(text):
    for figure in ("rate", "items"):
        rounded(figure, "report A B", r"^%s  +([0-9.]+)  " % re.escape(NAMES[figure]), text.replace(",", ""))
    for figure, name in NAMES.items():
        if figure in ("rate", "items"):
            continue
        find(figure, "report A B", r"^%s  +(\S+(?: (?:\u00b5s|ms|s|%%))?)  " % re.escape(name), text.replace("\u00a0", " "), 1e-3 if figure == "seconds" else 1)


def lines_of(rank):
    """Of each step of the last attempt that has times, its line in the rank's file."""
    lines = [json.loads(line) for line in read("trace/rank-%d.jsonl" % rank).splitlines()]
    begin = max((i for i, line in enumerate(lines) if "ddprun_trace" in line), default=0)
    return {line["step"]: line for line in lines[begin:] if "released_us" in line and "graph" not in line}


def whole_steps(summary):
    """Of each measured step that all ranks have in their files: its line in each."""
    of = [lines_of(rank) for rank in range(summary["ranks"])]
    for step in sorted(set.intersection(*(set(steps) for steps in of))):
        if summary["first_measured"] <= step <= summary["last_measured"] and not any(steps[step].get("control") for steps in of):
            yield step, [steps[step] for steps in of]


def parts_of_own(summary, rank):
    """Before backward, and in it, in all."""
    own = [lines[rank] for _, lines in whole_steps(summary)]
    own = [(line["interval_us"], line.get("backward_us") or 0) for line in own if line.get("interval_us") is not None]
    return sum(backward - begin for begin, backward in own), -sum(backward for _, backward in own)


def bounds(values, count):
    """Of the mean of `count` of these values. The launcher misses steps while it has no core, and no output names them."""
    values = sorted(values)
    return statistics.mean(values[:count]), statistics.mean(values[-count:])


def hold_to_raw(summary):
    steps = [(step, [max(0, line["released_us"]) / 1e3 for line in lines]) for step, lines in whole_steps(summary)]  # what each rank waited, in ms
    if len(steps) < summary["measured_steps"]:
        complain("%d steps were measured, and the traces have %d" % (summary["measured_steps"], len(steps)))

    def hold(what, values, shown):  # within rounding: the events are the same
        low, high = bounds(values, summary["measured_steps"])
        if not low - 1e-3 <= shown <= high + 1e-3:
            complain("%s %.3f to %.3f ms by the raw events, and %.3f" % (what, low, high, shown))

    hold("exposed is", [min(waits) for _, waits in steps], summary["exposed_ms"])
    for rank in range(summary["ranks"]):
        hold("rank %d waits" % rank, [waits[rank] - min(waits) for _, waits in steps], summary["each_rank"][rank]["waiting_ms"])
    # the timeline has the same events; one whose end lies before its begin, by the clock's error, is left out
    args = {}
    for event in json.loads(read("timeline"))["traceEvents"]:
        if event["ph"] == "X" and "exposed_us" in event.get("args", {}):
            args[event["args"]["step"], event["pid"]] = event["args"]
    steps = [] if kind == "restarted" else steps
    if sum((step, 0) in args for step, _ in steps) < 0.9 * len(steps):
        complain("the timeline lacks steps")
    for (step, waits), rank in itertools.product(steps, range(summary["ranks"])):
        own = args.get((step, rank), {"exposed_us": 1e3 * min(waits), "waiting_us": 1e3 * (waits[rank] - min(waits))})
        if abs(own["exposed_us"] / 1e3 - min(waits)) > 1e-5 or abs(own["waiting_us"] / 1e3 - waits[rank] + min(waits)) > 1e-5:
            complain("rank %d waits %s ms in step %d by the raw events, and in the timeline %s" % (rank, waits, step, own))


def hold_names(summary):
    """From the end of a step to the end of the next all has a name: before backward, backward, and waits. What is left of what steps took."""
    for each in summary["each_rank"]:
        own = lines_of(each["rank"])
        ends = {step: line["boundary_ns"] / 1e3 + max(0, line["released_us"]) for step, line in own.items()}
        began = min((step for step in own if own[step]["overlapped"]), default=summary["first_measured"])  # the end of start-up
        steps = range(began + 1, summary["last_measured"] + 1)
        raw = [ends[step] - ends[step - 1] for step in steps if step in own and step - 1 in own and not own[step].get("control")]
        took, named = each["step_ms"] or summary["step_ms"], statistics.mean(raw) / 1e3
        if abs(took - named) > 0.05 * took + 1e-3 * max(raw) / len(raw):  # a rank may have timed one step more, or less
            complain("%.1f %% of rank %d's step have no name" % (100 * abs(took - named) / took, each["rank"]))


def hold_sums(summary):
    """Parts add up to the whole, within rounding."""
    first = lambda figure: said[figure][0][1]
    value = {figure: next((v for o, v, _ in values if o == "page's data"), None) for figure, values in said.items()}
    if value.get("alone") is None:
        if max(value.get("slowed", 0), value["waiting"]) + value["exposed"] < value["step"]:
            complain("a step of %s ms has no time without averaging" % value["step"])
        return
    whole = value["alone"] + (value.get("exposed") or 0) + max(value.get("waiting") or 0, value.get("slowed") or 0)
    if not math.isclose(whole, value["step"], rel_tol=1e-4):
        complain("without averaging, exposed and the larger of waiting and slowed are %.4f ms, and a step takes %.4f" % (whole, value["step"]))
    if not math.isclose(value["alone"] / value["step"], value["efficiency"], rel_tol=1e-4):
        complain("the efficiency is %s, of %s and %s" % (value["efficiency"], value["alone"], value["step"]))
    if not math.isclose(value["step"] * value["rate"], 1e3, rel_tol=1e-4):
        complain("a step takes %s ms, at %s steps/s" % (value["step"], value["rate"]))
    waits = [each["waiting_ms"] for each in summary["each_rank"] if each["rank"] != summary["waited_for"]]
    if not math.isclose(sum(waits) / len(waits), summary["waiting_ms"], rel_tol=1e-4, abs_tol=1e-5):
        complain("ranks wait %s ms, and the job %s" % (waits, summary["waiting_ms"]))
    if sum(each["last_steps"] for each in summary["each_rank"]) != summary["measured_steps"]:
        complain("ranks are last in other than %s steps" % summary["measured_steps"])
    for each in summary["each_rank"]:
        if not math.isclose(each["waited_ms"], summary["exposed_ms"] + each["waiting_ms"], rel_tol=1e-4):
            complain("rank %s waited %s ms, exposed and waiting are %s" % (each["rank"], each["waited_ms"], each["waiting_ms"]))
    if first("step") <= 0:
        complain("a step takes no time")


def hold_delay(summary):
    """Rank 1 was late in so many of the measured steps; what comes on top is the machine's."""
    late = sum(step in LATE_STEPS for step, _ in whole_steps(summary))
    least = LATE_MS * late / summary["measured_steps"] * 0.8
    for output, value, _ in said["rank 0 waiting"]:
        if value < least:
            complain("rank 0 waits %.3f ms in the %s, and rank 1 was late by %d ms in %d of %d steps" % (value, output, LATE_MS, late, summary["measured_steps"]))
    if late < 18:
        complain("only %d of the late steps were measured" % late)
    for output in ("closing", "status", "summary", "metrics", "page", "report", "report A B"):
        if not any(o == output for o, _, _ in said["waiting"]):
            complain("the %s does not say that ranks wait" % output)


def main():
    summary = json.loads(read("summary"))
    read_closing(read("closing"))
    if os.path.exists(os.path.join(folder, "status")):
        read_status(read("status"))
        hold_waiting(summary)
    read_summary(summary)
    read_metrics(read("metrics"))
    for output in ("page", "report"):
        read_page(output, read(output + ".html"), summary)
    read_compared(read("compared"))
    for figure, values in said.items():
        for where, value, half in values[1:]:
            other, wanted, slack = values[0]
            if abs(value - wanted) > (half + slack) * 1.001 + 1e-9:
                complain("%s is %.6g in the %s, and %.6g in the %s" % (figure, wanted, other, value, where))
    timed = kind != "captured"
    for figure, outputs in {"step": 7, "rate": 6, "exposed": 7, "waiting": 6, "alone": 3, "efficiency": 3, "steps": 7, "ranks": 5, "first": 4, "last": 4}.items():
        found = {output for output, _, _ in said.get(figure, [])}
        if figure in ("alone", "efficiency", "rate", "step") and "alone" not in said:
            continue  # by a trial, collectives slow a step by more than its own work
        outputs -= kind == "failed"  # which has no closing lines
        if len(found) < outputs and (timed or figure in ("steps", "ranks", "first", "last")):
            complain("%s stands in %s only" % (figure, sorted(found)))
    if not timed and said.get("exposed"):
        complain("steps in graphs expose %s" % said["exposed"])
    if timed:
        hold_sums(summary)
        hold_to_raw(summary)
        hold_names(summary)
    if kind == "annotated":
        hold_delay(summary)
    print("; ".join(wrong) or "%d figures in %d places" % (len(said), sum(map(len, said.values()))))
    sys.exit(1 if wrong else 0)


main()
