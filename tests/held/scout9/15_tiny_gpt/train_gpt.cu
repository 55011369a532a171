/*
A one-block, one-head GPT in plain CUDA, in the manner of llm.c: all parameters in one allocation, all gradients in
another, activations in a third, which are allocated when they are needed first.
*/
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

void cuda_check(cudaError_t error, const char *file, int line)
{
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ----------------------------------------------------------------------------
// kernels

__global__ void encoder_forward_kernel(float *out, const int *inp, const float *wte, const float *wpe, int B, int T, int C)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, t = bt % T, c = idx % C;
        out[idx] = wte[inp[bt] * C + c] + wpe[t * C + c];
    }
}

__global__ void encoder_backward_kernel(float *dwte, float *dwpe, const float *dout, const int *inp, int B, int T, int C)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, t = bt % T, c = idx % C;
        atomicAdd(&dwte[inp[bt] * C + c], dout[idx]);
        atomicAdd(&dwpe[t * C + c], dout[idx]);
    }
}

// out (N,OC) = inp (N,C) * weight (OC,C)^T + bias
__global__ void matmul_forward_kernel(float *out, const float *inp, const float *weight, const float *bias, int N, int C, int OC)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N * OC) {
        int n = idx / OC, o = idx % OC;
        float val = bias != NULL ? bias[o] : 0.0f;
        for (int i = 0; i < C; i++)
            val += inp[n * C + i] * weight[o * C + i];
        out[idx] = val;
    }
}

__global__ void matmul_backward_input_kernel(float *dinp, const float *dout, const float *weight, int N, int C, int OC)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N * C) {
        int n = idx / C, i = idx % C;
        float val = 0.0f;
        for (int o = 0; o < OC; o++)
            val += dout[n * OC + o] * weight[o * C + i];
        dinp[idx] += val;
    }
}

__global__ void matmul_backward_weight_kernel(float *dweight, float *dbias, const float *dout, const float *inp, int N, int C, int OC)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < OC * C) {
        int o = idx / C, i = idx % C;
        float val = 0.0f, sum = 0.0f;
        for (int n = 0; n < N; n++) {
            val += dout[n * OC + o] * inp[n * C + i];
            sum += dout[n * OC + o];
        }
        dweight[idx] += val;
        if (dbias != NULL && i == 0)
            dbias[o] += sum;
    }
}

// causal attention of one head; a thread is a query. qkv (B,T,3C), att (B,T,T), out (B,T,C)
__global__ void attention_forward_kernel(float *out, float *att, const float *qkv, int B, int T, int C)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * T)
        return;
    int b = idx / T, t = idx % T;
    const float *q = qkv + idx * 3 * C;
    float *a = att + idx * T;
    float maxval = -FLT_MAX, expsum = 0.0f, scale = rsqrtf((float)C);
    for (int u = 0; u <= t; u++) {
        const float *k = qkv + (b * T + u) * 3 * C + C;
        float val = 0.0f;
        for (int i = 0; i < C; i++)
            val += q[i] * k[i];
        a[u] = val * scale;
        maxval = fmaxf(maxval, a[u]);
    }
    for (int u = 0; u <= t; u++) {
        a[u] = expf(a[u] - maxval);
        expsum += a[u];
    }
    for (int u = 0; u < T; u++)
        a[u] = u <= t ? a[u] / expsum : 0.0f;
    for (int i = 0; i < C; i++) {
        float val = 0.0f;
        for (int u = 0; u <= t; u++)
            val += a[u] * qkv[(b * T + u) * 3 * C + 2 * C + i];
        out[idx * C + i] = val;
    }
}

