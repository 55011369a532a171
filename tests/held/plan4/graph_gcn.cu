/* graph_gcn.cu
 * Graph classification (ring / tree / communities) with two graph convolutions (sum over neighbours),
 * mean read-out and softmax.
 * Graphs differ in size, so they are run one at a time, each with its own device buffers; the
 * gradients of MINI graphs are accumulated and then Adagrad makes one update.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

enum { F = 6, H = 24, NC = 3, MINI = 8, NTRAIN = 512, NTEST = 96, EPOCHS = 2, MAXN = 20, MAXE = 400 };

#define TRY(call) do { cudaError_t err = (call); if (err != cudaSuccess) { \
        fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(err)); exit(EXIT_FAILURE); } } while (0)
#define THREADS 64
#define LAUNCH(kernel, n, ...) kernel<<<((n) + THREADS - 1) / THREADS, THREADS>>>(__VA_ARGS__)
#define IDX(n) int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= (n)) return
#define NEW(type, name, count) type *name; TRY(cudaMalloc((void **)&name, (count) * sizeof(type)))
#define UP(dst, src, count) TRY(cudaMemcpy(dst, src, (count) * sizeof *(src), cudaMemcpyHostToDevice))

/* every learnt array: name, size, spread of its first values */
#define FOREACH_PARAM(X) X(W1, F * H, 0.4f) X(b1, H, 0.f) X(W2, H * H, 0.25f) X(b2, H, 0.f) X(Wo, H * NC, 0.3f) X(bo, NC, 0.f)
#define DECLARE(name, n, s) static float *name, *g_##name, *s_##name;
FOREACH_PARAM(DECLARE)
static float *d_loss;
static int *d_hit;

typedef struct { int n, e, label, row[MAXN + 1], col[MAXE]; float x[MAXN * F]; } Graph;

static unsigned rs = 2463534242u;
static unsigned rnd(void) { rs ^= rs << 13; rs ^= rs >> 17; rs ^= rs << 5; return rs; }
static float uni(void) { return (rnd() >> 8) / 16777216.f; }

static void make_graph(Graph *g)
{
    static char adj[MAXN][MAXN];
    int n = g->n = 9 + rnd() % (MAXN - 8), t = g->label = rnd() % NC;
    memset(adj, 0, sizeof adj);
#define EDGE(a, b) do { int a_ = (a), b_ = (b); if (a_ != b_) adj[a_][b_] = adj[b_][a_] = 1; } while (0)
    if (t == 0) { for (int i = 0; i < n; i++) EDGE(i, (i + 1) % n); EDGE(rnd() % n, rnd() % n); }
    if (t == 1) { for (int i = 1; i < n; i++) EDGE(i, rnd() % (i < 4 ? i : 3)); }
    if (t == 2) { for (int i = 0; i < n; i++) for (int j = 0; j < i; j++) if (i % 2 == j % 2 && uni() < 0.6f) EDGE(i, j); EDGE(0, 1); }
    EDGE(rnd() % n, rnd() % n);               /* noise */
    g->e = 0;
    for (int i = 0; i < n; i++) {
        g->row[i] = g->e;
        for (int j = 0; j < n; j++) if (adj[i][j]) g->col[g->e++] = j;
        float *x = g->x + i * F;
        x[0] = 1.f; x[1] = (g->e - g->row[i]) / 4.f;
        for (int k = 2; k < F; k++) x[k] = uni() - 0.5f;
    }
    g->row[n] = g->e;
}

