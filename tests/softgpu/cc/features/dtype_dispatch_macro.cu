// A launch inside the lambda that a dispatch macro calls with a type, as tensor libraries write it.
#include <cstddef>
#include <cstring>
enum class ScalarType { Float, Double, Int };
#define DISPATCH(TYPE, NAME, ...)    \
    [&] {                            \
        switch (TYPE) {              \
        case ScalarType::Float: {    \
            using scalar_t = float;  \
            return __VA_ARGS__();    \
        }                            \
        case ScalarType::Double: {   \
            using scalar_t = double; \
            return __VA_ARGS__();    \
        }                            \
        default: {                   \
            using scalar_t = int;    \
            return __VA_ARGS__();    \
        }                            \
        }                            \
    }()
template <typename scalar_t>
__global__ void
square(scalar_t *p, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = p[i] * p[i];
}
void
square_any(void *p, ScalarType type, int n, cudaStream_t stream)
{
    const dim3 threads(128), blocks((n + threads.x - 1) / threads.x);
    DISPATCH(type, "square", [&] { square<scalar_t><<<blocks, threads, 0, stream>>>((scalar_t *)p, n); });
}

int
main()
{
    void *p = managed(8 * 200);
    ((float *)p)[150] = 3;
    square_any(p, ScalarType::Float, 200, 0);
    cudaDeviceSynchronize();
    const bool ok = ((float *)p)[150] == 9;
    ((double *)p)[150] = 4;
    square_any(p, ScalarType::Double, 200, 0);
    cudaDeviceSynchronize();
    return ok && ((double *)p)[150] == 16 ? 0 : 1;
}
