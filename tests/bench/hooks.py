#!/usr/bin/env python3
"""hooks.py BUILD - what interposition costs, in instructions, which repeat.

Programs under callgrind make many calls of one kind (hooks_calls), and the difference between two
kinds is what a hook adds to a call. Then the search for addresses in copies from the host, in instructions a byte
(tests/bucketing/test_words.c), and annotations, of which a program may have many: what one costs grows with their number, because they are
kept in order.
"""
import argparse, os, re, shutil, statistics, subprocess, sys

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("build")
build = os.path.realpath(options.parse_args().build)
calls = build + "/bench/hooks_calls"
counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
if not shutil.which("valgrind"):
    print("skipped: no valgrind, which counts the instructions")
    sys.exit(77)


def numbers(words, pattern, **environment):
    """Those that the pattern's groups match in the output of a command."""
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=dict(os.environ, **environment))
    found = re.search(pattern, ended.stdout)
    if ended.returncode != 0 or not found:
        sys.exit(f"hooks.py: exit code {ended.returncode}, no {pattern} from {' '.join(words)}:\n{ended.stdout}")
    return [float(group) for group in found.groups()]


def instructions(words):
    return numbers(words, r"Collected : (\d+)")[0]


def show(name, value, unit, limit=None):
    bar = "" if limit is None else f"at most {limit:g}: " + ("yes" if value <= limit else "NO")
    print(f"{name:<66} {value:10.4g} {unit:<8} {bar}", flush=True)


def per_call(kind, *job):
    """
    Of one call of this kind, with its loop. All counts have the same number of digits: what the program spends on its arguments then
    cancels out. The middle one of three runs: what comes before the calls (the loader, the start of the C library) is now and then a few
    instructions more or less, which is not the call's cost.
    """
    words = [*job, "env", f"LD_PRELOAD={build}/lib/libddprun.so", f"LD_LIBRARY_PATH={build}/tests/interpose", *counted, calls, kind]
    few, many = (statistics.median(instructions([*words, f"{count:05}"]) for _ in range(3)) for count in (1000, 11000))
    return (many - few) / 10000


def measure_calls():
    job = ["env", f"LD_LIBRARY_PATH={build}/tests/interpose", calls, "job", build + "/tests/interpose/libfake_engine.so"]
    show("copy, not the rank: added to the call", per_call("copy") - per_call("bare-copy"), "instr.", 4)
    show("launch, not the rank: added to the call", per_call("launch") - per_call("bare-launch"), "instr.", 4)
    bare = per_call("rank", *job)
    show("launch, 4 pointers outside all ranges: added", per_call("outside", *job) - bare, "instr.", 60)
    show("launch, 4 pointers between 5,000 ranges: added", per_call("interleaved", *job) - bare, "instr.", 200)


def measure_copies():
    for kind in ("int32", "bfloat16", "image"):
        less, more = (instructions([*counted, build + "/tests/unit/test_words", "scan", kind, mib]) for mib in ("08", "16"))
        show(f"copy of {kind} from the host: added to a byte", (more - less) / (8 << 20), "instr.", 1)


def measure_annotating():
    """Of two arenas in turn."""
    for count, limit in ((10000, 800), (100000, 1000)):
        words = ["env", f"LD_LIBRARY_PATH={build}/tests/interpose", *counted, calls, "annotate", str(count)]
        show(f"an annotation, of {count:,}", instructions(words) / count, "instr.", limit)


measure_calls()
measure_copies()
measure_annotating()
