"""python_workers.py METHOD - a training whose batches come from processes that multiprocessing starts by METHOD. Each of
them asks for the rank and its share, as the trainer does: at import, and for each batch. Prints the weights."""
import ctypes
import multiprocessing
import sys

import ddprun

RANK, WORLD = ddprun.rank, ddprun.world_size  # asked by each process that imports this file
COUNT, BATCH, STEPS = 4, 8, 6


def share_of_batch(step):
    first, count = ddprun.shard(BATCH)
    assert (ddprun.rank, ddprun.world_size) == (RANK, WORLD)
    return [[step + i * (j + 1) for j in range(COUNT)] for i in range(first, first + count)]


class Array:
    """Device memory of COUNT floats, and a copy on the host."""

    def __init__(self, cuda):
        address = ctypes.c_void_p()
        assert cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(4 * COUNT)) == 0
        self.cuda, self.address, self.host = cuda, address, (ctypes.c_float * COUNT)()
        self.__cuda_array_interface__ = {"version": 3, "data": (address.value, False), "typestr": "<f4",
                                         "shape": (COUNT,), "strides": None, "stream": None}

    def write(self):
        assert self.cuda.cudaMemcpy(self.address, self.host, ctypes.c_size_t(4 * COUNT), 1) == 0

    def read(self):
        assert self.cuda.cudaMemcpy(self.host, self.address, ctypes.c_size_t(4 * COUNT), 2) == 0


def main(method):
    cuda = ctypes.CDLL("libcudart.so.13")
    weights, gradient = Array(cuda), Array(cuda)
    weights.write()
    ddprun.parameter(weights)
    ddprun.gradient(gradient)
    with multiprocessing.get_context(method).Pool(2) as pool:
        for rows in pool.imap(share_of_batch, range(STEPS)):
            for j in range(COUNT):
                gradient.host[j] = sum(row[j] for row in rows) / len(rows)
            gradient.write()
            ddprun.step()
            gradient.read()
            for j in range(COUNT):
                weights.host[j] -= 0.5 * gradient.host[j]
            weights.write()
    print("weights", *weights.host, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
