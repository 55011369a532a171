/*
A very small GPT (one block) in one file, in the manner of llm.c: parameters and gradients are single allocations with a
table of pointers into them; gradients are accumulated over several micro batches, clipped by their global norm, and used
by AdamW under a cosine schedule with warmup.
*/
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))

void cuda_check(cudaError_t error, const char *file, int line)
{
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ----------------------------------------------------------------------------
// random numbers

unsigned int random_u32(unsigned long long *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545F4914F6CDD1Dull) >> 32;
}
float random_f32(unsigned long long *state) { return (random_u32(state) >> 8) / 16777216.0f; }

// ----------------------------------------------------------------------------
// kernels; backward kernels add to the gradients of parameters

__global__ void encoder_forward(float *out, const int *inp, const float *wte, const float *wpe, int N, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N * C) {
        int bt = i / C, c = i % C;
        out[i] = wte[inp[bt] * C + c] + wpe[(bt % T) * C + c];
    }
}

__global__ void encoder_backward(float *dwte, float *dwpe, const float *dout, const int *inp, int N, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N * C) {
        int bt = i / C, c = i % C;
        atomicAdd(&dwte[inp[bt] * C + c], dout[i]);
        atomicAdd(&dwpe[(bt % T) * C + c], dout[i]);
    }
}

__global__ void layernorm_forward(float *out, float *mean, float *rstd, const float *inp, const float *w, const float *b,
                                  int N, int C)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    const float *x = inp + n * C;
    float m = 0, v = 0;
    for (int c = 0; c < C; c++) m += x[c];
    m /= C;
    for (int c = 0; c < C; c++) v += (x[c] - m) * (x[c] - m);
    float s = 1.0f / sqrtf(v / C + 1e-5f);
    for (int c = 0; c < C; c++) out[n * C + c] = s * (x[c] - m) * w[c] + b[c];
    mean[n] = m;
    rstd[n] = s;
}

// dinp +=
__global__ void layernorm_backward(float *dinp, float *dw, float *db, const float *dout, const float *inp, const float *w,
                                   const float *mean, const float *rstd, int N, int C)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    const float *x = inp + n * C, *dy = dout + n * C;
    float a = 0, bsum = 0;
    for (int c = 0; c < C; c++) {
        float norm = (x[c] - mean[n]) * rstd[n];
        a += w[c] * dy[c];
        bsum += w[c] * dy[c] * norm;
    }
    a /= C;
    bsum /= C;
    for (int c = 0; c < C; c++) {
        float norm = (x[c] - mean[n]) * rstd[n];
        atomicAdd(&db[c], dy[c]);
        atomicAdd(&dw[c], norm * dy[c]);
        dinp[n * C + c] += (w[c] * dy[c] - a - norm * bsum) * rstd[n];
    }
}

// out (N, OC) = inp (N, C) weight^T (OC, C) + bias
__global__ void matmul_forward(float *out, const float *inp, const float *w, const float *b, int N, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N * OC) {
        int n = i / OC, o = i % OC;
        float s = b ? b[o] : 0.0f;
        for (int c = 0; c < C; c++) s += inp[n * C + c] * w[o * C + c];
        out[i] = s;
    }
}

__global__ void matmul_backward_inp(float *dinp, const float *dout, const float *w, int N, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N * C) {
        int n = i / C, c = i % C;
        float s = 0;
        for (int o = 0; o < OC; o++) s += dout[n * OC + o] * w[o * C + c];
        dinp[i] = s;
    }
}

__global__ void matmul_backward_weight(float *dw, float *db, const float *dout, const float *inp, int N, int C, int OC)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < OC * C) {
        int o = i / C, c = i % C;
        float s = 0;
        for (int n = 0; n < N; n++) s += dout[n * OC + o] * inp[n * C + c];
        dw[i] += s;
        if (db && c == 0) {
            s = 0;
            for (int n = 0; n < N; n++) s += dout[n * OC + o];
            db[o] += s;
        }
    }
}

