// char-level LSTM. All parameters live in one flat buffer, all gradients in another (like karpathy's llm.c).
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BATCH
#define BATCH 32
#endif
#ifndef SEQ
#define SEQ 16
#endif
#define HIDDEN 32
#define VOCAB 28
#define cudaCheck(x) cuda_check((x), __FILE__, __LINE__)

static void cuda_check(cudaError_t err, const char *file, int line)
{
    if (err != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(err));
        exit(EXIT_FAILURE);
    }
}

static const char *TEXT =
    "the quick brown fox jumps over the lazy dog and then the dog sleeps while the fox runs through the woods "
    "it was the best of times it was the worst of times it was the age of wisdom it was the age of foolishness "
    "she sells sea shells by the sea shore and the shells she sells are sea shells i am sure "
    "how much wood would a woodchuck chuck if a woodchuck could chuck wood ";

typedef struct {
    float *wx; // (VOCAB, 4H)
    float *wh; // (H, 4H)
    float *b;  // (4H)
    float *wo; // (H, VOCAB)
    float *bo; // (VOCAB)
} Params;
#define NUM_TENSORS 5

typedef struct {
    Params params;
    size_t sizes[NUM_TENSORS];
    float *params_memory;
    float *grads_memory;
    float *m_memory;
    float *v_memory;
    size_t num_parameters;
    Params grads;
    // activations
    float *gates; // (T, B, 4H) after the nonlinearity
    float *c;     // (T+1, B, H)
    float *h;     // (T+1, B, H)
    float *probs; // (T, B, V)
    float *losses; // (T, B)
    float *dh, *dc, *dgates;
    int *inputs, *targets; // (B, T)
    float *norm;
} Model;

static float *point_at(Params *p, const size_t *sizes, float *mem)
{
    float **ptrs[] = { &p->wx, &p->wh, &p->b, &p->wo, &p->bo };
    float *it = mem;
    for (int i = 0; i < NUM_TENSORS; i++) {
        *(ptrs[i]) = it;
        it += sizes[i];
    }
    return mem;
}

static uint64_t rng = 1337;
static uint32_t random_u32(void)
{
    rng ^= rng >> 12;
    rng ^= rng << 25;
    rng ^= rng >> 27;
    return (rng * 0x2545F4914F6CDD1Dull) >> 32;
}
static float random_f32(void) { return (random_u32() >> 8) / 16777216.0f; }

__device__ inline float sigmoidf(float x) { return 1.f / (1.f + expf(-x)); }

__global__ void gates_kernel(const Params p, const int *inputs, const float *h, float *gates, int t, int T, int H)
{
    int b = blockIdx.x, j = threadIdx.x; // one block a sequence, 4H threads
    int tok = inputs[b * T + t];
    float s = p.b[j] + p.wx[tok * 4 * H + j];
    for (int k = 0; k < H; k++) s += h[b * H + k] * p.wh[k * 4 * H + j];
    gates[b * 4 * H + j] = j < 3 * H ? sigmoidf(s) : tanhf(s);
}

__global__ void cell_kernel(const float *gates, const float *cprev, float *c, float *h, int H)
{
    int b = blockIdx.x, j = threadIdx.x;
    const float *g = gates + b * 4 * H;
    float cn = g[H + j] * cprev[b * H + j] + g[j] * g[3 * H + j];
    c[b * H + j] = cn;
    h[b * H + j] = g[2 * H + j] * tanhf(cn);
}

__global__ void head_kernel(const Params p, const float *h, const int *targets, float *probs, float *losses, int t, int T, int H, int V)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= BATCH) return;
    float mx = -1e30f;
    float *pr = probs + b * V;
    for (int v = 0; v < V; v++) {
        float s = p.bo[v];
        for (int k = 0; k < H; k++) s += h[b * H + k] * p.wo[k * V + v];
        pr[v] = s;
        mx = fmaxf(mx, s);
    }
    float z = 0;
    for (int v = 0; v < V; v++) z += (pr[v] = expf(pr[v] - mx));
    for (int v = 0; v < V; v++) pr[v] /= z;
    losses[b] = -logf(pr[targets[b * T + t]]);
}

// probs become dlogits
__global__ void dlogits_kernel(float *probs, const int *targets, int t, int T, int V, float scale)
{
    int b = blockIdx.x, v = threadIdx.x;
    probs[b * V + v] = (probs[b * V + v] - (targets[b * T + t] == v)) * scale;
}

__global__ void head_backward_kernel(Params g, const float *h, const float *dl, int B, int H, int V)
{
    int k = blockIdx.x, v = threadIdx.x;
    float s = 0, sb = 0;
    for (int b = 0; b < B; b++) {
        s += h[b * H + k] * dl[b * V + v];
        sb += dl[b * V + v];
    }
    g.wo[k * V + v] += s;
    if (k == 0) g.bo[v] += sb;
}

