"""latecomers.py write FOLDER LACKING | compare PAGE LACKING - a trace of 3 ranks and 2 buckets in which rank 1 is late, and what its page must say.

Bucket 0: rank 1 comes 70 ms after the others in 30 of 40 steps, in the others rank 2 comes 2 ms late. The network takes 0.7 ms.
Bucket 1: all ranks are there; rank 0 comes 0.01 ms after the others. The network takes 1.5 ms.
Rank 1 is later still in steps 29 and 30. The job begins 5 ms before the ranks' first lines, and takes 7 s.

LONGER says which steps take longer: half a second of step 21 has no sign of what it was; step 26 launches more kernels than others; step 34
launches more, and parameters are saved in it; in step 38 they are saved, too, and that takes little. After the last step the ranks evaluate,
and save. In step 12 a few kernels more are launched, and it takes as long as others. Of these signs, and of what comes before backward, the
traces of older versions say nothing (LACKING: signs).

Before backward rank 1's loader takes 40 ms longer. Step 7 has no copies. Those of step 9 begin before the step does on the device.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../end_to_end"))
from report import report_of, rows, section

RANKS, STEPS, LATE_STEPS = 3, 40, 30
NETWORK_US = [700.0, 1500.0]
BYTES = [200_000, 3_000_000]
READY_US = [9000.0, 4000.0]
NS_PER_STEP = 100_000_000
LONGER = {21: 500_000_000, 26: 300_000_000, 34: 400_000_000, 38: 5_000_000}
LAUNCHES, MORE_LAUNCHES = 20, {12: 4, 26: 8, 34: 40}
SAVED_NS = {34: 150_000_000, 38: 5_000_000}
LAST_LAUNCHES, LAST_SAVED_NS, LAST_WORK_NS = 30, 200_000_000, 600_000_000 # after the last step
NO_COPIES, EARLY_COPIES, EVALUATION = 7, 9, 26
HEAD_NS, HEAD_UNIX_NS = 10_000_000, 1_700_000_000_000_000_000
BEGIN_NS, SECONDS = 5_000_000, 7.0
LATER_US = {29: 9000.0, 30: 10_000.0}


def wait_us(bucket, step, rank):
    """How long the rank waits for the one that comes last."""
    if bucket == 1:
        return 0.0 if rank == 0 else 10.0
    if step <= LATE_STEPS:
        return 0.0 if rank == 1 else 70_000.0 + LATER_US.get(step, 0)
    return 0.0 if rank == 2 else 2000.0


def bucket_of(bucket, step, rank):
    begin = -READY_US[bucket] + 5
    return {"bucket": bucket, "early": True, "ready_us": -READY_US[bucket], "begin_us": begin,
            "end_us": begin + wait_us(bucket, step, rank) + NETWORK_US[bucket], "bytes": BYTES[bucket], "path": "kernels", "type": "float32"}


def boundary_ns(step):
    return step * NS_PER_STEP + sum(ns for before, ns in LONGER.items() if step >= before)


def host_of(step, rank):
    """What the host does before backward, in us; None: it is not known."""
    if step in (NO_COPIES, *SAVED_NS):
        return None
    if step == EVALUATION:
        return [9e5, 9e5, 9e5, 9e5]
    return [1000.0 + rank, 5000.0 + 10 * step + (40_000.0 if rank == 1 else 0), 200.0 + step, 70.0]


def device_of(step):
    """When the copies begin and end on the device, in us to the boundary."""
    return (-25_000.0 if step == EARLY_COPIES else -19_000.0 + step, -17_500.0)


def signs_of(step, rank):
    host, (begin, end) = host_of(step, rank), device_of(step)
    signs = {"launches": LAUNCHES + MORE_LAUNCHES.get(step, 0),
             "launches_total": LAUNCHES * step + sum(n for s, n in MORE_LAUNCHES.items() if s <= step),
             "saved_ns": sum(ns for s, ns in SAVED_NS.items() if s <= step)}
    if host is not None:
        signs |= {f"host_{name}_us": us for name, us in zip(("other", "loader", "copies", "forward"), host)}
        signs |= {"copies_begin_us": begin, "copies_end_us": end}
    return signs


def lines_of(rank, lacking):
    tensors = [{"name": f"gradient {i}", "place": "train.c:1", "type": "float32", "elements": b // 4, "bytes": b} for i, b in enumerate(BYTES)]
    yield {"ddprun_trace": 1, "job": 7, "rank": rank, "world": RANKS, "host": f"h{rank}", "at_ns": HEAD_NS, "unix_ns": HEAD_UNIX_NS, "bucket_bytes": 1,
           "check_every": 100, "overlap": True, "verify": False}
    yield {"plan": 1, "group": 0, "after_step": 0, "at_ns": 2, "tensors": tensors,
           "buckets": [{"bytes": b, "tensors": [i]} for i, b in enumerate(BYTES)]}
    for step in range(1, STEPS + 1):
        boundary = boundary_ns(step)
        buckets = [bucket_of(k, step, rank) for k in range(len(BYTES))]
        yield {"step": step, "overlapped": True, "group": 0, "boundary_ns": boundary, "error_ns": 100, "interval_us": -20_000.0,
               "backward_us": -10_000.0, "released_us": max(b["end_us"] for b in buckets), "entered_ns": boundary - 1000,
               "left_ns": boundary + 1000 + (0 if rank == 1 else 70_000_000), "check_bytes": 0, "buckets": buckets,
               **({} if lacking == "signs" else signs_of(step, rank))}
    last = signs_of(STEPS, rank)
    yield {"end": True, "at_ns": boundary_ns(STEPS + 1),
           **({} if lacking == "signs" else {"launches_total": last["launches_total"] + LAST_LAUNCHES, "saved_ns": last["saved_ns"] + LAST_SAVED_NS,
                                             "worked_ns": boundary_ns(STEPS) + LAST_WORK_NS})}
    if rank == 0:
        yield {"summary": {"exit_code": 0, "seconds": SECONDS, "waited_for": 1, "unbound": True}, "settings": {}, "program": "train", "arguments": ["./train", "--name", "a b"],
               "folder": "/data", "begun_unix_ns": HEAD_UNIX_NS - HEAD_NS + BEGIN_NS}


def write(folder, lacking):
    for rank in range(RANKS):
        if lacking == str(rank):
            continue
        with open(os.path.join(folder, f"rank-{rank}.jsonl"), "w", encoding="utf-8") as file:
            for line in lines_of(rank, lacking):
                file.write(json.dumps(line) + "\n")


def expected(bucket, lacking):
    known = lacking in ("none", "signs")
    wait = [70_000.0, 10.0][bucket]
    return {"Bucket": bucket, "Bytes": BYTES[bucket], "Ready before backward's end": READY_US[bucket],
            "All-reduce": NETWORK_US[bucket] if known else None,
            "GB/s": BYTES[bucket] / NETWORK_US[bucket] / 1e3 if known else None,
            "Longest wait": wait if known else None,
            "Comes last": ["rank 1, 75 %", "rank 0, 100 %"][bucket] if known else "-"}


def is_near(found, wanted):
    if isinstance(found, float) and isinstance(wanted, (int, float)):
        return abs(found - wanted) <= 1e-6 * abs(wanted)
    return found == wanted


def expected_whole(lacking):
    """Of rank 0: it is in DDP_STEP from 1 us before a boundary on. Without signs only what is long is known to be longer."""
    first, last = (boundary_ns(step) - 1000 for step in (1, STEPS))
    after = BEGIN_NS + SECONDS * 1e9 - last
    if lacking == "signs":
        evaluation, saved, other, ended = None, None, LONGER[21] + LONGER[26] + LONGER[34], 0
        training = last - first - other
    else:
        ended = LAST_WORK_NS + 1000 - LAST_SAVED_NS
        evaluation = LONGER[26] + LONGER[34] - SAVED_NS[34] + ended
        saved, other, training = sum(SAVED_NS.values()) + LAST_SAVED_NS, LONGER[21], last - first - sum(LONGER.values())
        ended += LAST_SAVED_NS
    us = {"Start": first - BEGIN_NS, "Training": training, "Evaluation": evaluation, "Checkpoints": saved, "Other": other,
          "After the last step": after - ended, "Whole run": SECONDS * 1e9}
    return {name: ns / 1e3 if ns is not None else None for name, ns in us.items()}


def expected_before(lacking):
    """Rows of host and device, of each rank; none without signs. The evaluation is no usual step."""
    steps = [step for step in range(1, STEPS + 1) if host_of(step, 0) is not None and step != EVALUATION]
    inside = [step for step in steps if step != EARLY_COPIES]
    for rank in range(RANKS if lacking != "signs" else 0):
        if lacking == str(rank):
            continue
        host = [sum(host_of(step, rank)[part] for step in steps) / len(steps) for part in range(4)]
        yield {"Rank": rank, "On": "host", "Other": host[0], "Loader": host[1], "Copies": host[2], "Forward": host[3], "Together": sum(host)}
        begin = sum(device_of(step)[0] for step in inside) / len(inside)
        yield {"Rank": rank, "On": "device", "Other": begin + 20_000.0, "Loader": None, "Copies": -17_500.0 - begin, "Forward": 7500.0,
               "Together": 10_000.0}


def expected_worst():
    """The two latest; what counts is when bucket 0 ends after backward."""
    return [{"Step": step, "Rank": 1, "Later by": wait_us(0, step, 0) + NETWORK_US[0] - READY_US[0] + 5, "Before backward": 10_000.0,
             "Backward": 10_000.0, "Host, DDP_STEP to DDP_STEP": NS_PER_STEP / 1e3 - 2} for step in (30, 29)]


def differences(where, row, wanted):
    return [f"{where}: {name} is {row[name]!r}, not {value!r}" for name, value in wanted.items() if not is_near(row[name], value)]


def compare_run(report, lacking):
    """What is said of the whole run, and of the steps in which a rank came latest."""
    whole = rows(report, "verdict", "The whole run")[0]
    wrong = differences("the whole run", whole, expected_whole(lacking))
    if not is_near(sum(us for name, us in whole.items() if us is not None and name != "Whole run"), whole["Whole run"]):
        wrong.append(f"the parts of the whole run do not add up: {whole}")
    before, wanted = rows(report, "step-times", "Before backward, on host and device"), list(expected_before(lacking))
    if len(before) != len(wanted):
        wrong.append(f"before backward: {len(before)} rows in place of {len(wanted)}")
    for row, one in zip(before, wanted):
        wrong += differences(f"before backward, rank {one['Rank']}, {one['On']}", row, one)
    command = section(report, "head").get("command")
    if command != ["./train --name 'a b'"]:
        wrong.append(f"the command is {command!r}")
    if lacking != "none":
        return wrong
    if "--bind" in " ".join(section(report, "verdict")["notes"]):
        wrong.append("--bind is advised beside the straggler")
    if section(report, "verdict")["links"] != [{"text": "The steps with the longest waits", "to": "late"}]:
        wrong.append(f"the verdict links to {section(report, 'verdict')['links']}")
    advice = "look at rank 1 (h1). Its loader takes 40.0 ms longer; the cause of the other 6.75 ms is not known: look at how it reads"
    lost = "A step loses 46.8 ms in all: 46.8 ms waiting for other ranks, 0 µs exposed communication."
    for sentence in (advice, lost):
        if not any(sentence in note.replace("\u00a0", " ") for note in section(report, "verdict")["notes"]):
            wrong.append(f"the verdict does not say '{sentence}': {section(report, 'verdict')['notes']}")
    worst = rows(report, "late", "The longest waits")
    return wrong + [text for row, wanted in zip(worst, expected_worst()) for text in differences(f"step {wanted['Step']}", row, wanted)]


def compare(page, lacking):
    with open(page, encoding="utf-8") as file:
        report = report_of(file.read())
    table = rows(report, "buckets", "Buckets")
    if len(table) != len(BYTES):
        sys.exit(f"{len(table)} rows in place of {len(BYTES)}")
    wrong = [f"bucket {k}: {name} is {row[name]!r}, not {wanted!r}" for k, row in enumerate(table)
             for name, wanted in expected(k, lacking).items() if not is_near(row[name], wanted)] + compare_run(report, lacking)
    sys.exit("\n".join(wrong) if wrong else 0)


if sys.argv[1] == "write":
    write(*sys.argv[2:])
else:
    compare(*sys.argv[2:])
