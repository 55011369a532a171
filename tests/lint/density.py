#!/usr/bin/env python3
"""density.py [--report TIDY] FOLDER... < MATCHES - finds dense code among the matches of clang-query. Called by density.sh.

density.sh says which code is dense. MATCHES is the output of clang-query for many files, with density.query and with ranges of sources;
code counts in FOLDERs, which lie below the working folder. The first line printed says how many functions there are, and how long they
are. Then each dense place has a line, in the order of places:

    FOLDER FUNCTION KIND<tab>FILE:LINE: FUNCTION has ...: advice

Before the tab stands the place's row of tests/lint/density.txt. With --report a table of figures by folder is printed instead; TIDY is
the output of clang-tidy about the cognitive complexity of functions.

clang knows expressions; this script finds where an operator is written: in the code (in the arguments of a macro, too), or in the
definition of a macro. An operator stands just before its operand, for which clang-query prints the place in the code and then, as
"expanded from macro", the place in each definition.
"""
import argparse
import collections
import glob
import os
import re
import sys

CHAIN = 5  # operators && and || that one expression may have
KINDS = {
    "nested": "a conditional expression inside another: write if, switch, or a function with early returns",
    "chain": "{} operators && and || in one expression, %d at most: give its parts names, as variables or functions" % CHAIN,
    "assigns": "an assignment in a condition: assign in a statement before it; only `while ((x = next()))` may stay",
}
LEAF = re.compile(r"base/|(.*/)?common/")  # where macros are defined that count as one leaf
OPERATOR = {
    "inner": re.compile(r"[?:]$"),
    "outer": re.compile(r"[?:]$"),
    "logical": re.compile(r"(&&|\|\|)$"),
    "assigned": re.compile(r"([^=!<>]=|<<=|>>=)$"),
}
BOUND = re.compile(r'(.+?):(\d+):(\d+):(?:\{(\d+):(\d+)-(\d+):\d+\})?.* note: "(\w+)" binds here$')
EXPANDED = re.compile(r"(.+?):(\d+):(\d+):.* note: expanded from macro ")
COMPLEXITY = re.compile(r"(.+?):(\d+):\d+: warning: function '.*' has cognitive complexity of (\d+) ")
GROUPS = {  # rows of the report, and where their files begin; each file is in the first that fits
    "core": ("base/", "bucketing/", "comm/", "interpose/"),
    "launcher": ("launcher/",),
    "tools/scout": ("tools/scout/",),
    "tools/check": ("tools/check/",),
    "tools/plan": ("tools/plan/",),
    "tools, others": ("tools/",),
    "softgpu": ("softgpu/",),
    "samples": ("samples/",),
}

Place = collections.namedtuple("Place", "file line column")
# A bound node: its place in the code; its range there, which begins with the macro's name if the node is in an argument of a macro; its
# places in the definitions of macros.
Node = collections.namedtuple("Node", "place begin last_line definitions")
# Where an operator is written, and in which macro's definition, as (file, line); None: in the code.
Written = collections.namedtuple("Written", "place definition")


class Source:
    """A file with blanks in place of comments and of characters between quotes: columns stay as they are."""

    QUIET = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL)
    FUNCTION = re.compile(r"^(\w+)\((\w*)", re.MULTILINE)  # a function's name begins its line
    DEFINE = re.compile(r"#\s*define (\w+)")
    TABLE = re.compile(r"\w[^=(]*?(\w+)(?:\[[^]]*\])* =")

    def __init__(self, name):
        with open(name, encoding="latin-1") as file:  # clang's columns are bytes
            self.lines = self.QUIET.sub(self.blank, file.read()).split("\n")
        self.functions = {}  # first line: (last line, name)

    @staticmethod
    def blank(match):
        blank = re.sub(r"[^\n]", " ", match[0])
        return blank if match[0][0] == "/" else match[0][0] + blank[1:-1] + match[0][-1]

    def before(self, place):
        """The code before a place, on its line or on the last line before that has code."""
        line, text = place.line, self.lines[place.line - 1][:place.column - 1]
        while not text.strip(" \t\\") and line > 1:
            line -= 1
            text = self.lines[line - 1]
        return text.rstrip(" \t\\")

    def define(self, line):
        """The line at which the macro's definition around a line begins."""
        while line > 1 and not self.DEFINE.match(self.lines[line - 1]):
            line -= 1
        return line

    def add_function(self, first, last):
        """A function, named by its code: one that a macro makes is named MACRO(first argument)."""
        text = re.sub(r"__attribute__\(\(.*?\)\)+", "", "\n".join(self.lines[first - 1:last]))
        if named := self.FUNCTION.search(text) or re.search(r"(\w+)\((\w*)", text):
            self.functions[first] = last, named[1] if re.search("[a-z]", named[1]) else f"{named[1]}({named[2]})"

    def owner(self, line):
        """The function, macro or table that a line is part of."""
        for first, (last, name) in self.functions.items():
            if first <= line <= last:
                return name
        for above in reversed(self.lines[:line]):
            named = self.DEFINE.match(above) or self.TABLE.match(above) or re.match(r"(\w+)\(", above)
            if named:
                return named[1]
        return "file"


