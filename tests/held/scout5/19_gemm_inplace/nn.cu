// Simple neural network in the style of "make your own neural network", on cuBLAS. Weights are corrected directly by one
// gemm with alpha = rate: there is no gradient array. Sigmoid, three layers, no biases.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_NODES 64
#define HIDDEN_NODES 40
#define OUTPUT_NODES 10
#define BATCH 50
#define TRAIN_SIZE 2000
#define EPOCHS 4

typedef struct NeuralNetwork {
    cublasHandle_t cublas;
    float learning_rate;
    float *wih, *who;                     // hidden x input, output x hidden (column major)
    float *inputs, *targets;              // a batch
    float *hidden_outputs, *final_outputs;
    float *output_errors, *hidden_errors; // also hold the deltas
} NeuralNetwork;

__global__ void sigmoid(float *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = 1.0f / (1.0f + __expf(-x[i]));
}

__global__ void subtract(const float *a, const float *b, float *c, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        c[i] = a[i] - b[i];
}

// e = e * o * (1 - o)
__global__ void delta(float *e, const float *o, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        e[i] *= o[i] * (1.0f - o[i]);
}

static float *random_weights(int n, float sd)
{
    float *h = (float *)malloc(n * sizeof(float)), *d;
    for (int i = 0; i < n; i++) {
        float s = 0; // sum of 12 uniforms
        for (int k = 0; k < 12; k++) s += (float)rand() / RAND_MAX;
        h[i] = (s - 6.0f) * sd;
    }
    cudaMalloc((void **)&d, n * sizeof(float));
    cublasSetVector(n, sizeof(float), h, 1, d, 1);
    free(h);
    return d;
}

static void nn_init(NeuralNetwork *nn, float rate)
{
    cublasCreate(&nn->cublas);
    nn->learning_rate = rate;
    nn->wih = random_weights(HIDDEN_NODES * INPUT_NODES, 1.0f / sqrtf(INPUT_NODES));
    nn->who = random_weights(OUTPUT_NODES * HIDDEN_NODES, 1.0f / sqrtf(HIDDEN_NODES));
    cudaMalloc((void **)&nn->inputs, INPUT_NODES * BATCH * sizeof(float));
    cudaMalloc((void **)&nn->targets, OUTPUT_NODES * BATCH * sizeof(float));
    cudaMalloc((void **)&nn->hidden_outputs, HIDDEN_NODES * BATCH * sizeof(float));
    cudaMalloc((void **)&nn->final_outputs, OUTPUT_NODES * BATCH * sizeof(float));
    cudaMalloc((void **)&nn->output_errors, OUTPUT_NODES * BATCH * sizeof(float));
    cudaMalloc((void **)&nn->hidden_errors, HIDDEN_NODES * BATCH * sizeof(float));
}

static void nn_query(NeuralNetwork *nn, const float *inputs, int count)
{
    const float one = 1.0f, zero = 0.0f;
    cublasSetMatrix(INPUT_NODES, count, sizeof(float), inputs, INPUT_NODES, nn->inputs, INPUT_NODES);
    cublasSgemm(nn->cublas, CUBLAS_OP_N, CUBLAS_OP_N, HIDDEN_NODES, count, INPUT_NODES, &one, nn->wih, HIDDEN_NODES, nn->inputs,
                INPUT_NODES, &zero, nn->hidden_outputs, HIDDEN_NODES);
    sigmoid<<<8, 64>>>(nn->hidden_outputs, HIDDEN_NODES * count);
    cublasSgemm(nn->cublas, CUBLAS_OP_N, CUBLAS_OP_N, OUTPUT_NODES, count, HIDDEN_NODES, &one, nn->who, OUTPUT_NODES,
                nn->hidden_outputs, HIDDEN_NODES, &zero, nn->final_outputs, OUTPUT_NODES);
    sigmoid<<<8, 64>>>(nn->final_outputs, OUTPUT_NODES * count);
}

