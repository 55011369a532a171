// LSTM that reads a sequence of 8 vectors and predicts one number (the adding problem).
// Backpropagation through time, gradients clipped by their global norm, plain SGD with decaying rate.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

const int T = 8, D = 2, H = 14, G = 4 * H;
const int BATCH = 26, STEPS = 56, SAMPLES = 26 * 28;

struct LSTM {
    float *Wx, *Wh, *b, *Wy, *by;
};
const int sizes[5] = {D * G, H * G, G, H, 1};

static float **tensors(LSTM &l) { return &l.Wx; }

__device__ float sigm(float v) { return 1.f / (1.f + expf(-v)); }

// x is [n, T, D]; gates, c, h are [T(+1), n, ...]
__global__ void cell_forward(LSTM p, const float *x, const float *hprev, const float *cprev, float *gates, float *h, float *c,
                             int t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * H) return;
    int r = i / H, k = i % H;
    float a[4];
    for (int g = 0; g < 4; ++g) {
        int col = g * H + k;
        a[g] = p.b[col];
        for (int d = 0; d < D; ++d) a[g] += x[(r * T + t) * D + d] * p.Wx[d * G + col];
        for (int j = 0; j < H; ++j) a[g] += hprev[r * H + j] * p.Wh[j * G + col];
        a[g] = g == 3 ? tanhf(a[g]) : sigm(a[g]);
        gates[r * G + col] = a[g];
    }
    c[i] = a[1] * cprev[i] + a[0] * a[3];
    h[i] = a[2] * tanhf(c[i]);
}

__global__ void head(LSTM p, const float *h, const float *y, float *err, float *loss, float *dh, float *dc, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float o = p.by[0];
    for (int k = 0; k < H; ++k) o += h[r * H + k] * p.Wy[k];
    float e = o - y[r];
    loss[r] = 0.5f * e * e;
    err[r] = e / n;
    for (int k = 0; k < H; ++k) {
        dh[r * H + k] = err[r] * p.Wy[k];
        dc[r * H + k] = 0.f;
    }
}

__global__ void head_grad(LSTM g, const float *h, const float *err, int n) {
    int k = threadIdx.x;
    float s = 0.f;
    for (int r = 0; r < n; ++r) s += err[r] * (k < H ? h[r * H + k] : 1.f);
    if (k < H) g.Wy[k] = s;
    else g.by[0] = s;
}

__global__ void cell_backward(const float *cprev, const float *c, const float *gates, const float *dh, float *dc, float *dgates,
                              int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * H) return;
    int r = i / H, k = i % H;
    const float *g = gates + r * G + k;
    float *d = dgates + r * G + k;
    float in = g[0], fo = g[H], ou = g[2 * H], ca = g[3 * H], tc = tanhf(c[i]);
    float dcell = dc[i] + dh[i] * ou * (1.f - tc * tc);
    d[0] = dcell * ca * in * (1.f - in);
    d[H] = dcell * cprev[i] * fo * (1.f - fo);
    d[2 * H] = dh[i] * tc * ou * (1.f - ou);
    d[3 * H] = dcell * in * (1.f - ca * ca);
    dc[i] = dcell * fo;
}

__global__ void accumulate(LSTM p, LSTM g, const float *x, const float *hprev, const float *dgates, float *dh, int t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < G) {
        float s = 0.f;
        for (int r = 0; r < n; ++r) s += dgates[r * G + i];
        g.b[i] += s;
    }
    if (i < D * G) {
        float s = 0.f;
        for (int r = 0; r < n; ++r) s += x[(r * T + t) * D + i / G] * dgates[r * G + i % G];
        g.Wx[i] += s;
    }
    if (i < H * G) {
        float s = 0.f;
        for (int r = 0; r < n; ++r) s += hprev[r * H + i / G] * dgates[r * G + i % G];
        g.Wh[i] += s;
    }
    if (i < n * H) {
        float s = 0.f;
        for (int c = 0; c < G; ++c) s += dgates[i / H * G + c] * p.Wh[i % H * G + c];
        dh[i] = s;
    }
}

