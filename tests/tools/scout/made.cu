/*
 * made.cu - a trainer whose parameters a macro allocates, and whose batch is made in the first step, in one allocation
 * with what is computed from it: two lists, which two copies bring. For lines.sh.
 */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                 \
    do {                                            \
        if ((call) != cudaSuccess) {                \
            fprintf(stderr, "failed: %s\n", #call); \
            exit(2);                                \
        }                                           \
    } while (0)

enum { IN = 16, OUT = 8, PAIRS = 32 };

#define TENSORS(DO) DO(w, IN *OUT) DO(b, OUT)

struct Net {
#define MEMBER(name, n) float *name, *d_##name;
    TENSORS(MEMBER)
};

static float *
device(size_t n)
{
    float *made;
    CHECK(cudaMalloc(&made, n * sizeof(float)));
    CHECK(cudaMemset(made, 0, n * sizeof(float)));
    return made;
}

/* Rows 0 to PAIRS - 1 are the left members of the pairs, the others the right ones. */
__global__ void
forward(const float *x, const float *w, const float *b, float *y)
{
    int r = blockIdx.x, j = threadIdx.x;
    float s = b[j];
    for (int i = 0; i < IN; ++i)
        s += x[r * IN + i] * w[i * OUT + j];
    y[r * OUT + j] = s;
}

__global__ void
differ(const float *y, float *d)
{
    int at = blockIdx.x * OUT + threadIdx.x;
    float gap = (y[at] - y[PAIRS * OUT + at] - .5f) / PAIRS;
    d[at] = gap;
    d[PAIRS * OUT + at] = .5f * gap;
}

__global__ void
backward(const float *x, const float *d, float *dw, float *db)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = 0, t = 0;
    for (int r = 0; r < 2 * PAIRS; ++r) {
        s += x[r * IN + i] * d[r * OUT + j];
        t += d[r * OUT + j];
    }
    dw[i * OUT + j] = s;
    if (i == 0)
        db[j] = t;
}

__global__ void
sgd(float *w, const float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= .1f * g[i];
}

int
main()
{
    Net net;
    float *arena = nullptr;
    std::vector<float> left(PAIRS * IN), right(PAIRS * IN);
#define MAKE(name, n)                                    \
    CHECK(cudaMalloc(&net.name, (n) * sizeof(float)));   \
    CHECK(cudaMemset(net.name, 0, (n) * sizeof(float))); \
    CHECK(cudaMalloc(&net.d_##name, (n) * sizeof(float)));
    TENSORS(MAKE)
    for (int step = 0; step < 30; ++step) {
        for (int i = 0; i < PAIRS * IN; ++i) {
            left[i] = (float)(rand() % 2001 - 1000) * 1e-3f;
            right[i] = (float)(rand() % 2001 - 1000) * 1e-3f;
        }
        if (arena == nullptr)
            arena = device(2 * PAIRS * (IN + 2 * OUT));
        float *x = arena, *y = x + 2 * PAIRS * IN, *d = y + 2 * PAIRS * OUT;
        CHECK(cudaMemcpy(x, left.data(), PAIRS * IN * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(x + PAIRS * IN, right.data(), PAIRS * IN * sizeof(float), cudaMemcpyHostToDevice));
        forward<<<2 * PAIRS, OUT>>>(x, net.w, net.b, y);
        differ<<<PAIRS, OUT>>>(y, d);
        backward<<<IN, OUT>>>(x, d, net.d_w, net.d_b);
#define UPDATE(name, n) sgd<<<((n) + 63) / 64, 64>>>(net.name, net.d_##name, n);
        TENSORS(UPDATE)
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
