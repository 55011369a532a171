// A small GAN on a ring of Gaussian clusters: generator and critic each have their own optimizer (RMSprop).
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        cudaError_t e_ = (call);                                                                     \
        if (e_ != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_)); exit(1); } \
    } while (0)

enum { NOISE = 4, HID = 24, PTS = 2, BATCH = 32 };

struct Tensor { float *w, *g, *s; int n; };

static unsigned rng_state = 20240601u;
static float u01() { rng_state = rng_state * 747796405u + 2891336453u; return (rng_state >> 9) / 8388608.0f; }
static float gauss() { return sqrtf(-2 * logf(u01() + 1e-7f)) * cosf(6.2831853f * u01()); }

static Tensor make(int n, float scale)
{
    Tensor t;
    t.n = n;
    std::vector<float> v(n);
    for (float &e : v) e = scale * gauss();
    CHECK(cudaMalloc(&t.w, n * sizeof(float)));
    CHECK(cudaMalloc(&t.g, n * sizeof(float)));
    CHECK(cudaMalloc(&t.s, n * sizeof(float)));
    CHECK(cudaMemcpy(t.w, v.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(t.g, 0, n * sizeof(float)));
    CHECK(cudaMemset(t.s, 0, n * sizeof(float)));
    return t;
}

__global__ void dense(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    int r = i / out, o = i % out;
    float a = b[o];
    for (int k = 0; k < in; ++k) a += x[r * in + k] * w[k * out + o];
    y[i] = act && a < 0 ? 0.2f * a : a;
}

__global__ void dense_weights(const float *x, const float *dy, float *gw, float *gb, int rows, int in, int out, int add)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int k = i / out, o = i % out;
    float a = 0;
    for (int r = 0; r < rows; ++r) a += (k < in ? x[r * in + k] : 1.0f) * dy[r * out + o];
    float *to = k < in ? gw + i : gb + o;
    *to = add ? *to + a : a;
}

__global__ void dense_inputs(const float *dy, const float *w, const float *x, float *dx, int rows, int in, int out, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * in) return;
    int r = i / in, k = i % in;
    float a = 0;
    for (int o = 0; o < out; ++o) a += dy[r * out + o] * w[k * out + o];
    dx[i] = act && x[i] < 0 ? 0.2f * a : a;
}

// least squares GAN: (score - target)^2 / 2, mean over the rows
__global__ void score_gradient(const float *score, float target, float *d, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) d[r] = (score[r] - target) / rows;
}

__global__ void rmsprop(float *w, const float *g, float *s, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[i] = 0.9f * s[i] + 0.1f * g[i] * g[i];
    w[i] -= rate * g[i] / (sqrtf(s[i]) + 1e-2f);
}

#define GRID(n) ((n) + 63) / 64, 64

static float *gh, *fake, *ch, *score, *dscore, *dch, *dfake, *dgh, *dreal;

