"""wheel.py BUILD OUT - a wheel of what BUILD has built, in the folder OUT: the module for Python and, beside it in `ddprun.libs`,
launcher, shim, engine, tools, the header and, if nvcc was there, the kernels for GPUs; man pages; the command `ddprun`. Called by
the target `wheel`, and by tests/install/wheel.sh. Prints the path of the wheel. Needs nothing but Python and CMake.

The same build makes the same bytes: files are sorted, and their date is SOURCE_DATE_EPOCH, or 1980. What is not in it: the
stand-in, which a machine with a GPU does not need; NCCL, CUDA and the system's libraries, which the module looks for when it starts
the launcher.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

# Folders of an installation and where they are in the wheel; `data` is put under the prefix of the environment. The header lies in
# ddprun.libs itself: pip removes a folder that it has put a file into, and those below.
PLACES = {"bin": "ddprun.libs/bin", "lib/ddprun": "ddprun.libs/lib/ddprun", "include": "ddprun.libs",
          "lib/python3/dist-packages": "", "share/man": "{name}.data/data/share/man"}

METADATA = """Metadata-Version: 2.1
Name: ddprun
Version: {version}
Summary: {summary}
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

`python -m ddprun -n 8 train.py` trains a program that was written for one GPU on eight. Needs glibc, NVIDIA's driver, NCCL, and
libraries of the system: `python -m ddprun doctor` lists what is missing.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: ddprun {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = "[console_scripts]\nddprun = ddprun:_start\n"


def cached(build, name):
    """A value of the build's cache."""
    return re.search(r"^%s:\w+=(.*)$" % name, (build / "CMakeCache.txt").read_text(), re.M).group(1)


def install(build, stage):
    cmake = cached(build, "CMAKE_COMMAND")
    for component in ("ddprun", "pmix"):
        subprocess.run([cmake, "--install", build, "--prefix", stage, "--component", component, "--strip"], check=True,
                       stdout=subprocess.DEVNULL)


def contents(build, stage, name, texts):
    """Path in the wheel, bytes and mode of each file; RECORD comes last."""
    files = {"%s.dist-info/%s" % (name, file): (text.encode(), 0o644) for file, text in texts.items()}
    for folder, place in PLACES.items():
        for path in sorted((stage / folder).rglob("*")):
            if path.is_file():
                into = pathlib.PurePosixPath(place.format(name=name)) / path.relative_to(stage / folder)
                files[str(into)] = (path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    record = "%s.dist-info/RECORD" % name
    lines = []
    for path, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d\n" % (path, digest, len(data)))
    return sorted(files.items()) + [(record, ("".join(lines + [record + ",,\n"]).encode(), 0o644))]


def main(build, out):
    version = cached(build, "CMAKE_PROJECT_VERSION")
    tag = "py3-none-linux_" + os.uname().machine
    texts = {"METADATA": METADATA, "WHEEL": WHEEL, "entry_points.txt": ENTRY_POINTS,
             "LICENSE": (pathlib.Path(__file__).resolve().parents[2] / "LICENSE").read_text()}
    values = {"version": version, "tag": tag, "summary": cached(build, "CMAKE_PROJECT_DESCRIPTION")}
    for file in ("METADATA", "WHEEL"):
        texts[file] = texts[file].format(**values)
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), 315532800))[:6]  # a zip's earliest
    wheel = out / ("ddprun-%s-%s.whl" % (version, tag))
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as stage, zipfile.ZipFile(wheel, "w") as archive:
        install(build, stage)
        for path, (data, mode) in contents(build, pathlib.Path(stage), "ddprun-" + version, texts):
            entry = zipfile.ZipInfo(path, date)
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3  # Unix, whose modes these are
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    print(wheel)


main(*map(pathlib.Path, sys.argv[1:]))