// a thread for each (b, head, t); qkv: (B, T, 3, NH, HS), att: (B, NH, T, T)
__global__ void attention_forward(float *out, float *att, const float *qkv, int B, int T, int C, int NH)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * NH * T) return;
    int t = i % T, h = i / T % NH, b = i / (T * NH), HS = C / NH;
    const float *q = qkv + (b * T + t) * 3 * C + h * HS;
    float *a = att + i * T;
    float maxval = -1e30f, sum = 0, scale = rsqrtf((float)HS);
    for (int t2 = 0; t2 <= t; t2++) {
        const float *k = qkv + (b * T + t2) * 3 * C + C + h * HS;
        float s = 0;
        for (int j = 0; j < HS; j++) s += q[j] * k[j];
        a[t2] = s * scale;
        maxval = fmaxf(maxval, a[t2]);
    }
    for (int t2 = 0; t2 <= t; t2++) sum += a[t2] = expf(a[t2] - maxval);
    float *o = out + (b * T + t) * C + h * HS;
    for (int j = 0; j < HS; j++) o[j] = 0;
    for (int t2 = 0; t2 <= t; t2++) {
        a[t2] /= sum;
        const float *v = qkv + (b * T + t2) * 3 * C + 2 * C + h * HS;
        for (int j = 0; j < HS; j++) o[j] += a[t2] * v[j];
    }
}

// a thread for each (b, head)
__global__ void attention_backward(float *dqkv, const float *dout, const float *att, const float *qkv, int B, int T, int C,
                                   int NH)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * NH) return;
    int h = i % NH, b = i / NH, HS = C / NH;
    float scale = rsqrtf((float)HS);
    for (int t = 0; t < T; t++)
        for (int part = 0; part < 3; part++)
            for (int j = 0; j < HS; j++) dqkv[(b * T + t) * 3 * C + part * C + h * HS + j] = 0;
    for (int t = 0; t < T; t++) {
        const float *a = att + (i * T + t) * T;
        const float *g = dout + (b * T + t) * C + h * HS;
        const float *q = qkv + (b * T + t) * 3 * C + h * HS;
        float *dq = dqkv + (b * T + t) * 3 * C + h * HS;
        float dot = 0;
        for (int t2 = 0; t2 <= t; t2++) {
            const float *v = qkv + (b * T + t2) * 3 * C + 2 * C + h * HS;
            float s = 0;
            for (int j = 0; j < HS; j++) s += g[j] * v[j];
            dot += s * a[t2];
        }
        for (int t2 = 0; t2 <= t; t2++) {
            const float *k = qkv + (b * T + t2) * 3 * C + C + h * HS;
            const float *v = k + C;
            float *dk = dqkv + (b * T + t2) * 3 * C + C + h * HS, *dv = dk + C;
            float s = 0;
            for (int j = 0; j < HS; j++) s += g[j] * v[j];
            float ds = a[t2] * (s - dot) * scale;
            for (int j = 0; j < HS; j++) {
                dv[j] += a[t2] * g[j];
                dq[j] += ds * k[j];
                dk[j] += ds * q[j];
            }
        }
    }
}

__global__ void residual_forward(float *out, const float *a, const float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

#define GELU_K 0.7978845608f
__global__ void gelu_forward(float *out, const float *inp, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = inp[i];
        out[i] = 0.5f * x * (1.0f + tanhf(GELU_K * (x + 0.044715f * x * x * x)));
    }
}

__global__ void gelu_backward(float *dx, const float *inp, int n)   // in place
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = inp[i];
        float th = tanhf(GELU_K * (x + 0.044715f * x * x * x));
        dx[i] *= 0.5f * (1.0f + th) + 0.5f * x * (1.0f - th * th) * GELU_K * (1.0f + 3.0f * 0.044715f * x * x);
    }
}

