"""compile_product.py BUILD COMPILER [FOLDER...] - compiles the product's C files as BUILD has them, but by COMPILER (with its options), and keeps nothing. With
folders of headers, only the files that include CUDA's or NCCL's, with these in front of BUILD's. Prints the first complaint about
each file that does not compile, and how many files there were. Exit code 1: a file does not compile, or there is none.
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

build, compiler, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
source = os.path.dirname(os.path.realpath(build))
parts = tuple(os.path.join(source, part, "") for part in ("base", "bucketing", "comm", "interpose", "launcher", "tools"))


def commands():
    """By file, once for each: what compiles it, and where."""
    found = {}
    for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
        arguments = shlex.split(entry["command"])
        if not entry["file"].startswith(parts) or not entry["file"].endswith(".c"):
            continue
        if folders and not any(os.path.exists(os.path.join(word, "cuda.h")) for word in arguments):
            continue
        for option in ("-o", "-include"):  # what is included first has been compiled by the build's compiler, to save time
            while option in arguments:
                del arguments[arguments.index(option):arguments.index(option) + 2]
        front = [word for folder in folders for word in ("-isystem", folder)]
        found.setdefault(entry["file"], ([*shlex.split(compiler), *front, *arguments[1:], "-o", os.devnull], entry["directory"]))
    return found


def compile_one(item):
    name, (arguments, directory) = item
    ended = subprocess.run(arguments, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return name, ended.returncode, ended.stderr


found, bad = commands(), 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for name, code, said in pool.map(compile_one, found.items()):
        if code != 0:
            bad += 1
            print(next((line for line in said.splitlines() if "error" in line), "%s: exit code %d" % (name, code)))
print("%d files, %d do not compile" % (len(found), bad))
sys.exit(bad > 0 or not found)
