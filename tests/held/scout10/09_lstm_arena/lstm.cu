// LSTM that predicts the next value of a noisy mixture of sines. All weights in one allocation.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define H 24        // hidden units
#define T 20        // window
#define B 64        // windows per step
#define SERIES 4000 // points
#define MAX_STEPS 100
#define LR 0.01f

// layout of the arena
enum { WX = 0, WH = WX + 4 * H, BG = WH + 4 * H * H, WY = BG + 4 * H, BY = WY + H, NPARAM = BY + 1 };

static float *theta, *dtheta, *adam_m, *adam_v;
static float *gates, *cells, *hiddens, *dgates, *dh, *dc, *pred, *dpred, *series, *d_loss, *ones;
static int *starts;
static cublasHandle_t blas;

static float *dalloc(size_t n)
{
    void *p = NULL;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess) {
        fprintf(stderr, "cudaMalloc failed\n");
        exit(1);
    }
    cudaMemset(p, 0, n * sizeof(float));
    return (float *)p;
}

// gates are column-major, 4H x B: i f o g
__global__ void gate_input(float *g, const float *theta, const float *series, const int *starts, int t)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= 4 * H * B) return;
    int r = k % (4 * H), b = k / (4 * H);
    g[k] = theta[WX + r] * series[starts[b] + t] + theta[BG + r];
}

__global__ void cell_forward(float *g, const float *c_prev, float *c, float *h)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= H * B) return;
    int r = k % H, b = k / H;
    float *gb = g + b * 4 * H;
    float i = 1 / (1 + expf(-gb[r])), f = 1 / (1 + expf(-gb[H + r])), o = 1 / (1 + expf(-gb[2 * H + r]));
    float u = tanhf(gb[3 * H + r]);
    gb[r] = i; gb[H + r] = f; gb[2 * H + r] = o; gb[3 * H + r] = u;
    c[k] = f * c_prev[k] + i * u;
    h[k] = o * tanhf(c[k]);
}

__global__ void readout(const float *h, const float *theta, const float *series, const int *starts, float *pred,
                        float *dpred, float *loss)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float y = theta[BY];
    for (int r = 0; r < H; r++) y += theta[WY + r] * h[b * H + r];
    float e = y - series[starts[b] + T];
    pred[b] = y;
    dpred[b] = e / B;
    atomicAdd(loss, 0.5f * e * e / B);
}

__global__ void readout_back(const float *h, const float *theta, const float *dpred, float *dtheta, float *dh)
{
    int r = threadIdx.x;
    float s = 0, sb = 0;
    for (int b = 0; b < B; b++) {
        s += dpred[b] * h[b * H + r];
        sb += dpred[b];
        dh[b * H + r] = theta[WY + r] * dpred[b];
    }
    dtheta[WY + r] = s;
    if (r == 0) dtheta[BY] = sb;
}

__global__ void cell_backward(const float *g, const float *c_prev, const float *c, const float *dh, float *dc, float *dg)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= H * B) return;
    int r = k % H, b = k / H;
    const float *gb = g + b * 4 * H;
    float *db = dg + b * 4 * H;
    float i = gb[r], f = gb[H + r], o = gb[2 * H + r], u = gb[3 * H + r], tc = tanhf(c[k]);
    float d = dc[k] + dh[k] * o * (1 - tc * tc);
    db[r] = d * u * i * (1 - i);
    db[H + r] = d * c_prev[k] * f * (1 - f);
    db[2 * H + r] = dh[k] * tc * o * (1 - o);
    db[3 * H + r] = d * i * (1 - u * u);
    dc[k] = d * f;
}

__global__ void wx_grad(const float *dg, const float *series, const int *starts, int t, float *dtheta)
{
    int r = threadIdx.x;
    float s = 0;
    for (int b = 0; b < B; b++) s += dg[b * 4 * H + r] * series[starts[b] + t];
    dtheta[WX + r] += s;
}

__global__ void adam(float *w, const float *g, float *m, float *v, float lr, int step, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / (1 - powf(0.9f, step))) / (sqrtf(v[i] / (1 - powf(0.999f, step))) + 1e-8f);
}

