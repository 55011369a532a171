/*
 * Denoising-free autoencoder on 8x8 bar patterns: 64 -> 48 -> 8 -> 48 -> 64.
 * All parameters live in one block of memory, all gradients in another, same for activations.
 */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ----------------------------------------------------------------------------
// random numbers

uint32_t random_u32(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545F4914F6CDD1Dull) >> 32;
}
float random_f32(uint64_t *state) { return (random_u32(state) >> 8) / 16777216.0f; }

// ----------------------------------------------------------------------------
// kernels

__global__ void matmul_forward_kernel(float *out, const float *inp, const float *weight, const float *bias, int B,
                                      int C, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * OC) {
        int b = idx / OC;
        int oc = idx % OC;
        float val = bias[oc];
        for (int i = 0; i < C; i++) { val += inp[b * C + i] * weight[oc * C + i]; }
        out[idx] = val;
    }
}

__global__ void matmul_backward_inp_kernel(float *dinp, const float *dout, const float *weight, int B, int C, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * C) {
        int b = idx / C;
        int c = idx % C;
        float val = 0.0f;
        for (int o = 0; o < OC; o++) { val += dout[b * OC + o] * weight[o * C + c]; }
        dinp[idx] = val;
    }
}

__global__ void matmul_backward_weight_kernel(float *dweight, float *dbias, const float *dout, const float *inp, int B,
                                              int C, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < OC * C) {
        int oc = idx / C;
        int c = idx % C;
        float val = 0.0f, bval = 0.0f;
        for (int b = 0; b < B; b++) {
            val += dout[b * OC + oc] * inp[b * C + c];
            bval += dout[b * OC + oc];
        }
        dweight[idx] += val;
        if (c == 0) { dbias[oc] += bval; }
    }
}

__global__ void tanh_forward_kernel(float *out, const float *inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = tanhf(inp[i]); }
}

__global__ void tanh_backward_kernel(float *dinp, const float *out, const float *dout, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { dinp[i] = dout[i] * (1.0f - out[i] * out[i]); }
}

__global__ void bce_kernel(float *losses, float *dlogits, const float *logits, const float *targets, int B, int C) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < B) {
        float loss = 0.0f;
        for (int c = 0; c < C; c++) {
            float z = logits[b * C + c], t = targets[b * C + c];
            loss += fmaxf(z, 0.0f) - z * t + log1pf(expf(-fabsf(z)));
            dlogits[b * C + c] = (1.0f / (1.0f + expf(-z)) - t) / (B * C);
        }
        losses[b] = loss / C;
    }
}

__global__ void adamw_kernel(float *params, const float *grads, float *m_memory, float *v_memory, long num_parameters,
                             float lr, float beta1, float beta2, float beta1_correction, float beta2_correction,
                             float eps, float weight_decay) {
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_parameters) return;
    float grad = grads[i];
    float m = beta1 * m_memory[i] + (1.0f - beta1) * grad;
    float v = beta2 * v_memory[i] + (1.0f - beta2) * grad * grad;
    m_memory[i] = m;
    v_memory[i] = v;
    params[i] -= lr * (m / beta1_correction / (sqrtf(v / beta2_correction) + eps) + weight_decay * params[i]);
}

// ----------------------------------------------------------------------------
// model

#define NUM_LAYERS 4
#define NUM_PARAMETER_TENSORS (2 * NUM_LAYERS)
static const int widths[NUM_LAYERS + 1] = {64, 48, 8, 48, 64};

typedef struct {
    float *weight[NUM_LAYERS]; // (OC, C)
    float *bias[NUM_LAYERS];   // (OC)
} ParameterTensors;

typedef struct {
    float *pre[NUM_LAYERS];  // (B, OC) before the tanh
    float *post[NUM_LAYERS]; // (B, OC) after it; unused for the last layer
} ActivationTensors;

typedef struct {
    ParameterTensors params;
    size_t param_sizes[NUM_PARAMETER_TENSORS];
    float *params_memory;
    size_t num_parameters;
    ParameterTensors grads;
    float *grads_memory;
    float *m_memory;
    float *v_memory;
    ActivationTensors acts;
    float *acts_memory;
    ActivationTensors grads_acts;
    float *grads_acts_memory;
    int batch_size;
    float *inputs; // (B, 64) on the device
    float *losses;
    float *cpu_losses;
    float mean_loss;
} Autoencoder;

