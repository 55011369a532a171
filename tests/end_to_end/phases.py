"""phases.py KIND TRACE PAGE - holds a trace of phases.cu, and its page, to what the trainer's sleeps take at least. Prints what is wrong."""
import json
import os
import statistics
import sys

from report import report_of, rows, section

KIND, FOLDER, PAGE = sys.argv[1:4]
UPDATE_US, LOADER_US, FORWARD_US, SAVING_US, EVALUATION_US, LATE_US = 3000, 5000, 4000, 30_000, 8 * 4000, 20_000
EVERY, PARTS = 20, ("other", "loader", "copies", "forward")
wrong = []


def require(right, what):
    if not right:
        wrong.append(what)


def lines_of(rank):
    with open(os.path.join(FOLDER, f"rank-{rank}.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {line["step"]: line for line in lines if "step" in line}, next(line for line in lines if "end" in line)


def parts_of(line):
    return [line.get(f"host_{part}_us") for part in PARTS]


def hold_parts(rank, steps):
    """A host that is late adds to the part that it is in, so all but the wait for the update are at least what they sleep."""
    known = {number: line for number, line in steps.items() if line.get("host_loader_us") is not None}
    if KIND in ("resident", "thread"):
        return require(not known, f"rank {rank}: the parts of steps {sorted(known)} are told")
    require(len(known) > 20, f"rank {rank}: only the parts of steps {sorted(known)} are told")
    waits = []
    for number, line in known.items():
        other, loader, copies, forward = parts_of(line)
        whole = (line["entered_ns"] - steps[number - 1]["left_ns"]) / 1e3 if number - 1 in steps else 1e15
        where = f"rank {rank}, step {number}"
        require(loader >= LOADER_US + (LATE_US if KIND == "late" and rank == 1 else 0), f"{where}: its loader took {loader} us")
        require(min(other, copies, forward) >= 0 and other + loader + copies + forward <= whole + 1, f"{where}: {parts_of(line)} of {whole} us")
        begin, copied, copies_end, backward = (line.get(name, 1e15) for name in ("interval_us", "copies_begin_us", "copies_end_us", "backward_us"))
        require(backward - copies_end >= FORWARD_US, f"{where}: forward from {copies_end} to {backward}")
        require(copied - begin >= UPDATE_US + LOADER_US, f"{where}: the copies begin at {copied}, in a step from {begin} on")
        waits.append(other)
    require(statistics.median(waits) >= 0.8 * UPDATE_US, f"rank {rank}: waits for the update took {statistics.median(waits)} us")
    return None


def hold_totals(rank, steps, end):
    """The step after each twentieth begins with a checkpoint, then an evaluation."""
    usual = statistics.median(line["launches"] for line in steps.values())
    for number, line in steps.items():
        before = steps.get(number - 1)
        if before is None:
            continue
        saved_us = (line["saved_ns"] - before["saved_ns"]) / 1e3
        longest_us = (line["entered_ns"] - before["left_ns"]) / 1e3 - EVALUATION_US
        saves = (number - 1) % EVERY == 0 and KIND in ("parts", "resident")
        where = f"rank {rank}, step {number}"
        require(line["launches_total"] - before["launches_total"] == line["launches"], f"{where}: {line['launches']} launches, and in all another number")
        require((line["launches"] > 1.25 * usual) == saves, f"{where}: {line['launches']} launches, of usually {usual}")
        require(SAVING_US <= saved_us <= longest_us if saves else saved_us == 0, f"{where}: {saved_us} us of checkpoints, of at most {longest_us}")
        require(not saves or line.get("host_loader_us") is None, f"{where}: its parts are told, and it saves")
    last = steps[max(steps)]
    at_end_us = (end["saved_ns"] - last["saved_ns"]) / 1e3
    require(at_end_us >= SAVING_US if KIND in ("parts", "resident") else at_end_us == 0, f"rank {rank}: {at_end_us} us of checkpoints at the end")
    require(last["left_ns"] < end["worked_ns"] <= end["at_ns"], f"rank {rank}: worked until {end['worked_ns']}")


def hold_page():
    with open(PAGE, encoding="utf-8") as file:
        report = report_of(file.read())
    whole = rows(report, "verdict", "The whole run")[0]
    require(abs(sum(us for name, us in whole.items() if name != "Whole run") - whole["Whole run"]) < 1, f"the whole run: {whole}")
    saves = KIND in ("parts", "resident")
    require(whole["Checkpoints"] >= 4 * SAVING_US if saves else whole["Checkpoints"] == 0, f"checkpoints take {whole['Checkpoints']} us")
    require((whole["Evaluation"] > 0) == saves, f"evaluations take {whole['Evaluation']} us")
    before = rows(report, "step-times", "Before backward, on host and device")
    require(len(before) == (4 if KIND in ("parts", "late") else 0), f"before backward: {before}")
    for row in before:
        require(row["Forward"] >= FORWARD_US if row["On"] == "device" else row["Loader"] >= LOADER_US, f"before backward: {row}")
    verdict = " ".join(section(report, "verdict")["notes"])
    require(("look at rank 1 (" in verdict and "Its loader takes " in verdict) == (KIND == "late"), f"the verdict says: {verdict}")
    told = "Loader, copies and forward are not told apart" in " ".join(section(report, "step-times").get("notes", []))
    require(told == (not before), "the page does not say why the parts are not told")


for number in (0, 1):
    of_rank, the_end = lines_of(number)
    hold_parts(number, of_rank)
    hold_totals(number, of_rank, the_end)
hold_page()
sys.exit("\n".join(wrong[:20]) if wrong else 0)
