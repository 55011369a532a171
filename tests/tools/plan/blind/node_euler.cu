// Neural ODE: 8 Euler steps of a 3-16-3 field, gradients by the adjoint going backward, separates two rings; Adam.
// Truth: gradients (truth_step over grad); the powers of Adam's betas are numbers on the device, moved by the update.
// Batches: 48 (batches of 32 points out of 256 on the device, in six rounds).
#include "truth.h"
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#define STEPS 8
#define DT    0.4f
#define S     3
#define U     16
// theta: A[U][S], a[U], C[S][U], c[S], readout r[S], r0
#define O_a   (U * S)
#define O_C   (O_a + U)
#define O_c   (O_C + S * U)
#define O_r   (O_c + S)
#define NTH   (O_r + S + 1)
#define BATCH 32

static int failures = 0;
static void
ok(cudaError_t e)
{
    if (e != cudaSuccess) {
        printf("CUDA: %s\n", cudaGetErrorString(e));
        ++failures;
    }
}

__device__ float
unit_act(const float *th, const float *z, int u)
{
    float s = th[O_a + u];
    for (int d = 0; d < S; ++d)
        s += th[u * S + d] * z[d];
    return tanhf(s);
}

// a block for each point, a thread for each unit; path [STEPS + 1][BATCH][S]
__global__ void
solve(const float *th, const float *pts, const float *lab, float *path, float *dlogit, float *loss)
{
    __shared__ float z[S], h[U];
    int b = blockIdx.x, u = threadIdx.x;
    if (u < S) {
        z[u] = u < 2 ? pts[b * 2 + u] : 0.f;
        path[b * S + u] = z[u];
    }
    __syncthreads();
    for (int k = 0; k < STEPS; ++k) {
        h[u] = unit_act(th, z, u);
        __syncthreads();
        if (u < S) {
            float f = th[O_c + u];
            for (int j = 0; j < U; ++j)
                f += th[O_C + u * U + j] * h[j];
            z[u] += DT * f;
            path[((k + 1) * BATCH + b) * S + u] = z[u];
        }
        __syncthreads();
    }
    if (u == 0) {
        float t = th[O_r + S];
        for (int d = 0; d < S; ++d)
            t += th[O_r + d] * z[d];
        float p = 1.f / (1.f + expf(-t));
        dlogit[b] = (p - lab[b]) / BATCH;
        loss[b] = fmaxf(t, 0.f) - t * lab[b] + logf(1.f + expf(-fabsf(t)));
    }
}

// adj_k = adj_{k+1} + dt J^T adj_{k+1}; the gradient of each point goes into its own row
__global__ void
adjoint(const float *th, const float *path, const float *dlogit, float *rows)
{
    __shared__ float adj[S], e[U];
    int b = blockIdx.x, u = threadIdx.x;
    float *row = rows + b * NTH;
    float gA[S] = {0, 0, 0}, ga = 0, gC[S] = {0, 0, 0}, gc = 0;
    if (u < S) {
        adj[u] = dlogit[b] * th[O_r + u];
        row[O_r + u] = dlogit[b] * path[(STEPS * BATCH + b) * S + u];
    }
    if (u == 0)
        row[O_r + S] = dlogit[b];
    __syncthreads();
    for (int k = STEPS - 1; k >= 0; --k) {
        const float *z = path + (k * BATCH + b) * S;
        float h = unit_act(th, z, u), t = 0;
        for (int d = 0; d < S; ++d) {
            t += adj[d] * th[O_C + d * U + u];
            gC[d] += DT * adj[d] * h;
        }
        t *= DT * (1 - h * h);
        ga += t;
        for (int d = 0; d < S; ++d)
            gA[d] += t * z[d];
        if (u < S)
            gc += DT * adj[u];
        e[u] = t;
        __syncthreads();
        if (u < S)
            for (int j = 0; j < U; ++j)
                adj[u] += e[j] * th[j * S + u];
        __syncthreads();
    }
    for (int d = 0; d < S; ++d) {
        row[u * S + d] = gA[d];
        row[O_C + d * U + u] = gC[d];
    }
    row[O_a + u] = ga;
    if (u < S)
        row[O_c + u] = gc;
}
__global__ void
sum_rows(const float *rows, float *grad)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NTH)
        return;
    float s = 0;
    for (int b = 0; b < BATCH; ++b)
        s += rows[b * NTH + i];
    grad[i] = s;
}
struct AdamState {
    float m[NTH], v[NTH], pow1, pow2;
};
__global__ void
tick(AdamState *st, float first)
{
    st->pow1 = first ? 1.f : st->pow1 * 0.9f;
    st->pow2 = first ? 1.f : st->pow2 * 0.99f;
}
__global__ void
apply(float *th, const float *grad, AdamState *st, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NTH)
        return;
    float g = grad[i];
    st->m[i] = 0.9f * st->m[i] + 0.1f * g;
    st->v[i] = 0.99f * st->v[i] + 0.01f * g * g;
    th[i] -= lr * (st->m[i] / (1.f - st->pow1)) / (sqrtf(st->v[i] / (1.f - st->pow2)) + 1e-8f);
}

