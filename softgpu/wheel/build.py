"""build.py BUILD OUT - a wheel of softgpu-cc and its libraries, in the folder OUT: of what BUILD has built for an older glibc
(cmake/Portable.cmake). Called by the target softgpu_wheel and by tests. Prints the path of the wheel.

The wheel has none of NVIDIA's files. It names the wheels of NVIDIA's that have the headers of CUDA 13.
"""
import os
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing into the sources
import archive  # noqa: E402
import softgpu  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PLACES = {"bin": "softgpu/bin", "lib/softgpu": "softgpu/lib/softgpu", "share/man": "{name}.data/data/share/man"}
# CUDA's libraries have these names; a project around this folder may have put others beside them.
OURS = re.compile(r"softgpu/lib/softgpu/(?!lib)|.*/lib(cu|nccl|nv|softgpu)[^/]*$|(?!softgpu/lib/)")

METADATA = """Metadata-Version: 2.1
Name: softgpu
Version: {version}
Summary: {summary}
License: Apache-2.0
Requires-Python: >=3.8
Requires-Dist: nvidia-cuda-runtime >=13,<14
Requires-Dist: nvidia-cuda-crt >=13,<14
Requires-Dist: nvidia-cuda-cccl >=13,<14
Provides-Extra: libraries
Requires-Dist: nvidia-cublas >=13,<14; extra == "libraries"
Requires-Dist: nvidia-curand; extra == "libraries"
Requires-Dist: nvidia-cuda-nvrtc >=13,<14; extra == "libraries"
Requires-Dist: nvidia-nccl-cu13; extra == "libraries"
Classifier: Operating System :: POSIX :: Linux
Classifier: Environment :: GPU :: NVIDIA CUDA
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: softgpu {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = "[console_scripts]\nsoftgpu-cc = softgpu:compile\n"


def main(build, out):
    build, out = pathlib.Path(build), pathlib.Path(out)
    values = {"version": archive.cached(build, "SOFTGPU_VERSION"), "summary": archive.cached(build, "SOFTGPU_DESCRIPTION"),
              "tag": "py3-none-manylinux_%s_%s" % (archive.cached(build, "OLD_GLIBC").replace(".", "_"), os.uname().machine)}
    name = "softgpu-" + values["version"]
    texts = {"METADATA": METADATA.format(**values) + (HERE.parent / "README.md").read_text(), "WHEEL": WHEEL.format(**values),
             "entry_points.txt": ENTRY_POINTS, "LICENSE": (HERE.parent / "LICENSE").read_text()}
    out.mkdir(parents=True, exist_ok=True)
    places = {folder: place.format(name=name) for folder, place in PLACES.items()}
    files = {}
    for component in "softgpu", "softgpu_portable":  # the latter's programs and libraries in the place of the former's
        with tempfile.TemporaryDirectory() as stage:
            archive.install(build, stage, (component,))
            files.update(archive.find_files(pathlib.Path(stage), places))
    files = {path: file for path, file in files.items() if OURS.match(path)}
    files["softgpu/__init__.py"] = ((HERE / "softgpu.py").read_bytes(), 0o644)
    files["softgpu/__main__.py"] = (b"from softgpu import main\n\nmain()\n", 0o644)
    for link in softgpu.LINKS:  # a wheel has no links
        files["softgpu/" + link] = (softgpu.PLACEHOLDER.encode(), 0o644)
    archive.write_wheel(out / ("%s-%s.whl" % (name, values["tag"])), name, files, texts)


main(*sys.argv[1:])
