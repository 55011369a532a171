#!/usr/bin/env python3
"""rules.py - a program of the tests shows each rule of `ddprun check`, and each refusal of `ddprun scout`: see rules.sh.

Says what is missing, a line each, and ends with 1; else the counts.
"""
import glob
import os
import re
import sys

TABLE = "tests/tools/rules.txt"
ROOMS = {"verdict": "tools/check/verdict", "place": "tools/check/place"}
REFUSES = re.compile(r"\b(?:note_refuse|turns_refuse|refuse)\(")
TEXT = r'"(?:[^"\\]|\\.)*"'
TEXTS = re.compile(rf"{TEXT}(?:\s*(?:PRI\w+)?\s*{TEXT})*")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources(folder):
    return sorted(glob.glob(f"{folder}/**/*.c", recursive=True))


def rules():
    """(kind, name) of each row of check."""
    return [(kind, name) for kind, room in ROOMS.items() for path in sources(room)
            for name in re.findall(r'(?:\.name = |\b(?:OWN_NUMBER|NUMBER_OF_SUM)\()"([^"]+)"', read(path))]


def refusals():
    """The words of each refusal of scout, with % where the program's names and numbers are."""
    found = set()
    for path in sources("tools/scout/command/analysis") + sources("tools/scout/command/proofs"):
        text = read(path)
        for call in REFUSES.finditer(text):
            statement = text[call.end():text.find(";\n", call.end())]
            words = TEXTS.search(statement)
            if words is None:
                continue
            said = "".join(re.findall(TEXT, re.sub(r"PRI\w+", "", words.group()))).replace('""', "").strip('"')
            said = re.sub(r"%(?:ll)?[a-z]?", "%", said)
            if said.strip("% :"): # else another refusal is passed on
                found.add(said)
    return sorted(found)


def rows():
    lines = [line for line in read(TABLE).split("\n") if line and not line.startswith("#")]
    return [tuple(cell.strip() for cell in line.split("|")) for line in lines]


def programs_of(path):
    """The cells of a table's rows that name programs."""
    cells = [re.split(r"\s*\|\s*", line) for line in read(path).split("\n")]
    if path.endswith("programs.txt"):
        return {row[2] for row in cells if row[0] in ("check", "scout", "plan")}
    return {re.sub(r"^(soak )?(wrong|right) ", "", row[0]).strip() for row in cells if row[0].startswith(("wrong", "right", "soak"))}


def problem(where, words):
    """Why no program shows it; None: one does."""
    if where.startswith("none: "):
        return None if len(where) > 20 else "an exception needs a reason"
    if where.startswith("said in "):
        path = where[len("said in "):]
        sentence = ".*".join(map(re.escape, words.split("%")))
        return None if os.path.exists(path) and re.search(sentence, read(path)) else f"{path} does not say it"
    table, _, program = where.partition(" ")
    path = "tests/tools/programs.txt" if table == "programs" else f"tests/tools/check/{table}.txt"
    return None if os.path.exists(path) and program in programs_of(path) else f"{path} has no row of {program}"


def main():
    wanted = rules() + [("refusal", words) for words in refusals()]
    table = rows()
    shown = {(row[0], row[1]) for row in table}
    said = [f"{TABLE}: nothing shows {kind} | {name}" for kind, name in wanted if (kind, name) not in shown]
    said += [f"{TABLE}: {row[0]} | {row[1]}: no such rule" for row in table if (row[0], row[1]) not in set(wanted)]
    for row in table:
        why = problem(row[2], row[1])
        if why is not None:
            said.append(f"{TABLE}: {row[0]} | {row[1]}: {why}")
    exceptions = sum(row[2].startswith("none: ") for row in table)
    print("\n".join(said) or f"{len(wanted)} rules and refusals, {exceptions} of them exceptions")
    return 1 if said else 0


sys.exit(main())
