// Character-level language model (embedding -> tanh -> softmax), all
// parameters in one block of memory, all gradients in another, AdamW.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#define VOCAB 28
#define CTX 4
#define EMB 12
#define HID 48
#define CONCAT (CTX * EMB)

static const char *text =
    "it was the best of times it was the worst of times it was the age of wisdom it was the age of "
    "foolishness it was the epoch of belief it was the epoch of incredulity it was the season of light "
    "it was the season of darkness it was the spring of hope it was the winter of despair we had "
    "everything before us we had nothing before us we were all going direct to heaven we were all going "
    "direct the other way in short the period was so far like the present period that some of its "
    "noisiest authorities insisted on its being received for good or for evil in the superlative degree "
    "of comparison only ";

enum { P_WTE, P_W1, P_B1, P_W2, P_B2, NUM_PARAMS };
static const size_t param_sizes[NUM_PARAMS] = {VOCAB * EMB, CONCAT * HID, HID, HID * VOCAB, VOCAB};

struct Model {
    size_t offsets[NUM_PARAMS];
    size_t total;
    float *params, *grads, *m, *v;
    int B;
    float *acts, *dacts;          // enc [B,CONCAT] | h [B,HID] | logits [B,VOCAB]
    float *losses;
    int *inputs, *targets;
};

__global__ void encode(const int *in, const float *wte, float *enc, int B)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * CONCAT) return;
    int b = i / CONCAT, r = i % CONCAT;
    enc[i] = wte[in[b * CTX + r / EMB] * EMB + r % EMB];
}
__global__ void encode_backward(const int *in, float *dwte, const float *denc, int B)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * CONCAT) return;
    int b = i / CONCAT, r = i % CONCAT;
    atomicAdd(&dwte[in[b * CTX + r / EMB] * EMB + r % EMB], denc[i]);
}
__global__ void matmul(const float *x, const float *w, const float *bias, float *y, int B, int C, int OC, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * OC) return;
    int b = i / OC, o = i % OC;
    float s = bias[o];
    for (int c = 0; c < C; c++) s += x[b * C + c] * w[c * OC + o];
    y[i] = act ? tanhf(s) : s;
}
__global__ void matmul_backward_params(const float *x, const float *dy, float *dw, float *db, int B, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= C * OC) return;
    int c = i / OC, o = i % OC;
    float s = 0, sb = 0;
    for (int b = 0; b < B; b++) {
        s += x[b * C + c] * dy[b * OC + o];
        sb += dy[b * OC + o];
    }
    dw[i] += s;
    if (c == 0) db[o] += sb;
}
__global__ void matmul_backward_input(const float *dy, const float *w, float *dx, int B, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * C) return;
    int b = i / C, c = i % C;
    float s = 0;
    for (int o = 0; o < OC; o++) s += dy[b * OC + o] * w[c * OC + o];
    dx[i] = s;
}
__global__ void tanh_backward(const float *h, float *dh, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dh[i] *= 1.f - h[i] * h[i];
}
__global__ void crossentropy(const float *logits, const int *targets, float *dlogits, float *losses, int B)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    const float *l = logits + b * VOCAB;
    float mx = l[0], s = 0;
    for (int v = 1; v < VOCAB; v++) mx = fmaxf(mx, l[v]);
    for (int v = 0; v < VOCAB; v++) s += expf(l[v] - mx);
    for (int v = 0; v < VOCAB; v++) dlogits[b * VOCAB + v] = expf(l[v] - mx) / s - (v == targets[b]);
    losses[b] = logf(s) + mx - l[targets[b]];
}
__global__ void scale(float *g, float s, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) g[i] *= s;
}
__global__ void adamw(float *p, const float *g, float *m, float *v, size_t n, float lr, float bc1, float bc2)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    p[i] -= lr * (m[i] / bc1 / (sqrtf(v[i] / bc2) + 1e-8f) + 0.01f * p[i]);
}

#define GRID(n) (unsigned)(((n) + 127) / 128), 128