// logits become dlogits
__global__ void fused_classifier(float *logits, float *losses, const int *targets, float dloss, int N, int V)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float *z = logits + n * V;
    float m = z[0], sum = 0;
    for (int v = 1; v < V; v++) m = fmaxf(m, z[v]);
    for (int v = 0; v < V; v++) sum += expf(z[v] - m);
    losses[n] = logf(sum) + m - z[targets[n]];
    for (int v = 0; v < V; v++) z[v] = (expf(z[v] - m) / sum - (v == targets[n])) * dloss;
}

__global__ void global_norm(const float *grads, int n, float *out)
{
    __shared__ float part[256];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 256) s += grads[i] * grads[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int h = 128; h > 0; h >>= 1) {
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sqrtf(part[0]);
}

__global__ void adamw(float *p, const float *g, float *m, float *v, int n, float lr, float c1, float c2, float grad_scale,
                      float weight_decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float grad = grad_scale * g[i];
    m[i] = 0.9f * m[i] + 0.1f * grad;
    v[i] = 0.99f * v[i] + 0.01f * grad * grad;
    p[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-8f) + weight_decay * p[i]);
}

// ----------------------------------------------------------------------------
// the model

typedef struct {
    int max_seq_len, vocab_size, num_heads, channels;
} GPTConfig;

#define NUM_PARAMETER_TENSORS 16
typedef struct {
    float *wte;      // (V, C)
    float *wpe;      // (maxT, C)
    float *ln1w;     // (C)
    float *ln1b;     // (C)
    float *qkvw;     // (3*C, C)
    float *qkvb;     // (3*C)
    float *attprojw; // (C, C)
    float *attprojb; // (C)
    float *ln2w;     // (C)
    float *ln2b;     // (C)
    float *fcw;      // (4*C, C)
    float *fcb;      // (4*C)
    float *fcprojw;  // (C, 4*C)
    float *fcprojb;  // (C)
    float *lnfw;     // (C)
    float *lnfb;     // (C)
} ParameterTensors;

void fill_in_parameter_sizes(size_t *sizes, GPTConfig c)
{
    size_t V = c.vocab_size, T = c.max_seq_len, C = c.channels;
    size_t s[NUM_PARAMETER_TENSORS] = {V * C, T * C, C, C, 3 * C * C, 3 * C, C * C, C, C, C, 4 * C * C, 4 * C, 4 * C * C, C,
                                       C, C};
    memcpy(sizes, s, sizeof s);
}

float *malloc_and_point_parameters(ParameterTensors *params, const size_t *sizes)
{
    size_t total = 0;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) total += sizes[i];
    float *memory;
    cudaCheck(cudaMalloc((void **)&memory, total * sizeof(float)));
    float **ptrs = (float **)params;
    float *it = memory;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) {
        ptrs[i] = it;
        it += sizes[i];
    }
    return memory;
}

typedef struct {
    GPTConfig config;
    ParameterTensors params, grads;
    size_t param_sizes[NUM_PARAMETER_TENSORS];
    size_t num_parameters;
    float *params_memory, *grads_memory, *m_memory, *v_memory;
    // activations of one micro batch
    int B, T;
    float *encoded, *ln1, *ln1_mean, *ln1_rstd, *qkv, *atty, *att, *attproj, *residual2, *ln2, *ln2_mean, *ln2_rstd, *fch,
        *fch_gelu, *fcproj, *residual3, *lnf, *lnf_mean, *lnf_rstd, *logits, *losses;
    // gradients of activations
    float *dresidual, *dln, *dqkv, *datty, *dfch;
    int *inputs, *targets;
    float *norm;
    float mean_loss;
} GPT;

float *activation(size_t n)
{
    float *p;
    cudaCheck(cudaMalloc((void **)&p, n * sizeof(float)));
    return p;
}

