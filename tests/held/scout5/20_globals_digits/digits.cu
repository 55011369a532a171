// Final project: digit recognition with one hidden layer. Weights live in __device__ arrays, the images in managed
// memory, gradients are accumulated over 4 chunks of 32 images before the weights are changed.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define PIXELS 80      // 8 x 10
#define HIDDEN 48
#define DIGITS 10
#define CHUNK 32
#define CHUNKS 4
#define BATCH (CHUNK * CHUNKS)
#define NTRAIN 1280
#define EPOCHS 10

__device__ float W1[PIXELS * HIDDEN], B1[HIDDEN], W2[HIDDEN * DIGITS], B2[DIGITS];
__device__ float dW1[PIXELS * HIDDEN], dB1[HIDDEN], dW2[HIDDEN * DIGITS], dB2[DIGITS];
__device__ float act[CHUNK * HIDDEN], dact[CHUNK * HIDDEN], out[CHUNK * DIGITS];

struct Data {
    float *pixel; // NTRAIN * PIXELS
    int *digit;
    float *loss;  // of each image
};

__global__ void hiddenLayer(const float *x)
{
    int s = blockIdx.x, j = threadIdx.x;
    float a = B1[j];
    for (int p = 0; p < PIXELS; p++) a += x[s * PIXELS + p] * W1[p * HIDDEN + j];
    act[s * HIDDEN + j] = tanhf(a);
}

__global__ void outputLayer(const int *digit, float *loss)
{
    __shared__ float e[DIGITS];
    int s = blockIdx.x, o = threadIdx.x;
    float a = B2[o], sum = 0;
    for (int j = 0; j < HIDDEN; j++) a += act[s * HIDDEN + j] * W2[j * DIGITS + o];
    e[o] = expf(a);
    __syncthreads();
    for (int k = 0; k < DIGITS; k++) sum += e[k];
    out[s * DIGITS + o] = e[o] / sum - (o == digit[s]);
    if (o == digit[s]) loss[s] = -logf(e[o] / sum);
}

__global__ void outputGradient()
{
    int j = blockIdx.x, o = threadIdx.x;
    float g = 0, gb = 0;
    for (int s = 0; s < CHUNK; s++) {
        g += act[s * HIDDEN + j] * out[s * DIGITS + o];
        gb += out[s * DIGITS + o];
    }
    dW2[j * DIGITS + o] += g;
    if (j == 0) dB2[o] += gb;
}

__global__ void hiddenDelta()
{
    int s = blockIdx.x, j = threadIdx.x;
    float d = 0, a = act[s * HIDDEN + j];
    for (int o = 0; o < DIGITS; o++) d += out[s * DIGITS + o] * W2[j * DIGITS + o];
    dact[s * HIDDEN + j] = d * (1 - a * a);
}

__global__ void hiddenGradient(const float *x)
{
    int p = blockIdx.x, j = threadIdx.x;
    float g = 0, gb = 0;
    for (int s = 0; s < CHUNK; s++) {
        g += x[s * PIXELS + p] * dact[s * HIDDEN + j];
        gb += dact[s * HIDDEN + j];
    }
    dW1[p * HIDDEN + j] += g;
    if (p == 0) dB1[j] += gb;
}

__device__ void change(float *w, float *dw, int n, float rate)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        w[i] -= rate * dw[i] / BATCH;
        dw[i] = 0;
    }
}
__global__ void update(float rate)
{
    change(W1, dW1, PIXELS * HIDDEN, rate);
    change(B1, dB1, HIDDEN, rate);
    change(W2, dW2, HIDDEN * DIGITS, rate);
    change(B2, dB2, DIGITS, rate);
}

static float noise(float size) { return size * (2.0f * rand() / RAND_MAX - 1.0f); }

// seven-segment digits, moved a bit, with noise
static void drawDigits(Data d)
{
    static const int seg[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e, 0x6b, 0x7b, 0x25, 0x7f, 0x6f};
    for (int i = 0; i < NTRAIN; i++) {
        float *im = d.pixel + i * PIXELS;
        int k = rand() % 10, x0 = 1 + rand() % 3, y0 = rand() % 2, s = seg[k];
        d.digit[i] = k;
        for (int p = 0; p < PIXELS; p++) im[p] = noise(0.4f);
        for (int t = 0; t < 4; t++) {
            if (s & 1) im[y0 * 8 + x0 + t] += 1;            // top
            if (s & 2) im[(y0 + t) * 8 + x0] += 1;          // upper left
            if (s & 4) im[(y0 + t) * 8 + x0 + 3] += 1;      // upper right
            if (s & 8) im[(y0 + 4) * 8 + x0 + t] += 1;      // middle
            if (s & 16) im[(y0 + 4 + t) * 8 + x0] += 1;     // lower left
            if (s & 32) im[(y0 + 4 + t) * 8 + x0 + 3] += 1; // lower right
            if (s & 64) im[(y0 + 8) * 8 + x0 + t] += 1;     // bottom
        }
    }
}

int main()
{
    srand(10);
    Data d;
    cudaMallocManaged(&d.pixel, NTRAIN * PIXELS * sizeof(float));
    cudaMallocManaged(&d.digit, NTRAIN * sizeof(int));
    cudaMallocManaged(&d.loss, NTRAIN * sizeof(float));
    drawDigits(d);

    static float w1[PIXELS * HIDDEN], w2[HIDDEN * DIGITS];
    for (int i = 0; i < PIXELS * HIDDEN; i++) w1[i] = noise(0.2f);
    for (int i = 0; i < HIDDEN * DIGITS; i++) w2[i] = noise(0.2f);
    cudaMemcpyToSymbol(W1, w1, sizeof(w1));
    cudaMemcpyToSymbol(W2, w2, sizeof(w2));

    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        for (int b = 0; b < NTRAIN; b += BATCH) {
            for (int c = 0; c < CHUNKS; c++) {
                const float *x = d.pixel + (b + c * CHUNK) * PIXELS;
                hiddenLayer<<<CHUNK, HIDDEN>>>(x);
                outputLayer<<<CHUNK, DIGITS>>>(d.digit + b + c * CHUNK, d.loss + b + c * CHUNK);
                outputGradient<<<HIDDEN, DIGITS>>>();
                hiddenDelta<<<CHUNK, HIDDEN>>>();
                hiddenGradient<<<PIXELS, HIDDEN>>>(x);
            }
            update<<<16, 64>>>(0.3f);
        }
        cudaDeviceSynchronize();
        float sum = 0;
        for (int i = 0; i < NTRAIN; i++) sum += d.loss[i];
        printf("epoch %d: loss %f\n", epoch, sum / NTRAIN);
    }
    cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) printf("%s\n", cudaGetErrorString(e));
    cudaFree(d.pixel);
    cudaFree(d.digit);
    cudaFree(d.loss);
    return e != cudaSuccess;
}
