/* char-lstm: minimal character level LSTM language model. After Karpathy's min-char-rnn, on the GPU and in batches. */
#include <assert.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text =
    "the quick brown fox jumps over the lazy dog. the dog sleeps in the sun and the fox runs through the wood. "
    "when the sun goes down the dog wakes up and looks for the fox, but the fox is gone and the wood is dark. "
    "then the dog goes home to sleep, and the fox comes back to the sun of the next day and jumps over the dog. ";

#define H 24
#define T 6
#define B 32
#define MAXV 40
#define STEPS 60

enum { WE, WX, WH, BG, WO, BO, NPARAM };

struct Buffers {
    float *h[T + 1], *c[T + 1];   /* B x H */
    float *gates[T];              /* B x 4H, after the nonlinearity: i f o g */
    float *prob[T];               /* B x V */
};

static int V;
static float *param[NPARAM], *grad[NPARAM], *mem[NPARAM];
static int psize[NPARAM];

__global__ void lstm_forward(const int *ch, const float *we, const float *wx, const float *wh, const float *bg,
                             const float *h0, const float *c0, float *gates, float *h1, float *c1)
{
    int b = blockIdx.x, j = threadIdx.x; /* 4H threads */
    __shared__ float z[4 * H];
    float s = bg[j];
    for (int k = 0; k < H; k++)
        s += we[ch[b] * H + k] * wx[k * 4 * H + j] + h0[b * H + k] * wh[k * 4 * H + j];
    z[j] = j < 3 * H ? 1.f / (1.f + expf(-s)) : tanhf(s);
    gates[b * 4 * H + j] = z[j];
    __syncthreads();
    if (j < H) {
        float c = z[H + j] * c0[b * H + j] + z[j] * z[3 * H + j];
        c1[b * H + j] = c;
        h1[b * H + j] = z[2 * H + j] * tanhf(c);
    }
}

__global__ void output_forward(const float *h, const float *wo, const float *bo, const int *next, float *prob, float *loss, int V)
{
    int b = blockIdx.x, v = threadIdx.x;
    __shared__ float e[MAXV];
    float s = bo[v];
    for (int k = 0; k < H; k++) s += h[b * H + k] * wo[k * V + v];
    e[v] = expf(s);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < V; i++) sum += e[i];
    prob[b * V + v] = e[v] / sum;
    if (v == next[b]) atomicAdd(loss, -logf(e[v] / sum));
}

__global__ void output_backward(float *prob, const int *next, const float *h, const float *wo, float *dwo, float *dbo, float *dh, int V)
{
    int b = blockIdx.x, k = threadIdx.x; /* H threads */
    float s = 0;
    for (int v = 0; v < V; v++) {
        float d = prob[b * V + v] - (v == next[b]);
        s += d * wo[k * V + v];
        atomicAdd(&dwo[k * V + v], d * h[b * H + k]);
        if (k == 0) atomicAdd(&dbo[v], d);
    }
    dh[b * H + k] += s;
}

__global__ void lstm_backward(const int *ch, const float *we, const float *wx, const float *wh, const float *gates, const float *c0,
                              const float *c1, const float *h0, float *dwe, float *dwx, float *dwh, float *dbg, float *dh, float *dc)
{
    int b = blockIdx.x, j = threadIdx.x; /* H threads */
    __shared__ float dz[4 * H];
    const float *g = gates + b * 4 * H;
    float i = g[j], f = g[H + j], o = g[2 * H + j], a = g[3 * H + j];
    float tc = tanhf(c1[b * H + j]);
    float dct = dc[b * H + j] + dh[b * H + j] * o * (1 - tc * tc);
    dz[j] = dct * a * i * (1 - i);
    dz[H + j] = dct * c0[b * H + j] * f * (1 - f);
    dz[2 * H + j] = dh[b * H + j] * tc * o * (1 - o);
    dz[3 * H + j] = dct * i * (1 - a * a);
    dc[b * H + j] = dct * f;
    __syncthreads();
    float se = 0, sh = 0;
    for (int q = 0; q < 4 * H; q++) {
        se += dz[q] * wx[j * 4 * H + q];
        sh += dz[q] * wh[j * 4 * H + q];
        atomicAdd(&dwx[j * 4 * H + q], we[ch[b] * H + j] * dz[q]);
        atomicAdd(&dwh[j * 4 * H + q], h0[b * H + j] * dz[q]);
    }
    for (int q = 0; q < 4; q++) atomicAdd(&dbg[q * H + j], dz[q * H + j]);
    atomicAdd(&dwe[ch[b] * H + j], se);
    dh[b * H + j] = sh;
}

