/*
 * images.cu - what the driver learns of a kernel: its name, the offsets and sizes of its parameters (laid out as in a
 * struct), its launch bounds; one image for each instantiation, the same one for every caller.
 */
#include "check.h"

#include <softgpu/stub.h>

#include <cstddef>
#include <cstring>
#include <string>

struct big {
    char bytes[100];
    double d;
};

namespace shapes
{
__global__ void
mixed(char a, double b, const float *__restrict__ c, short d, big e, int f)
{
    if (threadIdx.x == 0 && c != nullptr)
        const_cast<float *>(c)[0] = static_cast<float>(a + b + d + e.d + f);
}

/* The compiler's own opinion of how these lie in memory. */
struct mixed_block {
    char a;
    double b;
    const float *c;
    short d;
    big e;
    int f;
};
} // namespace shapes

template <class T, int N>
__global__ void
__launch_bounds__(N * 2) templated(T *out, T value, int count)
{
    if (static_cast<int>(threadIdx.x) < count)
        out[threadIdx.x] = value;
}

__global__ void
nothing()
{
}

/* Parameters that a compiler would love to load early: references to big objects, numbers on the stack. */
__global__ void
greedy(big a, big b, double c, double d, double e, double f, double g, double h, double i, double j, double k, int *out)
{
    out[0] = static_cast<int>(a.d + b.d + c + d + e + f + g + h + i + j + k);
}

template <int N>
__global__ void
with_shared(float *out)
{
    __shared__ float a[10];
    __shared__ double b[N];
    a[threadIdx.x] = threadIdx.x;
    b[threadIdx.x % N] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = a[9 - threadIdx.x] + static_cast<float>(b[0]);
}

struct with_copy {
    int value;
    __host__ __device__ with_copy(int v) : value(v)
    {
    }
    __host__ __device__ with_copy(const with_copy &other) : value(other.value)
    {
    }
};

KERNEL(copied, (with_copy w, int *out), *out = w.value)

static const softgpu_image *
image_of(const void *stub)
{
    const softgpu_image *image = softgpu_stub_image(stub);
    CHECK(image != nullptr, "no image");
    CHECK(std::memcmp(image->magic, SOFTGPU_IMAGE_MAGIC, sizeof(image->magic)) == 0 &&
              image->version == SOFTGPU_IMAGE_VERSION,
          "not an image");
    CHECK(softgpu_stub_image(stub) == image, "another image when asked again");
    return image;
}

static void
expect_name(const void *stub, const std::string &name)
{
    const softgpu_image *image = image_of(stub);
    CHECK(image->name == name, "the name is %s, not %s", image->name, name.c_str());
}

int
main()
{
    CHECK(softgpu_stub_image(nullptr) == nullptr, "NULL");

    using shapes::mixed_block;
    const softgpu_image *mixed = image_of((const void *)shapes::mixed);
    const size_t wanted[][2] = {{offsetof(mixed_block, a), 1},
                                {offsetof(mixed_block, b), 8},
                                {offsetof(mixed_block, c), sizeof(void *)},
                                {offsetof(mixed_block, d), 2},
                                {offsetof(mixed_block, e), sizeof(big)},
                                {offsetof(mixed_block, f), 4}};
    CHECK(mixed->param_count == 6, "%u parameters", mixed->param_count);
    for (int i = 0; i < 6; ++i)
        CHECK(mixed->params[i].offset == wanted[i][0] && mixed->params[i].bytes == wanted[i][1],
              "parameter %d at %zu, %zu bytes", i, mixed->params[i].offset, mixed->params[i].bytes);
    CHECK(mixed->max_threads_per_block == 1024, "bounds of mixed");

    void (*const small)(float *, float, int) = templated<float, 32>;
    void (*const large)(float *, float, int) = templated<float, 64>;
    void (*const doubles)(double *, double, int) = templated<double, 32>;
    CHECK(image_of((const void *)small)->max_threads_per_block == 64 &&
              image_of((const void *)large)->max_threads_per_block == 128,
          "bounds");
    CHECK(image_of((const void *)small) != image_of((const void *)large), "two instantiations share an image");
    expect_name((const void *)small, "templated<float, 32>");
    expect_name((const void *)doubles, "templated<double, 32>");
    expect_name((const void *)shapes::mixed, "shapes::mixed");
    expect_name((const void *)nothing, "nothing");
    CHECK(image_of((const void *)nothing)->param_count == 0, "parameters of nothing");
    CHECK(image_of((const void *)greedy)->param_count == 12, "parameters of greedy");
    CHECK(image_of((const void *)copied)->param_count == 2, "parameters of copied");

    /* Shared memory is known before the first launch, for launches are checked against it. */
    CHECK(image_of((const void *)with_shared<3>)->static_shared_bytes == 64, "shared memory");
    CHECK(image_of((const void *)with_shared<100>)->static_shared_bytes == 840, "shared memory of a larger one");
    CHECK(image_of((const void *)nothing)->static_shared_bytes == 0, "no shared memory");

    /* Asking does not launch, and launching works after asking. */
    buffer<int> out(1);
    big b = {};
    b.d = 3;
    RUN(greedy<<<1, 1>>>(b, b, 1, 1, 1, 1, 1, 1, 1, 1, 1, out.data));
    CHECK(out.read()[0] == 15, "greedy gives %d", out.read()[0]);
    RUN(copied<<<1, 1>>>(with_copy(8), out.data));
    CHECK(out.read()[0] == 8, "copied gives %d", out.read()[0]);
    return 0;
}
