#include "model.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define cudaCheck(err) cuda_check(err, __FILE__, __LINE__)
static void cuda_check(cudaError_t error, const char *file, int line)
{
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

__global__ void encoder_forward(float *out, const int *inp, const float *wte, const float *wpe, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * C) out[i] = wte[inp[i / C] * C + i % C] + wpe[i / C % T * C + i % C];
}
__global__ void encoder_backward(float *dwte, float *dwpe, const float *dout, const int *inp, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * C) {
        atomicAdd(&dwte[inp[i / C] * C + i % C], dout[i]);
        atomicAdd(&dwpe[i / C % T * C + i % C], dout[i]);
    }
}
/* out (N, OC) = inp (N, C) weight (OC, C)^T + bias */
__global__ void matmul_forward(float *out, const float *inp, const float *weight, const float *bias, int N, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * OC) return;
    float v = bias ? bias[i % OC] : 0.0f;
    for (int k = 0; k < C; k++) v += inp[i / OC * C + k] * weight[i % OC * C + k];
    out[i] = v;
}
__global__ void matmul_backward_inp(float *dinp, const float *dout, const float *weight, int N, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * C) return;
    float v = 0.0f;
    for (int o = 0; o < OC; o++) v += dout[i / C * OC + o] * weight[o * C + i % C];
    dinp[i] += v;
}
__global__ void matmul_backward_weight(float *dweight, float *dbias, const float *dout, const float *inp, int N, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= OC * C) return;
    float v = 0.0f, vb = 0.0f;
    for (int n = 0; n < N; n++) {
        v += dout[n * OC + i / C] * inp[n * C + i % C];
        vb += dout[n * OC + i / C];
    }
    dweight[i] += v;
    if (dbias && i % C == 0) dbias[i / C] += vb;
}
/* one thread for each (b, t) */
__global__ void attention_forward(float *out, float *att, const float *qkv, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * T) return;
    int b = i / T;
    const float *q = qkv + i * 3 * C;
    float *a = att + i * T, mx = -1e30f, sum = 0.0f, scale = rsqrtf((float)C);
    for (int u = 0; u < T; u++) {
        const float *k = qkv + (b * T + u) * 3 * C + C;
        float s = 0.0f;
        for (int c = 0; c < C; c++) s += q[c] * k[c];
        a[u] = s * scale;
        mx = fmaxf(mx, a[u]);
    }
    for (int u = 0; u < T; u++) sum += a[u] = expf(a[u] - mx);
    for (int u = 0; u < T; u++) a[u] /= sum;
    for (int c = 0; c < C; c++) {
        float s = 0.0f;
        for (int u = 0; u < T; u++) s += a[u] * qkv[(b * T + u) * 3 * C + 2 * C + c];
        out[i * C + c] = s;
    }
}
__global__ void attention_backward(float *dqkv, float *datt, const float *dout, const float *qkv, const float *att, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * T) return;
    int b = i / T;
    const float *a = att + i * T, *d = dout + i * C;
    float *da = datt + i * T, dot = 0.0f, scale = rsqrtf((float)C);
    for (int u = 0; u < T; u++) {
        float s = 0.0f;
        for (int c = 0; c < C; c++) {
            s += d[c] * qkv[(b * T + u) * 3 * C + 2 * C + c];
            atomicAdd(&dqkv[(b * T + u) * 3 * C + 2 * C + c], a[u] * d[c]);
        }
        da[u] = s;
        dot += s * a[u];
    }
    for (int u = 0; u < T; u++) {
        float g = a[u] * (da[u] - dot) * scale;
        for (int c = 0; c < C; c++) {
            atomicAdd(&dqkv[i * 3 * C + c], g * qkv[(b * T + u) * 3 * C + C + c]);
            atomicAdd(&dqkv[(b * T + u) * 3 * C + C + c], g * qkv[i * 3 * C + c]);
        }
    }
}
__global__ void residual_pool_forward(float *pooled, float *resid, const float *encoded, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * C) return;
    float s = 0.0f;
    for (int t = 0; t < T; t++) {
        int j = (i / C * T + t) * C + i % C;
        resid[j] += encoded[j];
        s += resid[j];
    }
    pooled[i] = s / T;
}
__global__ void residual_pool_backward(float *dresid, float *dencoded, const float *dpooled, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * T * C) return;
    float g = dpooled[i / (T * C) * C + i % C] / T;
    dresid[i] += g;
    dencoded[i] += g;
}
__global__ void crossentropy(float *losses, float *dlogits, const float *logits, const int *targets, int B, int K)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float mx = -1e30f, sum = 0.0f;
    for (int k = 0; k < K; k++) mx = fmaxf(mx, logits[b * K + k]);
    for (int k = 0; k < K; k++) sum += expf(logits[b * K + k] - mx);
    for (int k = 0; k < K; k++) dlogits[b * K + k] = (expf(logits[b * K + k] - mx) / sum - (k == targets[b])) / B;
    losses[b] = logf(sum) + mx - logits[b * K + targets[b]];
}
__global__ void adamw(float *params, const float *grads, float *m, float *v, long n, float lr, float beta1, float beta2, float c1, float c2, float eps, float wd)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = grads[i];
    m[i] = beta1 * m[i] + (1.0f - beta1) * g;
    v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
    params[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + eps) + wd * params[i]);
}