// a thread is a sequence
__global__ void attention_backward_kernel(float *dqkv, const float *dout, const float *qkv, const float *att, int B, int T, int C)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B)
        return;
    float scale = rsqrtf((float)C);
    for (int t = 0; t < T; t++) {
        int idx = b * T + t;
        const float *a = att + idx * T, *d = dout + idx * C, *q = qkv + idx * 3 * C;
        float *dq = dqkv + idx * 3 * C;
        float dot = 0.0f;
        for (int u = 0; u <= t; u++) {
            const float *v = qkv + (b * T + u) * 3 * C + 2 * C;
            for (int i = 0; i < C; i++)
                dot += a[u] * d[i] * v[i];
        }
        for (int u = 0; u <= t; u++) {
            const float *k = qkv + (b * T + u) * 3 * C + C, *v = k + C;
            float *dk = dqkv + (b * T + u) * 3 * C + C, *dv = dk + C;
            float da = 0.0f;
            for (int i = 0; i < C; i++) {
                da += d[i] * v[i];
                dv[i] += a[u] * d[i];
            }
            float ds = a[u] * (da - dot) * scale;
            for (int i = 0; i < C; i++) {
                dq[i] += ds * k[i];
                dk[i] += ds * q[i];
            }
        }
    }
}

__global__ void residual_forward_kernel(float *out, const float *a, const float *b, int N)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N)
        out[idx] = a[idx] + b[idx];
}

__global__ void accumulate_kernel(float *out, const float *a, int N)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N)
        out[idx] += a[idx];
}

__global__ void relu_forward_kernel(float *out, const float *inp, int N)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N)
        out[idx] = fmaxf(inp[idx], 0.0f);
}

__global__ void relu_backward_kernel(float *dinp, const float *inp, const float *dout, int N)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N)
        dinp[idx] += inp[idx] > 0.0f ? dout[idx] : 0.0f;
}

__global__ void crossentropy_forward_kernel(float *losses, float *probs, const float *logits, const int *targets, int BT, int V)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < BT) {
        float maxval = -FLT_MAX, sum = 0.0f;
        for (int v = 0; v < V; v++)
            maxval = fmaxf(maxval, logits[i * V + v]);
        for (int v = 0; v < V; v++)
            sum += (probs[i * V + v] = expf(logits[i * V + v] - maxval));
        for (int v = 0; v < V; v++)
            probs[i * V + v] /= sum;
        losses[i] = -logf(probs[i * V + targets[i]]);
    }
}

__global__ void crossentropy_softmax_backward_kernel(float *dlogits, const float *probs, const int *targets, int BT, int V, float dloss)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < BT * V) {
        int i = idx / V, v = idx % V;
        dlogits[idx] += (probs[idx] - (v == targets[i] ? 1.0f : 0.0f)) * dloss;
    }
}

__global__ void adamw_kernel(float *params, const float *grads, float *m, float *v, long n, float lr, float beta1, float beta2,
                             float c1, float c2, float eps, float wd)
{
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float g = grads[i];
    m[i] = beta1 * m[i] + (1.0f - beta1) * g;
    v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
    params[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + eps) + wd * params[i]);
}

// ----------------------------------------------------------------------------
// model

typedef struct {
    int max_seq_len, vocab_size, channels;
} GPTConfig;

#define NUM_PARAMETER_TENSORS 10
typedef struct {
    float *wte;    // (V, C)
    float *wpe;    // (maxT, C)
    float *qkvw;   // (3C, C)
    float *qkvb;   // (3C)
    float *attw;   // (C, C)
    float *fcw;    // (2C, C)
    float *fcb;    // (2C)
    float *prw;    // (C, 2C)
    float *prb;    // (C)
    float *head;   // (V, C)
} ParameterTensors;

#define NUM_ACTIVATION_TENSORS 12
typedef struct {
    float *encoded, *qkv, *att, *atty, *attproj, *res1, *fch, *fcr, *proj, *res2, *logits, *probs;
} ActivationTensors;

typedef struct {
    GPTConfig config;
    ParameterTensors params;
    size_t param_sizes[NUM_PARAMETER_TENSORS];
    float *params_memory;
    size_t num_parameters;
    ParameterTensors grads;
    float *grads_memory;
    float *m_memory, *v_memory;
    ActivationTensors acts, grads_acts;
    size_t act_sizes[NUM_ACTIVATION_TENSORS];
    float *acts_memory, *grads_acts_memory;
    size_t num_activations;
    int batch_size, seq_len;
    int *inputs, *targets;
    float *losses, *cpu_losses;
    float mean_loss;
} GPT;

static float *malloc_and_point(float **tensors, const size_t *sizes, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += sizes[i];
    float *memory;
    cudaCheck(cudaMalloc((void **)&memory, total * sizeof(float)));
    float *it = memory;
    for (int i = 0; i < count; i++) {
        tensors[i] = it;
        it += sizes[i];
    }
    return memory;
}