void gpt_build(GPT *model, GPTConfig config, int B, int T)
{
    model->config = config;
    model->B = B;
    model->T = T;
    fill_in_parameter_sizes(model->param_sizes, config);
    model->num_parameters = 0;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) model->num_parameters += model->param_sizes[i];
    model->params_memory = malloc_and_point_parameters(&model->params, model->param_sizes);
    model->grads_memory = malloc_and_point_parameters(&model->grads, model->param_sizes);
    size_t bytes = model->num_parameters * sizeof(float);
    cudaCheck(cudaMalloc((void **)&model->m_memory, bytes));
    cudaCheck(cudaMalloc((void **)&model->v_memory, bytes));
    cudaCheck(cudaMemset(model->m_memory, 0, bytes));
    cudaCheck(cudaMemset(model->v_memory, 0, bytes));

    float *h = (float *)calloc(model->num_parameters, sizeof(float));
    unsigned long long rng = 1337;
    size_t off = 0;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) {
        bool is_ln_weight = i == 2 || i == 8 || i == 14;
        bool is_matrix = i == 0 || i == 1 || i == 4 || i == 6 || i == 10 || i == 12;
        for (size_t j = 0; j < model->param_sizes[i]; j++)
            h[off + j] = is_ln_weight ? 1.0f : is_matrix ? 0.16f * (random_f32(&rng) + random_f32(&rng) - 1.0f) : 0.0f;
        off += model->param_sizes[i];
    }
    cudaCheck(cudaMemcpy(model->params_memory, h, bytes, cudaMemcpyHostToDevice));
    free(h);

    size_t N = B * T, C = config.channels, V = config.vocab_size;
    model->encoded = activation(N * C);
    model->ln1 = activation(N * C), model->ln1_mean = activation(N), model->ln1_rstd = activation(N);
    model->qkv = activation(N * 3 * C);
    model->atty = activation(N * C);
    model->att = activation(B * config.num_heads * T * T);
    model->attproj = activation(N * C);
    model->residual2 = activation(N * C);
    model->ln2 = activation(N * C), model->ln2_mean = activation(N), model->ln2_rstd = activation(N);
    model->fch = activation(N * 4 * C), model->fch_gelu = activation(N * 4 * C);
    model->fcproj = activation(N * C);
    model->residual3 = activation(N * C);
    model->lnf = activation(N * C), model->lnf_mean = activation(N), model->lnf_rstd = activation(N);
    model->logits = activation(N * V);
    model->losses = activation(N);
    model->dresidual = activation(N * C);
    model->dln = activation(N * C);
    model->dqkv = activation(N * 3 * C);
    model->datty = activation(N * C);
    model->dfch = activation(N * 4 * C);
    model->norm = activation(1);
    cudaCheck(cudaMalloc((void **)&model->inputs, N * sizeof(int)));
    cudaCheck(cudaMalloc((void **)&model->targets, N * sizeof(int)));
}

void gpt_zero_grad(GPT *model)
{
    cudaCheck(cudaMemset(model->grads_memory, 0, model->num_parameters * sizeof(float)));
}

#define LAUNCH(kernel, n, ...) kernel<<<CEIL_DIV((n), 64), 64>>>(__VA_ARGS__)

