#!/usr/bin/env python3
"""launch.py BUILD [--runs N] [--ranks N,N,...] [--idle SECONDS] - what starting and holding a job costs.

Start-up: ranks that join by their first annotation and leave (launch_rank), from the start of ddprun to its end. In turn with it, where
there is an mpirun, the same number of processes that join and leave its PMIx (launch_pmix). No device is used: what the first use of one
costs is measured apart. Medians of wall clock times with their range, CPU times of all processes of the job, and ratios of runs that
followed each other.

Holding: CPU time of ddprun itself, of all its threads, beside ranks that wait, from 2 s after the last one joined.

Run it on a machine that does nothing else; CPU times bear a busy one better.
"""
import argparse, glob, os, shutil, statistics, subprocess, sys, time

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("build")
options.add_argument("--runs", type=int, default=11)
options.add_argument("--ranks", type=lambda text: [int(word) for word in text.split(",")], default=[2, 64, 256])
options.add_argument("--idle", type=float, default=20, help="seconds to hold a job; 0: not measured")
wish = options.parse_args()
bench = os.path.join(os.path.realpath(wish.build), "bench")
ddprun = [os.path.join(bench, "../bin/ddprun"), "-q", "--device", "softgpu"]
mpirun = ["mpirun", "--oversubscribe"] if shutil.which("mpirun") and os.access(bench + "/launch_pmix", os.X_OK) else None
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
HELD_AT_MOST = 64


def start(words):
    """A run that hangs is ended by `timeout`. What ddprun says, that nothing was averaged, is not shown."""
    return subprocess.Popen(["timeout", str(120 + int(wish.idle)), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def run(words):
    """Wall clock and CPU time, in seconds."""
    begin = time.monotonic()
    process = start(words)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    if status != 0:
        sys.exit("launch.py: a run has failed; start it by hand to see why: " + " ".join(words))
    return wall, used.ru_utime + used.ru_stime


def show(name, values, unit):
    spread = f" [{min(values):.3f}, {max(values):.3f}]" if len(values) > 1 else ""
    print(f"{name + spread:<60} {statistics.median(values):10.4g} {unit}", flush=True)


def measure_start(ranks):
    words = [*ddprun, "--output", "none", "-n", str(ranks), bench + "/launch_rank"]
    run(words)  # brings the files into memory
    ours, theirs = [], []
    for _ in range(wish.runs):
        ours.append(run(words))
        if mpirun:
            theirs.append(run([*mpirun, "-n", str(ranks), bench + "/launch_pmix"]))
    show(f"start to end, {ranks} ranks", [wall for wall, _ in ours], "s")
    show(f"CPU time of all processes, {ranks} ranks", [cpu for _, cpu in ours], "s")
    if mpirun:
        show(f"mpirun, start to end, {ranks} ranks", [wall for wall, _ in theirs], "s")
        show(f"start to end over mpirun's, {ranks} ranks", [a[0] / b[0] for a, b in zip(ours, theirs)], "")
        show(f"CPU time over mpirun's, {ranks} ranks", [a[1] / b[1] for a, b in zip(ours, theirs)], "")


def cpu_s(process):
    return sum(int(open(name).read().split()[0]) for name in glob.glob(f"/proc/{process}/task/*/schedstat")) / 1e9


def measure_holding(ranks):
    job = start([*ddprun, "-n", str(ranks), bench + "/launch_rank", "idle"])
    process = int(job.stdout.readline())  # rank 0 prints it once all ranks have joined
    time.sleep(2)
    begin, before = time.monotonic(), cpu_s(process)
    time.sleep(wish.idle)
    share = (cpu_s(process) - before) / (time.monotonic() - begin)
    job.terminate()
    job.communicate()
    show(f"ddprun beside {ranks} ranks that wait", [100 * share], "% of a core")


print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before, {wish.runs} runs each" + ("" if mpirun else "; no mpirun to compare with"))
for ranks in wish.ranks:
    measure_start(ranks)
if os.access(bench + "/launch_device", os.X_OK):  # on the stand-in, without ddprun
    show("first use of a device of the stand-in, by itself",
         [float(start([bench + "/launch_device"]).communicate()[0]) for _ in range(wish.runs)], "ms")
for ranks in wish.ranks:
    if wish.idle > 0 and ranks <= HELD_AT_MOST:
        measure_holding(ranks)