static void point_parameters(ParameterTensors *p, float *memory) {
    for (int l = 0; l < NUM_LAYERS; l++) {
        p->weight[l] = memory;
        memory += widths[l] * widths[l + 1];
        p->bias[l] = memory;
        memory += widths[l + 1];
    }
}

static float *malloc_and_point_activations(ActivationTensors *a, int B) {
    size_t n = 0;
    for (int l = 0; l < NUM_LAYERS; l++) { n += 2 * (size_t)B * widths[l + 1]; }
    float *memory;
    cudaCheck(cudaMalloc((void **)&memory, n * sizeof(float)));
    float *it = memory;
    for (int l = 0; l < NUM_LAYERS; l++) {
        a->pre[l] = it;
        it += B * widths[l + 1];
        a->post[l] = it;
        it += B * widths[l + 1];
    }
    return memory;
}

void model_build(Autoencoder *model, int B) {
    memset(model, 0, sizeof(*model));
    model->batch_size = B;
    for (int l = 0; l < NUM_LAYERS; l++) {
        model->param_sizes[2 * l] = widths[l] * widths[l + 1];
        model->param_sizes[2 * l + 1] = widths[l + 1];
    }
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) { model->num_parameters += model->param_sizes[i]; }
    cudaCheck(cudaMalloc((void **)&model->params_memory, model->num_parameters * sizeof(float)));
    point_parameters(&model->params, model->params_memory);

    float *cpu = (float *)calloc(model->num_parameters, sizeof(float));
    uint64_t state = 1337;
    float *it = cpu;
    for (int l = 0; l < NUM_LAYERS; l++) {
        float scale = sqrtf(6.0f / (widths[l] + widths[l + 1]));
        for (int i = 0; i < widths[l] * widths[l + 1]; i++) { *it++ = (2.0f * random_f32(&state) - 1.0f) * scale; }
        it += widths[l + 1];
    }
    cudaCheck(cudaMemcpy(model->params_memory, cpu, model->num_parameters * sizeof(float), cudaMemcpyHostToDevice));
    free(cpu);

    model->acts_memory = malloc_and_point_activations(&model->acts, B);
    cudaCheck(cudaMalloc((void **)&model->inputs, B * widths[0] * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&model->losses, B * sizeof(float)));
    model->cpu_losses = (float *)malloc(B * sizeof(float));
    printf("num_parameters: %zu\n", model->num_parameters);
}

void model_forward(Autoencoder *model, const float *inputs, int B) {
    assert(B <= model->batch_size);
    cudaCheck(cudaMemcpy(model->inputs, inputs, B * widths[0] * sizeof(float), cudaMemcpyHostToDevice));
    float *x = model->inputs;
    for (int l = 0; l < NUM_LAYERS; l++) {
        int C = widths[l], OC = widths[l + 1];
        matmul_forward_kernel<<<CEIL_DIV(B * OC, 128), 128>>>(model->acts.pre[l], x, model->params.weight[l],
                                                              model->params.bias[l], B, C, OC);
        if (l < NUM_LAYERS - 1) {
            tanh_forward_kernel<<<CEIL_DIV(B * OC, 128), 128>>>(model->acts.post[l], model->acts.pre[l], B * OC);
            x = model->acts.post[l];
        }
    }
}

void model_zero_grad(Autoencoder *model) {
    if (model->grads_memory != NULL) {
        cudaCheck(cudaMemset(model->grads_memory, 0, model->num_parameters * sizeof(float)));
    }
}

