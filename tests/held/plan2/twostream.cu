// Two-stream classifier: appearance (10 features) and motion (6 features) pass through branches
// on streams of their own; a fused soft-max layer joins them. Batches are prefetched from pinned
// memory into two sets of buffers by a copy stream.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <cuda_runtime.h>

#define OK(x) do { cudaError_t r_ = (x); if (r_) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(r_)); exit(1); } } while (0)

const int N = 480, B = 24, DA = 10, DM = 6, H = 8, C = 4, STEPS = 90;

struct Branch {
    int in;
    float *w, *b, *gw, *gb, *vw, *vb;   // hidden layer: H x in, H
    float *h, *dh;                      // B x H
    float *x[2];                        // two sets of inputs
    cudaStream_t stream;
    cudaEvent_t done;
};

__global__ void hidden(const float *x, int in, const float *w, const float *b, float *h)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = b[j];
    for (int k = 0; k < in; ++k)
        s += w[j * in + k] * x[i * in + k];
    h[i * H + j] = tanhf(s);
}

__global__ void fuse(const float *ha, const float *hm, const float *w, const int *y, float *dz, float *dha, float *dhm, float *loss)
{
    int i = threadIdx.x;
    float z[C], top = -1e30f, sum = 0;
    for (int c = 0; c < C; ++c) {
        const float *r = w + c * (2 * H + 1);
        z[c] = r[2 * H];
        for (int j = 0; j < H; ++j)
            z[c] += r[j] * ha[i * H + j] + r[H + j] * hm[i * H + j];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < C; ++c)
        sum += expf(z[c] - top);
    loss[i] = top + logf(sum) - z[y[i]];
    for (int c = 0; c < C; ++c)
        dz[i * C + c] = (expf(z[c] - top) / sum - (c == y[i])) / B;
    for (int j = 0; j < H; ++j) {
        float a = 0, m = 0;
        for (int c = 0; c < C; ++c) {
            a += dz[i * C + c] * w[c * (2 * H + 1) + j];
            m += dz[i * C + c] * w[c * (2 * H + 1) + H + j];
        }
        dha[i * H + j] = a * (1 - ha[i * H + j] * ha[i * H + j]);
        dhm[i * H + j] = m * (1 - hm[i * H + j] * hm[i * H + j]);
    }
}

__global__ void fuse_grad(const float *dz, const float *ha, const float *hm, float *g)
{
    int c = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int i = 0; i < B; ++i)
        s += dz[i * C + c] * (j < H ? ha[i * H + j] : j < 2 * H ? hm[i * H + j - H] : 1.0f);
    g[c * (2 * H + 1) + j] = s;
}

__global__ void branch_grad(const float *x, int in, const float *dh, float *gw, float *gb)
{
    int j = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < B; ++i)
        s += dh[i * H + j] * (k < in ? x[i * in + k] : 1.0f);
    *(k < in ? &gw[j * in + k] : &gb[j]) = s;
}

__global__ void nesterov(float *w, const float *g, float *v, float lr, float mu, int n)
{
    for (int q = threadIdx.x; q < n; q += blockDim.x) {
        float before = v[q];
        v[q] = mu * before - lr * g[q];
        w[q] += -mu * before + (1 + mu) * v[q];
    }
}

__global__ void collect(float *sum, const float *g, int n) { for (int q = threadIdx.x; q < n; q += blockDim.x) sum[q] += g[q]; }
__global__ void average(float *g, float *sum, float r, int n) { for (int q = threadIdx.x; q < n; q += blockDim.x) { g[q] = sum[q] / r; sum[q] = 0; } }

static float *zeros(int n) { float *p; OK(cudaMalloc(&p, n * sizeof(float))); OK(cudaMemset(p, 0, n * sizeof(float))); return p; }
static float draw() { return (rand() % 20001 - 10000) / 10000.0f; }

