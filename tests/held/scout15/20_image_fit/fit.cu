// Fits a grey image with a network over pixel coordinates (positional encoding, two hidden layers).
// Unified memory throughout, as in introductory courses.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

const int SIZE = 32;       // image is SIZE x SIZE
const int BANDS = 3;       // frequencies of the encoding
const int IN = 4 * BANDS, HID = 20;
const int BATCH = 64, STEPS = 56;

template <typename T>
T *managed(size_t n) {
    T *p;
    if (cudaMallocManaged(&p, n * sizeof(T)) != cudaSuccess) {
        fprintf(stderr, "allocation failed\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++) p[i] = T(0);
    return p;
}

struct Layer {
    int in, out;
    float *w, *b, *dw, *db, *mw, *mb;
};

Layer make_layer(int in, int out, std::mt19937 &gen) {
    Layer l{in, out, managed<float>(in * out), managed<float>(out), managed<float>(in * out),
            managed<float>(out), managed<float>(in * out), managed<float>(out)};
    std::normal_distribution<float> d(0.0f, sqrtf(2.0f / in));
    for (int i = 0; i < in * out; i++) l.w[i] = d(gen);
    return l;
}

__global__ void encode(const int *pixel, const float *image, float *x, float *t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float u = (pixel[i] % SIZE) / (float)SIZE, v = (pixel[i] / SIZE) / (float)SIZE;
    for (int k = 0; k < BANDS; k++) {
        float f = 3.14159265f * (1 << k);
        x[i * IN + 4 * k] = sinf(f * u);
        x[i * IN + 4 * k + 1] = cosf(f * u);
        x[i * IN + 4 * k + 2] = sinf(f * v);
        x[i * IN + 4 * k + 3] = cosf(f * v);
    }
    t[i] = image[pixel[i]];
}

__global__ void forward(Layer l, const float *x, float *y, int n, bool relu) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * l.out) return;
    float s = l.b[i % l.out];
    for (int k = 0; k < l.in; k++) s += x[(i / l.out) * l.in + k] * l.w[k * l.out + i % l.out];
    y[i] = relu ? fmaxf(s, 0.0f) : s;
}

__global__ void loss_gradient(const float *y, const float *t, float *dy, float *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    dy[i] = 2.0f * (y[i] - t[i]) / n;
    loss[i] = (y[i] - t[i]) * (y[i] - t[i]);
}

__global__ void backward_weights(Layer l, const float *x, const float *dy, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < l.in * l.out) {
        float s = 0.0f;
        for (int r = 0; r < n; r++) s += x[r * l.in + i / l.out] * dy[r * l.out + i % l.out];
        l.dw[i] = s;
    }
    if (i < l.out) {
        float s = 0.0f;
        for (int r = 0; r < n; r++) s += dy[r * l.out + i];
        l.db[i] = s;
    }
}

__global__ void backward_input(Layer l, const float *x, const float *dy, float *dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * l.in) return;
    float s = 0.0f;
    for (int k = 0; k < l.out; k++) s += dy[(i / l.in) * l.out + k] * l.w[(i % l.in) * l.out + k];
    dx[i] = x[i] > 0.0f ? s : 0.0f;
}

__global__ void update(Layer l, float lr, float momentum) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < l.in * l.out) {
        l.mw[i] = momentum * l.mw[i] + l.dw[i];
        l.w[i] -= lr * l.mw[i];
    }
    if (i < l.out) {
        l.mb[i] = momentum * l.mb[i] + l.db[i];
        l.b[i] -= lr * l.mb[i];
    }
}

static int grid(int n) { return (n + 127) / 128; }

int main() {
    std::mt19937 gen(64);
    float *image = managed<float>(SIZE * SIZE);
    for (int p = 0; p < SIZE * SIZE; p++) {
        float u = p % SIZE - 12.0f, v = p / SIZE - 18.0f;
        image[p] = (u * u + v * v < 60.0f ? 0.9f : 0.2f) + 0.1f * sinf(0.5f * u);
    }
    Layer l1 = make_layer(IN, HID, gen), l2 = make_layer(HID, HID, gen), l3 = make_layer(HID, 1, gen);
    int *pixel = managed<int>(BATCH);
    float *x = managed<float>(BATCH * IN), *t = managed<float>(BATCH), *h1 = managed<float>(BATCH * HID);
    float *h2 = managed<float>(BATCH * HID), *y = managed<float>(BATCH), *dy = managed<float>(BATCH);
    float *d1 = managed<float>(BATCH * HID), *d2 = managed<float>(BATCH * HID), *loss = managed<float>(BATCH);

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH; i++) pixel[i] = gen() % (SIZE * SIZE);
        encode<<<grid(BATCH), 128>>>(pixel, image, x, t, BATCH);
        forward<<<grid(BATCH * HID), 128>>>(l1, x, h1, BATCH, true);
        forward<<<grid(BATCH * HID), 128>>>(l2, h1, h2, BATCH, true);
        forward<<<grid(BATCH), 128>>>(l3, h2, y, BATCH, false);
        loss_gradient<<<grid(BATCH), 128>>>(y, t, dy, loss, BATCH);
        backward_weights<<<grid(HID), 128>>>(l3, h2, dy, BATCH);
        backward_input<<<grid(BATCH * HID), 128>>>(l3, h2, dy, d2, BATCH);
        backward_weights<<<grid(HID * HID), 128>>>(l2, h1, d2, BATCH);
        backward_input<<<grid(BATCH * HID), 128>>>(l2, h1, d2, d1, BATCH);
        backward_weights<<<grid(IN * HID), 128>>>(l1, x, d1, BATCH);
        for (Layer *l : {&l1, &l2, &l3}) update<<<grid(l->in * l->out), 128>>>(*l, 0.03f, 0.9f);
        cudaDeviceSynchronize();

        float mean = 0.0f;
        for (int i = 0; i < BATCH; i++) mean += loss[i] / BATCH;
        if (step % 8 == 7) printf("step %d: mse %.5f, psnr %.2f dB\n", step + 1, mean, -10.0f * log10f(mean));
    }
    for (Layer *l : {&l1, &l2, &l3}) {
        cudaFree(l->w), cudaFree(l->b), cudaFree(l->dw), cudaFree(l->db), cudaFree(l->mw), cudaFree(l->mb);
    }
    for (float *p : {image, x, t, h1, h2, y, dy, d1, d2, loss}) cudaFree(p);
    cudaFree(pixel);
    return 0;
}