void model_backward(Autoencoder *model) {
    int B = model->batch_size;
    // lazily allocate the memory for gradients of the weights and activations
    if (model->grads_memory == NULL) {
        cudaCheck(cudaMalloc((void **)&model->grads_memory, model->num_parameters * sizeof(float)));
        point_parameters(&model->grads, model->grads_memory);
        model->grads_acts_memory = malloc_and_point_activations(&model->grads_acts, B);
        model_zero_grad(model);
    }
    bce_kernel<<<CEIL_DIV(B, 32), 32>>>(model->losses, model->grads_acts.pre[NUM_LAYERS - 1],
                                        model->acts.pre[NUM_LAYERS - 1], model->inputs, B, widths[NUM_LAYERS]);
    for (int l = NUM_LAYERS - 1; l >= 0; l--) {
        int C = widths[l], OC = widths[l + 1];
        float *inp = l == 0 ? model->inputs : model->acts.post[l - 1];
        matmul_backward_weight_kernel<<<CEIL_DIV(C * OC, 128), 128>>>(
            model->grads.weight[l], model->grads.bias[l], model->grads_acts.pre[l], inp, B, C, OC);
        if (l > 0) {
            matmul_backward_inp_kernel<<<CEIL_DIV(B * C, 128), 128>>>(
                model->grads_acts.post[l - 1], model->grads_acts.pre[l], model->params.weight[l], B, C, OC);
            tanh_backward_kernel<<<CEIL_DIV(B * C, 128), 128>>>(model->grads_acts.pre[l - 1], model->acts.post[l - 1],
                                                                model->grads_acts.post[l - 1], B * C);
        }
    }
    cudaCheck(cudaMemcpy(model->cpu_losses, model->losses, B * sizeof(float), cudaMemcpyDeviceToHost));
    float mean_loss = 0.0f;
    for (int b = 0; b < B; b++) { mean_loss += model->cpu_losses[b]; }
    model->mean_loss = mean_loss / B;
}

void model_update(Autoencoder *model, float lr, int t) {
    if (model->m_memory == NULL) {
        cudaCheck(cudaMalloc((void **)&model->m_memory, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMalloc((void **)&model->v_memory, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMemset(model->m_memory, 0, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMemset(model->v_memory, 0, model->num_parameters * sizeof(float)));
    }
    int num_blocks = CEIL_DIV(model->num_parameters, 256);
    adamw_kernel<<<num_blocks, 256>>>(model->params_memory, model->grads_memory, model->m_memory, model->v_memory,
                                      model->num_parameters, lr, 0.9f, 0.99f, 1.0f - powf(0.9f, t),
                                      1.0f - powf(0.99f, t), 1e-8f, 0.001f);
    cudaCheck(cudaGetLastError());
}

void model_free(Autoencoder *model) {
    cudaFree(model->params_memory);
    cudaFree(model->grads_memory);
    cudaFree(model->m_memory);
    cudaFree(model->v_memory);
    cudaFree(model->acts_memory);
    cudaFree(model->grads_acts_memory);
    cudaFree(model->inputs);
    cudaFree(model->losses);
    free(model->cpu_losses);
}

// ----------------------------------------------------------------------------
// data loader

typedef struct {
    int B;
    int num_examples;
    float *examples;
    float *batch; // points into examples
    int position;
} DataLoader;

void dataloader_init(DataLoader *loader, int num_examples, int B) {
    uint64_t state = 42;
    loader->B = B;
    loader->num_examples = num_examples;
    loader->examples = (float *)calloc(num_examples * 64, sizeof(float));
    loader->position = 0;
    for (int n = 0; n < num_examples; n++) {
        float *e = loader->examples + n * 64;
        // two bars, horizontal or vertical
        for (int k = 0; k < 2; k++) {
            int vertical = random_u32(&state) & 1, at = random_u32(&state) % 8;
            for (int i = 0; i < 8; i++) { e[vertical ? i * 8 + at : at * 8 + i] = 1.0f; }
        }
    }
}

void dataloader_next_batch(DataLoader *loader) {
    if (loader->position + loader->B > loader->num_examples) { loader->position = 0; }
    loader->batch = loader->examples + loader->position * 64;
    loader->position += loader->B;
}

void dataloader_free(DataLoader *loader) { free(loader->examples); }

int main(void) {
    int B = 96;
    int num_steps = 120;
    DataLoader loader;
    dataloader_init(&loader, 2000, B);
    Autoencoder model;
    model_build(&model, B);

    for (int step = 0; step < num_steps; step++) {
        dataloader_next_batch(&loader);
        model_forward(&model, loader.batch, B);
        model_zero_grad(&model);
        model_backward(&model);
        model_update(&model, 5e-3f, step + 1);
        if (step % 10 == 0 || step == num_steps - 1) { printf("step %d: train loss %f\n", step, model.mean_loss); }
    }
    model_free(&model);
    dataloader_free(&loader);
    return 0;
}
