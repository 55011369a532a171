/* Multiclass linear SVM (Weston-Watkins hinge loss, L2 regularisation), double precision.
 * All samples and a shuffled permutation of them stay on the device. */
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define NUM_SAMPLES 2048
#define NUM_FEATURES 48
#define NUM_CLASSES 6
#define BATCH 64
#define LAMBDA 1e-4
#define EPOCHS 4

#define gpu(call) { cudaError_t rc = (call); if (rc != cudaSuccess) { printf("%s failed: %s\n", #call, cudaGetErrorString(rc)); exit(2); } }

__device__ double d_objective;

/* one block for each sample, one thread for each feature; row c of W belongs to class c */
__global__ void hinge_subgradient(const double *x, const int *label, const int *perm, int offset, int batch, const double *W, double *G)
{
    __shared__ double score[NUM_CLASSES];
    int s = perm[offset + blockIdx.x];
    int f = threadIdx.x;
    if (f < NUM_CLASSES) {
        double a = 0;
        for (int k = 0; k < NUM_FEATURES; k++)
            a += W[f * NUM_FEATURES + k] * x[s * NUM_FEATURES + k];
        score[f] = a;
    }
    __syncthreads();
    int y = label[s];
    double v = x[s * NUM_FEATURES + f] / batch;
    double loss = 0;
    int violations = 0;
    for (int c = 0; c < NUM_CLASSES; c++) {
        if (c == y) continue;
        double margin = score[c] - score[y] + 1;
        if (margin > 0) {
            loss += margin;
            violations++;
            atomicAdd(&G[c * NUM_FEATURES + f], v);
        }
    }
    if (violations)
        atomicAdd(&G[y * NUM_FEATURES + f], -violations * v);
    if (f == 0 && loss > 0)
        atomicAdd(&d_objective, loss / batch);
}

__global__ void pegasos_step(double *W, double *G, int n, double eta)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        W[i] -= eta * (G[i] + LAMBDA * W[i]);
        G[i] = 0;
    }
}

static double uniform(void) { return rand() / (double)RAND_MAX; }

int main(void)
{
    int i, k, epoch, step = 0;
    double *x, *dx, *W, *G;
    int *label, *perm, *dlabel, *dperm;
    double centre[NUM_CLASSES][NUM_FEATURES];
    const int n = NUM_CLASSES * NUM_FEATURES;

    srand(17);
    x = (double *)malloc(sizeof(double) * NUM_SAMPLES * NUM_FEATURES);
    label = (int *)malloc(sizeof(int) * NUM_SAMPLES);
    perm = (int *)malloc(sizeof(int) * NUM_SAMPLES);
    for (i = 0; i < NUM_CLASSES; i++)
        for (k = 0; k < NUM_FEATURES; k++)
            centre[i][k] = uniform() - 0.5;
    for (i = 0; i < NUM_SAMPLES; i++) {
        perm[i] = i;
        label[i] = rand() % NUM_CLASSES;
        for (k = 0; k < NUM_FEATURES; k++)
            x[i * NUM_FEATURES + k] = centre[label[i]][k] + 1.5 * (uniform() - 0.5);
    }

    gpu(cudaMalloc((void **)&dx, sizeof(double) * NUM_SAMPLES * NUM_FEATURES));
    gpu(cudaMalloc((void **)&dlabel, sizeof(int) * NUM_SAMPLES));
    gpu(cudaMalloc((void **)&dperm, sizeof(int) * NUM_SAMPLES));
    gpu(cudaMalloc((void **)&W, sizeof(double) * n));
    gpu(cudaMalloc((void **)&G, sizeof(double) * n));
    gpu(cudaMemcpy(dx, x, sizeof(double) * NUM_SAMPLES * NUM_FEATURES, cudaMemcpyHostToDevice));
    gpu(cudaMemcpy(dlabel, label, sizeof(int) * NUM_SAMPLES, cudaMemcpyHostToDevice));
    gpu(cudaMemset(W, 0, sizeof(double) * n));
    gpu(cudaMemset(G, 0, sizeof(double) * n));

    for (epoch = 0; epoch < EPOCHS; epoch++) {
        double objective = 0;
        for (i = NUM_SAMPLES - 1; i > 0; i--) {
            int j = rand() % (i + 1), t = perm[i];
            perm[i] = perm[j];
            perm[j] = t;
        }
        gpu(cudaMemcpy(dperm, perm, sizeof(int) * NUM_SAMPLES, cudaMemcpyHostToDevice));
        gpu(cudaMemcpyToSymbol(d_objective, &objective, sizeof(double)));
        for (i = 0; i < NUM_SAMPLES; i += BATCH) {
            double eta = 0.5 / (1 + 0.05 * step++);
            hinge_subgradient<<<BATCH, NUM_FEATURES>>>(dx, dlabel, dperm, i, BATCH, W, G);
            pegasos_step<<<(n + 95) / 96, 96>>>(W, G, n, eta);
        }
        gpu(cudaMemcpyFromSymbol(&objective, d_objective, sizeof(double)));
        printf("epoch %d: hinge loss %.5f\n", epoch, objective / (NUM_SAMPLES / BATCH));
    }
    cudaFree(dx); cudaFree(dlabel); cudaFree(dperm); cudaFree(W); cudaFree(G);
    free(x); free(label); free(perm);
    return 0;
}