void model_build(Model *md, int B)
{
    md->total = 0;
    for (int i = 0; i < NUM_PARAMS; i++) { md->offsets[i] = md->total; md->total += param_sizes[i]; }
    cudaMalloc(&md->params, md->total * sizeof(float));
    cudaMalloc(&md->grads, md->total * sizeof(float));
    cudaMalloc(&md->m, md->total * sizeof(float));
    cudaMalloc(&md->v, md->total * sizeof(float));
    cudaMemset(md->m, 0, md->total * sizeof(float));
    cudaMemset(md->v, 0, md->total * sizeof(float));
    float *h = (float *)calloc(md->total, sizeof(float));
    for (int i = 0; i < NUM_PARAMS; i++) {
        float s = i == P_WTE ? 0.5f : i == P_W1 ? 0.2f : i == P_W2 ? 0.1f : 0.f;
        for (size_t j = 0; j < param_sizes[i]; j++) h[md->offsets[i] + j] = s * (2.f * rand() / RAND_MAX - 1.f);
    }
    cudaMemcpy(md->params, h, md->total * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
    md->B = B;
    cudaMalloc(&md->acts, B * (CONCAT + HID + VOCAB) * sizeof(float));
    cudaMalloc(&md->dacts, B * (CONCAT + HID + VOCAB) * sizeof(float));
    cudaMalloc(&md->losses, B * sizeof(float));
    cudaMalloc(&md->inputs, B * CTX * sizeof(int));
    cudaMalloc(&md->targets, B * sizeof(int));
}

void model_forward_backward(Model *md)
{
    int B = md->B;
    float *P = md->params, *G = md->grads;
    size_t *o = md->offsets;
    float *enc = md->acts, *h = enc + B * CONCAT, *logits = h + B * HID;
    float *denc = md->dacts, *dh = denc + B * CONCAT, *dlogits = dh + B * HID;
    encode<<<GRID(B * CONCAT)>>>(md->inputs, P + o[P_WTE], enc, B);
    matmul<<<GRID(B * HID)>>>(enc, P + o[P_W1], P + o[P_B1], h, B, CONCAT, HID, 1);
    matmul<<<GRID(B * VOCAB)>>>(h, P + o[P_W2], P + o[P_B2], logits, B, HID, VOCAB, 0);
    crossentropy<<<GRID(B)>>>(logits, md->targets, dlogits, md->losses, B);

    cudaMemset(G, 0, md->total * sizeof(float));
    matmul_backward_params<<<GRID(HID * VOCAB)>>>(h, dlogits, G + o[P_W2], G + o[P_B2], B, HID, VOCAB);
    matmul_backward_input<<<GRID(B * HID)>>>(dlogits, P + o[P_W2], dh, B, HID, VOCAB);
    tanh_backward<<<GRID(B * HID)>>>(h, dh, B * HID);
    matmul_backward_params<<<GRID(CONCAT * HID)>>>(enc, dh, G + o[P_W1], G + o[P_B1], B, CONCAT, HID);
    matmul_backward_input<<<GRID(B * CONCAT)>>>(dh, P + o[P_W1], denc, B, CONCAT, HID);
    encode_backward<<<GRID(B * CONCAT)>>>(md->inputs, G + o[P_WTE], denc, B);
    scale<<<GRID(md->total)>>>(G, 1.f / B, md->total);
}

void model_update(Model *md, float lr, int t)
{
    adamw<<<GRID(md->total)>>>(md->params, md->grads, md->m, md->v, md->total, lr,
                               1.f - powf(0.9f, t), 1.f - powf(0.99f, t));
}

int main()
{
    srand(11);
    int len = (int)strlen(text);
    int *tok = (int *)malloc(len * sizeof(int));
    for (int i = 0; i < len; i++) tok[i] = text[i] == ' ' ? 0 : text[i] - 'a' + 1;

    Model model;
    model_build(&model, 64);
    int *hin = (int *)malloc(model.B * CTX * sizeof(int)), *htg = (int *)malloc(model.B * sizeof(int));
    float *hl = (float *)malloc(model.B * sizeof(float));
    for (int step = 1; step <= 200; step++) {
        for (int b = 0; b < model.B; b++) {
            int at = rand() % (len - CTX);
            memcpy(hin + b * CTX, tok + at, CTX * sizeof(int));
            htg[b] = tok[at + CTX];
        }
        cudaMemcpy(model.inputs, hin, model.B * CTX * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(model.targets, htg, model.B * sizeof(int), cudaMemcpyHostToDevice);
        model_forward_backward(&model);
        model_update(&model, 0.005f, step);
        if (step % 20 == 0) {
            float s = 0;
            cudaMemcpy(hl, model.losses, model.B * sizeof(float), cudaMemcpyDeviceToHost);
            for (int b = 0; b < model.B; b++) s += hl[b];
            printf("step %d: loss %.5f\n", step, s / model.B);
        }
    }
    free(tok); free(hin); free(htg); free(hl);
    return 0;
}
