// managed.h - stands in front of each program (features.sh): `float *x = managed(256);` is memory of so many bytes that
// host and device reach.
#include <cuda_runtime.h>

#include <cstdlib>

struct managed {
    void *memory = nullptr;

    explicit managed(size_t bytes)
    {
        if (cudaMallocManaged(&memory, bytes) != cudaSuccess)
            std::exit(99);
    }
    template <typename T> operator T *() const
    {
        return static_cast<T *>(memory);
    }
};
