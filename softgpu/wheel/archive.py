"""archive.py - how a build folder becomes a wheel: the same build makes the same bytes. Files are sorted, and their date is SOURCE_DATE_EPOCH,
or 1980. They are compressed by PACKAGE_LEVEL, 1 to 9: by 9, which takes seconds, if it is not set. Needs nothing but Python and CMake.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import time
import zipfile

LEVEL = int(os.environ.get("PACKAGE_LEVEL") or 9)
DATE = max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), 315532800)  # a zip's earliest


def cached(build, name):
    """A value of the build's cache."""
    return re.search(r"^%s:\w+=(.*)$" % name, (build / "CMakeCache.txt").read_text(), re.M).group(1)


def install(build, stage, components):
    """What the components install, below the folder `stage`."""
    cmake = cached(build, "CMAKE_COMMAND")
    for component in components:
        subprocess.run([cmake, "--install", build, "--prefix", stage, "--component", component, "--strip"], check=True,
                       stdout=subprocess.DEVNULL)


def find_files(stage, places):
    """Path in the wheel, bytes and mode of each file of `stage`; `places`: folders of the stage and where they are in the wheel."""
    files = {}
    for folder, place in places.items():
        for path in sorted((stage / folder).rglob("*")):
            if path.is_file() and not path.is_symlink():
                into = pathlib.PurePosixPath(place) / path.relative_to(stage / folder)
                files[str(into)] = (path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    return files


def write_wheel(path, name, files, texts):
    """The wheel of `files`, and of `texts`, its own files by their names; RECORD comes last."""
    files = dict(files)
    files.update({"%s.dist-info/%s" % (name, file): (text.encode(), 0o644) for file, text in texts.items()})
    record = "%s.dist-info/RECORD" % name
    lines = []
    for file, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d\n" % (file, digest, len(data)))
    contents = sorted(files.items()) + [(record, ("".join(lines + [record + ",,\n"]).encode(), 0o644))]
    with zipfile.ZipFile(path, "w") as archive:
        for file, (data, mode) in contents:
            entry = zipfile.ZipInfo(file, time.gmtime(DATE)[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3  # Unix, whose modes these are
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, LEVEL)
    print(path)
