"""latecomers.py write FOLDER | compare PAGE LACKING - a trace of 3 ranks and 2 buckets in which rank 1 is late, and what its page must say.

Bucket 0: rank 1 comes 70 ms after the others in 30 of 40 steps, in the others rank 2 comes 2 ms late. The network takes 0.7 ms.
Bucket 1: all ranks are there; rank 0 comes 0.01 ms after the others. The network takes 1.5 ms.
Rank 1 is later still in steps 29 and 30. Between steps 20 and 21 half a second passes. The job begins 5 ms before the ranks' first lines,
and takes 5 s.
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
PAUSE_NS, PAUSE_BEFORE = 500_000_000, 21
HEAD_NS, HEAD_UNIX_NS = 10_000_000, 1_700_000_000_000_000_000
BEGIN_NS, SECONDS = 5_000_000, 5.0
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
    return step * NS_PER_STEP + (PAUSE_NS if step >= PAUSE_BEFORE else 0)


def lines_of(rank):
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
               "left_ns": boundary + 1000, "check_bytes": 0, "buckets": buckets}
    yield {"end": True, "at_ns": boundary_ns(STEPS + 1)}
    if rank == 0:
        yield {"summary": {"exit_code": 0, "seconds": SECONDS}, "settings": {}, "program": "train", "arguments": ["./train", "--name", "a b"],
               "folder": "/data", "begun_unix_ns": HEAD_UNIX_NS - HEAD_NS + BEGIN_NS}


def write(folder):
    for rank in range(RANKS):
        with open(os.path.join(folder, f"rank-{rank}.jsonl"), "w", encoding="utf-8") as file:
            for line in lines_of(rank):
                file.write(json.dumps(line) + "\n")


def expected(bucket, lacking):
    known = lacking == "none"
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


def expected_whole():
    """Of rank 0: it is in DDP_STEP from 1 us before a boundary on."""
    first, last = (boundary_ns(step) - 1000 for step in (1, STEPS))
    return {"Start": (first - BEGIN_NS) / 1e3, "Longer steps": PAUSE_NS / 1e3, "Usual steps": (last - first - PAUSE_NS) / 1e3,
            "After the last step": (BEGIN_NS + SECONDS * 1e9 - last) / 1e3, "Whole run": SECONDS * 1e6}


def expected_worst():
    """The two latest; what counts is when bucket 0 ends after backward."""
    return [{"Step": step, "Rank": 1, "Later by": wait_us(0, step, 0) + NETWORK_US[0] - READY_US[0] + 5, "Before backward": 10_000.0,
             "Backward": 10_000.0, "Host, DDP_STEP to DDP_STEP": NS_PER_STEP / 1e3 - 2} for step in (30, 29)]


def differences(where, row, wanted):
    return [f"{where}: {name} is {row[name]!r}, not {value!r}" for name, value in wanted.items() if not is_near(row[name], value)]


def compare_run(report, lacking):
    """What is said of the whole run, and of the steps in which a rank came latest."""
    wrong = differences("the whole run", rows(report, "verdict", "The whole run")[0], expected_whole())
    command = section(report, "head").get("command")
    if command != ["./train --name 'a b'"]:
        wrong.append(f"the command is {command!r}")
    if lacking != "none":
        return wrong
    if section(report, "verdict")["links"] != [{"text": "The steps with the longest waits", "to": "late"}]:
        wrong.append(f"the verdict links to {section(report, 'verdict')['links']}")
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
    write(sys.argv[2])
else:
    compare(*sys.argv[2:])
