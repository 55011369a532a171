/* A one-block, one-head attention model that learns to sort out which token was marked. One allocation for the
 * parameters, pointers into it, in the manner of llm.c; gradients are accumulated over micro-batches; AdamW. */
#include <assert.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
static void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

#define NUM_PARAMETER_TENSORS 6
typedef struct {
    float *wte;  // V, C
    float *wpe;  // T, C
    float *wqkv; // 3C, C
    float *bqkv; // 3C
    float *wout; // V, C
    float *bout; // V
} ParameterTensors;

typedef struct { int V, T, C; } Config;

typedef struct {
    Config config;
    ParameterTensors params, grads;
    size_t param_sizes[NUM_PARAMETER_TENSORS];
    float *params_memory, *grads_memory, *m_memory, *v_memory;
    size_t num_parameters;
    // activations of a micro-batch
    float *x, *qkv, *att, *y, *probs, *dlogits, *dy, *dqkv, *dx, *losses;
    int *inputs, *targets;
} Model;

float *point_parameters(ParameterTensors *p, const size_t *sizes, float *memory) {
    float **ptrs[] = {&p->wte, &p->wpe, &p->wqkv, &p->bqkv, &p->wout, &p->bout};
    float *it = memory;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) {
        *(ptrs[i]) = it;
        it += sizes[i];
    }
    return memory;
}

__global__ void encoder_forward(float *x, const int *inp, const float *wte, const float *wpe, int BT, int T, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < BT * C) x[i] = wte[inp[i / C] * C + i % C] + wpe[(i / C) % T * C + i % C];
}
__global__ void matmul_forward(float *out, const float *inp, const float *w, const float *b, int N, int C, int OC) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * OC) return;
    int n = i / OC, o = i % OC;
    float s = b[o];
    for (int c = 0; c < C; c++) s += inp[n * C + c] * w[o * C + c];
    out[i] = s;
}
__global__ void attention_forward(float *att, float *y, const float *x, const float *qkv, int B, int T, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * T) return;
    int b = i / T, t = i % T;
    const float *q = qkv + i * 3 * C;
    float *a = att + i * T, sum = 0;
    float scale = 1.0f / sqrtf((float)C);
    for (int s = 0; s <= t; s++) {
        const float *k = qkv + (b * T + s) * 3 * C + C;
        float d = 0;
        for (int c = 0; c < C; c++) d += q[c] * k[c];
        sum += a[s] = expf(d * scale);
    }
    for (int c = 0; c < C; c++) y[i * C + c] = x[i * C + c];
    for (int s = 0; s <= t; s++) {
        const float *v = qkv + (b * T + s) * 3 * C + 2 * C;
        a[s] /= sum;
        for (int c = 0; c < C; c++) y[i * C + c] += a[s] * v[c];
    }
}
__global__ void crossentropy(float *probs, float *dlogits, float *losses, const int *targets, int N, int V, float dloss) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float m = -1e9f, s = 0, *p = probs + n * V;
    for (int v = 0; v < V; v++) m = fmaxf(m, p[v]);
    for (int v = 0; v < V; v++) s += p[v] = expf(p[v] - m);
    for (int v = 0; v < V; v++) {
        p[v] /= s;
        dlogits[n * V + v] = (p[v] - (v == targets[n])) * dloss;
    }
    losses[n] = -logf(p[targets[n]]);
}
__global__ void matmul_backward_inp(float *dinp, const float *dout, const float *w, int N, int C, int OC) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * C) return;
    float s = 0;
    for (int o = 0; o < OC; o++) s += dout[i / C * OC + o] * w[o * C + i % C];
    dinp[i] += s;
}
__global__ void matmul_backward_w(float *dw, float *db, const float *inp, const float *dout, int N, int C, int OC) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= OC * C) return;
    int o = i / C, c = i % C;
    float s = 0, t = 0;
    for (int n = 0; n < N; n++) {
        s += dout[n * OC + o] * inp[n * C + c];
        t += dout[n * OC + o];
    }
    dw[i] += s;
    if (c == 0) db[o] += t;
}
// one thread per sequence
__global__ void attention_backward(float *dqkv, float *dx, const float *dy, const float *qkv, const float *att, int B, int T,
                                   int C) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float scale = 1.0f / sqrtf((float)C);
    for (int t = 0; t < T; t++) {
        int i = b * T + t;
        float dot = 0;
        for (int c = 0; c < C; c++) dx[i * C + c] += dy[i * C + c];
        for (int s = 0; s <= t; s++) {
            int j = (b * T + s) * 3 * C + 2 * C;
            for (int c = 0; c < C; c++) {
                dot += att[i * T + s] * dy[i * C + c] * qkv[j + c];
                dqkv[j + c] += att[i * T + s] * dy[i * C + c];
            }
        }
        for (int s = 0; s <= t; s++) {
            int j = (b * T + s) * 3 * C;
            float da = 0;
            for (int c = 0; c < C; c++) da += dy[i * C + c] * qkv[j + 2 * C + c];
            float ds = att[i * T + s] * (da - dot) * scale;
            for (int c = 0; c < C; c++) {
                dqkv[i * 3 * C + c] += ds * qkv[j + C + c];
                dqkv[j + C + c] += ds * qkv[i * 3 * C + c];
            }
        }
    }
}
__global__ void encoder_backward(float *dwte, float *dwpe, const float *dx, const int *inp, int BT, int T, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= BT * C) return;
    atomicAdd(&dwte[inp[i / C] * C + i % C], dx[i]);
    atomicAdd(&dwpe[(i / C) % T * C + i % C], dx[i]);
}
__global__ void adamw(float *p, const float *g, float *m, float *v, size_t n, float lr, float b1, float b2, float c1, float c2,
                      float eps, float wd) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    p[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + eps) + wd * p[i]);
}

