/*
A small language model in one file: token embedding, one hidden linear layer
with GELU, and an output linear layer over the vocabulary.
All parameters live in one allocation, and so do all gradients.
*/
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <math.h>
#include <assert.h>
#include <cuda_runtime.h>

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error == cudaSuccess) return;
    printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

__global__ void encoder_forward_kernel(float *out, const int *inp, const float *wte, int N, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N * C) out[idx] = wte[inp[idx / C] * C + idx % C];
}

__global__ void encoder_backward_kernel(float *dwte, const float *dout, const int *inp, int N, int V, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= V * C) return;
    int v = idx / C, c = idx % C;
    float sum = 0.0f;
    for (int n = 0; n < N; n++) if (inp[n] == v) sum += dout[n * C + c];
    dwte[idx] += sum;
}

__global__ void matmul_forward_kernel(float *out, const float *inp, const float *weight, const float *bias,
                                      int N, int C, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * OC) return;
    int n = idx / OC, oc = idx % OC;
    float val = bias[oc];
    for (int i = 0; i < C; i++) val += inp[n * C + i] * weight[oc * C + i];
    out[idx] = val;
}

__global__ void matmul_backward_inp_kernel(float *dinp, const float *dout, const float *weight, int N, int C, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * C) return;
    int n = idx / C, c = idx % C;
    float val = 0.0f;
    for (int o = 0; o < OC; o++) val += dout[n * OC + o] * weight[o * C + c];
    dinp[idx] = val;
}

__global__ void matmul_backward_weight_kernel(float *dweight, float *dbias, const float *dout, const float *inp,
                                              int N, int C, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= OC * C) return;
    int o = idx / C, c = idx % C;
    float val = 0.0f, bval = 0.0f;
    for (int n = 0; n < N; n++) {
        val += dout[n * OC + o] * inp[n * C + c];
        bval += dout[n * OC + o];
    }
    dweight[idx] += val;
    if (c == 0) dbias[o] += bval;
}

#define GELU_S 0.7978845608f
__global__ void gelu_forward_kernel(float *out, const float *inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float x = inp[i];
    out[i] = 0.5f * x * (1.0f + tanhf(GELU_S * (x + 0.044715f * x * x * x)));
}

__global__ void gelu_backward_kernel(float *dinp, const float *inp, const float *dout, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float x = inp[i];
    float t = tanhf(GELU_S * (x + 0.044715f * x * x * x));
    float g = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * GELU_S * (1.0f + 3.0f * 0.044715f * x * x);
    dinp[i] = g * dout[i];
}

// softmax, loss and (in place) gradient of the logits
__global__ void fused_classifier_kernel(float *logits, float *losses, const int *targets, int N, int V) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float *x = logits + n * V;
    float maxval = -INFINITY, sum = 0.0f;
    for (int v = 0; v < V; v++) maxval = fmaxf(maxval, x[v]);
    for (int v = 0; v < V; v++) sum += expf(x[v] - maxval);
    losses[n] = logf(sum) + maxval - x[targets[n]];
    for (int v = 0; v < V; v++) x[v] = (expf(x[v] - maxval) / sum - (v == targets[n] ? 1.0f : 0.0f)) / N;
}

__global__ void adamw_kernel(float *params, const float *grads, float *m_memory, float *v_memory, int num_parameters,
                             float learning_rate, float beta1, float beta2, float beta1_correction,
                             float beta2_correction, float eps, float weight_decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_parameters) return;
    float grad = grads[i];
    float m = beta1 * m_memory[i] + (1.0f - beta1) * grad;
    float v = beta2 * v_memory[i] + (1.0f - beta2) * grad * grad;
    m_memory[i] = m; v_memory[i] = v;
    params[i] -= learning_rate * (m / beta1_correction / (sqrtf(v / beta2_correction) + eps) + weight_decay * params[i]);
}

#define NUM_PARAMETER_TENSORS 5
typedef struct {
    float *wte;   // (V, C)
    float *fcw;   // (H, C)
    float *fcb;   // (H)
    float *lmw;   // (V, H)
    float *lmb;   // (V)
} ParameterTensors;