static void critic_pass(const Tensor *c, const float *x, int rows, float target, int add, bool weights)
{
    dense<<<GRID(rows * HID)>>>(x, c[0].w, c[1].w, ch, rows, PTS, HID, 1);
    dense<<<GRID(rows)>>>(ch, c[2].w, c[3].w, score, rows, HID, 1, 0);
    score_gradient<<<GRID(rows)>>>(score, target, dscore, rows);
    dense_inputs<<<GRID(rows * HID)>>>(dscore, c[2].w, ch, dch, rows, HID, 1, 1);
    if (weights) {
        dense_weights<<<GRID((HID + 1) * 1)>>>(ch, dscore, c[2].g, c[3].g, rows, HID, 1, add);
        dense_weights<<<GRID((PTS + 1) * HID)>>>(x, dch, c[0].g, c[1].g, rows, PTS, HID, add);
    } else {
        dense_inputs<<<GRID(rows * PTS)>>>(dch, c[0].w, x, dfake, rows, PTS, HID, 0);
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Tensor gen[4] = {make(NOISE * HID, 0.5f), make(HID, 0.1f), make(HID * PTS, 0.3f), make(PTS, 0)};
    Tensor critic[4] = {make(PTS * HID, 0.6f), make(HID, 0.1f), make(HID, 0.3f), make(1, 0)};
    for (const Tensor &t : gen) {
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT32);
        DDP_GRADIENT(t.g, t.n, DDP_FLOAT32);
    }
    for (int k = 0; k < 4; ++k) {
        DDP_PARAMETER(critic[k].w, critic[k].n, DDP_FLOAT32);
        DDP_GRADIENT(critic[k].g, critic[k].n, DDP_FLOAT32);
        DDP_GRADIENT_GROUP(1);
    }
    float *noise, *real;
    CHECK(cudaMalloc(&noise, BATCH * NOISE * 4)); CHECK(cudaMalloc(&real, BATCH * PTS * 4));
    CHECK(cudaMalloc(&gh, BATCH * HID * 4)); CHECK(cudaMalloc(&fake, BATCH * PTS * 4));
    CHECK(cudaMalloc(&ch, BATCH * HID * 4)); CHECK(cudaMalloc(&score, BATCH * 4));
    CHECK(cudaMalloc(&dscore, BATCH * 4)); CHECK(cudaMalloc(&dch, BATCH * HID * 4));
    CHECK(cudaMalloc(&dfake, BATCH * PTS * 4)); CHECK(cudaMalloc(&dgh, BATCH * HID * 4));
    std::vector<float> hn(BATCH * NOISE), hr(BATCH * PTS), hs(BATCH);

    for (int step = 0; step < steps; ++step) {
        for (float &e : hn) e = gauss();
        for (int i = 0; i < BATCH; ++i) {
            int c = (int)(u01() * 5);
            hr[2 * i] = 2 * cosf(c * 1.2566f) + 0.1f * gauss();
            hr[2 * i + 1] = 2 * sinf(c * 1.2566f) + 0.1f * gauss() + 1;
        }
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int rows = (int)count;
        CHECK(cudaMemcpy(noise, &hn[first * NOISE], count * NOISE * 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(real, &hr[first * PTS], count * PTS * 4, cudaMemcpyHostToDevice));

        dense<<<GRID(rows * HID)>>>(noise, gen[0].w, gen[1].w, gh, rows, NOISE, HID, 1);
        dense<<<GRID(rows * PTS)>>>(gh, gen[2].w, gen[3].w, fake, rows, HID, PTS, 0);
        critic_pass(critic, real, rows, 1.0f, 0, true);
        critic_pass(critic, fake, rows, 0.0f, 1, true);
        CHECK(cudaMemcpy(hs.data(), dscore, rows * 4, cudaMemcpyDeviceToHost));
        DDP_STEP_GROUP(1, 0);
        for (const Tensor &t : critic) rmsprop<<<GRID(t.n)>>>(t.w, t.g, t.s, t.n, 0.01f);

        critic_pass(critic, fake, rows, 1.0f, 0, false);
        dense_inputs<<<GRID(rows * HID)>>>(dfake, gen[2].w, gh, dgh, rows, HID, PTS, 1);
        dense_weights<<<GRID((HID + 1) * PTS)>>>(gh, dfake, gen[2].g, gen[3].g, rows, HID, PTS, 0);
        dense_weights<<<GRID((NOISE + 1) * HID)>>>(noise, dgh, gen[0].g, gen[1].g, rows, NOISE, HID, 0);
        DDP_STEP_GROUP(0, 0);
        for (const Tensor &t : gen) rmsprop<<<GRID(t.n)>>>(t.w, t.g, t.s, t.n, 0.008f);

        if (step % 10 == 0 || step == steps - 1) {
            double l = 0;
            for (int r = 0; r < rows; ++r) l += 0.5 * hs[r] * hs[r] * rows;
            printf("step %d critic's loss on fakes %.4f\n", step, l);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        for (const Tensor *net : {gen, critic})
            for (int k = 0; k < 4; ++k) {
                std::vector<float> v(net[k].n);
                CHECK(cudaMemcpy(v.data(), net[k].w, v.size() * 4, cudaMemcpyDeviceToHost));
                for (float e : v) fprintf(f, "%.9g\n", e);
            }
        fclose(f);
    }
    return 0;
}
