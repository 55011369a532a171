#!/usr/bin/env python3
"""overlap.py BUILD [--device softgpu|gpu] [--ranks N] [--steps N] [--layer-us N] [--runs N] - what overlap gains.

A trainer (overlap_rank) with 8 layers, and with 0.5 MiB and 32 MiB of gradients in float32. For each size three jobs follow each other,
--runs times: one rank, which averages nothing; N ranks with --no-overlap; N ranks with overlap, as a job has it without options. Each
reports the median of its steps in the second half: by then buckets come from measured times, which takes about 50 steps. Printed are the
minimum, the median and the maximum over the repetitions, of these times and of their ratios within a repetition.

On the stand-in (the default) layers sleep, and need no core. The link is modelled (SOFTGPU_LINK, softgpu/docs/softgpu.md): an all-reduce of
one layer's gradient takes 0.8 of the layer's time, a fifth of it as latency. On GPUs layers compute, and the link is the machine's own;
bash tests/gpu/programs.sh BUILD compiles the trainer. Settings of jobs are taken from the environment: DDPRUN_SHARE_GPU=1 where there
are fewer GPUs than ranks.

Run it on a machine that does nothing else.
"""
import argparse, os, re, statistics, subprocess, sys

LAYERS, SIZES_KIB = 8, {"0.5 MiB": 64, "32 MiB": 4096}  # of one layer's gradient
LINK_SHARE, LATENCY_SHARE = 0.8, 0.16  # of a layer's time, that an all-reduce of its gradient takes; of which latency


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"overlap.py: {message}; --help lists the options\n")


def number_from(least):
    def take(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is no whole number from {least} on")
        return int(text)
    return take


parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build")
parser.add_argument("--device", choices=["softgpu", "gpu"], default="softgpu")
parser.add_argument("--ranks", type=number_from(2), default=2)
parser.add_argument("--steps", type=number_from(4), default=120, help="of each job (120)")
parser.add_argument("--layer-us", type=number_from(1), help="microseconds of a layer (20000; on GPUs 500)")
parser.add_argument("--runs", type=number_from(1), default=3, help="repetitions (3: about 8 minutes)")
wish = parser.parse_args()
on_gpu = wish.device == "gpu"
layer_us = wish.layer_us or (500 if on_gpu else 20000)
build = os.path.realpath(wish.build)
ddprun = build + "/bin/ddprun"
trainer = build + ("/gpu/overlap_rank" if on_gpu else "/bench/overlap_rank")
for program in ddprun, trainer:
    if not os.access(program, os.X_OK):
        parser.error(f"{program} is not built")


def step_ms(kib, ranks, *options):
    """The step of the slowest rank of one job. A job that hangs is ended by `timeout`."""
    model = f"latency_us={layer_us * LATENCY_SHARE:g},gbytes_per_s={kib * 1024 / (layer_us * (LINK_SHARE - LATENCY_SHARE) * 1e3):g}"
    environment = dict(os.environ) if on_gpu else dict(os.environ, SOFTGPU_LINK=model)
    limit_s = 120 + wish.steps * 4 * LAYERS * layer_us // 1000000
    words = ["timeout", str(limit_s), ddprun, "-q", "-n", str(ranks), *options, trainer, "--layers", str(LAYERS), "--kib", str(kib), "--layer-us",
             str(layer_us), "--forward-us", str(layer_us // 2), "--steps", str(wish.steps), "--on", "device" if on_gpu else "host"]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    found = re.findall(r"^(?:\[?\d+\]?:? ?)?step ([\d.]+) ms$", ended.stdout, re.MULTILINE)
    if ended.returncode != 0 or len(found) != ranks:
        sys.exit(f"overlap.py: exit code {ended.returncode}, {len(found)} times from {' '.join(words)}:\n{ended.stdout}{ended.stderr}")
    return max(float(time) for time in found)


def show(name, values, unit):
    print(f"{name:<46} {min(values):10.4g} {statistics.median(values):10.4g} {max(values):10.4g}  {unit}", flush=True)


def measure(size, kib):
    one, apart, overlapped = [], [], []
    for _ in range(wish.runs):
        one.append(step_ms(kib, 1))
        apart.append(step_ms(kib, wish.ranks, "--no-overlap"))
        overlapped.append(step_ms(kib, wish.ranks))
    show(f"{size}: step of one rank", one, "ms")
    show(f"{size}: step with --no-overlap", apart, "ms")
    show(f"{size}: step with overlap", overlapped, "ms")
    show(f"{size}: --no-overlap over overlap", [a / b for a, b in zip(apart, overlapped)], "ratio")
    show(f"{size}: --no-overlap over one rank", [a / b for a, b in zip(apart, one)], "ratio")
    show(f"{size}: overlap over one rank", [a / b for a, b in zip(overlapped, one)], "ratio")


link = "the machine's" if on_gpu else f"{layer_us * LATENCY_SHARE / 1e3:g} ms latency, {LINK_SHARE:g} of a layer for its gradient"
print(f"{'GPUs' if on_gpu else 'stand-in'}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {wish.ranks} ranks, {wish.steps} steps; "
      f"repetitions: {wish.runs}; {LAYERS} layers of {layer_us / 1e3:g} ms; link: {link}")
print(f"{'figure':<46} {'minimum':>10} {'median':>10} {'maximum':>10}  unit")
for size, kib in SIZES_KIB.items():
    measure(size, kib)
