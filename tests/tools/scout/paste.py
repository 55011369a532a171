"""paste.py OUTPUT SOURCES COPY - puts the lines that `ddprun scout` prints into a copy of the sources, as they are.

Nothing is chosen or changed: the lines behind "@@ F, before line L @@" go in front of line L of file F, which lies below the
folder SOURCES, in COPY.
"""
import os
import re
import sys

output, sources, copy = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3]
files = {}
with open(output, encoding="utf-8") as file:
    for line in file.read().split("\n"):
        place = re.fullmatch("@@ (.*), before line ([0-9]+) @@", line)
        if place:
            here = []
            files.setdefault(place[1], []).append((int(place[2]), here))
        elif line.startswith("+ "):
            here.append(line[2:])
for path, places in files.items():
    target = os.path.join(copy, os.path.relpath(os.path.realpath(path), sources))
    with open(target, encoding="utf-8") as file:
        text = file.read().split("\n")
    for number, here in reversed(places):  # from the last one up: numbers stay right
        text[number - 1:number - 1] = here
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(text))
