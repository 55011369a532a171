/* One-dimensional convolution + linear read-out: where does a pulse sit in a noisy signal?
 * The parameters are rows of one table, which allocation, Adam and clean-up walk through. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 20, TAPS = 5, CHANNELS = 3, WIDTH = LENGTH - TAPS + 1 };
enum { KERNEL, KERNEL_BIAS, READ, READ_BIAS, TENSORS };

typedef struct {
    const char *name;
    int count;
    float init;
    float *value, *slope, *moment[2];
} tensor;

static tensor table[TENSORS] = {
    {"kernel", CHANNELS * TAPS, 0.5f},
    {"kernel bias", CHANNELS, 0.1f},
    {"read", CHANNELS * WIDTH, 0.1f},
    {"read bias", 1, 0.1f},
};

struct example { float signal[LENGTH]; float position; };

__global__ void convolve(const example *e, const float *k, const float *kb, float *act)
{
    int i = blockIdx.x, c = threadIdx.x / WIDTH, x = threadIdx.x % WIDTH;
    float s = kb[c];
    for (int t = 0; t < TAPS; ++t) s += k[c * TAPS + t] * e[i].signal[x + t];
    act[i * CHANNELS * WIDTH + threadIdx.x] = tanhf(s);
}

__global__ void read_out(const example *e, const float *act, const float *r, const float *rb, float *error)
{
    int i = threadIdx.x;
    float s = rb[0];
    for (int q = 0; q < CHANNELS * WIDTH; ++q) s += r[q] * act[i * CHANNELS * WIDTH + q];
    error[i] = s - e[i].position;
}

__global__ void read_slope(const float *act, const float *error, float *dr, float *drb, int n)
{
    int q = threadIdx.x;
    float s = 0, b = 0;
    for (int i = 0; i < n; ++i) {
        s += error[i] * act[i * CHANNELS * WIDTH + q] / n;
        b += error[i] / n;
    }
    dr[q] = s;
    if (q == 0) *drb = b;
}

__global__ void kernel_slope(const example *e, const float *act, const float *error, const float *r, float *dk, float *dkb, int n)
{
    int c = blockIdx.x, t = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i)
        for (int x = 0; x < WIDTH; ++x) {
            float a = act[(i * CHANNELS + c) * WIDTH + x];
            s += error[i] / n * r[c * WIDTH + x] * (1 - a * a) * (t < TAPS ? e[i].signal[x + t] : 1);
        }
    *(t < TAPS ? dk + c * TAPS + t : dkb + c) = s;
}

__global__ void adam(tensor w, float rate, float beta1, float beta2, int t)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= w.count) return;
    float m = w.moment[0][q] = beta1 * w.moment[0][q] + (1 - beta1) * w.slope[q];
    float v = w.moment[1][q] = beta2 * w.moment[1][q] + (1 - beta2) * w.slope[q] * w.slope[q];
    w.value[q] -= rate * m / (1 - powf(beta1, t)) / (sqrtf(v / (1 - powf(beta2, t))) + 1e-6f);
}

int main(void)
{
    enum { EXAMPLES = 120 };
    int batch = 12;
    static example set[EXAMPLES];
    srand(17);
    for (int i = 0; i < EXAMPLES; ++i) {
        int at = 2 + rand() % (LENGTH - 4);
        for (int x = 0; x < LENGTH; ++x) set[i].signal[x] = expf(-0.5f * (x - at) * (x - at)) + (rand() % 100) / 1000.0f;
        set[i].position = at / (LENGTH / 2.0f) - 1;
    }
    for (tensor *t = table; t < table + TENSORS; ++t) {
        size_t bytes = t->count * sizeof(float);
        float *h = (float *)malloc(bytes);
        for (int q = 0; q < t->count; ++q) h[q] = t->init * ((rand() % 2001) / 1000.0f - 1);
        cudaMalloc(&t->value, bytes);
        cudaMalloc(&t->slope, bytes);
        cudaMalloc(&t->moment[0], bytes);
        cudaMalloc(&t->moment[1], bytes);
        cudaMemcpy(t->value, h, bytes, cudaMemcpyHostToDevice);
        cudaMemset(t->moment[0], 0, bytes);
        cudaMemset(t->moment[1], 0, bytes);
        free(h);
    }
    example *some;
    float *act, *error, *seen = (float *)malloc(batch * sizeof(float));
    cudaMalloc(&some, batch * sizeof(example));
    cudaMalloc(&act, batch * CHANNELS * WIDTH * sizeof(float));
    cudaMalloc(&error, batch * sizeof(float));

    for (int step = 1; step <= 20; ++step) {
        cudaMemcpy(some, set + (step - 1) * batch % EXAMPLES, batch * sizeof(example), cudaMemcpyHostToDevice);
        convolve<<<batch, CHANNELS * WIDTH>>>(some, table[KERNEL].value, table[KERNEL_BIAS].value, act);
        read_out<<<1, batch>>>(some, act, table[READ].value, table[READ_BIAS].value, error);
        read_slope<<<1, CHANNELS * WIDTH>>>(act, error, table[READ].slope, table[READ_BIAS].slope, batch);
        kernel_slope<<<CHANNELS, TAPS + 1>>>(some, act, error, table[READ].value, table[KERNEL].slope, table[KERNEL_BIAS].slope, batch);
        for (int t = 0; t < TENSORS; ++t)
            adam<<<(table[t].count + 31) / 32, 32>>>(table[t], 0.03f, 0.9f, 0.99f, step);
        if (step % 4 == 0) {
            float squares = 0;
            cudaMemcpy(seen, error, batch * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < batch; ++i) squares += seen[i] * seen[i];
            printf("%2d: rms error %.4f\n", step, sqrtf(squares / batch));
        }
    }
    for (int t = 0; t < TENSORS; ++t) {
        cudaFree(table[t].value);
        cudaFree(table[t].slope);
        cudaFree(table[t].moment[0]);
        cudaFree(table[t].moment[1]);
    }
    free(seen);
    return cudaGetLastError() == cudaSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
