// Character bigram model: embedding (27x16) and softmax layer, AdamW with decoupled weight decay; saves weights to a
// file. Truth: gradients (truth_step over dE, dW, db); t of AdamW is counted with the updates, inside of the optimizer.
// Batches: 60 (batches of 64 character pairs, drawn on the host into pinned memory).
#include "truth.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define gpuErrchk(ans)                        \
    {                                         \
        gpuAssert((ans), __FILE__, __LINE__); \
    }
inline void
gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort)
            exit(code);
    }
}

static const char *TEXT =
    "the quick brown fox jumps over the lazy dog and then the dog sleeps in the sun while the fox runs to the river "
    "there the fox drinks the cold water and looks at the other side where the trees are tall and the grass is green "
    "when the night comes the stars shine over the hills and the wind sings in the leaves of the old oak tree ";

const int VOCAB = 27, DIM = 16, BATCH = 64, STEPS = 60;

__global__ void
forward_kernel(const float *E, const float *W, const float *bias, const int *in, const int *out, float *dlogits,
               float *loss)
{
    extern __shared__ float sh[];
    float *logit = sh, *red = sh + 32;
    int n = blockIdx.x, v = threadIdx.x;
    float z = -1e30f;
    if (v < VOCAB) {
        z = bias[v];
        for (int d = 0; d < DIM; d++)
            z += E[in[n] * DIM + d] * W[d * VOCAB + v];
    }
    logit[v] = z;
    red[v] = z;
    __syncthreads();
    for (int s = 16; s > 0; s >>= 1) {
        if (v < s)
            red[v] = fmaxf(red[v], red[v + s]);
        __syncthreads();
    }
    float mx = red[0];
    __syncthreads();
    float e = v < VOCAB ? expf(z - mx) : 0.f;
    red[v] = e;
    __syncthreads();
    for (int s = 16; s > 0; s >>= 1) {
        if (v < s)
            red[v] += red[v + s];
        __syncthreads();
    }
    if (v < VOCAB)
        dlogits[n * VOCAB + v] = (e / red[0] - (v == out[n])) / BATCH;
    if (v == 0)
        loss[n] = logf(red[0]) + mx - logit[out[n]];
}
__global__ void
grad_out(const float *E, const int *in, const float *dlogits, float *dW, float *db)
{
    int d = blockIdx.x, v = threadIdx.x;
    float s = 0, t = 0;
    for (int n = 0; n < BATCH; n++) {
        s += E[in[n] * DIM + d] * dlogits[n * VOCAB + v];
        t += dlogits[n * VOCAB + v];
    }
    dW[d * VOCAB + v] = s;
    if (d == 0)
        db[v] = t;
}
__global__ void
grad_emb(const float *W, const int *in, const float *dlogits, float *dE)
{
    int n = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int v = 0; v < VOCAB; v++)
        s += dlogits[n * VOCAB + v] * W[d * VOCAB + v];
    atomicAdd(&dE[in[n] * DIM + d], s);
}
__global__ void
adamw_kernel(float *p, const float *g, float *m, float *v, int n, float lr, float b1, float b2, float bc1, float bc2,
             float wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    float mh = m[i] / bc1, vh = v[i] / bc2;
    p[i] -= lr * (mh / (sqrtf(vh) + 1e-8f) + wd * p[i]);
}

struct Param {
    float *w, *g, *m, *v;
    int n;
};
static Param
make_param(int n, float scale)
{
    Param p;
    p.n = n;
    gpuErrchk(cudaMalloc(&p.w, n * sizeof(float)));
    gpuErrchk(cudaMalloc(&p.g, n * sizeof(float)));
    gpuErrchk(cudaMalloc(&p.m, n * sizeof(float)));
    gpuErrchk(cudaMalloc(&p.v, n * sizeof(float)));
    cudaMemset(p.g, 0, n * 4);
    cudaMemset(p.m, 0, n * 4);
    cudaMemset(p.v, 0, n * 4);
    float *h = new float[n];
    for (int i = 0; i < n; i++)
        h[i] = scale * (rand() / (float)RAND_MAX * 2 - 1);
    gpuErrchk(cudaMemcpy(p.w, h, n * sizeof(float), cudaMemcpyHostToDevice));
    delete[] h;
    return p;
}
struct AdamW {
    float lr, wd;
    int t;
    void step(Param *ps, int k)
    {
        ++t;
        for (int i = 0; i < k; i++)
            adamw_kernel<<<(ps[i].n + 255) / 256, 256>>>(ps[i].w, ps[i].g, ps[i].m, ps[i].v, ps[i].n, lr, 0.9f, 0.99f,
                                                         1 - powf(0.9f, t), 1 - powf(0.99f, t), i == 2 ? 0.f : wd);
    }
};