static void point_parameters(ParameterTensors *p, const size_t *sizes, float *memory)
{
    float **ptrs[NUM_TENSORS] = {&p->wte, &p->wpe, &p->qkvw, &p->qkvb, &p->projw, &p->headw, &p->headb};
    for (int i = 0; i < NUM_TENSORS; i++) {
        *(ptrs[i]) = memory;
        memory += sizes[i];
    }
}
static void point_activations(Activations *a, const Config *g, int B, float *memory)
{
    float **ptrs[] = {&a->encoded, &a->qkv, &a->att, &a->atty, &a->resid, &a->pooled, &a->logits, &a->losses};
    size_t n[] = {(size_t)B * g->T * g->C, (size_t)B * g->T * 3 * g->C, (size_t)B * g->T * g->T, (size_t)B * g->T * g->C,
                  (size_t)B * g->T * g->C, (size_t)B * g->C, (size_t)B * g->K, (size_t)B};
    for (int i = 0; i < 8; i++) {
        *(ptrs[i]) = memory;
        memory += n[i];
    }
}

void model_build(Model *model, Config g, int B)
{
    size_t sizes[NUM_TENSORS] = {(size_t)g.V * g.C, (size_t)g.T * g.C, (size_t)3 * g.C * g.C, (size_t)3 * g.C,
                                 (size_t)g.C * g.C, (size_t)g.K * g.C, (size_t)g.K};
    model->config = g;
    model->batch_size = B;
    model->num_parameters = 0;
    for (int i = 0; i < NUM_TENSORS; i++) model->num_parameters += model->sizes[i] = sizes[i];
    size_t n = model->num_parameters;
    cudaCheck(cudaMalloc((void **)&model->params_memory, n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&model->grads_memory, n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&model->m_memory, n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&model->v_memory, n * sizeof(float)));
    cudaCheck(cudaMemset(model->m_memory, 0, n * sizeof(float)));
    cudaCheck(cudaMemset(model->v_memory, 0, n * sizeof(float)));
    point_parameters(&model->params, sizes, model->params_memory);
    point_parameters(&model->grads, sizes, model->grads_memory);

    float *host = (float *)malloc(n * sizeof(float)), *p = host;
    srand(1337);
    for (int i = 0; i < NUM_TENSORS; i++)
        for (size_t j = 0; j < sizes[i]; j++) *p++ = (i == 3 || i == 6) ? 0.0f : 0.3f * (2.0f * rand() / RAND_MAX - 1.0f);
    cudaCheck(cudaMemcpy(model->params_memory, host, n * sizeof(float), cudaMemcpyHostToDevice));
    free(host);

    model->num_activations = (size_t)B * (g.T * (6 * g.C + g.T) + g.C + g.K + 1);
    cudaCheck(cudaMalloc((void **)&model->acts_memory, model->num_activations * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&model->grads_acts_memory, model->num_activations * sizeof(float)));
    point_activations(&model->acts, &g, B, model->acts_memory);
    point_activations(&model->dacts, &g, B, model->grads_acts_memory);
    cudaCheck(cudaMalloc((void **)&model->inputs, B * g.T * sizeof(int)));
    cudaCheck(cudaMalloc((void **)&model->targets, B * sizeof(int)));
}