__global__ void dh_kernel(const Params p, const float *dl, float *dh, int H, int V)
{
    int b = blockIdx.x, k = threadIdx.x;
    float s = dh[b * H + k];
    for (int v = 0; v < V; v++) s += dl[b * V + v] * p.wo[k * V + v];
    dh[b * H + k] = s;
}

__global__ void cell_backward_kernel(const float *gates, const float *cprev, const float *c, const float *dh, float *dc, float *dgates, int H)
{
    int b = blockIdx.x, j = threadIdx.x;
    const float *g = gates + b * 4 * H;
    float *d = dgates + b * 4 * H;
    float i = g[j], f = g[H + j], o = g[2 * H + j], u = g[3 * H + j];
    float tc = tanhf(c[b * H + j]), dhv = dh[b * H + j];
    float dcv = dc[b * H + j] + dhv * o * (1 - tc * tc);
    d[j] = dcv * u * i * (1 - i);
    d[H + j] = dcv * cprev[b * H + j] * f * (1 - f);
    d[2 * H + j] = dhv * tc * o * (1 - o);
    d[3 * H + j] = dcv * i * (1 - u * u);
    dc[b * H + j] = dcv * f;
}

__global__ void gates_backward_kernel(Params g, const float *hprev, const int *inputs, const float *dgates, int t, int T, int B, int H)
{
    int k = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int b = 0; b < B; b++) s += hprev[b * H + k] * dgates[b * 4 * H + j];
    g.wh[k * 4 * H + j] += s;
    if (k == 0)
        for (int b = 0; b < B; b++) {
            g.b[j] += dgates[b * 4 * H + j];
            g.wx[inputs[b * T + t] * 4 * H + j] += dgates[b * 4 * H + j];
        }
}

__global__ void dhprev_kernel(const Params p, const float *dgates, float *dh, int H)
{
    int b = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int j = 0; j < 4 * H; j++) s += dgates[b * 4 * H + j] * p.wh[k * 4 * H + j];
    dh[b * H + k] = s;
}

