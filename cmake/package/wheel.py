"""wheel.py BUILD OUT [GLIBC] - a wheel of what BUILD has built, in the folder OUT: the module for Python and, beside it in `ddprun.libs`,
launcher, shim, engine, tools, the header and, if nvcc was there, the kernels for GPUs; man pages; the command `ddprun`. Called by
the targets `wheel` and `portable`, and by tests. Prints the path of the wheel. Needs nothing but Python and CMake.

With GLIBC, the oldest glibc that they run with, launcher and libraries are those of cmake/Portable.cmake, and beside the wheel there
is a tarball of an installation, whose path is printed first.

The same build makes the same bytes (softgpu/wheel/archive.py). What is not in the wheel: the
stand-in, which a machine with a GPU does not need; NCCL and CUDA; without GLIBC the system's libraries, which the module looks for
when it starts the launcher.
"""
import io
import os
import pathlib
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "softgpu/wheel"))
sys.dont_write_bytecode = True  # nothing into the sources
import archive  # noqa: E402

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


def write_tarball(stage, path):
    """All of the stage, below a folder with the tarball's name."""
    folder = path.name[:-len(".tar.xz")]
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=archive.LEVEL) as tarball:
        for file in sorted(file for file in stage.rglob("*") if file.is_file()):
            entry = tarfile.TarInfo("%s/%s" % (folder, file.relative_to(stage)))
            entry.mtime = archive.DATE
            entry.mode = 0o755 if os.access(file, os.X_OK) else 0o644
            entry.size = file.stat().st_size
            tarball.addfile(entry, io.BytesIO(file.read_bytes()))
    print(path)


def main(build, out, glibc=None):
    build, out = pathlib.Path(build), pathlib.Path(out)
    version = archive.cached(build, "CMAKE_PROJECT_VERSION")
    machine = os.uname().machine
    tag = "py3-none-%s_%s" % ("manylinux_" + glibc.replace(".", "_") if glibc else "linux", machine)
    needs = "glibc %s, NVIDIA's driver and NCCL" % glibc if glibc else "glibc, NVIDIA's driver, NCCL, and libraries of the system"
    texts = {"METADATA": METADATA, "WHEEL": WHEEL, "entry_points.txt": ENTRY_POINTS,
             "LICENSE": (ROOT / "LICENSE").read_text()}
    values = {"version": version, "tag": tag, "summary": archive.cached(build, "CMAKE_PROJECT_DESCRIPTION"), "needs": needs}
    for file in ("METADATA", "WHEEL"):
        texts[file] = texts[file].format(**values)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as stage:
        archive.install(build, stage, ("ddprun", "portable" if glibc else "pmix"))
        stage = pathlib.Path(stage)
        if glibc:
            write_tarball(stage, out / ("ddprun-%s-linux_%s.tar.xz" % (version, machine)))
        name = "ddprun-" + version
        files = archive.find_files(stage, {folder: place.format(name=name) for folder, place in PLACES.items()})
        archive.write_wheel(out / ("%s-%s.whl" % (name, tag)), name, files, texts)


main(*sys.argv[1:])