__global__ void rmsprop(float *w, float *g, float *m, int n, float lr, float norm)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i] * norm;
    d = fminf(fmaxf(d, -1.f), 1.f);
    m[i] = 0.9f * m[i] + 0.1f * d * d;
    w[i] -= lr * d / (sqrtf(m[i]) + 1e-5f);
    g[i] = 0;
}

static float *dev(int n)
{
    float *p;
    cudaError_t e = cudaMalloc((void **)&p, n * sizeof(float));
    assert(e == cudaSuccess);
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static float uniform(void) { return 2.f * rand() / RAND_MAX - 1.f; }

int main(void)
{
    int index[256], len = (int)strlen(text), i, t, b;
    memset(index, -1, sizeof(index));
    for (i = 0; i < len; i++)
        if (index[(unsigned char)text[i]] < 0) index[(unsigned char)text[i]] = V++;
    assert(V <= MAXV);
    printf("%d characters, %d different\n", len, V);

    srand(1);
    int sizes[NPARAM] = {V * H, H * 4 * H, H * 4 * H, 4 * H, H * V, V};
    for (i = 0; i < NPARAM; i++) {
        psize[i] = sizes[i];
        param[i] = dev(sizes[i]);
        grad[i] = dev(sizes[i]);
        mem[i] = dev(sizes[i]);
        if (i == BG || i == BO) continue;
        float *tmp = (float *)malloc(sizes[i] * sizeof(float));
        for (int k = 0; k < sizes[i]; k++) tmp[k] = 0.2f * uniform();
        cudaMemcpy(param[i], tmp, sizes[i] * sizeof(float), cudaMemcpyHostToDevice);
        free(tmp);
    }

    struct Buffers s;
    for (t = 0; t <= T; t++) {
        s.h[t] = dev(B * H);
        s.c[t] = dev(B * H);
        if (t < T) {
            s.gates[t] = dev(B * 4 * H);
            s.prob[t] = dev(B * V);
        }
    }
    float *dh = dev(B * H), *dc = dev(B * H), *loss = dev(1);
    int *chars, hchars[T + 1][B];
    cudaMalloc((void **)&chars, sizeof(hchars));

    float smooth = -1;
    for (int step = 1; step <= STEPS; step++) {
        for (b = 0; b < B; b++) {
            int start = rand() % (len - T - 1);
            for (t = 0; t <= T; t++) hchars[t][b] = index[(unsigned char)text[start + t]];
        }
        cudaMemcpy(chars, hchars, sizeof(hchars), cudaMemcpyHostToDevice);
        cudaMemset(loss, 0, sizeof(float));
        for (t = 0; t < T; t++) {
            lstm_forward<<<B, 4 * H>>>(chars + t * B, param[WE], param[WX], param[WH], param[BG], s.h[t], s.c[t], s.gates[t], s.h[t + 1], s.c[t + 1]);
            output_forward<<<B, V>>>(s.h[t + 1], param[WO], param[BO], chars + (t + 1) * B, s.prob[t], loss, V);
        }
        cudaMemset(dh, 0, B * H * sizeof(float));
        cudaMemset(dc, 0, B * H * sizeof(float));
        for (t = T - 1; t >= 0; t--) {
            output_backward<<<B, H>>>(s.prob[t], chars + (t + 1) * B, s.h[t + 1], param[WO], grad[WO], grad[BO], dh, V);
            lstm_backward<<<B, H>>>(chars + t * B, param[WE], param[WX], param[WH], s.gates[t], s.c[t], s.c[t + 1], s.h[t],
                                    grad[WE], grad[WX], grad[WH], grad[BG], dh, dc);
        }
        for (i = 0; i < NPARAM; i++)
            rmsprop<<<(psize[i] + 255) / 256, 256>>>(param[i], grad[i], mem[i], psize[i], 0.01f, 1.f / (B * T));
        float l;
        cudaMemcpy(&l, loss, sizeof(float), cudaMemcpyDeviceToHost);
        l /= B * T;
        smooth = smooth < 0 ? l : 0.9f * smooth + 0.1f * l;
        if (step % 15 == 0 || step == 1) printf("step %d, loss %.4f\n", step, smooth);
    }
    return 0;
}
