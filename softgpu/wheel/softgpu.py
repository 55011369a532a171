"""softgpu - a GPU in software, for CUDA programs where there is none.

    softgpu-cc train.cu -o train && ./train
    export CUDA_HOME=$(python3 -m softgpu toolkit)
    export $(python3 -m softgpu env)

`python3 -m softgpu toolkit` prints the folder that build systems take for a CUDA toolkit, `env` the variables by which they find
it, one NAME=value a line. Both make it first: a wheel has no links, so pip cannot.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
TOOLKIT = os.path.join(HERE, "lib/softgpu/toolkit")
PLACEHOLDER = "Run `python3 -m softgpu toolkit` once: it makes a link of this file.\n"
MARK = b"@SOFTGPU_FOLDER@"  # of forward/find.c, and the bytes that are there for the path
MARK_ROOM = 1024

# Link, from here on, and where it points. INCLUDE: to the headers of CUDA.
INCLUDE = "lib/softgpu/toolkit/include"
LINKS = {
    "lib/softgpu/toolkit/bin/nvcc": "../../../../bin/softgpu-cc",
    "lib/softgpu/toolkit/bin/softgpu-link": "../../../../bin/softgpu-cc",
    "lib/softgpu/toolkit/lib64": "..",
    "lib/softgpu/toolkit/targets/x86_64-linux/include": "../../include",
    "lib/softgpu/toolkit/targets/x86_64-linux/lib": "../../..",
    "lib/softgpu/libcuda.so": "libcuda.so.1",
    INCLUDE: None,
}


def _headers():
    """The folder of CUDA's headers: of the user's choice, of NVIDIA's wheels beside this package, of the system."""
    homes = [os.environ.get("CUDA_HOME"), os.path.join(HERE, "../nvidia/cu13"), "/usr/local/cuda"]
    for home in filter(None, homes):
        folder = os.path.realpath(os.path.join(home, "include"))
        try:
            with open(os.path.join(folder, "cuda_runtime_api.h"), errors="replace") as file:
                if re.search(r"^#define CUDART_VERSION +13", file.read(), re.M):
                    return folder
        except OSError:
            pass  # the next
    return None


def _link(path, target):
    """Makes `path` that link. Two may do so at once."""
    if os.path.islink(path) and os.readlink(path) == target:
        return
    new = "%s.%d" % (path, os.getpid())
    os.symlink(target, new)
    os.replace(new, path)


def _place(archive):
    """Writes into an archive of forward/ where it lies: programs that a host compiler links with it load the libraries from there."""
    with open(archive, "rb") as file:
        data = file.read()
    at = data.find(MARK)
    if at < 0:
        return
    folder = os.path.dirname(archive).encode()
    if len(folder) >= MARK_ROOM:
        raise OSError("the folder's name is too long")
    new = "%s.%d" % (archive, os.getpid())
    with open(new, "wb") as file:
        file.write(data[:at] + folder.ljust(len(MARK), b"\0") + data[at + max(len(MARK), len(folder)):])
    os.replace(new, archive)


def _complete():
    """Makes the links, and places the archives. An OSError says which cannot be made."""
    for name in os.listdir(os.path.join(HERE, "lib/softgpu")):
        if name.startswith("libsoftgpu_") and name.endswith(".a"):
            _place(os.path.join(HERE, "lib/softgpu", name))
    for link, target in LINKS.items():
        if link == INCLUDE:
            target = _headers()
        if target is not None:
            _link(os.path.join(HERE, link), target)


def compile():
    """The command softgpu-cc."""
    try:
        _complete()
    except OSError:
        pass  # of a folder that others own: only build systems need the links
    command = os.path.join(HERE, "bin/softgpu-cc")
    os.execv(command, [command] + sys.argv[1:])


def main():
    """`python -m softgpu WORD`"""
    word = sys.argv[1] if len(sys.argv) == 2 else ""
    if word == "--help":
        print(__doc__)
        return
    if word not in ("toolkit", "env"):
        sys.exit("softgpu: `python3 -m softgpu toolkit` or `python3 -m softgpu env`; --help says more")
    try:
        _complete()
    except OSError as error:
        sys.exit("softgpu: cannot make the links of the toolkit's folder: %s; run this once as the owner of %s" % (error, HERE))
    if _headers() is None:
        sys.exit("softgpu: no headers of CUDA 13: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl, or set CUDA_HOME")
    if word == "toolkit":
        print(TOOLKIT)
        return
    compiler = os.path.join(TOOLKIT, "bin/nvcc")
    variables = {
        "CUDA_HOME": TOOLKIT,
        "CUDA_PATH": TOOLKIT,
        "CUDAToolkit_ROOT": TOOLKIT,  # CMake's FindCUDAToolkit would take another nvcc of the PATH or of /usr/local/cuda first
        "CUDACXX": compiler,
        "CMAKE_CUDA_COMPILER": compiler,
    }
    for name, value in variables.items():
        print("%s=%s" % (name, value))