int main() {
    std::mt19937 gen(17);
    std::uniform_real_distribution<float> uni(0.f, 1.f), init(-0.25f, 0.25f);
    std::vector<float> X(SAMPLES * T * D), Y(SAMPLES, 0.f);
    for (int i = 0; i < SAMPLES; ++i) {
        int a = gen() % (T / 2), b = T / 2 + gen() % (T / 2);
        for (int t = 0; t < T; ++t) {
            float v = uni(gen);
            X[(i * T + t) * D] = v;
            X[(i * T + t) * D + 1] = t == a || t == b;
            if (t == a || t == b) Y[i] += v;
        }
    }

    LSTM w, g;
    for (int k = 0; k < 5; ++k) {
        cudaMalloc(&tensors(w)[k], sizes[k] * sizeof(float));
        cudaMalloc(&tensors(g)[k], sizes[k] * sizeof(float));
        std::vector<float> h(sizes[k]);
        for (auto &v : h) v = init(gen);
        if (k == 2)
            for (int j = 0; j < G; ++j) h[j] = j / H == 1 ? 1.f : 0.f;  // forget gates start open
        cudaMemcpy(tensors(w)[k], h.data(), sizes[k] * sizeof(float), cudaMemcpyHostToDevice);
    }

    float *x, *y, *h, *c, *gates, *dgates, *dh, *dc, *err, *loss;
    const int state = BATCH * H;
    cudaMalloc(&x, BATCH * T * D * sizeof(float));
    cudaMalloc(&y, BATCH * sizeof(float));
    cudaMalloc(&h, (T + 1) * state * sizeof(float));
    cudaMalloc(&c, (T + 1) * state * sizeof(float));
    cudaMalloc(&gates, T * BATCH * G * sizeof(float));
    cudaMalloc(&dgates, BATCH * G * sizeof(float));
    cudaMalloc(&dh, state * sizeof(float));
    cudaMalloc(&dc, state * sizeof(float));
    cudaMalloc(&err, BATCH * sizeof(float));
    cudaMalloc(&loss, BATCH * sizeof(float));
    cudaMemset(h, 0, state * sizeof(float));
    cudaMemset(c, 0, state * sizeof(float));

    cublasHandle_t blas;
    cublasCreate(&blas);
    const int nb = (state + 127) / 128, ng = (H * G + 127) / 128;
    float lr = 0.4f;
    for (int step = 0; step < STEPS; ++step) {
        int first = step * BATCH % SAMPLES;
        cudaMemcpy(x, &X[first * T * D], BATCH * T * D * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, &Y[first], BATCH * sizeof(float), cudaMemcpyHostToDevice);
        for (int k = 0; k < 5; ++k) cudaMemset(tensors(g)[k], 0, sizes[k] * sizeof(float));

        for (int t = 0; t < T; ++t)
            cell_forward<<<nb, 128>>>(w, x, h + t * state, c + t * state, gates + t * BATCH * G, h + (t + 1) * state,
                                      c + (t + 1) * state, t, BATCH);
        head<<<1, 32>>>(w, h + T * state, y, err, loss, dh, dc, BATCH);
        head_grad<<<1, H + 1>>>(g, h + T * state, err, BATCH);
        for (int t = T - 1; t >= 0; --t) {
            cell_backward<<<nb, 128>>>(c + t * state, c + (t + 1) * state, gates + t * BATCH * G, dh, dc, dgates, BATCH);
            accumulate<<<ng, 128>>>(w, g, x, h + t * state, dgates, dh, t, BATCH);
        }

        float square = 0.f;
        for (int k = 0; k < 5; ++k) {
            float norm;
            cublasSnrm2(blas, sizes[k], tensors(g)[k], 1, &norm);
            square += norm * norm;
        }
        float norm = std::sqrt(square), rate = -lr * (norm > 1.f ? 1.f / norm : 1.f);
        for (int k = 0; k < 5; ++k) cublasSaxpy(blas, sizes[k], &rate, tensors(g)[k], 1, tensors(w)[k], 1);
        lr *= 0.99f;

        std::vector<float> l(BATCH);
        cudaMemcpy(l.data(), loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost);
        float mean = 0.f;
        for (float v : l) mean += v;
        if (step % 8 == 7) printf("step %2d  loss %.5f  grad norm %.4f\n", step + 1, mean / BATCH, norm);
    }
    cublasDestroy(blas);
    return 0;
}
