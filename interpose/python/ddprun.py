"""ddprun for Python: which memory holds parameters and gradients, as ddprun.h says it for C. One file, no dependency.

    import ddprun

    for weight, gradient in model:
        ddprun.parameter(weight)              # after the initialisation: all ranks take rank 0's values
        ddprun.gradient(gradient)
    first, count = ddprun.shard(batch)        # this rank's part of each batch
    for step in range(steps):
        forward_and_backward(first, count)
        ddprun.step()                         # from here on the gradients hold the mean over all ranks
        update()

Without ddprun, and without CUDA, the module is imported and every call does nothing: the rank is 0, the world size 1,
shard(n) is (0, n), mean(v) is v, any_rank(v) is bool(v).

An object `x` is one of: an object with data_ptr() (tensors of PyTorch), with __cuda_array_interface__ (CuPy, Numba),
with __dlpack__, with __array_interface__ or the buffer protocol (memory of the host), or a tuple (address, count, type)
with the type as a name ("float32") or a constant of ddprun.h. Its elements fill their memory without holes. The module
holds a reference to what is annotated until forget(x), so a gradient keeps its memory from step to step: zero it,
do not replace it.

A stream is a cudaStream_t as an integer (0: the legacy default stream), or a stream object of PyTorch, CuPy or Numba.

What each call does, and what ends the job, is said in ddprun.h at the macro of the same name. An object that cannot be
served raises TypeError or ValueError in the call. Threads: as the macros; a call that waits for other ranks lets other
threads of Python run.
"""

import contextlib
import ctypes
import linecache
import operator
import os
import sys

__all__ = ["parameter", "state", "gradient", "buffer", "gradient_group", "gradient_ready", "forget", "step",
           "step_parameters", "sync", "reduce", "no_sync", "turn", "turn_open", "turn_end", "turn_mine", "turn_updates",
           "mean", "any_rank", "weight", "shard", "rank", "world_size", "local_rank"]

# As enum ddp_type and enum ddp_operation of ddprun.h.
_TYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "int32": 5, "int64": 6, "uint8": 7, "uint32": 8,
          "uint64": 9}
_OPERATIONS = {"sum": 1, "mean": 2, "min": 3, "max": 4}
_INTERFACE_VERSION = 6


# ---- the interface of the shim ----

class _Site(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("file", ctypes.c_char_p), ("line", ctypes.c_int)]


def _function(result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)


_SITE = ctypes.POINTER(_Site)
_INT, _SIZE, _POINTER = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_FLOAT_AT, _SIZE_AT = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_size_t)
_MEMORY = _function(None, _POINTER, _SIZE, _INT, _SITE)
_NUMBER = _function(_INT)


class _Interface(ctypes.Structure):
    """struct ddp_interface."""

    _fields_ = [("version", ctypes.c_uint),
                ("parameter", _MEMORY),
                ("gradient", _MEMORY),
                ("step", _function(None, _POINTER, _SITE)),
                ("mean", _function(None, _FLOAT_AT, _SITE)),
                ("shard", _function(None, _SIZE, _SIZE_AT, _SIZE_AT, _SITE)),
                ("forget", _function(None, _POINTER, _SITE)),
                ("rank", _NUMBER),
                ("world_size", _NUMBER),
                ("local_rank", _NUMBER),
                # since version 2
                ("gradient_group", _function(None, _INT, _SITE)),
                ("step_group", _function(None, _INT, _POINTER, _SITE)),
                ("no_sync", _function(None, _INT, _SITE)),
                ("buffer", _MEMORY),
                ("gradient_ready", _function(None, _POINTER, _POINTER, _SITE)),
                # since version 3
                ("state", _MEMORY),
                ("weight", _function(None, _SIZE, _SIZE, _SITE)),
                ("mean_as", _function(None, ctypes.c_char_p, _FLOAT_AT, _SITE)),
                # since version 4
                ("step_parameters", _function(None, _INT, _POINTER, _SITE)),
                ("sync", _function(None, _POINTER, _SITE)),
                ("reduce", _function(None, _POINTER, _SIZE, _INT, _INT, _POINTER, _SITE)),
                # since version 5
                ("mean_of", _function(None, ctypes.c_char_p, _POINTER, _INT, _SITE)),
                # since version 6
                ("any", _function(_INT, ctypes.POINTER(_INT), _SITE)),
                ("turn_begin", _function(ctypes.c_uint64, _SITE)),
                ("turn_end", _function(None, ctypes.c_uint64, _SITE)),
                ("turn_mine", _NUMBER),
                ("turn_updates", _NUMBER)]


_interface_looked_up = False
_interface_found = None


