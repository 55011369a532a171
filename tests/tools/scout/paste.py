"""paste.py PLAN SOURCES COPY - puts the lines of a plan of `ddprun scout --json` into a copy of the sources, as they are.

Nothing is chosen or changed: text T goes in front of line L of file F, which lies below the folder SOURCES, in COPY.
"""
import json
import os
import sys

plan, sources, copy = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3]
with open(plan, encoding="utf-8") as file:
    lines = json.load(file)["lines"]
files = {}
for line in lines:
    files.setdefault(line["file"], []).append(line)
for path, here in files.items():
    target = os.path.join(copy, os.path.relpath(os.path.realpath(path), sources))
    with open(target, encoding="utf-8") as file:
        text = file.read().split("\n")
    for line in reversed(here):  # from the last one up: numbers stay right
        text.insert(line["line"] - 1, line["text"])
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(text))
