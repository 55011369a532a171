"""latecomers.py write FOLDER | compare PAGE LACKING - a trace of 3 ranks and 2 buckets in which rank 1 is late, and what its page must say.

Bucket 0: rank 1 comes 70 ms after the others in 30 of 40 steps, in the others rank 2 comes 2 ms late. The network takes 0.7 ms.
Bucket 1: all ranks are there; rank 0 comes 0.01 ms after the others. The network takes 1.5 ms.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../end_to_end"))
from report import report_of, rows

RANKS, STEPS, LATE_STEPS = 3, 40, 30
NETWORK_US = [700.0, 1500.0]
BYTES = [200_000, 3_000_000]
READY_US = [9000.0, 4000.0]
NS_PER_STEP = 100_000_000


def wait_us(bucket, step, rank):
    """How long the rank waits for the one that comes last."""
    if bucket == 1:
        return 0.0 if rank == 0 else 10.0
    if step <= LATE_STEPS:
        return 0.0 if rank == 1 else 70_000.0
    return 0.0 if rank == 2 else 2000.0


def bucket_of(bucket, step, rank):
    begin = -READY_US[bucket] + 5
    return {"bucket": bucket, "early": True, "ready_us": -READY_US[bucket], "begin_us": begin,
            "end_us": begin + wait_us(bucket, step, rank) + NETWORK_US[bucket], "bytes": BYTES[bucket], "path": "kernels", "type": "float32"}


def lines_of(rank):
    tensors = [{"name": f"gradient {i}", "place": "train.c:1", "type": "float32", "elements": b // 4, "bytes": b} for i, b in enumerate(BYTES)]
    yield {"ddprun_trace": 1, "job": 7, "rank": rank, "world": RANKS, "host": f"h{rank}", "at_ns": 1, "unix_ns": 7, "bucket_bytes": 1,
           "check_every": 100, "overlap": True, "verify": False}
    yield {"plan": 1, "group": 0, "after_step": 0, "at_ns": 2, "tensors": tensors,
           "buckets": [{"bytes": b, "tensors": [i]} for i, b in enumerate(BYTES)]}
    for step in range(1, STEPS + 1):
        boundary = step * NS_PER_STEP
        buckets = [bucket_of(k, step, rank) for k in range(len(BYTES))]
        yield {"step": step, "overlapped": True, "group": 0, "boundary_ns": boundary, "error_ns": 100, "interval_us": -20_000.0,
               "backward_us": -10_000.0, "released_us": max(b["end_us"] for b in buckets), "entered_ns": boundary - 1000,
               "left_ns": boundary + 1000, "check_bytes": 0, "buckets": buckets}
    yield {"end": True, "at_ns": (STEPS + 1) * NS_PER_STEP}


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


def compare(page, lacking):
    with open(page, encoding="utf-8") as file:
        table = rows(report_of(file.read()), "buckets", "Buckets")
    if len(table) != len(BYTES):
        sys.exit(f"{len(table)} rows in place of {len(BYTES)}")
    wrong = [f"bucket {k}: {name} is {row[name]!r}, not {wanted!r}" for k, row in enumerate(table)
             for name, wanted in expected(k, lacking).items() if not is_near(row[name], wanted)]
    sys.exit("\n".join(wrong) if wrong else 0)


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    compare(*sys.argv[2:])