static float *weights(int n, float scale)
{
    float *p = zeros(n), *h = (float *)malloc(n * sizeof(float));
    for (int q = 0; q < n; ++q) h[q] = scale * draw();
    OK(cudaMemcpy(p, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
    return p;
}

static Branch make_branch(int in)
{
    Branch r = {in, weights(H * in, 0.5f), zeros(H), zeros(H * in), zeros(H), zeros(H * in), zeros(H),
                zeros(B * H), zeros(B * H), {zeros(B * in), zeros(B * in)}};
    OK(cudaStreamCreate(&r.stream));
    OK(cudaEventCreateWithFlags(&r.done, cudaEventDisableTiming));
    return r;
}

int main(int argc, char **argv)
{
    const char *save = 0;
    int oracle = 0;
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--save")) save = argv[i + 1];
        else if (!strcmp(argv[i], "--oracle")) oracle = atoi(argv[i + 1]);
    srand(31);
    float *xa, *xm, proj[C * (DA + DM)];
    int *y;                                    // pinned, so that copies are asynchronous
    OK(cudaMallocHost(&xa, N * DA * sizeof(float)));
    OK(cudaMallocHost(&xm, N * DM * sizeof(float)));
    OK(cudaMallocHost(&y, N * sizeof(int)));
    for (float &p : proj) p = draw();
    for (int i = 0; i < N; ++i) {
        y[i] = rand() % C;
        for (int k = 0; k < DA; ++k) xa[i * DA + k] = 0.7f * proj[y[i] / 2 * DA + k] + 0.5f * draw();
        for (int k = 0; k < DM; ++k) xm[i * DM + k] = 0.7f * proj[C * DA + y[i] % 2 * DM + k] + 0.5f * draw();
    }
    Branch a = make_branch(DA), m = make_branch(DM);
    const int F = C * (2 * H + 1);
    float *w = weights(F, 0.3f), *g = zeros(F), *v = zeros(F), *dz = zeros(B * C), *loss = zeros(B);
    int *dy[2];
    OK(cudaMalloc(&dy[0], B * sizeof(int)));
    OK(cudaMalloc(&dy[1], B * sizeof(int)));
    struct { float *w, *g, *v, *sum; int n; cudaStream_t s; } p[] = {
        {a.w, a.gw, a.vw, 0, H * DA, a.stream}, {a.b, a.gb, a.vb, 0, H, a.stream}, {m.w, m.gw, m.vw, 0, H * DM, m.stream},
        {m.b, m.gb, m.vb, 0, H, m.stream},      {w, g, v, 0, F, a.stream}};
    for (auto &t : p)
        if (oracle) t.sum = zeros(t.n);
    cudaStream_t copy;
    cudaEvent_t ready[2], used, fused;
    OK(cudaStreamCreate(&copy));
    for (cudaEvent_t *e : {&ready[0], &ready[1], &used, &fused}) OK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    OK(cudaDeviceSynchronize());

    auto prefetch = [&](int step) {
        int s = step % 2, first = step * B % N;
        OK(cudaMemcpyAsync(a.x[s], xa + first * DA, B * DA * sizeof(float), cudaMemcpyHostToDevice, copy));
        OK(cudaMemcpyAsync(m.x[s], xm + first * DM, B * DM * sizeof(float), cudaMemcpyHostToDevice, copy));
        OK(cudaMemcpyAsync(dy[s], y + first, B * sizeof(int), cudaMemcpyHostToDevice, copy));
        OK(cudaEventRecord(ready[s], copy));
    };
    prefetch(0);
    for (int step = 0, waiting = 0; step < STEPS; ++step) {
        int s = step % 2;
        if (step + 1 < STEPS) prefetch(step + 1);
        for (Branch *b : {&a, &m}) {
            OK(cudaStreamWaitEvent(b->stream, ready[s], 0));
            hidden<<<B, H, 0, b->stream>>>(b->x[s], b->in, b->w, b->b, b->h);
        }
        OK(cudaEventRecord(m.done, m.stream));
        OK(cudaStreamWaitEvent(a.stream, m.done, 0));
        fuse<<<1, B, 0, a.stream>>>(a.h, m.h, w, dy[s], dz, a.dh, m.dh, loss);
        OK(cudaEventRecord(fused, a.stream));
        fuse_grad<<<C, 2 * H + 1, 0, a.stream>>>(dz, a.h, m.h, g);
        OK(cudaStreamWaitEvent(m.stream, fused, 0));
        for (Branch *b : {&a, &m})
            branch_grad<<<H, b->in + 1, 0, b->stream>>>(b->x[s], b->in, b->dh, b->gw, b->gb);
        for (auto &t : p)
            if (oracle) collect<<<1, 64, 0, t.s>>>(t.sum, t.g, t.n);
        bool update = !oracle || ++waiting % oracle == 0;
        for (auto &t : p) {
            if (oracle && update) average<<<1, 64, 0, t.s>>>(t.g, t.sum, oracle, t.n);
            if (update) nesterov<<<1, 64, 0, t.s>>>(t.w, t.g, t.v, 0.05f, 0.8f, t.n);
        }
        OK(cudaEventRecord(m.done, m.stream));                 // the next step's copies wait for both branches
        OK(cudaStreamWaitEvent(a.stream, m.done, 0));
        OK(cudaEventRecord(used, a.stream));
        OK(cudaStreamWaitEvent(m.stream, used, 0));
        OK(cudaStreamWaitEvent(copy, used, 0));
        if (step % 15 == 0) {
            float l[B], mean = 0;
            OK(cudaMemcpyAsync(l, loss, sizeof l, cudaMemcpyDeviceToHost, a.stream));
            OK(cudaStreamSynchronize(a.stream));
            for (float q : l) mean += q / B;
            printf("step %d loss %.4f\n", step, mean);
        }
    }
    OK(cudaDeviceSynchronize());
    FILE *f = save ? fopen(save, "w") : 0;
    for (auto &t : p) {
        float h[H * 2 * DA];
        OK(cudaMemcpy(h, t.w, t.n * sizeof(float), cudaMemcpyDeviceToHost));
        for (int q = 0; f && q < t.n; ++q) fprintf(f, "%.9g\n", h[q]);
    }
    if (f) fclose(f);
    return 0;
}
