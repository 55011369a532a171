"""Trains the network of samples/digits from Python, without any package: CUDA's runtime and cuBLAS by ctypes, and the
kernels of samples/digits/kernels.cu as a shared library. Each tensor has memory of its own on the device. The
parameters at the end are those of samples/digits, bit for bit.

Started by itself it trains on one GPU; `ddprun -n 8 python3 train.py` trains on eight: see the calls of ddprun.
"""
import argparse
import array
import ctypes
import math
import os
import sys

import ddprun

PIXELS, CLASSES = 64, 10
WIDTHS = [PIXELS, 128, 64, CLASSES]
MOMENTUM = 0.9
TO_DEVICE, TO_HOST = 1, 2
N, T = 0, 1  # cublasOperation_t
ONE, ZERO = ctypes.c_float(1), ctypes.c_float(0)


class Random:
    """xorshift64*, as in samples/common/random.h."""

    def __init__(self, seed):
        z = seed + 0x9E3779B97F4A7C15 & 2**64 - 1
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 2**64 - 1
        self.state = z ^ z >> 31 or 1

    def bits(self):
        x = self.state
        x ^= x >> 12
        x ^= x << 25 & 2**64 - 1
        x ^= x >> 27
        self.state = x
        return x * 0x2545F4914F6CDD1D & 2**64 - 1

    def uniform(self):
        return (self.bits() >> 40) / 2**24

    def shuffle(self, order):
        for i in range(len(order), 1, -1):
            other = self.bits() % i
            order[i - 1], order[other] = order[other], order[i - 1]


class Gpu:
    """Functions of the three libraries. An error of CUDA or cuBLAS is an exception that names the call."""

    def __init__(self, kernels_path):
        pointer, size, integer, real = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_float
        try:
            kernels = ctypes.CDLL(os.path.abspath(kernels_path))
            self.runtime = ctypes.CDLL("libcudart.so.13")
            self.cublas = ctypes.CDLL("libcublas.so.13")
        except OSError as error:
            sys.exit("train.py: %s; build the kernels with nvcc or softgpu-cc, and let LD_LIBRARY_PATH name the folder "
                     "of CUDA's libraries or of the stand-in's" % error)
        self.malloc = self._checked(self.runtime.cudaMalloc, pointer, size)
        self.memset = self._checked(self.runtime.cudaMemset, pointer, integer, size)
        self.memcpy = self._checked(self.runtime.cudaMemcpy, pointer, pointer, size, integer)
        create = self._checked(self.cublas.cublasCreate_v2, pointer)
        self.gemm = self._checked(self.cublas.cublasSgemm_v2, pointer, *[integer] * 5, pointer, pointer, integer,
                                  pointer, integer, pointer, pointer, integer)
        self.handle = ctypes.c_void_p()
        create(ctypes.byref(self.handle))
        for name, arguments in {"bias_add": [pointer, pointer, integer, integer],
                                "relu_forward": [pointer, pointer, integer],
                                "relu_backward": [pointer, pointer, pointer, integer],
                                "softmax_cross_entropy": [pointer] * 4 + [integer] * 2,
                                "column_sums": [pointer, pointer, integer, integer, real],
                                "sgd_momentum": [pointer] * 3 + [real, real, integer]}.items():
            function = getattr(kernels, name)
            function.argtypes, function.restype = arguments, None
            setattr(self, name, function)

    @staticmethod
    def _checked(function, *arguments):
        def check(status, called, _):
            if status != 0:
                raise RuntimeError("%s: error %d" % (called.__name__, status))

        function.argtypes, function.restype, function.errcheck = arguments, ctypes.c_int, check
        return function