static uint64_t rng_state = 1337;
static uint32_t random_u32(void)
{
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return (uint32_t)((rng_state * 0x2545F4914F6CDD1Dull) >> 32);
}
static float random_f32(void) { return (random_u32() >> 8) / 16777216.0f; }

void gpt_build(GPT *model, GPTConfig config)
{
    memset(model, 0, sizeof(*model));
    model->config = config;
    size_t V = config.vocab_size, T = config.max_seq_len, C = config.channels;
    size_t sizes[NUM_PARAMETER_TENSORS] = {V * C, T * C, 3 * C * C, 3 * C, C * C, 2 * C * C, 2 * C, 2 * C * C, C, V * C};
    memcpy(model->param_sizes, sizes, sizeof(sizes));
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        model->num_parameters += sizes[i];
    model->params_memory = malloc_and_point((float **)&model->params, sizes, NUM_PARAMETER_TENSORS);
    float *host = (float *)malloc(model->num_parameters * sizeof(float)), *it = host;
    for (int t = 0; t < NUM_PARAMETER_TENSORS; t++) {
        int bias = t == 3 || t == 6 || t == 8;
        for (size_t i = 0; i < sizes[t]; i++)
            *it++ = bias ? 0.0f : (random_f32() - 0.5f) * 0.5f;
    }
    cudaCheck(cudaMemcpy(model->params_memory, host, model->num_parameters * sizeof(float), cudaMemcpyHostToDevice));
    free(host);
    printf("num_parameters: %zu\n", model->num_parameters);
    model->mean_loss = -1.0f;
}

#define LAUNCH(kernel, n, ...)                              \
    do {                                                    \
        kernel<<<CEIL_DIV(n, 128), 128>>>(__VA_ARGS__);     \
        cudaCheck(cudaGetLastError());                      \
    } while (0)

