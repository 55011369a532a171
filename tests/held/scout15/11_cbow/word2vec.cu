// Continuous bag of words with a full softmax over a small vocabulary.
// The token stream stays on the device; each step gets a list of centre positions.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int VOCAB = 60, DIM = 11, WINDOW = 2, TOKENS = 2000, BATCH = 50, STEPS = 60;

struct Model {
    float *in, *out;   // VOCAB x DIM each
};

__global__ void average_context(const int *tokens, const int *pos, const float *in, float *ctx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * DIM) return;
    int p = pos[i / DIM], d = i % DIM;
    float s = 0;
    for (int o = -WINDOW; o <= WINDOW; o++)
        if (o) s += in[tokens[p + o] * DIM + d];
    ctx[i] = s / (2 * WINDOW);
}

__global__ void softmax_nll(float *score, const int *tokens, const int *pos, float *loss, int n) {
    int i = blockIdx.x;
    if (i >= n || threadIdx.x) return;
    float *s = score + i * VOCAB;
    float z = 0;
    for (int v = 0; v < VOCAB; v++) {
        s[v] = expf(s[v]);
        z += s[v];
    }
    int target = tokens[pos[i]];
    atomicAdd(loss, -logf(s[target] / z) / n);
    for (int v = 0; v < VOCAB; v++) s[v] = (s[v] / z - (v == target)) / n;
}

__global__ void scatter_context(const int *tokens, const int *pos, const float *dctx, float *gin, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * DIM) return;
    int p = pos[i / DIM], d = i % DIM;
    for (int o = -WINDOW; o <= WINDOW; o++)
        if (o) atomicAdd(&gin[tokens[p + o] * DIM + d], dctx[i] / (2 * WINDOW));
}

static Model allocate(bool random) {
    Model m;
    size_t bytes = VOCAB * DIM * sizeof(float);
    cudaMalloc((void **)&m.in, bytes);
    cudaMalloc((void **)&m.out, bytes);
    std::vector<float> h(VOCAB * DIM, 0.0f);
    for (float **p : {&m.in, &m.out}) {
        if (random)
            for (auto &v : h) v = (float)rand() / RAND_MAX - 0.5f;
        cudaMemcpy(*p, h.data(), bytes, cudaMemcpyHostToDevice);
    }
    return m;
}

int main() {
    srand(31);
    std::vector<int> tokens(TOKENS);
    for (int i = 0; i < TOKENS; i++)  // words come in runs of neighbours
        tokens[i] = i && rand() % 10 < 8 ? (tokens[i - 1] + rand() % 3) % VOCAB : rand() % VOCAB;

    Model w = allocate(true), g = allocate(false);
    int *d_tokens, *d_pos;
    float *ctx, *dctx, *score, *d_loss;
    cudaMalloc((void **)&d_tokens, TOKENS * sizeof(int));
    cudaMalloc((void **)&d_pos, BATCH * sizeof(int));
    cudaMalloc((void **)&ctx, BATCH * DIM * sizeof(float));
    cudaMalloc((void **)&dctx, BATCH * DIM * sizeof(float));
    cudaMalloc((void **)&score, BATCH * VOCAB * sizeof(float));
    cudaMalloc((void **)&d_loss, sizeof(float));
    cudaMemcpy(d_tokens, tokens.data(), TOKENS * sizeof(int), cudaMemcpyHostToDevice);

    cublasHandle_t handle;
    cublasCreate(&handle);
    const float one = 1.0f, zero = 0.0f;
    float avg = 0.0f;
    int pos[BATCH];
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < BATCH; i++) pos[i] = WINDOW + rand() % (TOKENS - 2 * WINDOW);
        cudaMemcpy(d_pos, pos, sizeof(pos), cudaMemcpyHostToDevice);

        average_context<<<(BATCH * DIM + 127) / 128, 128>>>(d_tokens, d_pos, w.in, ctx, BATCH);
        cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, VOCAB, BATCH, DIM, &one, w.out, DIM, ctx, DIM, &zero, score, VOCAB);
        cudaMemset(d_loss, 0, sizeof(float));
        softmax_nll<<<BATCH, 1>>>(score, d_tokens, d_pos, d_loss, BATCH);

        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, DIM, VOCAB, BATCH, &one, ctx, DIM, score, VOCAB, &zero, g.out, DIM);
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, DIM, BATCH, VOCAB, &one, w.out, DIM, score, VOCAB, &zero, dctx, DIM);
        cudaMemset(g.in, 0, VOCAB * DIM * sizeof(float));
        scatter_context<<<(BATCH * DIM + 127) / 128, 128>>>(d_tokens, d_pos, dctx, g.in, BATCH);

        float lr = -4.0f * (1.0f - 0.5f * step / STEPS);
        cublasSaxpy(handle, VOCAB * DIM, &lr, g.in, 1, w.in, 1);
        cublasSaxpy(handle, VOCAB * DIM, &lr, g.out, 1, w.out, 1);

        float loss;
        cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
        avg += loss;
        if (step % 10 == 0) {
            printf("step %d\tlr %.4f\tloss %.4f\n", step, -lr, avg / 10);
            avg = 0.0f;
        }
    }
    cublasDestroy(handle);
    cudaFree(w.in); cudaFree(w.out); cudaFree(g.in); cudaFree(g.out);
    cudaFree(d_tokens); cudaFree(d_pos); cudaFree(ctx); cudaFree(dctx); cudaFree(score); cudaFree(d_loss);
    return 0;
}
