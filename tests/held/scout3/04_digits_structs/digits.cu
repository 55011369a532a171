/* 8x8 synthetic digits, three dense layers held in an array of structs, RMSProp. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#define NLAYERS 3
#define PIX 64
#define NCLS 10
#define NTRAIN 1200
#define NVALID 200

typedef struct {
    int nin, nout;
    float *w, *b;       /* parameters */
    float *dw, *db;     /* sums over the batch */
    float *sw, *sb;     /* running squares */
    float *out, *delta;
} layer_t;

static const int dims[NLAYERS + 1] = {PIX, 40, 24, NCLS};
static layer_t net[NLAYERS];
static unsigned seed = 99;

static float rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) * (1.0f / 16777216.0f);
}

__global__ void forward_kernel(const float *in, const float *w, const float *b, float *out,
                               int nin, int nout, int last)
{
    int s = blockIdx.x;
    for (int o = threadIdx.x; o < nout; o += blockDim.x) {
        float a = b[o];
        for (int i = 0; i < nin; i++) a += w[o * nin + i] * in[s * nin + i];
        out[s * nout + o] = last ? a : (a > 0 ? a : 0.01f * a);
    }
}

__global__ void output_delta(const float *z, const int *label, float *delta, float *loss, int *hits)
{
    int s = blockIdx.x;
    const float *zs = z + s * NCLS;
    float mx = zs[0], sum = 0;
    int best = 0;
    for (int c = 1; c < NCLS; c++) if (zs[c] > mx) { mx = zs[c]; best = c; }
    for (int c = 0; c < NCLS; c++) sum += expf(zs[c] - mx);
    int c = threadIdx.x;
    if (c < NCLS) delta[s * NCLS + c] = expf(zs[c] - mx) / sum - (c == label[s]);
    if (c == 0) {
        atomicAdd(loss, logf(sum) + mx - zs[label[s]]);
        if (best == label[s]) atomicAdd(hits, 1);
    }
}

__global__ void hidden_delta(const float *next, const float *w, const float *out, float *delta, int n, int nnext)
{
    int s = blockIdx.x;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float a = 0;
        for (int o = 0; o < nnext; o++) a += next[s * nnext + o] * w[o * n + i];
        delta[s * n + i] = out[s * n + i] > 0 ? a : 0.01f * a;
    }
}

__global__ void accumulate(const float *in, const float *delta, float *dw, float *db, int nin, int nout, int count)
{
    int o = blockIdx.x;
    for (int i = threadIdx.x; i < nin; i += blockDim.x) {
        float a = 0;
        for (int s = 0; s < count; s++) a += delta[s * nout + o] * in[s * nin + i];
        dw[o * nin + i] = a;
    }
    if (threadIdx.x == 0) {
        float a = 0;
        for (int s = 0; s < count; s++) a += delta[s * nout + o];
        db[o] = a;
    }
}

__global__ void rmsprop(float *p, const float *g, float *sq, int n, float rate, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = g[i] * scale;
    sq[i] = 0.9f * sq[i] + 0.1f * gi * gi;
    p[i] -= rate * gi / (sqrtf(sq[i]) + 1e-6f);
}

