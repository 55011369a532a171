// Two linear layers with a ReLU between; velocities are accumulated by the gemms, and the weights change inside backward.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <vector>
#include "ddprun.h"

#define A(x) assert_ok((int)(x), #x, __LINE__)
static void assert_ok(int status, const char *text, int line)
{
    if (status == 0) return;
    fprintf(stderr, "line %d: %s gave %d\n", line, text, status);
    exit(1);
}

static unsigned long long seed = 42;
static float r11()
{
    seed ^= seed << 7;
    seed ^= seed >> 9;
    return (float)(seed >> 40) / 8388608.f - 1.f;
}

static const int IN = 16, MID = 40, OUT = 5, BATCH = 32, ROWS = 640;
static cublasHandle_t handle;

static float *memory(int n)
{
    float *p;
    A(cudaMalloc((void **)&p, n * sizeof(float)));
    A(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

__global__ void clip_negative(float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = a[i] > 0 ? a[i] : 0;
}
__global__ void clip_back(float *d, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !(a[i] > 0)) d[i] = 0;
}
__global__ void difference(const float *y, const float *target, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = y[i] - target[i];
}

// weights [out][in], column-major: y = W x for each column x
class Linear {
  public:
    float *weights;
    Linear(int in_, int out_) : in(in_), out(out_)
    {
        std::vector<float> h(in * out);
        for (float &v : h) v = r11() * sqrtf(3.f / in);
        weights = memory(in * out);
        velocity = memory(in * out);
        y = memory(out * BATCH);
        A(cudaMemcpy(weights, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    int size() const { return in * out; }
    float *forward(const float *x, int n)
    {
        const float one = 1, zero = 0;
        A(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, out, n, in, &one, weights, out, x, in, &zero, y, out));
        return y;
    }
    void backward(const float *x, const float *dy, float *dx, int n, float rate, float decay)
    {
        const float one = 1, zero = 0, mean = 1.f / n, keep = 0.9f, step = -rate, shrink = 1 - rate * decay;
        if (dx) A(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, in, n, out, &one, weights, out, dy, out, &zero, dx, in));
        A(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, out, in, n, &mean, dy, out, x, in, &keep, velocity, out));
        A(cublasSscal(handle, in * out, &shrink, weights, 1));
        A(cublasSaxpy(handle, in * out, &step, velocity, 1, weights, 1));
    }

  private:
    int in, out;
    float *velocity, *y;
};

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> X(ROWS * IN), T(ROWS * OUT), truth(IN * OUT);
    for (float &v : truth) v = r11();
    for (float &v : X) v = r11();
    for (int r = 0; r < ROWS; ++r)
        for (int o = 0; o < OUT; ++o) {
            float s = 0;
            for (int k = 0; k < IN; ++k) s += truth[o * IN + k] * X[r * IN + k];
            T[r * OUT + o] = fabsf(s) - 0.3f * s;
        }
    A(cublasCreate(&handle));
    Linear first_layer(IN, MID), second_layer(MID, OUT);
    float *x = memory(IN * BATCH), *t = memory(OUT * BATCH), *d2 = memory(OUT * BATCH), *d1 = memory(MID * BATCH);
    DDP_PARAMETER(first_layer.weights, first_layer.size(), DDP_FLOAT32);
    DDP_PARAMETER(second_layer.weights, second_layer.size(), DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t from, count;
        DDP_SHARD(BATCH, &from, &count);
        const int n = (int)count, row = s * BATCH % ROWS + (int)from;
        A(cudaMemcpy(x, &X[row * IN], n * IN * sizeof(float), cudaMemcpyHostToDevice));
        A(cudaMemcpy(t, &T[row * OUT], n * OUT * sizeof(float), cudaMemcpyHostToDevice));
        float *h = first_layer.forward(x, n);
        clip_negative<<<(n * MID + 127) / 128, 128>>>(h, n * MID);
        float *y = second_layer.forward(h, n);
        difference<<<(n * OUT + 127) / 128, 128>>>(y, t, d2, n * OUT);
        second_layer.backward(h, d2, d1, n, 0.02f, 0.01f);
        clip_back<<<(n * MID + 127) / 128, 128>>>(d1, h, n * MID);
        first_layer.backward(x, d1, NULL, n, 0.02f, 0.01f);
        DDP_STEP_PARAMETERS(0);
        float norm;
        A(cublasSdot(handle, n * OUT, d2, 1, d2, 1, &norm));
        norm /= n;
        DDP_MEAN_AS("squared error", &norm);
        if (DDP_RANK() == 0 && s % 10 == 0) printf("%2d %.5f\n", s, norm);
    }
    std::vector<float> all(first_layer.size() + second_layer.size());
    A(cudaMemcpy(all.data(), first_layer.weights, first_layer.size() * sizeof(float), cudaMemcpyDeviceToHost));
    A(cudaMemcpy(&all[first_layer.size()], second_layer.weights, second_layer.size() * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(all.data(), sizeof(float), all.size(), f);
        fclose(f);
    }
    cublasDestroy(handle);
    return 0;
}
