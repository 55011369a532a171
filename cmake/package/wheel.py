"""wheel.py BUILD OUT [GLIBC] - a wheel of what BUILD has built, in the folder OUT: the module for Python and, beside it in `ddprun.libs`,
launcher, shim, engine, tools, the header and, if nvcc was there, the kernels for GPUs; man pages; the command `ddprun`. Called by
the targets `wheel` and `portable`, and by tests. Prints the path of the wheel. Needs nothing but Python and CMake.

With GLIBC, the oldest glibc that they run with, launcher and libraries are those of cmake/Portable.cmake, and beside the wheel there
is a tarball of an installation, whose path is printed first.

The same build makes the same bytes: files are sorted, and their date is SOURCE_DATE_EPOCH, or 1980. They are compressed by PACKAGE_LEVEL,
1 to 9: by 9, which takes seconds, if it is not set. What is not in it: the
stand-in, which a machine with a GPU does not need; NCCL and CUDA; without GLIBC the system's libraries, which the module looks for
when it starts the launcher.
"""
import base64
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

LEVEL = int(os.environ.get("PACKAGE_LEVEL") or 9)

# Folders of an installation and where they are in the wheel; `data` is put under the prefix of the environment. The header lies in
# ddprun.libs itself: pip removes a folder that it has put a file into, and those below.
PLACES = {"bin": "ddprun.libs/bin", "lib/ddprun": "ddprun.libs/lib/ddprun", "include": "ddprun.libs",
          "lib/python3/dist-packages": "", "share/man": "{name}.data/data/share/man",
          "share/doc/ddprun/licences": "{name}.dist-info/licences"}

METADATA = """Metadata-Version: 2.1
Name: ddprun
Version: {version}
Summary: {summary}
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

`python -m ddprun -n 8 train.py` trains a program that was written for one GPU on eight. Needs {needs}: `python -m ddprun doctor`
lists what is missing.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: ddprun {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = "[console_scripts]\nddprun = ddprun:_start\n"


def cached(build, name):
    """A value of the build's cache."""
    return re.search(r"^%s:\w+=(.*)$" % name, (build / "CMakeCache.txt").read_text(), re.M).group(1)


def install(build, stage, components):
    cmake = cached(build, "CMAKE_COMMAND")
    for component in components:
        subprocess.run([cmake, "--install", build, "--prefix", stage, "--component", component, "--strip"], check=True,
                       stdout=subprocess.DEVNULL)


def contents(stage, name, texts):
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


def write_tarball(stage, path, date):
    """All of the stage, below a folder with the tarball's name."""
    folder = path.name[:-len(".tar.xz")]
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=LEVEL) as archive:
        for file in sorted(file for file in stage.rglob("*") if file.is_file()):
            entry = tarfile.TarInfo("%s/%s" % (folder, file.relative_to(stage)))
            entry.mtime = date
            entry.mode = 0o755 if os.access(file, os.X_OK) else 0o644
            entry.size = file.stat().st_size
            archive.addfile(entry, io.BytesIO(file.read_bytes()))
    print(path)


def write_wheel(stage, path, name, texts, date):
    with zipfile.ZipFile(path, "w") as archive:
        for file, (data, mode) in contents(stage, name, texts):
            entry = zipfile.ZipInfo(file, time.gmtime(date)[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3  # Unix, whose modes these are
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, LEVEL)
    print(path)


def main(build, out, glibc=None):
    build, out = pathlib.Path(build), pathlib.Path(out)
    version = cached(build, "CMAKE_PROJECT_VERSION")
    machine = os.uname().machine
    tag = "py3-none-%s_%s" % ("manylinux_" + glibc.replace(".", "_") if glibc else "linux", machine)
    needs = "glibc %s, NVIDIA's driver and NCCL" % glibc if glibc else "glibc, NVIDIA's driver, NCCL, and libraries of the system"
    texts = {"METADATA": METADATA, "WHEEL": WHEEL, "entry_points.txt": ENTRY_POINTS,
             "LICENSE": (pathlib.Path(__file__).resolve().parents[2] / "LICENSE").read_text()}
    values = {"version": version, "tag": tag, "summary": cached(build, "CMAKE_PROJECT_DESCRIPTION"), "needs": needs}
    for file in ("METADATA", "WHEEL"):
        texts[file] = texts[file].format(**values)
    date = max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), 315532800)  # a zip's earliest
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as stage:
        install(build, stage, ("ddprun", "portable" if glibc else "pmix"))
        stage = pathlib.Path(stage)
        if glibc:
            write_tarball(stage, out / ("ddprun-%s-linux_%s.tar.xz" % (version, machine)), date)
        write_wheel(stage, out / ("ddprun-%s-%s.whl" % (version, tag)), "ddprun-" + version, texts, date)


main(*sys.argv[1:])