typedef struct {
    int V, C, H, N;
    size_t param_sizes[NUM_PARAMETER_TENSORS];
    size_t num_parameters;
    ParameterTensors params, grads;
    float *params_memory, *grads_memory, *m_memory, *v_memory;
    float *acts_memory, *encoded, *fch, *fch_gelu, *logits, *losses;
    float *dencoded, *dfch, *dfch_gelu;
    int *inputs, *targets;
    float *cpu_losses;
} Model;

float *malloc_and_point(ParameterTensors *t, const size_t *sizes, size_t total) {
    float *memory, *it;
    cudaCheck(cudaMalloc((void **)&memory, total * sizeof(float)));
    float **ptrs[] = {&t->wte, &t->fcw, &t->fcb, &t->lmw, &t->lmb};
    it = memory;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; it += sizes[i++]) *(ptrs[i]) = it;
    return memory;
}

uint32_t random_u32(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * 0x2545F4914F6CDD1Dull) >> 32);
}
float random_f32(uint64_t *state) { return (random_u32(state) >> 8) / 16777216.0f; }

void model_build(Model *m, int V, int C, int H, int N, uint64_t *rng) {
    m->V = V; m->C = C; m->H = H; m->N = N;
    size_t sizes[NUM_PARAMETER_TENSORS] = {(size_t)V * C, (size_t)H * C, (size_t)H, (size_t)V * H, (size_t)V};
    m->num_parameters = 0;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) m->num_parameters += m->param_sizes[i] = sizes[i];
    m->params_memory = malloc_and_point(&m->params, m->param_sizes, m->num_parameters);
    m->grads_memory = malloc_and_point(&m->grads, m->param_sizes, m->num_parameters);
    size_t bytes = m->num_parameters * sizeof(float);
    cudaCheck(cudaMalloc((void **)&m->m_memory, bytes));
    cudaCheck(cudaMalloc((void **)&m->v_memory, bytes));
    cudaCheck(cudaMemset(m->m_memory, 0, bytes));
    cudaCheck(cudaMemset(m->v_memory, 0, bytes));
    float *init = (float *)malloc(bytes);
    for (size_t i = 0; i < m->num_parameters; i++) init[i] = 0.6f * (random_f32(rng) - 0.5f);
    cudaCheck(cudaMemcpy(m->params_memory, init, bytes, cudaMemcpyHostToDevice));
    free(init);
    cudaCheck(cudaMalloc((void **)&m->acts_memory, (size_t)N * (2 * C + 4 * H + V + 1) * sizeof(float)));
    float *it = m->acts_memory;
    m->encoded = it; it += N * C;
    m->dencoded = it; it += N * C;
    m->fch = it; it += N * H;
    m->fch_gelu = it; it += N * H;
    m->dfch = it; it += N * H;
    m->dfch_gelu = it; it += N * H;
    m->logits = it; it += N * V;
    m->losses = it;
    cudaCheck(cudaMalloc((void **)&m->inputs, N * sizeof(int)));
    cudaCheck(cudaMalloc((void **)&m->targets, N * sizeof(int)));
    m->cpu_losses = (float *)malloc(N * sizeof(float));
}