class Array:
    """Elements of 4 bytes on the device, zero at first. They stay until the program ends."""

    def __init__(self, gpu, count, typestr="<f4"):
        self.gpu, self.count = gpu, count
        memory = ctypes.c_void_p()
        gpu.malloc(ctypes.byref(memory), 4 * count)
        gpu.memset(memory, 0, 4 * count)
        self.address = self._as_parameter_ = memory.value
        self.__cuda_array_interface__ = {"version": 3, "data": (self.address, False), "typestr": typestr,
                                         "shape": (count,), "strides": None, "stream": None}

    def write(self, values):
        self.gpu.memcpy(self.address, values.buffer_info()[0], 4 * len(values), TO_DEVICE)

    def read(self, count):
        values = array.array("f", bytes(4 * count))
        self.gpu.memcpy(values.buffer_info()[0], self.address, 4 * count, TO_HOST)
        return values


class Tensor:
    def __init__(self, gpu, name, count):
        self.name, self.count = name, count
        self.value, self.gradient, self.velocity = (Array(gpu, count) for _ in range(3))


class Layer:
    def __init__(self, gpu, number, inputs, outputs, rows, random):
        self.inputs, self.outputs = inputs, outputs
        self.weights = Tensor(gpu, "W%d" % number, inputs * outputs)
        self.bias = Tensor(gpu, "b%d" % number, outputs)
        self.output, self.doutput = Array(gpu, rows * outputs), Array(gpu, rows * outputs)
        # He's uniform initialisation, in single precision.
        limit = ctypes.c_float(math.sqrt(ctypes.c_float(6 / inputs).value)).value
        self.weights.value.write(array.array("f", [limit * (2 * random.uniform() - 1)
                                                   for _ in range(self.weights.count)]))


class Model:
    def __init__(self, gpu, rows, seed):
        self.gpu = gpu
        random = Random(seed)
        self.layers = [Layer(gpu, i + 1, WIDTHS[i], WIDTHS[i + 1], rows, random) for i in range(len(WIDTHS) - 1)]
        self.tensors = [tensor for layer in self.layers for tensor in (layer.weights, layer.bias)]
        self.input, self.labels = Array(gpu, rows * PIXELS), Array(gpu, rows, "<i4")
        self.losses, self.mean_loss = Array(gpu, rows), Array(gpu, 1)

    def gemm(self, ta, tb, m, n, k, a, lda, b, ldb, c, ldc):
        self.gpu.gemm(self.gpu.handle, ta, tb, m, n, k, ctypes.byref(ONE), a.address, lda, b.address, ldb,
                      ctypes.byref(ZERO), c.address, ldc)

    def forward(self, images):
        """images: [(pixels, label)]. cuBLAS stores by columns: each product is written for the transposes."""
        gpu, rows, x = self.gpu, len(images), self.input
        self.input.write(array.array("f", [pixel for pixels, _ in images for pixel in pixels]))
        self.labels.write(array.array("i", [label for _, label in images]))
        for layer in self.layers:
            self.gemm(N, N, layer.outputs, rows, layer.inputs, layer.weights.value, layer.outputs, x, layer.inputs,
                      layer.output, layer.outputs)
            gpu.bias_add(layer.output, layer.bias.value, rows, layer.outputs)
            if layer is not self.layers[-1]:
                gpu.relu_forward(layer.output, layer.output, rows * layer.outputs)
            x = layer.output
        gpu.softmax_cross_entropy(self.losses, layer.doutput, x, self.labels, rows, CLASSES)

    def backward(self, rows):
        gpu = self.gpu
        inputs = [self.input] + [layer.output for layer in self.layers]
        for i in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[i]
            self.gemm(N, T, layer.outputs, layer.inputs, rows, layer.doutput, layer.outputs, inputs[i], layer.inputs,
                      layer.weights.gradient, layer.outputs)
            gpu.column_sums(layer.bias.gradient, layer.doutput, rows, layer.outputs, 1)
            if i > 0:
                dx = self.layers[i - 1].doutput
                self.gemm(T, N, layer.inputs, rows, layer.outputs, layer.weights.value, layer.outputs, layer.doutput,
                          layer.outputs, dx, layer.inputs)
                gpu.relu_backward(dx, dx, inputs[i], rows * layer.inputs)

    def update(self, rate):
        for tensor in self.tensors:
            self.gpu.sgd_momentum(tensor.value, tensor.velocity, tensor.gradient, rate, MOMENTUM, tensor.count)

    def loss(self, rows):
        self.gpu.column_sums(self.mean_loss, self.losses, rows, 1, 1 / rows)
        return self.mean_loss.read(1)[0]

    def accuracy(self, images):
        self.forward(images)
        logits = self.layers[-1].output.read(len(images) * CLASSES)
        rows = [logits[i * CLASSES:(i + 1) * CLASSES] for i in range(len(images))]
        return sum(row.index(max(row)) == label for row, (_, label) in zip(rows, images)) / len(images)

    def save(self, path):
        """As samples/common/parameter_file.h describes."""
        with open(path, "wb") as file:
            header = "".join("%s %d\n" % (tensor.name, tensor.count) for tensor in self.tensors)
            file.write(("parameters 1\n%s\n" % header).encode())
            for tensor in self.tensors:
                tensor.value.read(tensor.count).tofile(file)


