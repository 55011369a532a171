/*
Tiny character language model in one file: token embeddings of a context of
CTX characters, one hidden layer, softmax over the vocabulary, AdamW.
All parameters live in one allocation, all gradients in another.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <assert.h>
#include <cuda_runtime.h>
#include <cublas_v2.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
void cublas_check(cublasStatus_t status, const char *file, int line) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        printf("[cuBLAS ERROR]: %d %s %d\n", (int)status, file, line);
        exit(EXIT_FAILURE);
    }
}
#define cublasCheck(status) { cublas_check((status), __FILE__, __LINE__); }

static cublasHandle_t cublas_handle;

typedef struct {
    int vocab_size; // V
    int ctx;        // T
    int channels;   // C
    int hidden;     // H
} LMConfig;

#define NUM_PARAMETER_TENSORS 5
typedef struct {
    float *wte; // V, C
    float *fcw; // H, T*C
    float *fcb; // H
    float *ow;  // V, H
    float *ob;  // V
} ParameterTensors;

void fill_in_parameter_sizes(size_t *param_sizes, LMConfig config) {
    int V = config.vocab_size, T = config.ctx, C = config.channels, H = config.hidden;
    param_sizes[0] = V * C;
    param_sizes[1] = H * T * C;
    param_sizes[2] = H;
    param_sizes[3] = V * H;
    param_sizes[4] = V;
}

float *malloc_and_point_parameters(ParameterTensors *params, size_t *param_sizes) {
    size_t num_parameters = 0;
    for (size_t i = 0; i < NUM_PARAMETER_TENSORS; i++) num_parameters += param_sizes[i];
    float *params_memory;
    cudaCheck(cudaMalloc((void **)&params_memory, num_parameters * sizeof(float)));
    float **ptrs[] = {&params->wte, &params->fcw, &params->fcb, &params->ow, &params->ob};
    float *it = params_memory;
    for (size_t i = 0; i < NUM_PARAMETER_TENSORS; i++) {
        *(ptrs[i]) = it;
        it += param_sizes[i];
    }
    return params_memory;
}

typedef struct {
    float *enc;    // B, T*C
    float *h;      // B, H
    float *logits; // B, V
    float *losses; // B
    float *dlogits;
    float *dh;
    float *denc;
} ActivationTensors;

typedef struct {
    LMConfig config;
    ParameterTensors params;
    size_t param_sizes[NUM_PARAMETER_TENSORS];
    float *params_memory;
    size_t num_parameters;
    ParameterTensors grads;
    float *grads_memory;
    float *m_memory;
    float *v_memory;
    ActivationTensors acts;
    int batch_size;
    int *inputs;
    int *targets;
    float *cpu_losses;
    float mean_loss;
} LM;

// ---------------------------------------------------------------- kernels
__global__ void encoder_forward_kernel(float *out, const int *inp, const float *wte, int B, int T, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, c = idx % C;
        out[idx] = wte[inp[bt] * C + c];
    }
}
__global__ void encoder_backward_kernel(float *dwte, const float *dout, const int *inp, int B, int T, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, c = idx % C;
        atomicAdd(dwte + inp[bt] * C + c, dout[idx]);
    }
}
__global__ void add_bias_kernel(float *out, const float *bias, int B, int OC) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * OC) out[idx] += bias[idx % OC];
}
__global__ void tanh_forward_kernel(float *x, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) x[i] = tanhf(x[i]);
}
__global__ void tanh_backward_kernel(float *dx, const float *y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) dx[i] *= 1.0f - y[i] * y[i];
}
__global__ void matmul_backward_bias_kernel(float *dbias, const float *dout, int B, int OC) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= OC) return;
    float sum = 0.0f;
    for (int b = 0; b < B; b++) sum += dout[b * OC + o];
    dbias[o] += sum;
}
__global__ void fused_classifier_kernel(float *dlogits, float *losses, const float *logits, float dloss, const int *targets, int B, int V) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    const float *x = logits + b * V;
    float maxval = -INFINITY, sum = 0.0f;
    for (int i = 0; i < V; i++) maxval = fmaxf(maxval, x[i]);
    for (int i = 0; i < V; i++) sum += expf(x[i] - maxval);
    int ix = targets[b];
    losses[b] = -(x[ix] - maxval - logf(sum));
    for (int i = 0; i < V; i++)
        dlogits[b * V + i] = (expf(x[i] - maxval) / sum - (i == ix ? 1.0f : 0.0f)) * dloss;
}
__global__ void adamw_kernel(float *params_memory, const float *grads_memory, float *m_memory, float *v_memory, long num_parameters,
                             float learning_rate, float beta1, float beta2, float beta1_correction, float beta2_correction,
                             float eps, float weight_decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_parameters) return;
    float grad = grads_memory[i];
    float m = beta1 * m_memory[i] + (1.0f - beta1) * grad;
    float v = beta2 * v_memory[i] + (1.0f - beta2) * grad * grad;
    m_memory[i] = m;
    v_memory[i] = v;
    m /= beta1_correction;
    v /= beta2_correction;
    params_memory[i] -= learning_rate * (m / (sqrtf(v) + eps) + weight_decay * params_memory[i]);
}

// ---------------------------------------------------------------- layers
void matmul_forward(float *out, const float *inp, const float *weight, const float *bias, int B, int C, int OC) {
    const float alpha = 1.0f, beta = 0.0f;
    cublasCheck(cublasSgemm(cublas_handle, CUBLAS_OP_T, CUBLAS_OP_N, OC, B, C, &alpha, weight, C, inp, C, &beta, out, OC));
    add_bias_kernel<<<CEIL_DIV(B * OC, 256), 256>>>(out, bias, B, OC);
    cudaCheck(cudaGetLastError());
}
void matmul_backward(float *dinp, float *dweight, float *dbias, const float *dout, const float *inp, const float *weight, int B, int C, int OC) {
    const float one = 1.0f, zero = 0.0f;
    cublasCheck(cublasSgemm(cublas_handle, CUBLAS_OP_N, CUBLAS_OP_N, C, B, OC, &one, weight, C, dout, OC, &zero, dinp, C));
    cublasCheck(cublasSgemm(cublas_handle, CUBLAS_OP_N, CUBLAS_OP_T, C, OC, B, &one, inp, C, dout, OC, &one, dweight, C));
    matmul_backward_bias_kernel<<<CEIL_DIV(OC, 64), 64>>>(dbias, dout, B, OC);
    cudaCheck(cudaGetLastError());
}

void lm_build(LM *model, LMConfig config, int B) {
    model->config = config;
    fill_in_parameter_sizes(model->param_sizes, config);
    model->num_parameters = 0;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) model->num_parameters += model->param_sizes[i];
    model->params_memory = malloc_and_point_parameters(&model->params, model->param_sizes);
    float *params_cpu = (float *)calloc(model->num_parameters, sizeof(float));
    size_t off = 0;
    float scales[NUM_PARAMETER_TENSORS] = {0.5f, 1.0f / sqrtf(config.ctx * config.channels), 0.0f, 1.0f / sqrtf(config.hidden), 0.0f};
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        for (size_t k = 0; k < model->param_sizes[i]; k++)
            params_cpu[off++] = scales[i] * (2.0f * rand() / RAND_MAX - 1.0f);
    cudaCheck(cudaMemcpy(model->params_memory, params_cpu, model->num_parameters * sizeof(float), cudaMemcpyHostToDevice));
    free(params_cpu);
    model->grads_memory = NULL;
    model->m_memory = NULL;
    model->v_memory = NULL;
    model->batch_size = B;
    ActivationTensors *a = &model->acts;
    int TC = config.ctx * config.channels;
    cudaCheck(cudaMalloc(&a->enc, B * TC * sizeof(float)));
    cudaCheck(cudaMalloc(&a->h, B * config.hidden * sizeof(float)));
    cudaCheck(cudaMalloc(&a->logits, B * config.vocab_size * sizeof(float)));
    cudaCheck(cudaMalloc(&a->losses, B * sizeof(float)));
    cudaCheck(cudaMalloc(&a->dlogits, B * config.vocab_size * sizeof(float)));
    cudaCheck(cudaMalloc(&a->dh, B * config.hidden * sizeof(float)));
    cudaCheck(cudaMalloc(&a->denc, B * TC * sizeof(float)));
    cudaCheck(cudaMalloc(&model->inputs, B * config.ctx * sizeof(int)));
    cudaCheck(cudaMalloc(&model->targets, B * sizeof(int)));
    cudaCheck(cudaMallocHost((void **)&model->cpu_losses, B * sizeof(float)));
}

void lm_forward(LM *model, const int *inputs, const int *targets, int B) {
    int V = model->config.vocab_size, T = model->config.ctx, C = model->config.channels, H = model->config.hidden;
    ParameterTensors p = model->params;
    ActivationTensors a = model->acts;
    cudaCheck(cudaMemcpy(model->inputs, inputs, B * T * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(model->targets, targets, B * sizeof(int), cudaMemcpyHostToDevice));
    encoder_forward_kernel<<<CEIL_DIV(B * T * C, 256), 256>>>(a.enc, model->inputs, p.wte, B, T, C);
    matmul_forward(a.h, a.enc, p.fcw, p.fcb, B, T * C, H);
    tanh_forward_kernel<<<CEIL_DIV(B * H, 256), 256>>>(a.h, B * H);
    matmul_forward(a.logits, a.h, p.ow, p.ob, B, H, V);
    fused_classifier_kernel<<<CEIL_DIV(B, 32), 32>>>(a.dlogits, a.losses, a.logits, 1.0f / B, model->targets, B, V);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaMemcpy(model->cpu_losses, a.losses, B * sizeof(float), cudaMemcpyDeviceToHost));
    float mean_loss = 0.0f;
    for (int i = 0; i < B; i++) mean_loss += model->cpu_losses[i];
    model->mean_loss = mean_loss / B;
}

void lm_zero_grad(LM *model) {
    if (model->grads_memory != NULL) cudaCheck(cudaMemset(model->grads_memory, 0, model->num_parameters * sizeof(float)));
}

void lm_backward(LM *model) {
    // lazily allocate the memory for gradients of the weights
    if (model->grads_memory == NULL) {
        model->grads_memory = malloc_and_point_parameters(&model->grads, model->param_sizes);
        printf("allocated %zu KiB for parameter gradients\n", model->num_parameters * sizeof(float) >> 10);
        lm_zero_grad(model);
    }
    int B = model->batch_size, V = model->config.vocab_size, T = model->config.ctx, C = model->config.channels, H = model->config.hidden;
    ParameterTensors p = model->params, g = model->grads;
    ActivationTensors a = model->acts;
    matmul_backward(a.dh, g.ow, g.ob, a.dlogits, a.h, p.ow, B, H, V);
    tanh_backward_kernel<<<CEIL_DIV(B * H, 256), 256>>>(a.dh, a.h, B * H);
    matmul_backward(a.denc, g.fcw, g.fcb, a.dh, a.enc, p.fcw, B, T * C, H);
    encoder_backward_kernel<<<CEIL_DIV(B * T * C, 256), 256>>>(g.wte, a.denc, model->inputs, B, T, C);
    cudaCheck(cudaGetLastError());
}

void lm_update(LM *model, float learning_rate, float beta1, float beta2, float eps, float weight_decay, int t) {
    if (model->m_memory == NULL) {
        cudaCheck(cudaMalloc((void **)&model->m_memory, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMalloc((void **)&model->v_memory, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMemset(model->m_memory, 0, model->num_parameters * sizeof(float)));
        cudaCheck(cudaMemset(model->v_memory, 0, model->num_parameters * sizeof(float)));
    }
    adamw_kernel<<<CEIL_DIV(model->num_parameters, 512), 512>>>(model->params_memory, model->grads_memory, model->m_memory, model->v_memory,
                                                               model->num_parameters, learning_rate, beta1, beta2, 1.0f - powf(beta1, t),
                                                               1.0f - powf(beta2, t), eps, weight_decay);
    cudaCheck(cudaGetLastError());
}

// ---------------------------------------------------------------- data
typedef struct {
    int B, T;
    const int *tokens;
    long n, pos;
    int *inputs, *targets;
} DataLoader;

void dataloader_init(DataLoader *loader, const int *tokens, long n, int B, int T) {
    loader->B = B; loader->T = T; loader->tokens = tokens; loader->n = n; loader->pos = 0;
    loader->inputs = (int *)malloc(B * T * sizeof(int));
    loader->targets = (int *)malloc(B * sizeof(int));
}
void dataloader_next_batch(DataLoader *loader) {
    for (int b = 0; b < loader->B; b++) {
        if (loader->pos + loader->T + 1 > loader->n) loader->pos = 0;
        for (int t = 0; t < loader->T; t++) loader->inputs[b * loader->T + t] = loader->tokens[loader->pos + t];
        loader->targets[b] = loader->tokens[loader->pos + loader->T];
        loader->pos += 1;
    }
}

static const char *text =
    "the quick brown fox jumps over the lazy dog. she sells sea shells by the sea shore. how much wood would a woodchuck chuck "
    "if a woodchuck could chuck wood. peter piper picked a peck of pickled peppers. a peck of pickled peppers peter piper picked. "
    "if peter piper picked a peck of pickled peppers, where is the peck of pickled peppers peter piper picked. betty bought a bit "
    "of butter but the butter was bitter so betty bought a better butter to make the bitter butter better. ";

int main(void) {
    srand(1337);
    int B = 64; // batch size
    LMConfig config = {28, 6, 12, 64};
    cublasCheck(cublasCreate(&cublas_handle));

    long n = strlen(text);
    int *tokens = (int *)malloc(n * sizeof(int));
    for (long i = 0; i < n; i++) tokens[i] = text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' : text[i] == ' ' ? 26 : 27;
    DataLoader train_loader, val_loader;
    long split = n * 9 / 10;
    dataloader_init(&train_loader, tokens, split, B, config.ctx);
    dataloader_init(&val_loader, tokens + split - config.ctx, n - split + config.ctx, B, config.ctx);

    LM model;
    lm_build(&model, config, B);
    printf("num_parameters: %zu\n", model.num_parameters);

    for (int step = 0; step <= 120; step++) {
        if (step % 20 == 0) {
            float val_loss = 0.0f;
            val_loader.pos = 0;
            for (int i = 0; i < 2; i++) {
                dataloader_next_batch(&val_loader);
                lm_forward(&model, val_loader.inputs, val_loader.targets, B);
                val_loss += model.mean_loss;
            }
            printf("val loss %f\n", val_loss / 2);
        }
        if (step == 120) break;
        dataloader_next_batch(&train_loader);
        lm_forward(&model, train_loader.inputs, train_loader.targets, B);
        lm_zero_grad(&model);
        lm_backward(&model);
        lm_update(&model, 3e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, step + 1);
        if (step % 10 == 0) printf("step %d: train loss %f\n", step, model.mean_loss);
    }
    cublasCheck(cublasDestroy(cublas_handle));
    return 0;
}