void gpt_forward(GPT *model, const int *inputs, const int *targets, int grad_accum_steps)
{
    GPT *m = model;
    ParameterTensors p = m->params;
    int B = m->B, T = m->T, N = B * T, C = m->config.channels, V = m->config.vocab_size, NH = m->config.num_heads;
    cudaCheck(cudaMemcpy(m->inputs, inputs, N * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(m->targets, targets, N * sizeof(int), cudaMemcpyHostToDevice));

    LAUNCH(encoder_forward, N * C, m->encoded, m->inputs, p.wte, p.wpe, N, T, C);
    LAUNCH(layernorm_forward, N, m->ln1, m->ln1_mean, m->ln1_rstd, m->encoded, p.ln1w, p.ln1b, N, C);
    LAUNCH(matmul_forward, N * 3 * C, m->qkv, m->ln1, p.qkvw, p.qkvb, N, C, 3 * C);
    LAUNCH(attention_forward, B * NH * T, m->atty, m->att, m->qkv, B, T, C, NH);
    LAUNCH(matmul_forward, N * C, m->attproj, m->atty, p.attprojw, p.attprojb, N, C, C);
    LAUNCH(residual_forward, N * C, m->residual2, m->encoded, m->attproj, N * C);
    LAUNCH(layernorm_forward, N, m->ln2, m->ln2_mean, m->ln2_rstd, m->residual2, p.ln2w, p.ln2b, N, C);
    LAUNCH(matmul_forward, N * 4 * C, m->fch, m->ln2, p.fcw, p.fcb, N, C, 4 * C);
    LAUNCH(gelu_forward, N * 4 * C, m->fch_gelu, m->fch, N * 4 * C);
    LAUNCH(matmul_forward, N * C, m->fcproj, m->fch_gelu, p.fcprojw, p.fcprojb, N, 4 * C, C);
    LAUNCH(residual_forward, N * C, m->residual3, m->residual2, m->fcproj, N * C);
    LAUNCH(layernorm_forward, N, m->lnf, m->lnf_mean, m->lnf_rstd, m->residual3, p.lnfw, p.lnfb, N, C);
    LAUNCH(matmul_forward, N * V, m->logits, m->lnf, p.wte, (const float *)NULL, N, C, V);
    LAUNCH(fused_classifier, N, m->logits, m->losses, m->targets, 1.0f / (N * grad_accum_steps), N, V);

    float *losses = (float *)malloc(N * sizeof(float));
    cudaCheck(cudaMemcpy(losses, m->losses, N * sizeof(float), cudaMemcpyDeviceToHost));
    m->mean_loss = 0;
    for (int i = 0; i < N; i++) m->mean_loss += losses[i] / N;
    free(losses);
}

void gpt_backward(GPT *model)
{
    GPT *m = model;
    ParameterTensors p = m->params, g = m->grads;
    int B = m->B, T = m->T, N = B * T, C = m->config.channels, V = m->config.vocab_size, NH = m->config.num_heads;

    LAUNCH(matmul_backward_weight, V * C, g.wte, (float *)NULL, m->logits, m->lnf, N, C, V);
    LAUNCH(matmul_backward_inp, N * C, m->dln, m->logits, p.wte, N, C, V);
    cudaCheck(cudaMemset(m->dresidual, 0, N * C * sizeof(float)));
    LAUNCH(layernorm_backward, N, m->dresidual, g.lnfw, g.lnfb, m->dln, m->residual3, p.lnfw, m->lnf_mean, m->lnf_rstd, N, C);

    LAUNCH(matmul_backward_weight, 4 * C * C, g.fcprojw, g.fcprojb, m->dresidual, m->fch_gelu, N, 4 * C, C);
    LAUNCH(matmul_backward_inp, N * 4 * C, m->dfch, m->dresidual, p.fcprojw, N, 4 * C, C);
    LAUNCH(gelu_backward, N * 4 * C, m->dfch, m->fch, N * 4 * C);
    LAUNCH(matmul_backward_weight, 4 * C * C, g.fcw, g.fcb, m->dfch, m->ln2, N, C, 4 * C);
    LAUNCH(matmul_backward_inp, N * C, m->dln, m->dfch, p.fcw, N, C, 4 * C);
    LAUNCH(layernorm_backward, N, m->dresidual, g.ln2w, g.ln2b, m->dln, m->residual2, p.ln2w, m->ln2_mean, m->ln2_rstd, N, C);

    LAUNCH(matmul_backward_weight, C * C, g.attprojw, g.attprojb, m->dresidual, m->atty, N, C, C);
    LAUNCH(matmul_backward_inp, N * C, m->datty, m->dresidual, p.attprojw, N, C, C);
    LAUNCH(attention_backward, B * NH, m->dqkv, m->datty, m->att, m->qkv, B, T, C, NH);
    LAUNCH(matmul_backward_weight, 3 * C * C, g.qkvw, g.qkvb, m->dqkv, m->ln1, N, C, 3 * C);
    LAUNCH(matmul_backward_inp, N * C, m->dln, m->dqkv, p.qkvw, N, C, 3 * C);
    LAUNCH(layernorm_backward, N, m->dresidual, g.ln1w, g.ln1b, m->dln, m->encoded, p.ln1w, m->ln1_mean, m->ln1_rstd, N, C);
    LAUNCH(encoder_backward, N * C, g.wte, g.wpe, m->dresidual, m->inputs, N, T, C);
}

float gpt_update(GPT *model, float learning_rate, int t)
{
    const float grad_clip = 1.0f;
    float norm;
    global_norm<<<1, 256>>>(model->grads_memory, model->num_parameters, model->norm);
    cudaCheck(cudaMemcpy(&norm, model->norm, sizeof(float), cudaMemcpyDeviceToHost));
    float scale = norm > grad_clip ? grad_clip / norm : 1.0f;
    LAUNCH(adamw, model->num_parameters, model->params_memory, model->grads_memory, model->m_memory, model->v_memory,
           model->num_parameters, learning_rate, 1.0f - powf(0.9f, t), 1.0f - powf(0.99f, t), scale, 0.01f);
    cudaCheck(cudaGetLastError());
    return norm;
}

// ----------------------------------------------------------------------------
// data: sequences a, b, a+b, a+2b, ... modulo the vocabulary, with a separator

typedef struct {
    int B, T, *inputs, *targets;
    unsigned long long rng;
} DataLoader;

void dataloader_init(DataLoader *loader, int B, int T)
{
    loader->B = B;
    loader->T = T;
    loader->inputs = (int *)malloc(B * T * sizeof(int));
    loader->targets = (int *)malloc(B * T * sizeof(int));
    loader->rng = 4242;
}

void dataloader_next_batch(DataLoader *loader, int vocab)
{
    for (int b = 0; b < loader->B; b++) {
        int x = random_u32(&loader->rng) % vocab, stride = 1 + random_u32(&loader->rng) % 3;
        for (int t = 0; t < loader->T; t++) {
            loader->inputs[b * loader->T + t] = x;
            x = (x + stride) % vocab;
            loader->targets[b * loader->T + t] = x;
        }
    }
}

int main()
{
    const int B = 8, T = 12;
    const int total_batch_size = 32 * T;      // tokens in a step
    const int num_steps = 100, warmup = 8;
    const float max_lr = 2e-2f;
    assert(total_batch_size % (B * T) == 0);
    const int grad_accum_steps = total_batch_size / (B * T);

    GPTConfig config = {T, 28, 2, 16};
    GPT model;
    gpt_build(&model, config, B, T);
    DataLoader loader;
    dataloader_init(&loader, B, T);
    printf("parameters: %zu, gradient accumulation steps: %d\n", model.num_parameters, grad_accum_steps);

    for (int step = 0; step < num_steps; step++) {
        float lossf = 0.0f;
        gpt_zero_grad(&model);
        for (int micro_step = 0; micro_step < grad_accum_steps; micro_step++) {
            dataloader_next_batch(&loader, config.vocab_size);
            gpt_forward(&model, loader.inputs, loader.targets, grad_accum_steps);
            lossf += model.mean_loss / grad_accum_steps;
            gpt_backward(&model);
        }
        float lr = step < warmup ? max_lr * (step + 1) / warmup
                                 : 0.1f * max_lr + 0.45f * max_lr * (1 + cosf(3.14159265f * (step - warmup) / (num_steps - warmup)));
        float norm = gpt_update(&model, lr, step + 1);
        if (step % 10 == 0 || step == num_steps - 1)
            printf("step %4d/%d | train loss %f | norm %.4f | lr %.2e\n", step + 1, num_steps, lossf, norm, lr);
    }
    return 0;
}
