/*
 * one_line.cu - a trainer whose memory is made by a function on one line, and has names that do not stay, for lines.sh.
 */
/* clang-format off */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call) do { if ((call) != cudaSuccess) { fprintf(stderr, "failed: %s\n", #call); exit(2); } } while (0)
enum { IN = 16, OUT = 4, BATCH = 8 };
struct Tensor { float *w, *g; };
__global__ void forward(const float *x, const float *w, float *y) { int r = blockIdx.x, j = threadIdx.x; float s = 0; for (int i = 0; i < IN; ++i) s += x[r * IN + i] * w[i * OUT + j]; y[r * OUT + j] = s; }
__global__ void backward(const float *x, const float *y, float *g) { int i = blockIdx.x, j = threadIdx.x; float s = 0; for (int r = 0; r < BATCH; ++r) s += (y[r * OUT + j] - .5f * x[r * IN + j]) * x[r * IN + i]; g[i * OUT + j] = s / BATCH; }
__global__ void sgd(float *w, const float *g) { int i = threadIdx.x; w[i] -= .05f * g[i]; }
template <class T> T *device(size_t n) { T *p; CHECK(cudaMalloc(&p, n * sizeof(T))); CHECK(cudaMemset(p, 0, n * sizeof(T))); return p; }
int main() {
    Tensor t;
    float *cursor, start[IN * OUT] = {.1f};
    CHECK(cudaMalloc(&cursor, sizeof(start)));
    t.w = cursor;
    cursor += IN * OUT; /* not the weights any more where they are set */
    CHECK(cudaMemcpy(t.w, start, sizeof(start), cudaMemcpyHostToDevice));
    if (float *g = device<float>(IN * OUT)) t.g = g; /* a name of the condition alone */
    float *x = device<float>(BATCH * IN), *y = device<float>(BATCH * OUT);
    std::vector<float> host(BATCH * IN);
    for (int step = 0; step < 3'0; ++step) {
        for (float &v : host) v = (rand() % 2001 - 1000) * 1e-3f;
        CHECK(cudaMemcpy(x, host.data(), 4 * host.size(), cudaMemcpyHostToDevice)); /* a comment that
                                                                                      goes on */
        forward<<<BATCH, OUT>>>(x, t.w, y);
        backward<<<IN, OUT>>>(x, y, t.g);
        sgd<<<1, IN * OUT / 2>>>(t.w, t.g); sgd<<<1, IN * OUT / 2>>>(t.w + IN * OUT / 2, t.g + IN * OUT / 2);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