class Code:
    """The files of the folders that count."""

    def __init__(self, folders):
        self.folders = tuple(folder + "/" for folder in folders)
        self.here = os.path.realpath(".") + "/"
        self.names, self.sources = {}, {}

    def name(self, path):
        """A path as it is below the working folder; None: that file does not count."""
        if path not in self.names:
            name = os.path.normpath(path).removeprefix(self.here)
            self.names[path] = name if name.startswith(self.folders) else None
        return self.names[path]

    def source(self, name):
        if name not in self.sources:
            self.sources[name] = Source(name)
        return self.sources[name]

    def written(self, node, kind):
        """Where the operator before a node is written; None: in a macro that is one leaf."""
        for place in node.definitions + [node.place]:
            source = self.source(place.file)
            if OPERATOR[kind].search(source.before(place)):
                if place == node.place:
                    return Written(place, None)
                return None if LEAF.match(place.file) else Written(place, (place.file, source.define(place.line)))
        return None


def read_matches(lines, code):
    """Each match as {name in density.query: Node}, without the nodes of files that do not count."""
    match, node = {}, None
    for line in lines:
        if line.startswith("Match #"):
            yield match
            match, node = {}, None
        elif bound := BOUND.match(line):
            path, line, column, first, first_column, last, what = bound.groups()
            node = None
            if name := code.name(path):
                begin = (int(first or line), int(first_column or column))
                node = match[what] = Node(Place(name, int(line), int(column)), begin, int(last or line), [])
        elif node and (expanded := EXPANDED.match(line)) and code.name(expanded[1]):
            node.definitions.append(Place(code.name(expanded[1]), int(expanded[2]), int(expanded[3])))
    yield match


def find_places(lines, code):
    """The dense places: a set of (Place, kind, operators of a chain). Adds the functions to the sources."""
    found, chains = set(), collections.defaultdict(set)
    for match in read_matches(lines, code):
        written = {what: code.written(node, what) for what, node in match.items() if what in OPERATOR}
        if "function" in match:
            function = match["function"]
            code.source(function.place.file).add_function(function.begin[0], function.last_line)
        elif None in written.values():
            continue
        elif "assigned" in match:
            found.add((written["assigned"].place, "assigns", 0))
        elif "inner" in match and "outer" in match:
            # A reader of a call does not see the definition, and a reader of the definition does not see the arguments.
            if written["inner"].definition == written["outer"].definition:
                found.add((written["inner"].place, "nested", 0))
        elif "logical" in match and "whole" in match:
            # A call of a macro is a leaf: the arguments are an expression by themselves.
            node, whole = match["logical"], match["whole"]
            macro = node.begin if node.begin != node.place[1:] else None
            chains[whole.place, tuple(whole.definitions), macro].add((written["logical"], node.place))
    for chain in chains.values():
        operators = [operator for operator, _ in chain]
        if len(operators) > CHAIN:
            in_code = [operator.place for operator in operators if not operator.definition]
            found.add((min(in_code or [operator.place for operator in operators]), "chain", len(operators)))
    return found


def percentile(values, share):
    return sorted(values)[int(share * (len(values) - 1))] if values else 0


def describe_lengths(sources):
    lengths = [last - first + 1 for source in sources for first, (last, _) in source.functions.items()]
    return f"{len(lengths)} functions of {percentile(lengths, 0.5)}/{percentile(lengths, 0.9)}/{max(lengths)} lines"


def print_places(found, code):
    print(describe_lengths(code.sources.values()) + " (median, 90 %, longest)")
    for place, kind, count in sorted(found):
        owner = code.source(place.file).owner(place.line)
        print(f"{os.path.dirname(place.file)} {owner} {kind}\t{place.file}:{place.line}: {owner} has {KINDS[kind].format(count)}")


def print_report(found, code, tidy):
    """Lengths and complexity of functions, and operators in 100 lines of code, by folder."""
    complexity = {}
    for line in tidy:
        if (measured := COMPLEXITY.match(line)) and (name := code.name(measured[1])):
            complexity[name, measured[2]] = int(measured[3])
    names = {name for folder in code.folders for name in glob.glob(folder + "**/*.[ch]", recursive=True)}
    print(f"{'':14} functions   lines p50/p90/max   complexity p90/max   code lines | per 100: ?:  nested  &&,||  assigns")
    for group, begins in GROUPS.items():
        mine = {name for name in names if name.startswith(begins)}
        names -= mine
        if not mine:
            continue
        lengths = [last - first + 1 for name in mine for first, (last, _) in code.source(name).functions.items()]
        complexities = [value for (name, _), value in complexity.items() if name in mine]
        lines = [line for name in mine for line in code.source(name).lines if line.strip()]
        counts = collections.Counter(kind for place, kind, _ in found if place.file in mine)
        text = "\n".join(line for line in lines if not re.match(r"\s*#\s*(el)?if", line))
        per_100 = [100 * count / len(lines)
                   for count in (text.count("?"), counts["nested"], len(re.findall(r"&&|\|\|", text)), counts["assigns"])]
        print(f"{group:14} {len(lengths):9}   {percentile(lengths, 0.5):5}/{percentile(lengths, 0.9):5}/{max(lengths, default=0):5}"
              f"   {percentile(complexities, 0.9):14}/{max(complexities, default=0):3}   {len(lines):10} |"
              f" {per_100[0]:11.1f} {per_100[1]:7.2f} {per_100[2]:6.1f} {per_100[3]:8.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", type=argparse.FileType())
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    code = Code(arguments.folders)
    found = find_places(sys.stdin, code)
    if not any(source.functions for source in code.sources.values()):
        sys.exit("density.py: no function in " + " ".join(arguments.folders))
    if arguments.report:
        print_report(found, code, arguments.report)
    else:
        print_places(found, code)


if __name__ == "__main__":
    main()
