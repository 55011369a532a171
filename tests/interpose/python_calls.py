"""Every call of the module ddprun once, with objects of every kind; prints what the program sees. The engine of the test
prints what it gets."""
import array
import ctypes
import sys
import types

import ddprun

libc = ctypes.CDLL(None)
HOST = (ctypes.c_float * 64)()  # stands for device memory: the test's engine does not touch it
ADDRESS = ctypes.addressof(HOST)


def say(*words):
    libc.fflush(None)  # what the engine has printed comes before
    print(*words, flush=True)


class CudaArray:
    """What CuPy and Numba have."""

    def __init__(self, typestr="<f4", shape=(8,), strides=None, stream=None, read_only=False, mask=None):
        self.__cuda_array_interface__ = {"version": 3, "data": (ADDRESS, read_only), "typestr": typestr, "shape": shape,
                                         "strides": strides, "stream": stream, "mask": mask}


class Number(bytes):
    """A scalar of NumPy: a buffer that is read-only, and the interface of a copy."""

    __array_interface__ = {"version": 3, "data": (ADDRESS, False), "typestr": "<f4", "shape": ()}


class Device:
    def __init__(self, kind):
        self.type = kind


class Tensor:
    """What PyTorch has; its other protocols refuse."""

    def __init__(self, dtype="torch.float32", shape=(2, 4), stride=(4, 1), device="cuda"):
        self.dtype, self.shape, self._stride, self.device = dtype, shape, stride, Device(device)

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("requires grad")

    def data_ptr(self):
        return ADDRESS

    def numel(self):
        return self.shape[0] * self.shape[1]

    def element_size(self):
        return 4

    def stride(self):
        return self._stride

    def is_contiguous(self):
        return self._stride == (self.shape[1], 1)