void gpt_forward(GPT *model, const int *inputs, const int *targets, int B, int T)
{
    int V = model->config.vocab_size, C = model->config.channels;
    if (model->acts_memory == NULL) {
        model->batch_size = B;
        model->seq_len = T;
        size_t N = (size_t)B * T;
        size_t sizes[NUM_ACTIVATION_TENSORS] = {N * C, N * 3 * C, N * T,     N * C, N * C, N * C,
                                                N * 2 * C, N * 2 * C, N * C, N * C, N * V, N * V};
        memcpy(model->act_sizes, sizes, sizeof(sizes));
        for (int i = 0; i < NUM_ACTIVATION_TENSORS; i++)
            model->num_activations += sizes[i];
        model->acts_memory = malloc_and_point((float **)&model->acts, sizes, NUM_ACTIVATION_TENSORS);
        cudaCheck(cudaMalloc((void **)&model->inputs, N * sizeof(int)));
        cudaCheck(cudaMalloc((void **)&model->targets, N * sizeof(int)));
        cudaCheck(cudaMalloc((void **)&model->losses, N * sizeof(float)));
        cudaCheck(cudaMallocHost((void **)&model->cpu_losses, N * sizeof(float)));
    } else if (B > model->batch_size || T > model->seq_len) {
        printf("Error: batch size or sequence length is inadequately large\n");
        exit(EXIT_FAILURE);
    }
    cudaCheck(cudaMemcpy(model->inputs, inputs, B * T * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(model->targets, targets, B * T * sizeof(int), cudaMemcpyHostToDevice));

    ParameterTensors p = model->params;
    ActivationTensors a = model->acts;
    int N = B * T;
    LAUNCH(encoder_forward_kernel, N * C, a.encoded, model->inputs, p.wte, p.wpe, B, T, C);
    LAUNCH(matmul_forward_kernel, N * 3 * C, a.qkv, a.encoded, p.qkvw, p.qkvb, N, C, 3 * C);
    LAUNCH(attention_forward_kernel, N, a.atty, a.att, a.qkv, B, T, C);
    LAUNCH(matmul_forward_kernel, N * C, a.attproj, a.atty, p.attw, (const float *)NULL, N, C, C);
    LAUNCH(residual_forward_kernel, N * C, a.res1, a.encoded, a.attproj, N * C);
    LAUNCH(matmul_forward_kernel, N * 2 * C, a.fch, a.res1, p.fcw, p.fcb, N, C, 2 * C);
    LAUNCH(relu_forward_kernel, N * 2 * C, a.fcr, a.fch, N * 2 * C);
    LAUNCH(matmul_forward_kernel, N * C, a.proj, a.fcr, p.prw, p.prb, N, 2 * C, C);
    LAUNCH(residual_forward_kernel, N * C, a.res2, a.res1, a.proj, N * C);
    LAUNCH(matmul_forward_kernel, N * V, a.logits, a.res2, p.head, (const float *)NULL, N, C, V);
    LAUNCH(crossentropy_forward_kernel, N, model->losses, a.probs, a.logits, model->targets, N, V);

    cudaCheck(cudaMemcpy(model->cpu_losses, model->losses, N * sizeof(float), cudaMemcpyDeviceToHost));
    float mean_loss = 0.0f;
    for (int i = 0; i < N; i++)
        mean_loss += model->cpu_losses[i];
    model->mean_loss = mean_loss / N;
}

void gpt_zero_grad(GPT *model)
{
    if (model->grads_acts_memory != NULL)
        cudaCheck(cudaMemset(model->grads_acts_memory, 0, model->num_activations * sizeof(float)));
    if (model->grads_memory != NULL)
        cudaCheck(cudaMemset(model->grads_memory, 0, model->num_parameters * sizeof(float)));
}

void gpt_backward(GPT *model)
{
    if (model->grads_memory == NULL) {
        model->grads_memory = malloc_and_point((float **)&model->grads, model->param_sizes, NUM_PARAMETER_TENSORS);
        model->grads_acts_memory = malloc_and_point((float **)&model->grads_acts, model->act_sizes, NUM_ACTIVATION_TENSORS);
        gpt_zero_grad(model);
    }
    int B = model->batch_size, T = model->seq_len, C = model->config.channels, V = model->config.vocab_size, N = B * T;
    ParameterTensors p = model->params, g = model->grads;
    ActivationTensors a = model->acts, d = model->grads_acts;
    float dloss_mean = 1.0f / (B * T);

    LAUNCH(crossentropy_softmax_backward_kernel, N * V, d.logits, a.probs, model->targets, N, V, dloss_mean);
    LAUNCH(matmul_backward_input_kernel, N * C, d.res2, d.logits, p.head, N, C, V);
    LAUNCH(matmul_backward_weight_kernel, V * C, g.head, (float *)NULL, d.logits, a.res2, N, C, V);
    LAUNCH(matmul_backward_input_kernel, N * 2 * C, d.fcr, d.res2, p.prw, N, 2 * C, C);
    LAUNCH(matmul_backward_weight_kernel, 2 * C * C, g.prw, g.prb, d.res2, a.fcr, N, 2 * C, C);
    LAUNCH(relu_backward_kernel, N * 2 * C, d.fch, a.fch, d.fcr, N * 2 * C);
    LAUNCH(accumulate_kernel, N * C, d.res1, d.res2, N * C);
    LAUNCH(matmul_backward_input_kernel, N * C, d.res1, d.fch, p.fcw, N, C, 2 * C);
    LAUNCH(matmul_backward_weight_kernel, 2 * C * C, g.fcw, g.fcb, d.fch, a.res1, N, C, 2 * C);
    LAUNCH(matmul_backward_input_kernel, N * C, d.atty, d.res1, p.attw, N, C, C);
    LAUNCH(matmul_backward_weight_kernel, C * C, g.attw, (float *)NULL, d.res1, a.atty, N, C, C);
    LAUNCH(attention_backward_kernel, B, d.qkv, d.atty, a.qkv, a.att, B, T, C);
    LAUNCH(accumulate_kernel, N * C, d.encoded, d.res1, N * C);
    LAUNCH(matmul_backward_input_kernel, N * C, d.encoded, d.qkv, p.qkvw, N, C, 3 * C);
    LAUNCH(matmul_backward_weight_kernel, 3 * C * C, g.qkvw, g.qkvb, d.qkv, a.encoded, N, C, 3 * C);
    LAUNCH(encoder_backward_kernel, N * C, g.wte, g.wpe, d.encoded, model->inputs, B, T, C);
}

void gpt_update(GPT *model, float lr, float beta1, float beta2, float eps, float wd, int t)
{
    if (model->m_memory == NULL) {
        cudaCheck(cudaMalloc((void **)&model->m_memory, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMalloc((void **)&model->v_memory, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMemset(model->m_memory, 0, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMemset(model->v_memory, 0, model->num_parameters * sizeof(float)));
    }
    LAUNCH(adamw_kernel, (int)model->num_parameters, model->params_memory, model->grads_memory, model->m_memory,
           model->v_memory, (long)model->num_parameters, lr, beta1, beta2, 1.0f - powf(beta1, t), 1.0f - powf(beta2, t), eps, wd);
}

void gpt_free(GPT *model)
{
    cudaFree(model->params_memory);
    cudaFree(model->grads_memory);
    cudaFree(model->m_memory);
    cudaFree(model->v_memory);
    cudaFree(model->acts_memory);
    cudaFree(model->grads_acts_memory);
    cudaFree(model->inputs);
    cudaFree(model->targets);
    cudaFree(model->losses);
    cudaFreeHost(model->cpu_losses);
}

// ----------------------------------------------------------------------------
// data loader

typedef struct {
    int B, T;
    int *tokens;
    long num_tokens, position;
    int *batch, *inputs, *targets;
    int num_batches;
} DataLoader;

// a token is mostly determined by the one that stands two before it
void dataloader_init(DataLoader *loader, long num_tokens, int vocab, int B, int T)
{
    loader->B = B;
    loader->T = T;
    loader->num_tokens = num_tokens;
    loader->tokens = (int *)malloc(num_tokens * sizeof(int));
    for (long i = 0; i < num_tokens; i++)
        loader->tokens[i] = i < 2 || random_u32() % 8 == 0 ? (int)(random_u32() % vocab) : (loader->tokens[i - 2] * 5 + 3) % vocab;
    loader->batch = (int *)malloc((B * T + 1) * sizeof(int));
    loader->inputs = loader->batch;
    loader->targets = loader->batch + 1;   // targets are shifted by one
    loader->num_batches = num_tokens / (B * T);
    loader->position = 0;
}

void dataloader_reset(DataLoader *loader) { loader->position = 0; }

void dataloader_next_batch(DataLoader *loader)
{
    int B = loader->B, T = loader->T;
    if (loader->position + B * T + 1 > loader->num_tokens)
        loader->position = 0;
    memcpy(loader->batch, loader->tokens + loader->position, (B * T + 1) * sizeof(int));
    loader->position += B * T;
}

int main()
{
    int B = 32, T = 8;
    GPTConfig config;
    config.max_seq_len = T;
    config.vocab_size = 24;
    config.channels = 32;

    GPT model;
    gpt_build(&model, config);
    DataLoader train_loader, val_loader;
    dataloader_init(&train_loader, 40 * B * T + 1, config.vocab_size, B, T);
    dataloader_init(&val_loader, 4 * B * T + 1, config.vocab_size, B, T);
    int val_num_batches = 4;

    for (int step = 0; step <= 100; step++) {
        if (step % 20 == 0) {
            float val_loss = 0.0f;
            dataloader_reset(&val_loader);
            for (int i = 0; i < val_num_batches; i++) {
                dataloader_next_batch(&val_loader);
                gpt_forward(&model, val_loader.inputs, val_loader.targets, B, T);
                val_loss += model.mean_loss;
            }
            val_loss /= val_num_batches;
            printf("val loss %f\n", val_loss);
        }
        if (step == 100)
            break;

        dataloader_next_batch(&train_loader);
        gpt_forward(&model, train_loader.inputs, train_loader.targets, B, T);
        gpt_zero_grad(&model);
        gpt_backward(&model);
        gpt_update(&model, 5e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, step + 1);
        cudaCheck(cudaDeviceSynchronize());
        if (step % 10 == 0)
            printf("step %d: train loss %f\n", step, model.mean_loss);
    }
    gpt_free(&model);
    free(train_loader.tokens);
    free(train_loader.batch);
    free(val_loader.tokens);
    free(val_loader.batch);
    return 0;
}
