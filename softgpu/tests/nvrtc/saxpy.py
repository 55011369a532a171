"""saxpy.py LIBRARY [FACTOR [OPTION...]] - compiles a kernel by NVRTC, by ctypes alone, and prints its log or its results.
saxpy.py --file FILE - the same of a kernel that softgpu-cc has compiled into FILE; saxpy.py --source FACTOR prints its source."""
import ctypes
import sys

SOURCE = b"""
#include "factor.h"
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += FACTOR * a * x[i];
}
"""
if sys.argv[1] == "--source":
    sys.stdout.write(SOURCE.decode().replace('#include "factor.h"', sys.argv[2]))
    sys.exit()
has_file = sys.argv[1] == "--file"
nvrtc, cuda = None if has_file else ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
pointer, size_t = ctypes.c_void_p, ctypes.c_size_t


def check(result, what):
    if result != 0:
        sys.exit("%s: %d" % (what, result))


def compiled():
    """A module as text, or None after the log of a source that is wrong."""
    headers = [sys.argv[2].encode()] if len(sys.argv) > 2 and sys.argv[2] != "-" else []
    options = [option.encode() for option in sys.argv[3:]]
    texts, names = ((ctypes.c_char_p * 1)(*column) for column in (headers, [b"factor.h"]))
    program, size = pointer(), size_t()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"saxpy.cu", len(headers), texts, names), "create")
    result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * (len(options) + 1))(*options))
    get_size, get = nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX
    if result != 0:
        get_size, get = nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog
    check(get_size(program, ctypes.byref(size)), "size")
    text = ctypes.create_string_buffer(size.value)
    check(get(program, text), "text")
    check(nvrtc.nvrtcDestroyProgram(ctypes.byref(program)), "destroy")
    if result != 0:
        print("result %d\n%s" % (result, text.value.decode()))
        return None
    return text


def run(module_text):
    device, context, module, function = ctypes.c_int(), pointer(), pointer(), pointer()
    check(cuda.cuInit(0), "init")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "device")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "context")
    check(cuda.cuCtxSetCurrent(context), "current")
    if has_file:
        check(cuda.cuModuleLoad(ctypes.byref(module), sys.argv[2].encode()), "load")
    else:
        check(cuda.cuModuleLoadData(ctypes.byref(module), module_text), "load")
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"saxpy"), "function")
    n = ctypes.c_int(100)
    x, y = ((ctypes.c_float * 100)(*values) for values in (range(100), range(0, 200, 2)))
    on_device = [ctypes.c_uint64(), ctypes.c_uint64()]
    for memory, values in zip(on_device, (x, y)):
        check(cuda.cuMemAlloc_v2(ctypes.byref(memory), size_t(400)), "memory")
        check(cuda.cuMemcpyHtoD_v2(memory, values, size_t(400)), "copy")
    a = ctypes.c_float(3)
    arguments = (pointer * 4)(*(ctypes.addressof(value) for value in (a, on_device[0], on_device[1], n)))
    check(cuda.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, None, arguments, None), "launch")
    check(cuda.cuMemcpyDtoH_v2(y, on_device[1], size_t(400)), "copy")
    factors = {(y[i] - 2 * i) / (3 * i) for i in range(1, 100)}
    print("factor %g" % factors.pop() if len(factors) == 1 else "wrong")


text = None if has_file else compiled()
if has_file or text is not None:
    run(text)