def _interface():
    """The shim's interface, or None when the program was not started by ddprun."""
    global _interface_looked_up, _interface_found
    if not _interface_looked_up:
        try:
            query = ctypes.CDLL(None).ddprun_interface
        except (AttributeError, OSError, TypeError):  # no such symbol; a system without dlopen(NULL)
            query = None
        if query is not None:
            query.restype, query.argtypes = ctypes.POINTER(_Interface), [ctypes.c_uint]
            first = query(1)  # NULL: not started by ddprun
            if first:
                if first.contents.version < _INTERFACE_VERSION:
                    raise RuntimeError("the module ddprun.py needs a ddprun of interface %d, and this ddprun serves %d; "
                                       "start the program with the ddprun that the module came with" %
                                       (_INTERFACE_VERSION, first.contents.version))
                _interface_found = query(_INTERFACE_VERSION).contents
                _print_line_by_line()
        _interface_looked_up = True
    return _interface_found


def _print_line_by_line():
    """What a rank prints into the pipe that ddprun has made reaches ddprun at the end of each line, as stdio's output
    does: of a rank whose job is ended, the last lines matter."""
    try:
        if os.readlink("/proc/self/fd/1") == os.environ.get("_DDPRUN_STDOUT"):
            sys.stdout.reconfigure(line_buffering=True)
    except (AttributeError, OSError):  # another object is in the place of sys.stdout; no /proc
        pass


def _call(name, *arguments):
    getattr(_interface(), name)(*arguments)


# ---- the place of a call, for messages ----

_sites = {}  # they live as long as the process: the engine keeps pointers to them


def _first_argument(line, name):
    """The first argument of name(...) as the line of source has it; the name if there is none."""
    begin = line.find(name + "(")
    if begin < 0:
        return name
    begin += len(name) + 1
    depth, end = 0, begin
    while end < len(line) and not (depth == 0 and line[end] in ",)"):
        depth += (line[end] in "([{") - (line[end] in ")]}")
        end += 1
    return line[begin:end].strip() or name


def _site(name):
    """The site of the call of the public function `name`, whose frame is the caller's of this function."""
    frame = sys._getframe(2)
    key = (frame.f_code.co_filename, frame.f_lineno, name)
    if key not in _sites:
        line = linecache.getline(key[0], key[1], frame.f_globals)
        _sites[key] = _Site(_first_argument(line, name).encode("utf-8", "replace"), os.fsencode(key[0]), key[1])
    return ctypes.byref(_sites[key])


# ---- what memory an object is ----

class _Memory:
    """Elements at an address. `owners` keep them there; `stream`: what the object says writes them, or 0."""

    def __init__(self, x, address, count, type_name, holds=None, stream=0):
        self.address, self.count, self.owners, self.stream = address, count, (x, holds), stream
        if type_name not in _TYPES:
            raise TypeError("ddprun: %s has elements of type %s; ddprun serves %s" %
                            (_name_of(x), type_name, ", ".join(_TYPES)))
        self.type = _TYPES[type_name]


def _name_of(x):
    return "the tuple %r" % (x,) if isinstance(x, tuple) else "an object of type " + type(x).__qualname__


def _require_dense(x, shape, strides, element=1):
    """The elements fill their memory, in whatever order of dimensions. Strides None: in C's order."""
    if strides is None:
        return
    expected = element
    for stride, extent in sorted((stride, extent) for stride, extent in zip(strides, shape) if extent != 1):
        if stride != expected:
            raise ValueError("ddprun: %s is not contiguous (shape %r, strides %r with %d for one element); annotate "
                             "the whole array, or a contiguous copy that the program keeps using" %
                             (_name_of(x), tuple(shape), tuple(strides), element))
        expected *= extent