class Managed(ctypes.Structure):
    """struct DLManagedTensor."""

    _fields_ = [("tensor", ddprun._DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Packed:
    """What all arrays have: a capsule whose destructor calls the deleter."""

    made = deleted = 0
    asked_stream = "not asked"

    def __init__(self, code=2, bits=32, lanes=1, shape=(8,), strides=None, device=2, offset=16):
        self.device = device
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.managed = Managed(ddprun._DLTensor(ADDRESS - offset, device, 0, len(shape), code, bits, lanes, self.shape,
                                                self.strides, offset))

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, stream=None):
        Packed.asked_stream = stream
        Packed.made += 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", ctypes.cast(destroy, ctypes.c_void_p))


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def destroy(capsule):
    Packed.deleted += 1


class Stream:
    def __init__(self, handle):
        self.cuda_stream = handle


def calls():
    say("rank %d of %d, local %d" % (ddprun.rank, ddprun.world_size, ddprun.local_rank))
    weights, gradients = CudaArray(), Tensor("torch.bfloat16", (4, 2), (1, 4))  # transposed: without holes
    ddprun.parameter(weights)
    ddprun.parameter((ADDRESS, 3, "float16")); ddprun.state((ADDRESS, 1, 5))
    ddprun.gradient(gradients)
    first, count = ddprun.shard(100)
    say("share %d + %d" % (first, count))
    ddprun.weight(count, 100)
    ddprun.step()
    ddprun.gradient_group(1)
    ddprun.step(stream=Stream(0x77), group=1)
    ddprun.buffer(
        CudaArray("<f8", (2, 3), (8, 16)))
    with ddprun.no_sync():
        say("between")
    ddprun.gradient_ready(gradients, 0)
    say("loss %g" % ddprun.mean(1.5))
    say("loss %g" % ddprun.mean(7.1, "loss"))
    say("any %s" % ddprun.any_rank(0))
    say("any %s" % ddprun.any_rank([1]))
    with ddprun.turn():
        say("mine %s, updates %s" % (ddprun.turn_mine(), ddprun.turn_updates()))
    ddprun.turn_open()
    ddprun.turn_end()
    ddprun.forget(gradients)
    packed = Packed(shape=(2, 3), strides=(1, 2))
    ddprun.gradient(packed)
    say("asked for stream %s, capsules %d - %d" % (packed.asked_stream, packed.made, packed.deleted))
    ddprun.forget(packed)
    say("capsules left %d" % (packed.made - packed.deleted))
    numbers = array.array("d", [1, 2])
    ddprun.state(numbers)
    try:
        numbers.append(3)
        say("the array has moved")
    except BufferError:
        say("the array cannot move")
    ddprun.forget(numbers)
    numbers.append(3)
    ddprun.state(memoryview(bytearray(4)))
    for _ in range(2):
        site = ddprun._sites.copy()
        ddprun.step()
    say("%d sites more in the second round" % (len(ddprun._sites) - len(site)))


def refuses(what, call, error, *parts):
    try:
        call()
    except error as raised:
        text = str(raised)
        missing = [part for part in parts if part not in text]
        say("ok - " + what if not missing else "not ok - %s (%r does not say %r)" % (what, text, missing))
    except BaseException as raised:
        say("not ok - %s (raised %r)" % (what, raised))
    else:
        say("not ok - %s (accepted)" % what)


def refusals():
    take = ddprun.gradient
    for what, x, error, parts in [
            ("every second element", CudaArray(strides=(8,)), ValueError, ["not contiguous", "contiguous copy"]),
            ("a column", CudaArray(shape=(4, 1), strides=(16, 4)), ValueError, ["not contiguous"]),
            ("a reversed array", CudaArray(strides=(-4,)), ValueError, ["not contiguous"]),
            ("one value, broadcast", CudaArray(strides=(0,)), ValueError, ["not contiguous"]),
            ("a part of a tensor", Tensor(stride=(8, 1)), ValueError, ["not contiguous", "object of type Tensor"]),
            ("a part by DLPack", Packed(shape=(4, 2), strides=(4, 1)), ValueError, ["not contiguous"]),
            ("a part of a view", memoryview(bytearray(8))[::2], ValueError, ["not contiguous"]),
            ("complex numbers", CudaArray("<c8"), TypeError, ["<c8", "serves float32"]),
            ("big-endian numbers", CudaArray(">f4"), TypeError, [">f4"]),
            ("booleans of PyTorch", Tensor("torch.bool"), TypeError, ["bool", "serves float32"]),
            ("8 bits of float", Packed(2, 8), TypeError, ["float8"]),
            ("vectors", Packed(lanes=4), TypeError, ["float32x4"]),
            ("booleans of DLPack", Packed(6, 8), TypeError, ["code 6"]),
            ("pointers", (ctypes.c_void_p * 2)(), TypeError, ["elements of type"]),
            ("an unknown name", (ADDRESS, 8, "float33"), TypeError, ["float33"]),
            ("an unknown number", (ADDRESS, 8, 99), TypeError, ["99"]),
            ("a negative count", (ADDRESS, -1, "float32"), ValueError, ["negative"]),
            ("an address that is no number", ("here", 1, "float32"), TypeError, []),
            ("Metal", Tensor(device="mps"), ValueError, ["mps", "move it"]),
            ("ROCm", Packed(device=10), ValueError, ["type 10", "move it"]),
            ("a read-only array", CudaArray(read_only=True), ValueError, ["read-only"]),
            ("bytes", b"1234", ValueError, ["read-only"]),
            ("a scalar", Number(b"1234"), ValueError, ["read-only"]),
            ("a masked array", CudaArray(mask=CudaArray()), ValueError, ["mask"]),
            ("no elements", CudaArray(shape=(0, 3)), ValueError, ["no elements"]),
            ("an empty buffer", bytearray(), ValueError, ["no elements"]),
            ("a list", [1.0, 2.0], TypeError, ["type list", "data_ptr()", "(address, count, type)"]),
            ("None", None, TypeError, ["NoneType"])]:
        refuses(what, lambda: take(x), error, *parts)
    refuses("an unknown operation", lambda: ddprun.reduce(CudaArray(), "product"), ValueError, "'product'", "'sum'")
    refuses("a negative total", lambda: ddprun.shard(-1), ValueError, "negative")
    refuses("a negative weight", lambda: ddprun.weight(-1, 4), ValueError, "negative")
    refuses("a share of 1.5", lambda: ddprun.shard(1.5), TypeError)
    refuses("no stream", lambda: ddprun.step("0"), TypeError)
    refuses("an unknown attribute", lambda: ddprun.ranks, AttributeError, "ranks")


def versions():
    """What came with interface 4, with functions of this file in the place of a shim's."""
    fields = dict(ddprun._Interface._fields_)

    def step_parameters(group, stream, site):
        say("step_parameters %d %#x %s" % (group, stream, site.contents.text.decode()))

    def reduce(address, count, kind, op, stream, site):
        say("reduce %d %d %d %d %#x %s" % (address == ADDRESS, count, kind, op, stream, site.contents.text.decode()))

    def state(address, count, kind, site):
        say("state %d %d" % (count, kind))

    serving = {call.__name__: fields[call.__name__](call) for call in (step_parameters, reduce, state)}
    ddprun._interface_found, ddprun._interface_looked_up = ddprun._Interface(4, **serving), True
    ddprun.step_parameters()
    ddprun.step_parameters(0x55, group=3)
    ddprun.reduce(CudaArray("<u4"), "max")
    ddprun.reduce(CudaArray("<u8", stream=0x66), "min")
    ddprun.reduce(CudaArray(stream=0x66), "mean", 0x77)
    ddprun.reduce(Packed(), 1, 0x78)
    say("asked for stream %#x" % Packed.asked_stream)
    ddprun.reduce(bytearray(), "sum")
    ddprun.state((ADDRESS, 4, "uint32"))

    def query(version):
        return ctypes.pointer(ddprun._Interface(4))

    ddprun._interface_looked_up, ctypes.CDLL = False, lambda name: types.SimpleNamespace(ddprun_interface=query)
    refuses("an older shim", ddprun.step, RuntimeError, "interface 6", "serves 4", "start the program with")


def without():
    """Every call does nothing, whatever it gets: nothing of CUDA is there."""
    x = object()
    for call in (ddprun.parameter, ddprun.state, ddprun.gradient, ddprun.buffer, ddprun.forget, ddprun.gradient_ready,
                 ddprun.gradient_group):
        call(x)
    ddprun.step()
    ddprun.step_parameters(group=1)
    ddprun.sync()
    ddprun.reduce(x, "sum")
    ddprun.weight(1, 2)
    with ddprun.no_sync():
        pass
    ddprun.turn_open()
    ddprun.turn_end()
    with ddprun.turn():
        turn = ddprun.turn_mine(), ddprun.turn_updates()
    say(ddprun.rank, ddprun.world_size, ddprun.local_rank, ddprun.mean(1.5), ddprun.shard(100), len(ddprun._annotated),
        ddprun.any_rank(0), ddprun.any_rank(7), *turn)


{"calls": calls, "refusals": refusals, "versions": versions, "without": without}[sys.argv[1]]()
