"""python_kinds.py KIND: trainers in Python without gradients, small enough that their sums are exact: what N ranks print is
what one process prints, to the last digit."""
import ctypes
import sys

import ddprun

cuda = ctypes.CDLL("libcudart.so.13")
TO_DEVICE, TO_HOST = 1, 2
N, BATCH, STEPS = 4, 8, 12


class Array:
    def __init__(self, element, typestr, count=N):
        memory = ctypes.c_void_p()
        assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(element) * count)) == 0
        self.memory, self.host = memory, (element * count)()
        self.__cuda_array_interface__ = {"version": 3, "data": (memory.value, False), "typestr": typestr,
                                         "shape": (count,), "strides": None, "stream": None}
        self.write()

    def write(self):
        assert cuda.cudaMemcpy(self.memory, self.host, ctypes.c_size_t(ctypes.sizeof(self.host)), TO_DEVICE) == 0

    def read(self):
        assert cuda.cudaMemcpy(self.host, self.memory, ctypes.c_size_t(ctypes.sizeof(self.host)), TO_HOST) == 0
        return list(self.host)


def say(*words):
    if ddprun.rank == 0:
        print(*words, flush=True)


def parameters(group=None, every=1):
    """Updates inside backward: each rank updates the weights by its own share, and the weights are averaged."""
    w = Array(ctypes.c_float, "<f4")
    if group is not None:
        ddprun.gradient_group(group)
    ddprun.parameter(w)
    first, count = ddprun.shard(BATCH)
    for step in range(STEPS):
        w.read()
        for j in range(N):
            w.host[j] -= 0.5 * sum((w.host[j] - 0.5 * i * j) / count for i in range(first, first + count))
        w.write()
        if step % every == every - 1 or step == STEPS - 1:
            ddprun.step_parameters(group=group)
    say("w", w.read())


def reduce():
    """Sums over data: memory of the device in stream order, memory of the host when the call returns."""
    first, count = ddprun.shard(BATCH)
    for typestr, element in (("<f4", ctypes.c_float), ("<f8", ctypes.c_double), ("<i4", ctypes.c_int32),
                             ("<i8", ctypes.c_int64), ("<u4", ctypes.c_uint32), ("<u8", ctypes.c_uint64)):
        for op, over in (("sum", sum), ("min", min), ("max", max)):
            x = Array(element, typestr)
            for j in range(N):
                x.host[j] = over((i + 1) * (j + 1) for i in range(first, first + count))
            x.write()
            ddprun.reduce(x, op)
            say(typestr, op, x.read())
    mean = Array(ctypes.c_float, "<f4")
    mean.host[:] = [sum(j * i for i in range(first, first + count)) / count for j in range(N)]
    mean.write()
    ddprun.reduce(mean, "mean")
    say("mean", mean.read())
    host = (ctypes.c_int64 * N)(*[sum(i ** j for i in range(first, first + count)) for j in range(N)])
    ddprun.reduce(host, "sum")
    say("host", list(host))
    say("any", ddprun.any_rank(first + count == BATCH), ddprun.any_rank(0))  # the last rank's alone, and no rank's


{"parameters": parameters, "group": lambda: parameters(group=3), "fifth": lambda: parameters(every=5), "reduce": reduce}[sys.argv[1]]()
