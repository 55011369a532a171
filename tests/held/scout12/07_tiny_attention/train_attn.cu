/*
One block, one head transformer without layernorm that learns to copy the token k places back; in the style of llm.c:
all parameters in one memory, all gradients in another, a DataLoader that serves (B, T) windows of a token stream.
*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <assert.h>
#include <string.h>
#include <cuda_runtime.h>

#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
static void cuda_check(cudaError_t error, const char *file, int line)
{
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ---------------------------------------------------------------- kernels
__global__ void encoder_forward(float *out, const int *inp, const float *wte, const float *wpe, int B, int T, int C)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, c = idx % C, t = bt % T;
        out[idx] = wte[inp[bt] * C + c] + wpe[t * C + c];
    }
}
__global__ void encoder_backward(float *dwte, float *dwpe, const float *dout, const int *inp, int B, int T, int C)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, c = idx % C, t = bt % T;
        atomicAdd(dwte + inp[bt] * C + c, dout[idx]);
        atomicAdd(dwpe + t * C + c, dout[idx]);
    }
}
__global__ void matmul_forward(float *out, const float *inp, const float *weight, const float *bias, int BT, int C, int OC)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < BT * OC) {
        int bt = idx / OC, oc = idx % OC;
        float val = bias != NULL ? bias[oc] : 0.0f;
        for (int i = 0; i < C; i++) val += inp[bt * C + i] * weight[oc * C + i];
        out[idx] = val;
    }
}
__global__ void matmul_backward_inp(float *dinp, const float *dout, const float *weight, int BT, int C, int OC)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < BT * C) {
        int bt = idx / C, i = idx % C;
        float val = 0.0f;
        for (int o = 0; o < OC; o++) val += dout[bt * OC + o] * weight[o * C + i];
        dinp[idx] += val;
    }
}
__global__ void matmul_backward_weight(float *dweight, float *dbias, const float *dout, const float *inp, int BT, int C, int OC)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < OC * C) {
        int o = idx / C, i = idx % C;
        float val = 0.0f, sum = 0.0f;
        for (int bt = 0; bt < BT; bt++) {
            val += dout[bt * OC + o] * inp[bt * C + i];
            sum += dout[bt * OC + o];
        }
        dweight[idx] += val;
        if (dbias != NULL && i == 0) dbias[o] += sum;
    }
}
__global__ void attention_forward(float *out, float *att, const float *qkv, int B, int T, int C)
{
    int bt = blockIdx.x * blockDim.x + threadIdx.x;
    if (bt >= B * T) return;
    int b = bt / T, t = bt % T;
    float scale = rsqrtf((float)C);
    const float *q = qkv + bt * 3 * C;
    float *a = att + bt * T;
    float maxval = -1e20f, expsum = 0.0f;
    for (int t2 = 0; t2 <= t; t2++) {
        const float *k = qkv + (b * T + t2) * 3 * C + C;
        float val = 0.0f;
        for (int i = 0; i < C; i++) val += q[i] * k[i];
        a[t2] = val * scale;
        maxval = fmaxf(maxval, a[t2]);
    }
    for (int t2 = 0; t2 <= t; t2++) { a[t2] = expf(a[t2] - maxval); expsum += a[t2]; }
    for (int t2 = 0; t2 < T; t2++) a[t2] = t2 <= t ? a[t2] / expsum : 0.0f;
    for (int i = 0; i < C; i++) {
        float val = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) val += a[t2] * qkv[(b * T + t2) * 3 * C + 2 * C + i];
        out[bt * C + i] = val;
    }
}
__global__ void attention_backward(float *dqkv, const float *dout, const float *att, const float *qkv, int B, int T, int C)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;      // one thread a sequence
    if (b >= B) return;
    float scale = rsqrtf((float)C);
    for (int t = 0; t < T; t++) {
        int bt = b * T + t;
        const float *a = att + bt * T, *dy = dout + bt * C;
        float datt[32], dot = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) {
            const float *v = qkv + (b * T + t2) * 3 * C + 2 * C;
            float *dv = dqkv + (b * T + t2) * 3 * C + 2 * C;
            float val = 0.0f;
            for (int i = 0; i < C; i++) { val += v[i] * dy[i]; dv[i] += a[t2] * dy[i]; }
            datt[t2] = val;
            dot += val * a[t2];
        }
        for (int t2 = 0; t2 <= t; t2++) {
            float dpre = a[t2] * (datt[t2] - dot) * scale;
            const float *q = qkv + bt * 3 * C, *k = qkv + (b * T + t2) * 3 * C + C;
            float *dq = dqkv + bt * 3 * C, *dk = dqkv + (b * T + t2) * 3 * C + C;
            for (int i = 0; i < C; i++) { dq[i] += k[i] * dpre; dk[i] += q[i] * dpre; }
        }
    }
}
__global__ void residual_forward(float *out, const float *x, const float *y, int N)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) out[i] = x[i] + y[i];
}
__global__ void crossentropy_softmax_backward(float *dlogits, float *losses, const float *logits, const int *targets, int BT, int V, float dloss)
{
    int bt = blockIdx.x * blockDim.x + threadIdx.x;
    if (bt >= BT) return;
    const float *l = logits + bt * V;
    float maxval = l[0], sum = 0.0f;
    for (int i = 1; i < V; i++) maxval = fmaxf(maxval, l[i]);
    for (int i = 0; i < V; i++) sum += expf(l[i] - maxval);
    for (int i = 0; i < V; i++) {
        float p = expf(l[i] - maxval) / sum;
        dlogits[bt * V + i] += (p - (i == targets[bt] ? 1.0f : 0.0f)) * dloss;
        if (i == targets[bt]) losses[bt] = -logf(p);
    }
}
__global__ void adamw_kernel(float *params, const float *grads, float *m, float *v, size_t n, float lr, float b1, float b2, float c1, float c2, float eps, float wd)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = grads[i];
    m[i] = b1 * m[i] + (1 - b1) * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
    params[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + eps) + wd * params[i]);
}

// ---------------------------------------------------------------- model
#define NUM_PARAMETER_TENSORS 8
typedef struct { float *wte, *wpe, *qkvw, *qkvb, *projw, *projb, *lmw, *lmb; } ParameterTensors;
#define NUM_ACTIVATION_TENSORS 6
typedef struct { float *encoded, *qkv, *atty, *proj, *residual, *logits; } ActivationTensors;

typedef struct {
    int V, C, T, B;
    size_t param_sizes[NUM_PARAMETER_TENSORS], num_parameters;
    size_t act_sizes[NUM_ACTIVATION_TENSORS], num_activations;
    ParameterTensors params, grads;
    ActivationTensors acts, grads_acts;
    float *params_memory, *grads_memory, *m_memory, *v_memory, *acts_memory, *grads_acts_memory;
    float *att, *losses, *cpu_losses;
    int *inputs, *targets;
    float mean_loss;
} Model;

static float *malloc_and_point(void *tensors, const size_t *sizes, int n)
{
    size_t total = 0;
    for (int i = 0; i < n; i++) total += sizes[i];
    float *memory;
    cudaCheck(cudaMalloc((void **)&memory, total * sizeof(float)));
    float *p = memory;
    for (int i = 0; i < n; i++) { ((float **)tensors)[i] = p; p += sizes[i]; }
    return memory;
}

static void model_build(Model *model, int V, int C, int B, int T)
{
    memset(model, 0, sizeof(*model));
    model->V = V; model->C = C; model->B = B; model->T = T;
    size_t ps[NUM_PARAMETER_TENSORS] = { (size_t)V * C, (size_t)T * C, (size_t)3 * C * C, (size_t)3 * C, (size_t)C * C, (size_t)C, (size_t)V * C, (size_t)V };
    size_t as[NUM_ACTIVATION_TENSORS] = { (size_t)B * T * C, (size_t)B * T * 3 * C, (size_t)B * T * C, (size_t)B * T * C, (size_t)B * T * C, (size_t)B * T * V };
    memcpy(model->param_sizes, ps, sizeof(ps));
    memcpy(model->act_sizes, as, sizeof(as));
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) model->num_parameters += ps[i];
    for (int i = 0; i < NUM_ACTIVATION_TENSORS; i++) model->num_activations += as[i];
    model->params_memory = malloc_and_point(&model->params, ps, NUM_PARAMETER_TENSORS);
    model->acts_memory = malloc_and_point(&model->acts, as, NUM_ACTIVATION_TENSORS);
    cudaCheck(cudaMalloc((void **)&model->att, (size_t)B * T * T * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&model->losses, B * T * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&model->inputs, B * T * sizeof(int)));
    cudaCheck(cudaMalloc((void **)&model->targets, B * T * sizeof(int)));
    cudaCheck(cudaMallocHost((void **)&model->cpu_losses, B * T * sizeof(float)));
    float *init = (float *)malloc(model->num_parameters * sizeof(float)), *p = init;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) {
        int bias = i == 3 || i == 5 || i == 7;
        for (size_t k = 0; k < ps[i]; k++) *p++ = bias ? 0.0f : 0.3f * (2.0f * rand() / RAND_MAX - 1.0f);
    }
    cudaCheck(cudaMemcpy(model->params_memory, init, model->num_parameters * sizeof(float), cudaMemcpyHostToDevice));
    free(init);
    printf("num_parameters: %zu\n", model->num_parameters);
}

static void model_forward(Model *model, const int *inputs, const int *targets, int B, int T)
{
    int C = model->C, V = model->V, BT = B * T;
    ParameterTensors p = model->params;
    ActivationTensors a = model->acts;
    cudaCheck(cudaMemcpy(model->inputs, inputs, B * T * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(model->targets, targets, B * T * sizeof(int), cudaMemcpyHostToDevice));
    encoder_forward<<<CEIL_DIV(BT * C, 128), 128>>>(a.encoded, model->inputs, p.wte, p.wpe, B, T, C);
    matmul_forward<<<CEIL_DIV(BT * 3 * C, 128), 128>>>(a.qkv, a.encoded, p.qkvw, p.qkvb, BT, C, 3 * C);
    attention_forward<<<CEIL_DIV(BT, 32), 32>>>(a.atty, model->att, a.qkv, B, T, C);
    matmul_forward<<<CEIL_DIV(BT * C, 128), 128>>>(a.proj, a.atty, p.projw, p.projb, BT, C, C);
    residual_forward<<<CEIL_DIV(BT * C, 128), 128>>>(a.residual, a.encoded, a.proj, BT * C);
    matmul_forward<<<CEIL_DIV(BT * V, 128), 128>>>(a.logits, a.residual, p.lmw, p.lmb, BT, C, V);
}

static void model_zero_grad(Model *model)
{
    if (model->grads_memory == NULL) {
        model->grads_memory = malloc_and_point(&model->grads, model->param_sizes, NUM_PARAMETER_TENSORS);
        model->grads_acts_memory = malloc_and_point(&model->grads_acts, model->act_sizes, NUM_ACTIVATION_TENSORS);
    }
    cudaCheck(cudaMemset(model->grads_memory, 0, model->num_parameters * sizeof(float)));
    cudaCheck(cudaMemset(model->grads_acts_memory, 0, model->num_activations * sizeof(float)));
}

static void model_backward(Model *model)
{
    int B = model->B, T = model->T, C = model->C, V = model->V, BT = B * T;
    ParameterTensors p = model->params, g = model->grads;
    ActivationTensors a = model->acts, d = model->grads_acts;
    float dloss = 1.0f / (B * T);
    crossentropy_softmax_backward<<<CEIL_DIV(BT, 32), 32>>>(d.logits, model->losses, a.logits, model->targets, BT, V, dloss);
    matmul_backward_inp<<<CEIL_DIV(BT * C, 128), 128>>>(d.residual, d.logits, p.lmw, BT, C, V);
    matmul_backward_weight<<<CEIL_DIV(V * C, 128), 128>>>(g.lmw, g.lmb, d.logits, a.residual, BT, C, V);
    matmul_backward_inp<<<CEIL_DIV(BT * C, 128), 128>>>(d.atty, d.residual, p.projw, BT, C, C);
    matmul_backward_weight<<<CEIL_DIV(C * C, 128), 128>>>(g.projw, g.projb, d.residual, a.atty, BT, C, C);
    attention_backward<<<CEIL_DIV(B, 32), 32>>>(d.qkv, d.atty, model->att, a.qkv, B, T, C);
    cudaCheck(cudaMemcpyAsync(d.encoded, d.residual, BT * C * sizeof(float), cudaMemcpyDeviceToDevice, 0));
    matmul_backward_inp<<<CEIL_DIV(BT * C, 128), 128>>>(d.encoded, d.qkv, p.qkvw, BT, C, 3 * C);
    matmul_backward_weight<<<CEIL_DIV(3 * C * C, 128), 128>>>(g.qkvw, g.qkvb, d.qkv, a.encoded, BT, C, 3 * C);
    encoder_backward<<<CEIL_DIV(BT * C, 128), 128>>>(g.wte, g.wpe, d.encoded, model->inputs, B, T, C);
    cudaCheck(cudaMemcpy(model->cpu_losses, model->losses, BT * sizeof(float), cudaMemcpyDeviceToHost));
    float mean = 0.0f;
    for (int i = 0; i < BT; i++) mean += model->cpu_losses[i];
    model->mean_loss = mean / BT;
}

static void model_update(Model *model, float lr, int t)
{
    size_t n = model->num_parameters;
    if (model->m_memory == NULL) {
        cudaCheck(cudaMalloc((void **)&model->m_memory, n * sizeof(float)));
        cudaCheck(cudaMalloc((void **)&model->v_memory, n * sizeof(float)));
        cudaCheck(cudaMemset(model->m_memory, 0, n * sizeof(float)));
        cudaCheck(cudaMemset(model->v_memory, 0, n * sizeof(float)));
    }
    adamw_kernel<<<CEIL_DIV(n, 256), 256>>>(model->params_memory, model->grads_memory, model->m_memory, model->v_memory, n,
                                            lr, 0.9f, 0.99f, 1 - powf(0.9f, t), 1 - powf(0.99f, t), 1e-8f, 0.001f);
    cudaCheck(cudaGetLastError());
}

// ---------------------------------------------------------------- data
typedef struct {
    int B, T, num_tokens, current_position;
    int *tokens, *batch, *inputs, *targets;
} DataLoader;

static void dataloader_init(DataLoader *loader, int num_tokens, int vocab, int back, int B, int T)
{
    loader->B = B; loader->T = T; loader->num_tokens = num_tokens; loader->current_position = 0;
    loader->tokens = (int *)malloc(num_tokens * sizeof(int));
    for (int i = 0; i < num_tokens; i++)
        loader->tokens[i] = i >= back && rand() % 8 != 0 ? loader->tokens[i - back] : rand() % vocab;
    cudaCheck(cudaMallocHost((void **)&loader->batch, (B * T + 1) * sizeof(int)));
    loader->inputs = loader->batch;
    loader->targets = loader->batch + 1;
}

static void dataloader_next_batch(DataLoader *loader)
{
    int B = loader->B, T = loader->T;
    if (loader->current_position + B * T + 1 > loader->num_tokens) loader->current_position = 0;
    memcpy(loader->batch, loader->tokens + loader->current_position, (B * T + 1) * sizeof(int));
    loader->current_position += B * T;
}

int main(void)
{
    srand(1337);
    int V = 24, C = 24, B = 32, T = 16;
    Model model;
    model_build(&model, V, C, B, T);
    DataLoader loader;
    dataloader_init(&loader, 16385, V, 3, B, T);
    int steps = 90;
    for (int step = 0; step < steps; step++) {
        dataloader_next_batch(&loader);
        model_forward(&model, loader.inputs, loader.targets, B, T);
        model_zero_grad(&model);
        model_backward(&model);
        float lr = 0.01f * (step < 10 ? (step + 1) / 10.0f : 0.5f * (1.0f + cosf(3.14159265f * (step - 10) / (steps - 10))) + 0.05f);
        model_update(&model, lr, step + 1);
        if (step % 10 == 0 || step == steps - 1) printf("step %d: train loss %f (lr %g)\n", step, model.mean_loss, lr);
    }
    return 0;
}
