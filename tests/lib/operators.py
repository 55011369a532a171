#!/usr/bin/env python3
"""operators.py BUILD [FOLDER] [--write] [--every N] - would unit tests notice a wrong operator?

tests/lib/operators.txt lists operators of the product that were drawn at random (--draw COUNT SEED writes a new list). Each is replaced
in the source, for instance < by <=, and the unit tests are built and run that have the file in them, with 20 seconds of CPU time for
each program, and 200 of the clock; one that fails must do so twice. A row that says "killed" and whose mutant survives is a failure.
--write writes what came of each row; a row whose line is no longer in the file once is skipped. Sources are changed in place and
restored: nothing else may build in this folder meanwhile.
"""
import argparse
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIST = os.path.join(ROOT, "tests/lib/operators.txt")
FOLDERS = ("bucketing", "comm", "interpose", "launcher", "tools")
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "+=": "-=", "-=": "+="}
OPERATOR = re.compile(r"(?<= )(<=?|>=?|==|!=|&&|\|\||[+-]=?)(?= )")
CPU_SECONDS, SECONDS = 20, 200


def drawn(count, seed):
    """Rows (outcome, path, operator, number of it in the line, line), in the order of paths."""
    found = []
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(place, name), ROOT)
                if name.endswith(".c"):
                    text = open(os.path.join(ROOT, path), encoding="utf-8").read()
                    code = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r"[^\n]", "_", m.group()), text,
                                  flags=re.S)
                    lines = text.split("\n")
                    for number, line in enumerate(code.split("\n")):
                        whole = lines[number].strip()
                        if not line.startswith("#") and text.count(whole) == 1:
                            found += [("new", path, m.group(), str(m.start() - len(line) + len(line.lstrip())), whole)
                                      for m in OPERATOR.finditer(line)]
    return sorted(random.Random(seed).sample(sorted(found), count), key=lambda row: row[1])


def tests_of(build):
    """For each source the unit tests that are built from it."""
    of = {}
    for name in sorted(os.listdir(os.path.join(build, "tests/unit"))):
        inputs = subprocess.run(["ninja", "-C", build, "-t", "inputs", f"tests/unit/{name}"], capture_output=True, text=True)
        for path in inputs.stdout.split("\n"):
            of.setdefault(os.path.relpath(os.path.join(build, path), ROOT), []).append(name)
    return of


def fails(build, name):
    try:
        run = subprocess.run(["prlimit", f"--cpu={CPU_SECONDS}", os.path.join(build, "tests/unit", name)], capture_output=True,
                             timeout=SECONDS, cwd=build, env={**os.environ, "CK_FORK": "no"}, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return True
    return run.returncode not in (0, 77)


def outcome(build, path, tests, mutant):
    """What becomes of a file with this text: "killed", or why not."""
    if not tests:
        return "untested"
    whole = os.path.join(ROOT, path)
    original = open(whole, encoding="utf-8").read()
    try:
        with open(whole, "w", encoding="utf-8") as file:
            file.write(mutant)
        if subprocess.run(["ninja", "-C", build, *(f"tests/unit/{name}" for name in tests)], capture_output=True).returncode != 0:
            return "killed"  # a warning is an error
        return "killed" if any(fails(build, name) and fails(build, name) for name in tests) else "survives"
    finally:
        with open(whole, "w", encoding="utf-8") as file:
            file.write(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--draw", nargs=2, type=int)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    if options.draw:
        rows = drawn(*options.draw)
    else:
        rows = [tuple(line.split(None, 4)) for line in open(LIST, encoding="utf-8").read().split("\n") if line]
    of = {} if options.draw else tests_of(build)
    if not options.draw and subprocess.run(["ninja", "-C", build, "tests"], stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"operators: {build} does not build as it is: every mutant would count as killed")
    failures, tally = 0, {}
    for i, (before, path, operator, column, line) in enumerate(rows):
        if options.draw or not path.startswith(options.folder) or i % options.every != 0:
            continue
        text = open(os.path.join(ROOT, path), encoding="utf-8").read() if os.path.exists(os.path.join(ROOT, path)) else ""
        if text.count(line) != 1:
            now = "gone"
        else:
            at = text.index(line) + int(column)
            now = outcome(build, path, of.get(path), text[:at] + OTHER[operator] + text[at + len(operator):])
        wrong = before == "killed" and now not in ("killed", "gone")
        failures += wrong
        tally[now] = tally.get(now, 0) + 1
        print(f"{'not ok' if wrong else 'ok'} - {now}: {path}: {operator} in {line}", flush=True)
        if options.write and now != "gone":
            rows[i] = (now, path, operator, column, line)
    if options.write or options.draw:
        with open(LIST + ".new", "w", encoding="utf-8") as file:
            file.writelines(" ".join(row) + "\n" for row in rows)
        os.replace(LIST + ".new", LIST)
    print(", ".join(f"{count} {name}" for name, count in sorted(tally.items())))
    return failures > 0


sys.exit(main())