def _product(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def _require_writable(x, read_only):
    if read_only:
        raise ValueError("ddprun: %s is read-only, and ddprun writes there; annotate the writable array" % _name_of(x))


def _require_device(x, kind, served):
    if kind not in served:
        raise ValueError("ddprun: %s is on a device of type %s; ddprun serves CUDA devices and the host: move it there "
                         "before it is annotated" % (_name_of(x), kind))


def _from_tuple(x):
    address, count, type_name = x
    if isinstance(type_name, int):
        type_name = {number: name for name, number in _TYPES.items()}.get(type_name, type_name)
    address = getattr(address, "value", address)  # c_void_p
    return _Memory(x, operator.index(address or 0), _count(count, "count"), type_name)


def _from_tensor(x):
    """PyTorch's methods."""
    _require_device(x, getattr(getattr(x, "device", None), "type", "cuda"), ("cuda", "cpu"))
    if not x.is_contiguous():
        if not hasattr(x, "stride"):
            raise ValueError("ddprun: %s is not contiguous; annotate the whole tensor, or a contiguous copy that the "
                             "program keeps using" % _name_of(x))
        _require_dense(x, x.shape, x.stride())
    name = str(x.dtype).rsplit(".", 1)[-1]
    return _Memory(x, x.data_ptr(), x.numel(), name)


def _from_array_interface(x, interface):
    """__cuda_array_interface__ and __array_interface__: the same keys, `stream` in the first alone."""
    if interface.get("mask") is not None:
        raise ValueError("ddprun: %s has a mask; annotate the array without it" % _name_of(x))
    address, read_only = interface["data"]
    _require_writable(x, read_only)
    order, kind, size = interface["typestr"][0], interface["typestr"][1], int(interface["typestr"][2:])
    kinds = {"f": "float", "i": "int", "u": "uint"}
    name = kinds[kind] + str(8 * size) if kind in kinds and order != ">" else interface["typestr"]
    shape = interface["shape"]
    _require_dense(x, shape, interface.get("strides"), size)
    return _Memory(x, address, _product(shape), name, stream=interface.get("stream") or 0)


class _DLTensor(ctypes.Structure):
    """struct DLTensor, which a struct DLManagedTensor begins with."""

    _fields_ = [("data", _POINTER), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda_host", 13: "cuda_managed"}
_DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


def _from_dlpack(x, stream):
    kind = x.__dlpack_device__()[0]
    kind = _DLPACK_DEVICES.get(int(kind), int(kind))
    _require_device(x, kind, _DLPACK_DEVICES.values())
    # -1: no order is asked for; an annotation waits for the whole context, or reads nothing.
    capsule = x.__dlpack__(stream=stream if stream is not None else -1) if kind in ("cuda", "cuda_managed") \
        else x.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    shape = tensor.shape[:tensor.dimensions]
    _require_dense(x, shape, tensor.strides[:tensor.dimensions] if tensor.strides else None)
    name = _DLPACK_CODES.get(tensor.code, "code %d of DLPack, " % tensor.code) + str(tensor.bits)
    if tensor.lanes != 1:
        name += "x%d" % tensor.lanes
    # The capsule is never renamed: as long as it lives its memory does, and its own destructor calls the deleter.
    return _Memory(x, (tensor.data or 0) + tensor.byte_offset, _product(shape), name, holds=capsule)


def _is_read_only_buffer(x):
    try:
        return memoryview(x).readonly
    except (TypeError, ValueError, BufferError):  # no buffer, or of a type that buffers do not know
        return False


def _from_buffer(x):
    view = memoryview(x)
    _require_writable(x, view.readonly)
    _require_dense(x, view.shape, view.strides, view.itemsize)
    code = view.format[-1]
    kind = "float" if code in "efd" else "int" if code in "bhilqn" else "uint" if code in "BHILQN" else None
    name = kind + str(8 * view.itemsize) if kind and view.format[0] not in ">!" and len(view.format) <= 2 \
        else view.format
    if view.nbytes == 0:
        return _Memory(x, 0, 0, name)
    held = ctypes.c_char.from_buffer(x)  # the object may not move or resize its memory while this lives
    return _Memory(x, ctypes.addressof(held), _product(view.shape), name, holds=held)


def _memory_of(x, stream=None):
    """What memory x is. `stream`: where the caller is about to use it, for a producer that orders its writes."""
    if isinstance(x, tuple) and len(x) == 3:
        return _from_tuple(x)
    if hasattr(x, "data_ptr"):  # first: the other protocols of PyTorch refuse tensors that require a gradient
        return _from_tensor(x)
    if hasattr(x, "__cuda_array_interface__"):
        return _from_array_interface(x, x.__cuda_array_interface__)
    if hasattr(x, "__array_interface__"):
        _require_writable(x, _is_read_only_buffer(x))  # NumPy's scalars: their interface is that of a copy
        return _from_array_interface(x, x.__array_interface__)
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(x, stream)
    try:
        memoryview(x)
    except TypeError:
        raise TypeError("ddprun: %s is no array: it has no data_ptr(), no __cuda_array_interface__, no __dlpack__, no "
                        "__array_interface__ and no buffer; pass (address, count, type)" % _name_of(x)) from None
    return _from_buffer(x)


def _stream_of(stream):
    """A cudaStream_t. CUDA's handle 1 is the legacy default stream, whatever a source file's 0 means."""
    for name in ("cuda_stream", "ptr", "handle", "value"):  # PyTorch, CuPy, Numba, ctypes
        stream = getattr(stream, name, stream)
    if hasattr(stream, "__cuda_stream__"):
        stream = stream.__cuda_stream__()[1]
    return operator.index(stream or 0) or 1


def _count(value, what):
    value = operator.index(value)
    if value < 0:
        raise ValueError("ddprun: %s %d is negative" % (what, value))
    return value


# ---- annotations ----

_annotated = {}  # address: what keeps its memory there


def _annotate(name, x, site):
    memory = _memory_of(x)
    if memory.count == 0:
        raise ValueError("ddprun: %s has no elements; annotate it after its memory is allocated" % _name_of(x))
    _call(name, memory.address, memory.count, memory.type, site)
    _annotated[memory.address] = memory.owners


def parameter(x):
    """x holds weights: DDP_PARAMETER. Stands after their initialisation: all ranks take the values of rank 0."""
    if _interface() is not None:
        _annotate("parameter", x, _site("parameter"))


def state(x):
    """x holds state of the optimizer: DDP_STATE. Stands after its initialisation or its reading from a checkpoint."""
    if _interface() is not None:
        _annotate("state", x, _site("state"))


def gradient(x):
    """x receives a gradient during backward: DDP_GRADIENT."""
    if _interface() is not None:
        _annotate("gradient", x, _site("gradient"))


def buffer(x):
    """x holds state that is no parameter: DDP_BUFFER. All ranks take rank 0's bytes at every step."""
    if _interface() is not None:
        _annotate("buffer", x, _site("buffer"))


def gradient_group(id):
    """Gradients annotated from here on belong to group `id`, 0 to 15: DDP_GRADIENT_GROUP."""
    if _interface() is not None:
        _call("gradient_group", operator.index(id), _site("gradient_group"))


def gradient_ready(x, stream=0):
    """The gradient x is complete for this step, with all work that the stream holds now: DDP_GRADIENT_READY."""
    if _interface() is not None:
        _call("gradient_ready", _memory_of(x).address, _stream_of(stream), _site("gradient_ready"))


def forget(x):
    """x is not annotated any more: DDP_FORGET. Stands before its memory gets another use."""
    if _interface() is not None:
        address = _memory_of(x).address
        _call("forget", address, _site("forget"))
        _annotated.pop(address, None)


# ---- the step ----

def step(stream=0, group=None):
    """The boundary: from here on gradients hold the mean over all ranks. DDP_STEP; with a group DDP_STEP_GROUP."""
    if _interface() is None:
        return
    site = _site("step")
    if group is None:
        _call("step", _stream_of(stream), site)
    else:
        _call("step_group", operator.index(group), _stream_of(stream), site)


def step_parameters(stream=0, group=None):
    """The boundary of a program that has no gradients: DDP_STEP_PARAMETERS, with a group DDP_STEP_PARAMETERS_GROUP."""
    if _interface() is not None:
        _call("step_parameters", operator.index(group or 0), _stream_of(stream), _site("step_parameters"))


def sync(stream=0):
    """Does nothing any more, and will go: DDP_SYNC."""


def reduce(x, op, stream=0):
    """Replaces x by its sum, mean, minimum or maximum over all ranks: DDP_REDUCE. `op`: "sum", "mean", "min", "max".

    Memory of the device: in the order of the stream, by default the one that x names, else the legacy default stream.
    Managed memory and memory of the host: x is complete when the call returns.
    """
    if _interface() is None:
        return
    if op not in _OPERATIONS and op not in _OPERATIONS.values():
        raise ValueError("ddprun: %r is not an operation; use one of %s" % (op, ", ".join(map(repr, _OPERATIONS))))
    site = _site("reduce")
    handle = _stream_of(stream)
    memory = _memory_of(x, handle)
    if handle == 1 and memory.stream:
        handle = memory.stream
    _call("reduce", memory.address, memory.count, memory.type, _OPERATIONS.get(op, op), handle, site)


@contextlib.contextmanager
def _between(interface, site):
    interface.no_sync(1, site)
    try:
        yield
    finally:
        interface.no_sync(0, site)


def no_sync():
    """with ddprun.no_sync(): passes of a gradient accumulation, but for the last. DDP_NO_SYNC_BEGIN and _END."""
    if _interface() is None:
        return contextlib.nullcontext()
    return _between(_interface(), _site("no_sync"))


# ---- turns ----

@contextlib.contextmanager
def _region(interface, site):
    number = interface.turn_begin(site)
    try:
        yield
    finally:
        interface.turn_end(number, site)


def turn():
    """with ddprun.turn(): a batch that one rank computes, in its turn: DDP_TURN_BEGIN."""
    if _interface() is None:
        return contextlib.nullcontext()
    return _region(_interface(), _site("turn"))


def turn_open():
    """As turn(), up to turn_end(): DDP_TURN_OPEN."""
    if _interface() is not None:
        _call("turn_begin", _site("turn_open"))


def turn_end():
    """The region of turn_open(), or of turn(), ends here: DDP_TURN_END."""
    if _interface() is not None:
        _call("turn_end", 0, _site("turn_end"))


def turn_mine():
    """Whether this rank computes the batch of the region: DDP_TURN_MINE."""
    return _interface() is None or _interface().turn_mine() != 0


def turn_updates():
    """Whether the update of the region is made: DDP_TURN_UPDATES."""
    return _interface() is None or _interface().turn_updates() != 0


# ---- numbers ----

def mean(value, label=None):
    """The mean of a number over all ranks, in double precision: DDP_MEAN, with a label DDP_MEAN_AS."""
    if _interface() is None:
        return float(value)
    number, label = ctypes.c_double(value), None if label is None else label.encode("utf-8")
    _call("mean_of", label, ctypes.byref(number), _TYPES["float64"], _site("mean"))
    return number.value


def any_rank(flag):
    """Whether `flag` is true on one rank at least; the same answer on all ranks: DDP_ANY."""
    if _interface() is None:
        return bool(flag)
    number = ctypes.c_int(1 if flag else 0)
    return _interface().any(ctypes.byref(number), _site("any_rank")) != 0


def weight(count, total):
    """This rank's coming gradient is the mean over `count` of the `total` items of all ranks: DDP_WEIGHT."""
    if _interface() is not None:
        _call("weight", _count(count, "count"), _count(total, "total"), _site("weight"))


def shard(total):
    """This rank's share of `total` items, as (first, count): DDP_SHARD. Without ddprun: (0, total)."""
    first, count = ctypes.c_size_t(0), ctypes.c_size_t(_count(total, "total"))
    if _interface() is not None:
        _call("shard", count.value, ctypes.byref(first), ctypes.byref(count), _site("shard"))
    return first.value, count.value


def __getattr__(name):
    """ddprun.rank, ddprun.world_size, ddprun.local_rank: asked for when they are read, for a process is no rank before
    it asks."""
    if name in ("rank", "world_size", "local_rank"):
        interface = _interface()
        return getattr(interface, name)() if interface is not None else int(name == "world_size")
    raise AttributeError("module 'ddprun' has no attribute %r" % name)


# ---- the launcher ----

# What the launcher needs of the system: how names of libraries begin, and Debian's packages.
_PACKAGES = {"libdw.": "libdw1", "libelf.": "libelf1", "libhwloc.": "libhwloc15", "libjson-c.": "libjson-c5",
             "libunwind": "libunwind8", "libz.": "zlib1g"}


def _missing(launcher):
    """What the dynamic loader does not find for the launcher: names of libraries, or versions of one."""
    import subprocess
    environment = dict(os.environ, LD_TRACE_LOADED_OBJECTS="1")  # as ldd: the loader lists them, and starts nothing
    environment.pop("LD_PRELOAD", None)
    listed = subprocess.run([launcher], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [line.split(" => ")[0].strip() for line in os.fsdecode(listed.stdout).splitlines() if "not found" in line]


def _start():
    """`python -m ddprun ...`, and the command of the wheel: the launcher that lies beside the module, with the same
    arguments. Its program may be a script (*.py) for this Python."""
    here = os.path.dirname(os.path.realpath(__file__))
    launchers = [os.path.join(here, prefix, "bin", "ddprun") for prefix in ("ddprun.libs", "../../..")]  # wheel, package
    launcher = next(filter(os.path.isfile, launchers), None)
    if launcher is None:
        why = "no launcher belongs to the module %s; start ddprun itself, where it was built or installed" % __file__
    else:
        try:
            missing = _missing(launcher)
            if not missing:
                os.execve(launcher, ["ddprun"] + sys.argv[1:], dict(os.environ, _DDPRUN_PYTHON=sys.executable or ""))
            packages = {package for name in missing for begin, package in _PACKAGES.items() if name.startswith(begin)}
            why = "libraries of the system are missing: %s; install them%s" % (
                ", ".join(missing), " (Debian: apt-get install %s)" % " ".join(sorted(packages)) if packages else "")
        except OSError as error:  # the loader is another than glibc's
            why = "cannot start %s: %s; it needs a Linux with glibc, of the processor that its wheel names" % (
                launcher, error.strerror)
    sys.stderr.write("ddprun: %s\n" % why)
    sys.exit(1 if "doctor" in sys.argv else 127)


if __name__ == "__main__":
    _start()