void model_forward(Model *model, const int *inputs, const int *targets, int B)
{
    Config g = model->config;
    ParameterTensors p = model->params;
    Activations a = model->acts;
    int T = g.T, C = g.C, K = g.K;
    if (B > model->batch_size) {
        printf("Error: batch size %d > %d\n", B, model->batch_size);
        exit(EXIT_FAILURE);
    }
    cudaCheck(cudaMemcpy(model->inputs, inputs, B * T * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(model->targets, targets, B * sizeof(int), cudaMemcpyHostToDevice));
    encoder_forward<<<CEIL_DIV(B * T * C, 128), 128>>>(a.encoded, model->inputs, p.wte, p.wpe, B, T, C);
    matmul_forward<<<CEIL_DIV(B * T * 3 * C, 128), 128>>>(a.qkv, a.encoded, p.qkvw, p.qkvb, B * T, C, 3 * C);
    attention_forward<<<CEIL_DIV(B * T, 64), 64>>>(a.atty, a.att, a.qkv, B, T, C);
    matmul_forward<<<CEIL_DIV(B * T * C, 128), 128>>>(a.resid, a.atty, p.projw, NULL, B * T, C, C);
    residual_pool_forward<<<CEIL_DIV(B * C, 128), 128>>>(a.pooled, a.resid, a.encoded, B, T, C);
    matmul_forward<<<CEIL_DIV(B * K, 128), 128>>>(a.logits, a.pooled, p.headw, p.headb, B, C, K);
    cudaCheck(cudaMemset(model->grads_acts_memory, 0, model->num_activations * sizeof(float)));
    crossentropy<<<CEIL_DIV(B, 64), 64>>>(a.losses, model->dacts.logits, a.logits, model->targets, B, K);
    float *losses = (float *)malloc(B * sizeof(float));
    cudaCheck(cudaMemcpy(losses, a.losses, B * sizeof(float), cudaMemcpyDeviceToHost));
    model->mean_loss = 0.0f;
    for (int i = 0; i < B; i++) model->mean_loss += losses[i];
    model->mean_loss /= B;
    free(losses);
}

void model_zero_grad(Model *model)
{
    cudaCheck(cudaMemset(model->grads_memory, 0, model->num_parameters * sizeof(float)));
}

void model_backward(Model *model)
{
    Config g = model->config;
    ParameterTensors p = model->params, d = model->grads;
    Activations a = model->acts, da = model->dacts;
    int B = model->batch_size, T = g.T, C = g.C, K = g.K;
    matmul_backward_weight<<<CEIL_DIV(K * C, 128), 128>>>(d.headw, d.headb, da.logits, a.pooled, B, C, K);
    matmul_backward_inp<<<CEIL_DIV(B * C, 128), 128>>>(da.pooled, da.logits, p.headw, B, C, K);
    residual_pool_backward<<<CEIL_DIV(B * T * C, 128), 128>>>(da.resid, da.encoded, da.pooled, B, T, C);
    matmul_backward_weight<<<CEIL_DIV(C * C, 128), 128>>>(d.projw, NULL, da.resid, a.atty, B * T, C, C);
    matmul_backward_inp<<<CEIL_DIV(B * T * C, 128), 128>>>(da.atty, da.resid, p.projw, B * T, C, C);
    attention_backward<<<CEIL_DIV(B * T, 64), 64>>>(da.qkv, da.att, da.atty, a.qkv, a.att, B, T, C);
    matmul_backward_weight<<<CEIL_DIV(3 * C * C, 128), 128>>>(d.qkvw, d.qkvb, da.qkv, a.encoded, B * T, C, 3 * C);
    matmul_backward_inp<<<CEIL_DIV(B * T * C, 128), 128>>>(da.encoded, da.qkv, p.qkvw, B * T, C, 3 * C);
    encoder_backward<<<CEIL_DIV(B * T * C, 128), 128>>>(d.wte, d.wpe, da.encoded, model->inputs, B, T, C);
}

void model_update(Model *model, float lr, float beta1, float beta2, float eps, float wd, int t)
{
    adamw<<<CEIL_DIV(model->num_parameters, 256), 256>>>(model->params_memory, model->grads_memory, model->m_memory, model->v_memory,
                                                         (long)model->num_parameters, lr, beta1, beta2, 1.0f - powf(beta1, t), 1.0f - powf(beta2, t), eps, wd);
}

void model_free(Model *model)
{
    cudaFree(model->params_memory); cudaFree(model->grads_memory); cudaFree(model->m_memory); cudaFree(model->v_memory);
    cudaFree(model->acts_memory); cudaFree(model->grads_acts_memory); cudaFree(model->inputs); cudaFree(model->targets);
}
