// Multivariate linear regression with minibatch gradient descent. The whole
// data set lives on the GPU, a batch is an offset into it.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

const int N = 4096;      // samples
const int D = 320;       // features
const int BATCH = 128;
const int STEPS = 160;

__global__ void predict_residual(const float *X, const float *y, const float *w, const float *b, float *res, int d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = *b;
    for (int j = 0; j < d; ++j)
        s += X[i * d + j] * w[j];
    res[i] = s - y[i];
}

__global__ void gradient(const float *X, const float *res, float *gw, float *gb, int d, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < d) {
        float s = 0;
        for (int i = 0; i < n; ++i)
            s += X[i * d + j] * res[i];
        gw[j] = 2.0f * s;
    } else if (j == d) {
        float s = 0;
        for (int i = 0; i < n; ++i)
            s += res[i];
        *gb = 2.0f * s;
    }
}

__global__ void descend(float *w, const float *g, float rate, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < n)
        w[j] -= rate * g[j];
}

int main()
{
    srand(7);
    std::vector<float> X(N * D), y(N), truth(D);
    for (auto &t : truth) t = rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < N; ++i) {
        float s = 1.5f;
        for (int j = 0; j < D; ++j) {
            X[i * D + j] = rand() / (float)RAND_MAX * 2 - 1;
            s += X[i * D + j] * truth[j];
        }
        y[i] = s + 0.05f * (rand() / (float)RAND_MAX - 0.5f);
    }

    float *dX, *dy, *w, *b, *gw, *gb, *res;
    cudaMalloc(&dX, N * D * sizeof(float));
    cudaMalloc(&dy, N * sizeof(float));
    cudaMalloc(&w, D * sizeof(float));
    cudaMalloc(&b, sizeof(float));
    cudaMalloc(&gw, D * sizeof(float));
    cudaMalloc(&gb, sizeof(float));
    cudaMalloc(&res, BATCH * sizeof(float));
    cudaMemcpy(dX, X.data(), N * D * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * sizeof(float));
    cudaMemset(b, 0, sizeof(float));

    const float lr = 0.4f / 2;
    std::vector<float> h(BATCH);
    for (int step = 0; step < STEPS; ++step) {
        int first = (step * BATCH) % N;
        const float *bx = dX + (size_t)first * D;
        const float *by = dy + first;
        predict_residual<<<(BATCH + 127) / 128, 128>>>(bx, by, w, b, res, D, BATCH);
        gradient<<<(D + 1 + 127) / 128, 128>>>(bx, res, gw, gb, D, BATCH);
        descend<<<(D + 127) / 128, 128>>>(w, gw, lr / BATCH, D);
        descend<<<1, 1>>>(b, gb, lr / BATCH, 1);
        if (step % 20 == 0 || step == STEPS - 1) {
            cudaMemcpy(h.data(), res, BATCH * sizeof(float), cudaMemcpyDeviceToHost);
            double mse = 0;
            for (float r : h) mse += r * r;
            printf("step %3d  mse %.5f\n", step, mse / BATCH);
        }
    }
    float hb;
    cudaMemcpy(&hb, b, sizeof(float), cudaMemcpyDeviceToHost);
    printf("intercept %.3f (1.5)\n", hb);
    cudaFree(dX); cudaFree(dy); cudaFree(w); cudaFree(b); cudaFree(gw); cudaFree(gb); cudaFree(res);
    return 0;
}