def load(path):
    """The images for training and those to test with. The split does not follow --seed."""
    try:
        with open(path) as file:
            lines = [[int(number) for number in line.split(",")] for line in file]
    except (OSError, ValueError) as error:
        sys.exit("train.py: %s: %s" % (path, error))
    if any(len(line) != PIXELS + 1 for line in lines):
        sys.exit("train.py: %s: a line does not have %d numbers" % (path, PIXELS + 1))
    images = [([pixel / 16 for pixel in line[:PIXELS]], line[PIXELS]) for line in lines]
    order = list(range(len(images)))
    Random(1998).shuffle(order)
    border = len(images) * 4 // 5
    return [images[i] for i in order[:border]], [images[i] for i in order[border:]]


def train(model, images, options):
    random = Random(options.seed + 1)
    order, begin = list(range(len(images))), len(images)
    first, count = ddprun.shard(options.batch)  # this rank's part of each batch
    for step in range(1, options.steps + 1):
        if begin + options.batch > len(images):
            random.shuffle(order)
            begin = 0
        batch = [images[i] for i in order[begin + first:begin + first + count]]
        begin += options.batch
        model.forward(batch)
        model.backward(count)
        ddprun.step()  # from here on the gradients hold the mean over all ranks
        model.update(options.lr)
        if step % 100 == 0 or step == options.steps:
            loss = ddprun.mean(model.loss(count), "loss")
            if ddprun.rank == 0:
                print("step %d loss %.4f" % (step, loss), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Trains a network to read handwritten digits.")
    parser.add_argument("--kernels", default="build/samples/libdigits_kernels.so", help="library of digits/kernels.cu")
    parser.add_argument("--data", default="samples/data/digits.csv")
    parser.add_argument("--batch", type=int, default=96, help="images a step, of all ranks together")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", help="where the parameters go at the end; %%d becomes the rank")
    options = parser.parse_args()

    images, tests = load(options.data)
    if not ddprun.world_size <= options.batch <= len(images):
        parser.error("--batch %d: there are %d ranks and %d images" % (options.batch, ddprun.world_size, len(images)))
    gpu = Gpu(options.kernels)
    model = Model(gpu, max(options.batch, len(tests)), options.seed)
    for tensor in model.tensors:
        ddprun.parameter(tensor.value)  # after the initialisation: all ranks take rank 0's values
        ddprun.gradient(tensor.gradient)
    train(model, images, options)
    accuracy = model.accuracy(tests)
    if ddprun.rank == 0:
        print("test accuracy %.4f" % accuracy)
    if options.save and (ddprun.rank == 0 or "%d" in options.save):
        model.save(options.save.replace("%d", str(ddprun.rank)))


main()