float model_forward(Model *m, const int *inputs, const int *targets) {
    int N = m->N, C = m->C, H = m->H, V = m->V;
    ParameterTensors p = m->params;
    cudaCheck(cudaMemcpy(m->inputs, inputs, N * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(m->targets, targets, N * sizeof(int), cudaMemcpyHostToDevice));
    encoder_forward_kernel<<<CEIL_DIV(N * C, 128), 128>>>(m->encoded, m->inputs, p.wte, N, C);
    matmul_forward_kernel<<<CEIL_DIV(N * H, 128), 128>>>(m->fch, m->encoded, p.fcw, p.fcb, N, C, H);
    gelu_forward_kernel<<<CEIL_DIV(N * H, 128), 128>>>(m->fch_gelu, m->fch, N * H);
    matmul_forward_kernel<<<CEIL_DIV(N * V, 128), 128>>>(m->logits, m->fch_gelu, p.lmw, p.lmb, N, H, V);
    fused_classifier_kernel<<<CEIL_DIV(N, 32), 32>>>(m->logits, m->losses, m->targets, N, V);
    cudaCheck(cudaMemcpy(m->cpu_losses, m->losses, N * sizeof(float), cudaMemcpyDeviceToHost));
    float mean = 0.0f;
    for (int i = 0; i < N; i++) mean += m->cpu_losses[i];
    return mean / N;
}

void model_zero_grad(Model *m) { cudaCheck(cudaMemset(m->grads_memory, 0, m->num_parameters * sizeof(float))); }

void model_backward(Model *m) {
    int N = m->N, C = m->C, H = m->H, V = m->V;
    ParameterTensors p = m->params, g = m->grads;
    matmul_backward_inp_kernel<<<CEIL_DIV(N * H, 128), 128>>>(m->dfch_gelu, m->logits, p.lmw, N, H, V);
    matmul_backward_weight_kernel<<<CEIL_DIV(V * H, 128), 128>>>(g.lmw, g.lmb, m->logits, m->fch_gelu, N, H, V);
    gelu_backward_kernel<<<CEIL_DIV(N * H, 128), 128>>>(m->dfch, m->fch, m->dfch_gelu, N * H);
    matmul_backward_inp_kernel<<<CEIL_DIV(N * C, 128), 128>>>(m->dencoded, m->dfch, p.fcw, N, C, H);
    matmul_backward_weight_kernel<<<CEIL_DIV(H * C, 128), 128>>>(g.fcw, g.fcb, m->dfch, m->encoded, N, C, H);
    encoder_backward_kernel<<<CEIL_DIV(V * C, 128), 128>>>(g.wte, m->dencoded, m->inputs, N, V, C);
    cudaCheck(cudaGetLastError());
}

void model_update(Model *m, float lr, float beta1, float beta2, float eps, float weight_decay, int t) {
    adamw_kernel<<<CEIL_DIV((int)m->num_parameters, 128), 128>>>(
        m->params_memory, m->grads_memory, m->m_memory, m->v_memory, (int)m->num_parameters, lr, beta1, beta2,
        1.0f - powf(beta1, t), 1.0f - powf(beta2, t), eps, weight_decay);
    cudaCheck(cudaGetLastError());
}

int main(int argc, char *argv[]) {
    const int V = 24, C = 12, H = 20, N = 64, steps = 80, train_tokens = 20 * N, val_tokens = 4 * N;
    uint64_t rng = 1337;
    int *tokens = (int *)malloc((train_tokens + val_tokens + 1) * sizeof(int));
    for (int i = 0, t = 0; i < train_tokens + val_tokens + 1; i++) {
        tokens[i] = t;
        t = random_f32(&rng) < 0.85f ? (t * 5 + 7) % V : (int)(random_u32(&rng) % V);
    }
    Model model;
    model_build(&model, V, C, H, N, &rng);
    printf("num_parameters: %zu\n", model.num_parameters);
    for (int step = 0; step <= steps; step++) {
        if (step % 10 == 0) {
            float val_loss = 0.0f;
            for (int i = 0; i < val_tokens; i += N)
                val_loss += model_forward(&model, tokens + train_tokens + i, tokens + train_tokens + i + 1);
            printf("val loss %f\n", val_loss / (val_tokens / N));
        }
        if (step == steps) break;
        const int *batch = tokens + (step * N) % train_tokens;
        float loss = model_forward(&model, batch, batch + 1);
        model_zero_grad(&model);
        model_backward(&model);
        model_update(&model, 1e-2f, 0.9f, 0.999f, 1e-8f, 0.01f, step + 1);
        if ((step + 1) % 5 == 0) printf("step %d: train loss %f\n", step + 1, loss);
    }
    float *host = (float *)malloc(model.num_parameters * sizeof(float));
    cudaCheck(cudaMemcpy(host, model.params_memory, model.num_parameters * sizeof(float), cudaMemcpyDeviceToHost));
    FILE *f = fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
    assert(f != NULL);
    fwrite(host, sizeof(float), model.num_parameters, f);
    fclose(f);
    return 0;
}