// returns the squared error of the batch
static float nn_train(NeuralNetwork *nn, const float *inputs, const float *targets, int count)
{
    const float one = 1.0f, zero = 0.0f, rate = nn->learning_rate;
    float norm;
    nn_query(nn, inputs, count);
    cublasSetMatrix(OUTPUT_NODES, count, sizeof(float), targets, OUTPUT_NODES, nn->targets, OUTPUT_NODES);
    subtract<<<8, 64>>>(nn->targets, nn->final_outputs, nn->output_errors, OUTPUT_NODES * count);
    cublasSnrm2(nn->cublas, OUTPUT_NODES * count, nn->output_errors, 1, &norm);
    delta<<<8, 64>>>(nn->output_errors, nn->final_outputs, OUTPUT_NODES * count);
    cublasSgemm(nn->cublas, CUBLAS_OP_T, CUBLAS_OP_N, HIDDEN_NODES, count, OUTPUT_NODES, &one, nn->who, OUTPUT_NODES,
                nn->output_errors, OUTPUT_NODES, &zero, nn->hidden_errors, HIDDEN_NODES);
    delta<<<8, 64>>>(nn->hidden_errors, nn->hidden_outputs, HIDDEN_NODES * count);

    // who += rate * output_errors * hidden_outputs^T, the same for wih
    cublasSgemm(nn->cublas, CUBLAS_OP_N, CUBLAS_OP_T, OUTPUT_NODES, HIDDEN_NODES, count, &rate, nn->output_errors, OUTPUT_NODES,
                nn->hidden_outputs, HIDDEN_NODES, &one, nn->who, OUTPUT_NODES);
    cublasSgemm(nn->cublas, CUBLAS_OP_N, CUBLAS_OP_T, HIDDEN_NODES, INPUT_NODES, count, &rate, nn->hidden_errors, HIDDEN_NODES,
                nn->inputs, INPUT_NODES, &one, nn->wih, HIDDEN_NODES);
    return norm * norm;
}

static void nn_free(NeuralNetwork *nn)
{
    cudaFree(nn->wih); cudaFree(nn->who); cudaFree(nn->inputs); cudaFree(nn->targets);
    cudaFree(nn->hidden_outputs); cudaFree(nn->final_outputs); cudaFree(nn->output_errors); cudaFree(nn->hidden_errors);
    cublasDestroy(nn->cublas);
}

// ten fixed random 8x8 glyphs with noise; targets 0.01 and 0.99
static void make_glyphs(float *x, float *t, int *label, int n)
{
    static unsigned char glyph[OUTPUT_NODES][INPUT_NODES];
    for (int g = 0; g < OUTPUT_NODES; g++)
        for (int p = 0; p < INPUT_NODES; p++) glyph[g][p] = rand() % 3 == 0;
    for (int i = 0; i < n; i++) {
        label[i] = rand() % OUTPUT_NODES;
        for (int p = 0; p < INPUT_NODES; p++) {
            float v = 0.7f * glyph[label[i]][p] + 0.6f * rand() / RAND_MAX - 0.3f;
            x[i * INPUT_NODES + p] = v < 0.01f ? 0.01f : v;
        }
        for (int o = 0; o < OUTPUT_NODES; o++) t[i * OUTPUT_NODES + o] = o == label[i] ? 0.99f : 0.01f;
    }
}

int main(void)
{
    srand(2016);
    float *x = (float *)malloc(TRAIN_SIZE * INPUT_NODES * sizeof(float));
    float *t = (float *)malloc(TRAIN_SIZE * OUTPUT_NODES * sizeof(float));
    int *label = (int *)malloc(TRAIN_SIZE * sizeof(int));
    make_glyphs(x, t, label, TRAIN_SIZE);

    NeuralNetwork nn;
    nn_init(&nn, 0.08f);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float error = 0;
        for (int i = 0; i < TRAIN_SIZE; i += BATCH)
            error += nn_train(&nn, x + i * INPUT_NODES, t + i * OUTPUT_NODES, BATCH);

        float out[OUTPUT_NODES * BATCH];
        int score = 0;
        nn_query(&nn, x, BATCH);
        cublasGetMatrix(OUTPUT_NODES, BATCH, sizeof(float), nn.final_outputs, OUTPUT_NODES, out, OUTPUT_NODES);
        for (int i = 0; i < BATCH; i++) {
            int best = 0;
            for (int o = 1; o < OUTPUT_NODES; o++)
                if (out[i * OUTPUT_NODES + o] > out[i * OUTPUT_NODES + best]) best = o;
            score += best == label[i];
        }
        printf("epoch %d: mse %.5f, score on the first batch %d/%d\n", epoch, error / TRAIN_SIZE, score, BATCH);
    }
    nn_free(&nn);
    free(x);
    free(t);
    free(label);
    return 0;
}
