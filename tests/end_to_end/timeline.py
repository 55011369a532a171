"""timeline.py TRACE TIMELINE - holds a timeline of `ddprun trace` to the trace that it was made from.

Slices of a track do not overlap (one may be inside another); each bucket of each step is there once, on its group's track, as
long as the trace says, and no earlier than it was ready; what a step waited is split into the network's part and that of the rank
that came last; control steps are marked as such. Prints what is wrong; exit code 1.
"""
import glob
import json
import sys

CLOSE_US = 0.01  # times are written with three digits behind the point

wrong = []


def complain(text):
    if len(wrong) < 10:
        print(text)
    wrong.append(text)


def check_tracks(events):
    tracks = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for track, slices in tracks.items():
        open_ends = []
        for one in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            while open_ends and open_ends[-1] <= one["ts"] + CLOSE_US:
                open_ends.pop()
            if open_ends and one["ts"] + one["dur"] > open_ends[-1] + CLOSE_US:
                complain("track %s: %s at %.3f reaches beyond the slice that it begins in" % (track, one["name"], one["ts"]))
            open_ends.append(one["ts"] + one["dur"])
    return len(tracks)


def lines_of(folder):
    for path in sorted(glob.glob(folder + "/rank-*.jsonl")):
        rank = int(path.rsplit("-", 1)[1].split(".")[0])
        for line in open(path, encoding="utf-8"):
            yield rank, json.loads(line)


def check_buckets(folder, events):
    shown, tracks = {}, {}
    for event in events:
        if event["ph"] == "X" and event["name"].startswith("bucket "):
            key = (event["pid"], event["args"]["group"], event["args"]["step"], int(event["name"].split()[1]))
            if key in shown:
                complain("bucket %s is there twice" % (key,))
            shown[key] = event
            tracks.setdefault(event["tid"], set()).add(event["args"]["group"])
    if any(len(groups) > 1 for groups in tracks.values()):
        complain("a track has buckets of several groups: %s" % tracks)
    count = 0
    for rank, line in lines_of(folder):
        if "step" not in line or "graph" in line:
            continue
        for bucket in line["buckets"]:
            count += 1
            event = shown.get((rank, line["group"], line["step"], bucket["bucket"]))
            if event is None:
                complain("rank %d, step %d, bucket %d is not there" % (rank, line["step"], bucket["bucket"]))
                continue
            if abs(event["dur"] - (bucket["end_us"] - bucket["begin_us"])) > 1:
                complain("rank %d, step %d, bucket %d has another length" % (rank, line["step"], bucket["bucket"]))
            if event["args"]["bytes"] != bucket["bytes"] or event["args"]["early"] != bucket["early"]:
                complain("rank %d, step %d, bucket %d is described otherwise" % (rank, line["step"], bucket["bucket"]))
            if bucket["early"] and bucket["ready_us"] > bucket["begin_us"]:
                complain("rank %d, step %d, bucket %d begins before it is ready" % (rank, line["step"], bucket["bucket"]))
    if count != len(shown):
        complain("%d buckets in the trace, %d in the timeline" % (count, len(shown)))
    return count


def check_waits(folder, events):
    """Of files without a second job in them."""
    waited = {}
    ranks = set()
    for rank, line in lines_of(folder):
        ranks.add(rank)
        if "step" in line and "graph" not in line:
            waited.setdefault((line["group"], line["step"]), {})[rank] = line["released_us"]
    count = 0
    for event in events:
        if event["ph"] != "X" or "waited_us" not in event.get("args", {}):
            continue
        args = event["args"]
        of = waited[(args["group"], args["step"])]
        if len(of) < len(ranks):
            continue
        count += 1
        least = min(of.values())
        if (
            abs(args["waited_us"] - of[event["pid"]]) > CLOSE_US
            or abs(args["exposed_us"] - least) > CLOSE_US
            or abs(args["waiting_us"] - (of[event["pid"]] - least)) > CLOSE_US
            or args["waited_for_rank"] != min(r for r in of if of[r] == least)
        ):
            complain("rank %d, %s: %s, of %s" % (event["pid"], event["name"], args, of))
    return count


def check_control(folder, events):
    """Steps that are control steps of a trial say so, and no others."""
    key = lambda args: (args["group"], args["step"], args["overlapped"])
    shown = {(e["pid"], *key(e["args"])) for e in events if e["ph"] == "X" and e.get("args", {}).get("control")}
    wanted = {(rank, *key(line)) for rank, line in lines_of(folder) if line.get("control")}
    for one in sorted(shown ^ wanted):
        complain("control step %s: %s" % ("not in the trace" if one in shown else "not shown", one))
    return len(wanted)


def check_names(events):
    """One name, and so one colour, for each kind of slice; numbers are arguments. The parts of a step fill what they are named for."""
    parts = {}
    for event in events:
        if event["ph"] == "X" and event["dur"] < 0:
            complain("%s has a negative length" % event)
        if event["ph"] == "X" and event["name"] in ("step", "round") and not event["args"]["step"] > 0:
            complain("%s has no number" % event)
        if event["ph"] == "X" and event["name"] in ("exposed communication", "waits for other ranks"):
            parts.setdefault(event["name"], []).append(event["dur"])
    for name, of in (("exposed communication", "exposed_us"), ("waits for other ranks", "waiting_us")):
        wanted = sum(e["args"][of] for e in events if e["ph"] == "X" and of in e.get("args", {}) and e["args"]["waited_us"] > 0)
        if parts.get(name) and abs(sum(parts[name]) - wanted) > 0.02 * wanted + 50:
            complain("%s is %.0f us in slices, and %.0f by the steps" % (name, sum(parts[name]), wanted))


def main():
    events = json.load(open(sys.argv[2], encoding="utf-8"))["traceEvents"]
    tracks = check_tracks(events)
    buckets = check_buckets(sys.argv[1], events)
    if check_waits(sys.argv[1], events) == 0:
        complain("no step says what it waited for")
    if buckets == 0:
        complain("there are no buckets")
    check_names(events)
    controls = check_control(sys.argv[1], events)
    print("%d events, %d tracks, %d buckets, %d control steps, %d complaints" % (len(events), tracks, buckets, controls, len(wrong)))
    sys.exit(1 if wrong else 0)


main()