int
main(int argc, char **argv)
{
    srand(1337);
    int len = strlen(TEXT);
    Param ps[3] = {make_param(VOCAB * DIM, 0.3f), make_param(DIM * VOCAB, 0.3f), make_param(VOCAB, 0.f)};
    Param &E = ps[0], &W = ps[1], &b = ps[2];
    int *h_in, *h_out, *d_in, *d_out;
    float *h_loss, *d_loss, *d_dl;
    gpuErrchk(cudaMallocHost(&h_in, BATCH * sizeof(int)));
    gpuErrchk(cudaMallocHost(&h_out, BATCH * sizeof(int)));
    gpuErrchk(cudaMallocHost(&h_loss, BATCH * sizeof(float)));
    gpuErrchk(cudaMalloc(&d_in, BATCH * sizeof(int)));
    gpuErrchk(cudaMalloc(&d_out, BATCH * sizeof(int)));
    gpuErrchk(cudaMalloc(&d_loss, BATCH * sizeof(float)));
    gpuErrchk(cudaMalloc(&d_dl, BATCH * VOCAB * sizeof(float)));
    AdamW opt = {0.03f, 0.01f, 0};
    float window = 0;
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < BATCH; i++) {
            int at = rand() % (len - 1);
            h_in[i] = TEXT[at] == ' ' ? 26 : TEXT[at] - 'a';
            h_out[i] = TEXT[at + 1] == ' ' ? 26 : TEXT[at + 1] - 'a';
        }
        gpuErrchk(cudaMemcpyAsync(d_in, h_in, BATCH * sizeof(int), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemcpyAsync(d_out, h_out, BATCH * sizeof(int), cudaMemcpyHostToDevice));
        forward_kernel<<<BATCH, 32, 64 * sizeof(float)>>>(E.w, W.w, b.w, d_in, d_out, d_dl, d_loss);
        gpuErrchk(cudaMemsetAsync(E.g, 0, E.n * sizeof(float)));
        grad_out<<<DIM, VOCAB>>>(E.w, d_in, d_dl, W.g, b.g);
        grad_emb<<<BATCH, DIM>>>(W.w, d_in, d_dl, E.g);
        if (truth_step({{E.g, (size_t)E.n}, {W.g, (size_t)W.n}, {b.g, (size_t)b.n}}))
            opt.step(ps, 3);
        gpuErrchk(cudaMemcpyAsync(h_loss, d_loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
        gpuErrchk(cudaDeviceSynchronize());
        float l = 0;
        for (int i = 0; i < BATCH; i++)
            l += h_loss[i];
        window += l / BATCH;
        if (step % 10 == 0) {
            printf("step %d/%d: mean loss of the last ten %.4f\n", step, STEPS, window / 10);
            window = 0;
        }
    }
    float *host = (float *)malloc((E.n + W.n + b.n) * sizeof(float)), norm = 0;
    cudaMemcpy(host, E.w, E.n * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(host + E.n, W.w, W.n * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(host + E.n + W.n, b.w, b.n * 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < E.n + W.n + b.n; i++)
        norm += host[i] * host[i];
    const char *name = argc > 1 ? argv[1] : "bigram.bin";
    FILE *f = fopen(name, "wb");
    if (f) {
        fwrite(host, sizeof(float), E.n + W.n + b.n, f);
        fclose(f);
    }
    printf("|weights| = %.4f, saved to %s\n", sqrtf(norm), name);
    truth_dump({{E.w, (size_t)E.n}, {W.w, (size_t)W.n}, {b.w, (size_t)b.n}});
    return 0;
}