static unsigned long long rng_state = 1337;
static unsigned int random_u32(void) {
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return (unsigned int)((rng_state * 0x2545F4914F6CDD1Dull) >> 32);
}
static float random_f32(void) { return (random_u32() >> 8) / 16777216.0f; }

void model_build(Model *m, Config c, int B) {
    memset(m, 0, sizeof *m);
    m->config = c;
    int V = c.V, T = c.T, C = c.C;
    size_t sizes[] = {(size_t)V * C, (size_t)T * C, (size_t)3 * C * C, (size_t)3 * C, (size_t)V * C, (size_t)V};
    memcpy(m->param_sizes, sizes, sizeof sizes);
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) m->num_parameters += sizes[i];
    size_t bytes = m->num_parameters * sizeof(float);
    cudaCheck(cudaMalloc((void **)&m->params_memory, bytes));
    cudaCheck(cudaMalloc((void **)&m->grads_memory, bytes));
    cudaCheck(cudaMalloc((void **)&m->m_memory, bytes));
    cudaCheck(cudaMalloc((void **)&m->v_memory, bytes));
    cudaCheck(cudaMemset(m->m_memory, 0, bytes));
    cudaCheck(cudaMemset(m->v_memory, 0, bytes));
    point_parameters(&m->params, m->param_sizes, m->params_memory);
    point_parameters(&m->grads, m->param_sizes, m->grads_memory);
    float *h = (float *)malloc(bytes);
    for (size_t i = 0; i < m->num_parameters; i++) h[i] = (random_f32() - 0.5f) * 0.5f;
    cudaCheck(cudaMemcpy(m->params_memory, h, bytes, cudaMemcpyHostToDevice));
    free(h);
    struct { float **p; int n; } acts[] = {{&m->x, B * T * C}, {&m->qkv, B * T * 3 * C}, {&m->att, B * T * T}, {&m->y, B * T * C},
        {&m->probs, B * T * V}, {&m->dlogits, B * T * V}, {&m->dy, B * T * C}, {&m->dqkv, B * T * 3 * C}, {&m->dx, B * T * C},
        {&m->losses, B * T}};
    for (auto &a : acts) cudaCheck(cudaMalloc((void **)a.p, a.n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&m->inputs, B * T * sizeof(int)));
    cudaCheck(cudaMalloc((void **)&m->targets, B * T * sizeof(int)));
}

