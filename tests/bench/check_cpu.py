#!/usr/bin/env python3
"""check_cpu.py BUILD [--runs N] [NAME ...] - what `ddprun check -n 2` costs: its CPU time over that of one run.

For each trainer of tests/tools/check/real, in its right variant, compiled as real.sh does: CPU time (user and system, of all processes) of the
program by itself on the stand-in, of `ddprun -n 1`, of `ddprun check -n 2`; the ratio of the last two; and the share of each run that the check
has made, in milliseconds. `check`: of ddprun itself. The least of N runs each, as other programs on the machine only add. Exit code 1: a ratio is
above 10.

The CPU time of an inner run is by how much that of the check's ended children grows when the run ends: the kernel counts it in ticks of 10 ms.
"""
import argparse, glob, os, shutil, subprocess, sys, tempfile, time

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("build")
options.add_argument("names", nargs="*")
options.add_argument("--runs", type=int, default=3)
wish = options.parse_intermixed_args()
build = os.path.realpath(wish.build)
source = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
real = os.path.join(source, "tests/tools/check/real")
MOST = 10
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def compile_trainer(name, folder):
    program = os.path.join(folder, name)
    subprocess.run([build + "/bin/softgpu-cc", "-Xcompiler", "-O0", "-g", "-DMISTAKE=0", "-I", source + "/interpose/include",
                    f"{real}/{name}.cu", "-o", program, "-lcublas"], check=True)
    return program


def start(words, folder, **environment):
    """A run that hangs is ended by `timeout`, which becomes the program."""
    return subprocess.Popen(["timeout", "--foreground", "300", *words], cwd=folder, env={**os.environ, **environment},
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait(process, words):
    """CPU time in seconds."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        sys.exit("check_cpu.py: a run has failed; start it by hand to see why: " + " ".join(words))
    return used.ru_utime + used.ru_stime


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def child_of(pid):
    words = read(f"/proc/{pid}/task/{pid}/children").split()
    return int(words[-1]) if words else 0


def name_of(pid):
    """The inner run's, by the file of settings that it gets."""
    for variable in read(f"/proc/{pid}/environ").split("\0"):
        key, _, value = variable.partition("=")
        if key == "_DDPRUN_CHECK_RUN":
            return os.path.basename(value).split(".")[0]
        if key == "_DDPRUN_SCOUT_RUN":
            return "scout"
    return ""


def ended_children_s(pid):
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) * TICK_S if len(fields) > 14 else 0


def measure_check(words, folder):
    """CPU time of a check in seconds, and of each of its runs, by name."""
    process = start(words, folder)
    parts, name, before = {}, "", 0.0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        check = child_of(process.pid)
        child = child_of(check) if check else 0
        name = (name_of(child) if child else "") or name
        now = ended_children_s(check) if check else 0
        if now > before:
            parts[name or "rehearsal"] = parts.get(name or "rehearsal", 0) + now - before
            before = now
        time.sleep(0.005)
    total = wait(process, words)
    parts["check"] = total - sum(parts.values())
    return total, parts


def show_trainer(name, folder):
    program = compile_trainer(name, folder)
    inside = os.path.join(folder, "in")
    ddprun = [build + "/bin/ddprun", "-q", "--device", "softgpu"]
    bare, alone, checks = [], [], []
    for _ in range(wish.runs):
        os.makedirs(inside, exist_ok=True)
        bare.append(wait(start([program], inside, LD_LIBRARY_PATH=build + "/lib/softgpu"), [program]))
        alone.append(wait(start([*ddprun, "-n", "1", program], inside), ddprun))
        checks.append(measure_check([*ddprun, "check", "-n", "2", program], inside))
        shutil.rmtree(inside)
    total, parts = min(checks, key=lambda check: check[0])
    ratio = total / min(alone)
    shares = ", ".join(f"{part} {1000 * cpu:.0f}" for part, cpu in parts.items())
    print(f"{name:<12} {min(bare):8.3f} {min(alone):8.3f} {total:8.3f} {ratio:6.1f}   {shares}", flush=True)
    return ratio


names = wish.names or sorted(os.path.basename(path)[:-3] for path in glob.glob(real + "/*.cu"))
print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before, the least of {wish.runs} runs each")
print(f"{'trainer':<12} {'bare, s':>8} {'-n 1, s':>8} {'check, s':>8} {'times':>6}   runs of the check, ms")
with tempfile.TemporaryDirectory() as work:
    ratios = [show_trainer(name, work) for name in names]
print(f"{sum(ratio <= MOST for ratio in ratios)} of {len(ratios)} at most {MOST} times")
sys.exit(0 if max(ratios) <= MOST else 1)