static void forward(void)
{
    const float one = 1.0f;
    for (int t = 0; t < T; t++) {
        float *g = gates + t * 4 * H * B;
        gate_input<<<(4 * H * B + 255) / 256, 256>>>(g, theta, series, starts, t);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4 * H, B, H, &one, theta + WH, 4 * H, hiddens + t * H * B, H, &one, g,
                    4 * H);
        cell_forward<<<(H * B + 255) / 256, 256>>>(g, cells + t * H * B, cells + (t + 1) * H * B, hiddens + (t + 1) * H * B);
    }
    cudaMemset(d_loss, 0, sizeof(float));
    readout<<<1, B>>>(hiddens + T * H * B, theta, series, starts, pred, dpred, d_loss);
}

static void backward(void)
{
    const float one = 1.0f, zero = 0.0f;
    cudaMemset(dtheta, 0, NPARAM * sizeof(float));
    cudaMemset(dc, 0, H * B * sizeof(float));
    readout_back<<<1, H>>>(hiddens + T * H * B, theta, dpred, dtheta, dh);
    for (int t = T - 1; t >= 0; t--) {
        cell_backward<<<(H * B + 255) / 256, 256>>>(gates + t * 4 * H * B, cells + t * H * B, cells + (t + 1) * H * B, dh,
                                                    dc, dgates);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 4 * H, H, B, &one, dgates, 4 * H, hiddens + t * H * B, H, &one,
                    dtheta + WH, 4 * H);
        cublasSgemv(blas, CUBLAS_OP_N, 4 * H, B, &one, dgates, 4 * H, ones, 1, &one, dtheta + BG, 1);
        wx_grad<<<1, 4 * H>>>(dgates, series, starts, t, dtheta);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, B, 4 * H, &one, theta + WH, 4 * H, dgates, 4 * H, &zero, dh, H);
    }
}

int main(void)
{
    srand(17);
    std::vector<float> x(SERIES), w(NPARAM, 0.0f), o(B, 1.0f);
    for (int i = 0; i < SERIES; i++)
        x[i] = 0.6f * sinf(0.13f * i) + 0.3f * sinf(0.41f * i + 1.0f) + 0.05f * (rand() / (float)RAND_MAX - 0.5f);
    for (int i = 0; i < BG; i++) w[i] = (rand() / (float)RAND_MAX - 0.5f) * 2.0f / sqrtf(H);
    for (int i = BG + H; i < BG + 2 * H; i++) w[i] = 1.0f; // forget gate
    for (int i = WY; i < BY; i++) w[i] = (rand() / (float)RAND_MAX - 0.5f) * 2.0f / sqrtf(H);

    theta = dalloc(NPARAM);
    dtheta = dalloc(NPARAM);
    adam_m = dalloc(NPARAM);
    adam_v = dalloc(NPARAM);
    gates = dalloc(T * 4 * H * B);
    cells = dalloc((T + 1) * H * B);
    hiddens = dalloc((T + 1) * H * B);
    dgates = dalloc(4 * H * B);
    dh = dalloc(H * B);
    dc = dalloc(H * B);
    pred = dalloc(B);
    dpred = dalloc(B);
    series = dalloc(SERIES);
    d_loss = dalloc(1);
    ones = dalloc(B);
    starts = (int *)dalloc(B);
    cudaMemcpy(theta, w.data(), NPARAM * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(series, x.data(), SERIES * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(ones, o.data(), B * sizeof(float), cudaMemcpyHostToDevice);
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) return 1;

    int h_starts[B];
    float avg = 0;
    for (int step = 1; step <= MAX_STEPS; step++) {
        for (int b = 0; b < B; b++) h_starts[b] = rand() % (SERIES - T - 1);
        cudaMemcpy(starts, h_starts, sizeof(h_starts), cudaMemcpyHostToDevice);
        forward();
        backward();
        adam<<<(NPARAM + 127) / 128, 128>>>(theta, dtheta, adam_m, adam_v, LR, step, NPARAM);

        float loss;
        cudaMemcpy(&loss, d_loss, sizeof(loss), cudaMemcpyDeviceToHost);
        avg += loss;
        if (step % 10 == 0) {
            printf("step %4d  loss %.6f\n", step, avg / 10);
            avg = 0;
        }
    }
    cublasDestroy(blas);
    return cudaDeviceSynchronize();
}