/* y = (I + A / 2) x ; symmetric, so it is its own backward */
__global__ void aggregate(const int *row, const int *col, const float *x, float *y, int n, int d)
{
    IDX(n * d);
    int v = i / d, k = i % d;
    float s = x[i];
    for (int e = row[v]; e < row[v + 1]; e++) {
        int u = col[e];
        s += 0.5f * x[u * d + k];
    }
    y[i] = s;
}
__global__ void dense_relu(const float *x, const float *W, const float *b, float *y, int n, int din, int dout)
{
    IDX(n * dout);
    float s = b[i % dout];
    for (int k = 0; k < din; k++) s += x[i / dout * din + k] * W[k * dout + i % dout];
    y[i] = fmaxf(s, 0.f);
}
__global__ void mask(float *d, const float *y, int n) { IDX(n); if (y[i] <= 0.f) d[i] = 0.f; }
__global__ void dense_dx(const float *d, const float *W, float *dx, int n, int din, int dout)
{
    IDX(n * din);
    float s = 0.f;
    for (int k = 0; k < dout; k++) s += d[i / din * dout + k] * W[i % din * dout + k];
    dx[i] = s;
}
__global__ void dense_dw(const float *x, const float *d, float *gW, float *gb, int n, int din, int dout)
{
    IDX((din + 1) * dout);
    int r = i / dout, c = i % dout;
    float s = 0.f;
    for (int v = 0; v < n; v++) s += (r < din ? x[v * din + r] : 1.f) * d[v * dout + c];
    if (r < din) gW[i] += s; else gb[c] += s;
}
/* mean pool, classifier, cross entropy; with train != 0 also the gradients of Wo, bo and of the nodes */
__global__ void readout(const float *h, int n, const float *Wo, const float *bo, int label, float *gWo, float *gbo, float *dh, float *loss, int *hit, int train)
{
    __shared__ float pool[H], p[NC];
    int k = threadIdx.x;
    float s = 0.f;
    for (int v = 0; v < n; v++) s += h[v * H + k];
    pool[k] = s / n;
    __syncthreads();
    if (k == 0) {
        float m = -1e30f, z = 0.f;
        int best = 0;
        for (int c = 0; c < NC; c++) {
            p[c] = bo[c];
            for (int j = 0; j < H; j++) p[c] += pool[j] * Wo[j * NC + c];
            if (p[c] > m) { m = p[c]; best = c; }
        }
        for (int c = 0; c < NC; c++) z += expf(p[c] - m);
        *loss += logf(z) + m - p[label];
        *hit += best == label;
        for (int c = 0; c < NC; c++) p[c] = expf(p[c] - m) / z - (c == label);
    }
    __syncthreads();
    if (!train) return;
    float d = 0.f;
    for (int c = 0; c < NC; c++) { d += p[c] * Wo[k * NC + c]; gWo[k * NC + c] += pool[k] * p[c]; }
    if (k < NC) gbo[k] += p[k];
    for (int v = 0; v < n; v++) dh[v * H + k] = d / n;
}
/* one update from the accumulated gradient, which is cleared for the next mini-batch */
__global__ void adagrad(float *w, float *g, float *s, int n, float lr)
{
    IDX(n);
    float gi = g[i] / MINI;
    s[i] += gi * gi;
    w[i] -= lr * gi / (sqrtf(s[i]) + 1e-6f);
    g[i] = 0.f;
}

static void run_graph(const Graph *g, int train)
{
    int n = g->n;
    NEW(int, row, n + 1); NEW(int, col, g->e); NEW(float, x, n * F);
    NEW(float, a0, n * F); NEW(float, h1, n * H); NEW(float, a1, n * H); NEW(float, h2, n * H);
    UP(row, g->row, n + 1); UP(col, g->col, g->e); UP(x, g->x, n * F);
    LAUNCH(aggregate, n * F, row, col, x, a0, n, F);
    LAUNCH(dense_relu, n * H, a0, W1, b1, h1, n, F, H);
    LAUNCH(aggregate, n * H, row, col, h1, a1, n, H);
    LAUNCH(dense_relu, n * H, a1, W2, b2, h2, n, H, H);
    if (train) {
        NEW(float, d2, n * H); NEW(float, da, n * H); NEW(float, d1, n * H);
        readout<<<1, H>>>(h2, n, Wo, bo, g->label, g_Wo, g_bo, d2, d_loss, d_hit, 1);
        LAUNCH(mask, n * H, d2, h2, n * H);
        LAUNCH(dense_dw, (H + 1) * H, a1, d2, g_W2, g_b2, n, H, H);
        LAUNCH(dense_dx, n * H, d2, W2, da, n, H, H);
        LAUNCH(aggregate, n * H, row, col, da, d1, n, H);
        LAUNCH(mask, n * H, d1, h1, n * H);
        LAUNCH(dense_dw, (F + 1) * H, a0, d1, g_W1, g_b1, n, F, H);
        TRY(cudaFree(d2)); TRY(cudaFree(da)); TRY(cudaFree(d1));
    } else
        readout<<<1, H>>>(h2, n, Wo, bo, g->label, NULL, NULL, NULL, d_loss, d_hit, 0);
    TRY(cudaFree(row)); TRY(cudaFree(col)); TRY(cudaFree(x));
    TRY(cudaFree(a0)); TRY(cudaFree(h1)); TRY(cudaFree(a1)); TRY(cudaFree(h2));
}