int
main()
{
    const int N = 256, ROUNDS = 6;
    unsigned seed = 271828u;
    std::function<float()> rnd = [&seed] {
        seed = seed * 22695477u + 1u;
        return (float)(seed >> 8) / 16777216.f;
    };
    std::vector<float> pts(2 * N), lab(N);
    for (int i = 0; i < N; ++i) {
        float inner = rnd() < 0.5f, rad = (inner ? 0.5f : 1.4f) + 0.3f * (rnd() - 0.5f), phi = 6.2831853f * rnd();
        pts[2 * i] = rad * cosf(phi);
        pts[2 * i + 1] = rad * sinf(phi);
        lab[i] = inner;
    }
    std::array<float, NTH> th0;
    for (int i = 0; i < NTH; ++i)
        th0[i] = 2.4f * (rnd() - 0.5f);
    float *d_pts, *d_lab, *th, *grad, *rows, *path, *dlogit, *loss;
    AdamState *st;
    ok(cudaMalloc(&d_pts, pts.size() * 4));
    ok(cudaMalloc(&d_lab, lab.size() * 4));
    ok(cudaMalloc(&th, NTH * 4));
    ok(cudaMalloc(&grad, NTH * 4));
    ok(cudaMalloc(&rows, BATCH * NTH * 4));
    ok(cudaMalloc(&path, (STEPS + 1) * BATCH * S * 4));
    ok(cudaMalloc(&dlogit, BATCH * 4));
    ok(cudaMalloc(&loss, BATCH * 4));
    ok(cudaMalloc(&st, sizeof(AdamState)));
    ok(cudaMemcpy(d_pts, pts.data(), pts.size() * 4, cudaMemcpyHostToDevice));
    ok(cudaMemcpy(d_lab, lab.data(), lab.size() * 4, cudaMemcpyHostToDevice));
    ok(cudaMemcpy(th, th0.data(), NTH * 4, cudaMemcpyHostToDevice));
    ok(cudaMemset(st, 0, sizeof(AdamState)));
    tick<<<1, 1>>>(st, 1.f);

    std::array<float, BATCH> l;
    auto mean = [&] {
        ok(cudaMemcpy(l.data(), loss, sizeof l, cudaMemcpyDeviceToHost));
        float s = 0;
        for (float v : l)
            s += v;
        return s / BATCH;
    };
    for (int round = 0; round < ROUNDS; ++round)
        for (int b = 0; b < N / BATCH; ++b) {
            solve<<<BATCH, U>>>(th, d_pts + b * BATCH * 2, d_lab + b * BATCH, path, dlogit, loss);
            adjoint<<<BATCH, U>>>(th, path, dlogit, rows);
            sum_rows<<<(NTH + 31) / 32, 32>>>(rows, grad);
            if (truth_step({{grad, NTH}})) {
                tick<<<1, 1>>>(st, 0.f);
                apply<<<(NTH + 31) / 32, 32>>>(th, grad, st, 0.05f);
            }
            float m = mean();
            if ((round * (N / BATCH) + b) % 5 == 0)
                printf("round %d batch %d loss %.5f\n", round, b, m);
        }
    float total = 0;
    int right = 0;
    for (int b = 0; b < N / BATCH; ++b) {
        solve<<<BATCH, U>>>(th, d_pts + b * BATCH * 2, d_lab + b * BATCH, path, dlogit, loss);
        total += mean();
        ok(cudaMemcpy(l.data(), dlogit, sizeof l, cudaMemcpyDeviceToHost));
        for (float v : l)
            right += fabsf(v) * BATCH < 0.5f;
    }
    printf("all points: loss %.5f, right %d of %d\n", total / (N / BATCH), right, N);
    truth_dump({{th, NTH}});
    return failures;
}