static float *dev(int n)
{
    float *p;
    cudaMalloc((void **)&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static void init_net(int batch)
{
    for (int l = 0; l < NLAYERS; l++) {
        layer_t *L = &net[l];
        L->nin = dims[l];
        L->nout = dims[l + 1];
        int n = L->nin * L->nout;
        L->w = dev(n);  L->b = dev(L->nout);
        L->dw = dev(n); L->db = dev(L->nout);
        L->sw = dev(n); L->sb = dev(L->nout);
        L->out = dev(batch * L->nout);
        L->delta = dev(batch * L->nout);
        float *h = (float *)malloc(n * sizeof(float)), r = sqrtf(6.0f / (L->nin + L->nout));
        for (int i = 0; i < n; i++) h[i] = (2 * rnd() - 1) * r;
        cudaMemcpy(L->w, h, n * sizeof(float), cudaMemcpyHostToDevice);
        free(h);
    }
}

static void forward(const float *x, int count)
{
    for (int l = 0; l < NLAYERS; l++) {
        forward_kernel<<<count, 64>>>(x, net[l].w, net[l].b, net[l].out, net[l].nin, net[l].nout, l == NLAYERS - 1);
        x = net[l].out;
    }
}

static void backward(const float *x, int count)
{
    for (int l = NLAYERS - 1; l >= 0; l--) {
        if (l < NLAYERS - 1)
            hidden_delta<<<count, 64>>>(net[l + 1].delta, net[l + 1].w, net[l].out, net[l].delta, net[l].nout, net[l + 1].nout);
        accumulate<<<net[l].nout, 64>>>(l ? net[l - 1].out : x, net[l].delta, net[l].dw, net[l].db, net[l].nin, net[l].nout, count);
    }
}

static void update(float rate, int count)
{
    for (int l = 0; l < NLAYERS; l++) {
        int n = net[l].nin * net[l].nout;
        rmsprop<<<(n + 127) / 128, 128>>>(net[l].w, net[l].dw, net[l].sw, n, rate, 1.0f / count);
        rmsprop<<<1, 128>>>(net[l].b, net[l].db, net[l].sb, net[l].nout, rate, 1.0f / count);
    }
}

int main(int argc, char **argv)
{
    int batch = argc > 1 ? atoi(argv[1]) : 40;
    int total = NTRAIN + NVALID;
    float proto[NCLS][PIX];
    for (int c = 0; c < NCLS; c++) for (int i = 0; i < PIX; i++) proto[c][i] = rnd() > 0.6f;
    float *hx = (float *)malloc(total * PIX * sizeof(float));
    int *hy = (int *)malloc(total * sizeof(int));
    for (int s = 0; s < total; s++) {
        hy[s] = (int)(rnd() * NCLS);
        for (int i = 0; i < PIX; i++) hx[s * PIX + i] = proto[hy[s]][i] + 1.6f * (rnd() - 0.5f);
    }
    float *x = dev(total * PIX), *loss = dev(1);
    int *y, *hits;
    cudaMalloc((void **)&y, total * sizeof(int));
    cudaMalloc((void **)&hits, sizeof(int));
    cudaMemcpy(x, hx, total * PIX * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, total * sizeof(int), cudaMemcpyHostToDevice);
    init_net(batch);

    for (int epoch = 0; epoch < 4; epoch++) {
        float hl = 0;
        int hh = 0;
        cudaMemset(loss, 0, sizeof(float));
        for (int s = 0; s + batch <= NTRAIN; s += batch) {
            forward(x + s * PIX, batch);
            output_delta<<<batch, 32>>>(net[NLAYERS - 1].out, y + s, net[NLAYERS - 1].delta, loss, hits);
            backward(x + s * PIX, batch);
            update(0.003f, batch);
        }
        cudaMemcpy(&hl, loss, sizeof(float), cudaMemcpyDeviceToHost);
        printf("epoch %d train loss %.5f", epoch, hl / NTRAIN);
        cudaMemset(loss, 0, sizeof(float));
        cudaMemset(hits, 0, sizeof(int));
        for (int s = NTRAIN; s + batch <= total; s += batch) {
            forward(x + s * PIX, batch);
            output_delta<<<batch, 32>>>(net[NLAYERS - 1].out, y + s, net[NLAYERS - 1].delta, loss, hits);
        }
        cudaMemcpy(&hl, loss, sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(&hh, hits, sizeof(int), cudaMemcpyDeviceToHost);
        printf("  valid loss %.5f acc %.3f\n", hl / NVALID, (float)hh / NVALID);
    }
    free(hx); free(hy);
    return 0;
}