static void read_score(float *loss, int *hit)
{
    TRY(cudaMemcpy(loss, d_loss, sizeof *loss, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(hit, d_hit, sizeof *hit, cudaMemcpyDeviceToHost));
}
static void clear_score(void) { TRY(cudaMemset(d_loss, 0, sizeof(float))); TRY(cudaMemset(d_hit, 0, sizeof(int))); }

int main(int argc, char **argv)
{
    Graph *set = (Graph *)malloc((NTRAIN + NTEST) * sizeof(Graph));
    float tmp[H * H], loss;
    int hit;
    for (int i = 0; i < NTRAIN + NTEST; i++) make_graph(&set[i]);
    TRY(cudaMalloc((void **)&d_loss, sizeof(float)));
    TRY(cudaMalloc((void **)&d_hit, sizeof(int)));
#define CREATE(name, n, spread) \
    TRY(cudaMalloc((void **)&name, (n) * sizeof(float))); TRY(cudaMalloc((void **)&g_##name, (n) * sizeof(float))); TRY(cudaMalloc((void **)&s_##name, (n) * sizeof(float))); \
    for (int i = 0; i < (n); i++) tmp[i] = (spread) > 0 ? (spread) * (2.f * uni() - 1.f) : 0.f; \
    UP(name, tmp, n); TRY(cudaMemset(g_##name, 0, (n) * sizeof(float))); TRY(cudaMemset(s_##name, 0, (n) * sizeof(float)));
    FOREACH_PARAM(CREATE)
#ifdef ORACLE
#define MARK(name, n, spread) oracle::state(name, n); oracle::state(s_##name, n); oracle::grad(g_##name, n);
    FOREACH_PARAM(MARK)
#endif

    for (int ep = 1; ep <= EPOCHS; ep++) {
        double total = 0;
        int right = 0;
        for (int b = 0; b < NTRAIN / MINI; b++) {
#ifdef ORACLE
            oracle::begin();
#endif
            clear_score();
            for (int j = 0; j < MINI; j++) run_graph(&set[b * MINI + j], 1);
#define STEP(name, n, spread) LAUNCH(adagrad, n, name, g_##name, s_##name, n, 0.05f);
#ifdef ORACLE
            if (!oracle::ready()) {
#define WIPE(name, n, spread) TRY(cudaMemset(g_##name, 0, (n) * sizeof(float)));
                FOREACH_PARAM(WIPE)
            } else {
#endif
            FOREACH_PARAM(STEP)
#ifdef ORACLE
            }
            oracle::end();
#endif
            read_score(&loss, &hit);
            total += loss; right += hit;
            if (b % 16 == 15) printf("  %d/%d  loss %.4f\n", b + 1, NTRAIN / MINI, total / ((b + 1) * MINI));
        }
#ifdef ORACLE
        oracle::boundary();
#endif
        clear_score();
        for (int i = NTRAIN; i < NTRAIN + NTEST; i++) run_graph(&set[i], 0);
        read_score(&loss, &hit);
        printf("epoch %d: train acc %.3f, test loss %.4f acc %.3f\n", ep, (float)right / NTRAIN, loss / NTEST, (float)hit / NTEST);
    }
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
#define WRITE(name, n, spread) TRY(cudaMemcpy(tmp, name, (n) * sizeof(float), cudaMemcpyDeviceToHost)); fwrite(tmp, sizeof(float), n, f);
    FOREACH_PARAM(WRITE)
    fclose(f);
    free(set);
    return 0;
}