__global__ void norm_kernel(const float *g, float *out, int n)
{
    __shared__ float sh[256];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += g[i] * g[i];
    sh[threadIdx.x] = s;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (threadIdx.x < k) sh[threadIdx.x] += sh[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sqrtf(sh[0]);
}

__global__ void adam_kernel(float *p, const float *g, float *m, float *v, size_t n, float lr, float b1, float b2, float c1, float c2, float scale)
{
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = g[i] * scale;
    m[i] = b1 * m[i] + (1 - b1) * gi;
    v[i] = b2 * v[i] + (1 - b2) * gi * gi;
    p[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

static void model_build(Model *m)
{
    const int H = HIDDEN, V = VOCAB, B = BATCH, T = SEQ;
    size_t s[NUM_TENSORS] = { (size_t)V * 4 * H, (size_t)H * 4 * H, 4 * H, (size_t)H * V, V };
    memcpy(m->sizes, s, sizeof(s));
    m->num_parameters = 0;
    for (int i = 0; i < NUM_TENSORS; i++) m->num_parameters += s[i];
    size_t bytes = m->num_parameters * sizeof(float);
    cudaCheck(cudaMalloc((void **)&m->params_memory, bytes));
    cudaCheck(cudaMalloc((void **)&m->grads_memory, bytes));
    cudaCheck(cudaMalloc((void **)&m->m_memory, bytes));
    cudaCheck(cudaMalloc((void **)&m->v_memory, bytes));
    cudaCheck(cudaMemset(m->m_memory, 0, bytes));
    cudaCheck(cudaMemset(m->v_memory, 0, bytes));
    point_at(&m->params, m->sizes, m->params_memory);
    point_at(&m->grads, m->sizes, m->grads_memory);

    float *init = (float *)malloc(bytes);
    for (size_t i = 0; i < m->num_parameters; i++) init[i] = (random_f32() - 0.5f) * 0.3f;
    for (int j = 0; j < H; j++) init[s[0] + s[1] + H + j] = 1.0f; // forget gate
    cudaCheck(cudaMemcpy(m->params_memory, init, bytes, cudaMemcpyHostToDevice));
    free(init);

    cudaCheck(cudaMalloc((void **)&m->gates, sizeof(float) * T * B * 4 * H));
    cudaCheck(cudaMalloc((void **)&m->c, sizeof(float) * (T + 1) * B * H));
    cudaCheck(cudaMalloc((void **)&m->h, sizeof(float) * (T + 1) * B * H));
    cudaCheck(cudaMalloc((void **)&m->probs, sizeof(float) * T * B * V));
    cudaCheck(cudaMalloc((void **)&m->losses, sizeof(float) * T * B));
    cudaCheck(cudaMalloc((void **)&m->dh, sizeof(float) * B * H));
    cudaCheck(cudaMalloc((void **)&m->dc, sizeof(float) * B * H));
    cudaCheck(cudaMalloc((void **)&m->dgates, sizeof(float) * B * 4 * H));
    cudaCheck(cudaMalloc((void **)&m->inputs, sizeof(int) * B * T));
    cudaCheck(cudaMalloc((void **)&m->targets, sizeof(int) * B * T));
    cudaCheck(cudaMalloc((void **)&m->norm, sizeof(float)));
    cudaCheck(cudaMemset(m->c, 0, sizeof(float) * B * H));
    cudaCheck(cudaMemset(m->h, 0, sizeof(float) * B * H));
}

static float model_forward(Model *m, const int *inputs, const int *targets, int B, int T)
{
    const int H = HIDDEN, V = VOCAB;
    cudaCheck(cudaMemcpy(m->inputs, inputs, B * T * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(m->targets, targets, B * T * sizeof(int), cudaMemcpyHostToDevice));
    for (int t = 0; t < T; t++) {
        gates_kernel<<<B, 4 * H>>>(m->params, m->inputs, m->h + t * B * H, m->gates + t * B * 4 * H, t, T, H);
        cell_kernel<<<B, H>>>(m->gates + t * B * 4 * H, m->c + t * B * H, m->c + (t + 1) * B * H, m->h + (t + 1) * B * H, H);
        head_kernel<<<1, BATCH>>>(m->params, m->h + (t + 1) * B * H, m->targets, m->probs + t * B * V, m->losses + t * B, t, T, H, V);
    }
    static float cpu_losses[SEQ * BATCH];
    cudaCheck(cudaMemcpy(cpu_losses, m->losses, sizeof(cpu_losses), cudaMemcpyDeviceToHost));
    float mean = 0;
    for (int i = 0; i < B * T; i++) mean += cpu_losses[i];
    return mean / (B * T);
}

static void model_backward(Model *m, int B, int T)
{
    const int H = HIDDEN, V = VOCAB;
    cudaCheck(cudaMemset(m->dh, 0, B * H * sizeof(float)));
    cudaCheck(cudaMemset(m->dc, 0, B * H * sizeof(float)));
    for (int t = T - 1; t >= 0; t--) {
        float *h = m->h + (t + 1) * B * H, *pr = m->probs + t * B * V;
        dlogits_kernel<<<B, V>>>(pr, m->targets, t, T, V, 1.0f / (B * T));
        head_backward_kernel<<<H, V>>>(m->grads, h, pr, B, H, V);
        dh_kernel<<<B, H>>>(m->params, pr, m->dh, H, V);
        cell_backward_kernel<<<B, H>>>(m->gates + t * B * 4 * H, m->c + t * B * H, m->c + (t + 1) * B * H, m->dh, m->dc, m->dgates, H);
        gates_backward_kernel<<<H, 4 * H>>>(m->grads, m->h + t * B * H, m->inputs, m->dgates, t, T, B, H);
        dhprev_kernel<<<B, H>>>(m->params, m->dgates, m->dh, H);
    }
}

static void model_zero_grad(Model *m)
{
    cudaCheck(cudaMemset(m->grads_memory, 0, m->num_parameters * sizeof(float)));
}

static float model_update(Model *m, float lr, int t)
{
    float norm;
    norm_kernel<<<1, 256>>>(m->grads_memory, m->norm, (int)m->num_parameters);
    cudaCheck(cudaMemcpy(&norm, m->norm, sizeof(float), cudaMemcpyDeviceToHost));
    float scale = norm > 1.0f ? 1.0f / norm : 1.0f;
    int blocks = (int)((m->num_parameters + 255) / 256);
    adam_kernel<<<blocks, 256>>>(m->params_memory, m->grads_memory, m->m_memory, m->v_memory, m->num_parameters, lr, 0.9f, 0.999f,
                                 1 - powf(0.9f, t), 1 - powf(0.999f, t), scale);
    cudaCheck(cudaGetLastError());
    return norm;
}

int main(void)
{
    const int len = (int)strlen(TEXT);
    int *tokens = (int *)malloc(len * sizeof(int));
    for (int i = 0; i < len; i++) tokens[i] = TEXT[i] == ' ' ? 0 : TEXT[i] - 'a' + 1;

    Model model;
    model_build(&model);
    printf("num_parameters: %zu\n", model.num_parameters);

    int inputs[BATCH * SEQ], targets[BATCH * SEQ];
    for (int step = 1; step <= 60; step++) {
        for (int b = 0; b < BATCH; b++) {
            int start = random_u32() % (len - SEQ - 1);
            for (int t = 0; t < SEQ; t++) {
                inputs[b * SEQ + t] = tokens[start + t];
                targets[b * SEQ + t] = tokens[start + t + 1];
            }
        }
        float loss = model_forward(&model, inputs, targets, BATCH, SEQ);
        model_zero_grad(&model);
        model_backward(&model, BATCH, SEQ);
        float norm = model_update(&model, 0.02f, step);
        printf("step %d/60: loss %f (grad norm %f)\n", step, loss, norm);
    }
    free(tokens);
    return 0;
}