float model_forward_backward(Model *m, const int *inputs, const int *targets, int B, int micro_steps) {
    int V = m->config.V, T = m->config.T, C = m->config.C, N = B * T;
    cudaCheck(cudaMemcpy(m->inputs, inputs, N * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(m->targets, targets, N * sizeof(int), cudaMemcpyHostToDevice));
    ParameterTensors p = m->params, g = m->grads;
    encoder_forward<<<CEIL_DIV(N * C, 128), 128>>>(m->x, m->inputs, p.wte, p.wpe, N, T, C);
    matmul_forward<<<CEIL_DIV(N * 3 * C, 128), 128>>>(m->qkv, m->x, p.wqkv, p.bqkv, N, C, 3 * C);
    attention_forward<<<CEIL_DIV(N, 64), 64>>>(m->att, m->y, m->x, m->qkv, B, T, C);
    matmul_forward<<<CEIL_DIV(N * V, 128), 128>>>(m->probs, m->y, p.wout, p.bout, N, C, V);
    float dloss = 1.0f / (N * micro_steps);
    crossentropy<<<CEIL_DIV(N, 64), 64>>>(m->probs, m->dlogits, m->losses, m->targets, N, V, dloss);

    cudaCheck(cudaMemset(m->dy, 0, N * C * sizeof(float)));
    cudaCheck(cudaMemset(m->dx, 0, N * C * sizeof(float)));
    cudaCheck(cudaMemset(m->dqkv, 0, N * 3 * C * sizeof(float)));
    matmul_backward_inp<<<CEIL_DIV(N * C, 128), 128>>>(m->dy, m->dlogits, p.wout, N, C, V);
    matmul_backward_w<<<CEIL_DIV(V * C, 128), 128>>>(g.wout, g.bout, m->y, m->dlogits, N, C, V);
    attention_backward<<<CEIL_DIV(B, 32), 32>>>(m->dqkv, m->dx, m->dy, m->qkv, m->att, B, T, C);
    matmul_backward_inp<<<CEIL_DIV(N * C, 128), 128>>>(m->dx, m->dqkv, p.wqkv, N, C, 3 * C);
    matmul_backward_w<<<CEIL_DIV(3 * C * C, 128), 128>>>(g.wqkv, g.bqkv, m->x, m->dqkv, N, C, 3 * C);
    encoder_backward<<<CEIL_DIV(N * C, 128), 128>>>(g.wte, g.wpe, m->dx, m->inputs, N, T, C);

    float *l = (float *)malloc(N * sizeof(float)), sum = 0;
    cudaCheck(cudaMemcpy(l, m->losses, N * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) sum += l[i];
    free(l);
    return sum / N;
}

// token 0 marks: after it, the answer to every position is the token that followed the mark
void next_batch(int *inputs, int *targets, int B, int T, int V) {
    for (int b = 0; b < B; b++) {
        int mark = random_u32() % 3;
        for (int t = 0; t < T; t++) inputs[b * T + t] = 1 + random_u32() % (V - 1);
        inputs[b * T + mark] = 0;
        for (int t = 0; t < T; t++) targets[b * T + t] = t <= mark ? 0 : (inputs[b * T + mark + 1] + mark) % V;
    }
}

int main() {
    Config config = {12, 8, 20};
    int B = 32, total_batch = 64;
    assert(total_batch % B == 0);
    int grad_accum_steps = total_batch / B;
    Model model;
    model_build(&model, config, B);
    printf("parameters: %zu, accumulation steps: %d\n", model.num_parameters, grad_accum_steps);
    int *inputs = (int *)malloc(B * config.T * sizeof(int)), *targets = (int *)malloc(B * config.T * sizeof(int));
    for (int step = 1; step <= 80; step++) {
        float lossf = 0;
        cudaCheck(cudaMemset(model.grads_memory, 0, model.num_parameters * sizeof(float)));
        for (int micro = 0; micro < grad_accum_steps; micro++) {
            next_batch(inputs, targets, B, config.T, config.V);
            lossf += model_forward_backward(&model, inputs, targets, B, grad_accum_steps) / grad_accum_steps;
        }
        adamw<<<CEIL_DIV(model.num_parameters, 256), 256>>>(model.params_memory, model.grads_memory, model.m_memory, model.v_memory,
            model.num_parameters, 0.02f, 0.9f, 0.99f, 1 - powf(0.9f, step), 1 - powf(0.99f, step), 1e-8f, 0.001f);
        if (step % 8 == 0 || step == 1) printf("step %d/80 loss %f\n", step, lossf);
    }
    free(inputs);
    free(targets);
    cudaCheck(cudaFree(model.params_memory));
    cudaCheck(cudaFree(model.grads_memory));
    cudaCheck(cudaDeviceSynchronize());
    return 0;
}
