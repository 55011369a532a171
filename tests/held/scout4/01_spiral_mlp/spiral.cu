// Two hidden layer MLP on the three-arm spiral dataset.
// Homework 4, plain CUDA, no libraries.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define N_POINTS   3072
#define N_CLASSES  3
#define IN_DIM     2
#define HIDDEN     64
#define BATCH      128
#define STEPS      200
#define LR         0.5f

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t err = (call);                                                \
        if (err != cudaSuccess) {                                                \
            fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(err), \
                    __FILE__, __LINE__);                                         \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

// out[b][o] = sum_i in[b][i] * w[i][o] + bias[o]
__global__ void linear_forward(const float *in, const float *w, const float *bias, float *out,
                               int batch, int nin, int nout, int relu)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * nout) return;
    int b = idx / nout, o = idx % nout;
    float s = bias[o];
    for (int i = 0; i < nin; i++) s += in[b * nin + i] * w[i * nout + o];
    if (relu && s < 0.0f) s = 0.0f;
    out[idx] = s;
}

__global__ void linear_backward_w(const float *in, const float *dout, float *dw, float *db,
                                  int batch, int nin, int nout)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < nin * nout) {
        int i = idx / nout, o = idx % nout;
        float s = 0.0f;
        for (int b = 0; b < batch; b++) s += in[b * nin + i] * dout[b * nout + o];
        dw[idx] = s;
    }
    if (idx < nout) {
        float s = 0.0f;
        for (int b = 0; b < batch; b++) s += dout[b * nout + idx];
        db[idx] = s;
    }
}

__global__ void linear_backward_in(const float *dout, const float *w, const float *act, float *din,
                                   int batch, int nin, int nout)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * nin) return;
    int b = idx / nin, i = idx % nin;
    float s = 0.0f;
    for (int o = 0; o < nout; o++) s += dout[b * nout + o] * w[i * nout + o];
    din[idx] = act[idx] > 0.0f ? s : 0.0f;
}

__global__ void softmax_loss(const float *logits, const int *y, float *dlogits, float *loss, int batch)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float *z = logits + b * N_CLASSES;
    float m = z[0];
    for (int c = 1; c < N_CLASSES; c++) m = fmaxf(m, z[c]);
    float s = 0.0f;
    for (int c = 0; c < N_CLASSES; c++) s += expf(z[c] - m);
    for (int c = 0; c < N_CLASSES; c++) {
        float p = expf(z[c] - m) / s;
        dlogits[b * N_CLASSES + c] = (p - (c == y[b] ? 1.0f : 0.0f)) / batch;
    }
    loss[b] = logf(s) + m - z[y[b]];
}

__global__ void sgd(float *p, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * g[i];
}

static int blocks(int n) { return (n + 127) / 128; }

static float frand(void) { return (float)rand() / RAND_MAX; }

static float *upload_random(int n, float scale)
{
    float *h = (float *)malloc(n * sizeof(float)), *d;
    for (int i = 0; i < n; i++) h[i] = (2.0f * frand() - 1.0f) * scale;
    CHECK(cudaMalloc((void **)&d, n * sizeof(float)));
    CHECK(cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
    return d;
}

static float *device_floats(int n)
{
    float *d;
    CHECK(cudaMalloc((void **)&d, n * sizeof(float)));
    CHECK(cudaMemset(d, 0, n * sizeof(float)));
    return d;
}

int main(void)
{
    srand(1234);

    // data
    float *X = (float *)malloc(N_POINTS * IN_DIM * sizeof(float));
    int *Y = (int *)malloc(N_POINTS * sizeof(int));
    for (int i = 0; i < N_POINTS; i++) {
        int c = rand() % N_CLASSES;
        float r = frand();
        float t = r * 3.0f + c * 2.0944f + 0.1f * (frand() - 0.5f);
        X[2 * i] = r * sinf(t);
        X[2 * i + 1] = r * cosf(t);
        Y[i] = c;
    }

    // model
    float *w1 = upload_random(IN_DIM * HIDDEN, 1.2f);
    float *w2 = upload_random(HIDDEN * HIDDEN, 0.25f);
    float *w3 = upload_random(HIDDEN * N_CLASSES, 0.25f);
    float *b1 = upload_random(HIDDEN, 0.3f);
    float *b2 = device_floats(HIDDEN);
    float *b3 = device_floats(N_CLASSES);
    float *dw1 = device_floats(IN_DIM * HIDDEN), *db1 = device_floats(HIDDEN);
    float *dw2 = device_floats(HIDDEN * HIDDEN), *db2 = device_floats(HIDDEN);
    float *dw3 = device_floats(HIDDEN * N_CLASSES), *db3 = device_floats(N_CLASSES);

    // activations
    float *d_x = device_floats(BATCH * IN_DIM);
    int *d_y;
    CHECK(cudaMalloc((void **)&d_y, BATCH * sizeof(int)));
    float *h1 = device_floats(BATCH * HIDDEN), *dh1 = device_floats(BATCH * HIDDEN);
    float *h2 = device_floats(BATCH * HIDDEN), *dh2 = device_floats(BATCH * HIDDEN);
    float *z = device_floats(BATCH * N_CLASSES), *dz = device_floats(BATCH * N_CLASSES);
    float *d_loss = device_floats(BATCH);
    float h_loss[BATCH];

    for (int step = 0; step < STEPS; step++) {
        int start = (step * BATCH) % N_POINTS;
        CHECK(cudaMemcpy(d_x, X + start * IN_DIM, BATCH * IN_DIM * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(d_y, Y + start, BATCH * sizeof(int), cudaMemcpyHostToDevice));

        linear_forward<<<blocks(BATCH * HIDDEN), 128>>>(d_x, w1, b1, h1, BATCH, IN_DIM, HIDDEN, 1);
        linear_forward<<<blocks(BATCH * HIDDEN), 128>>>(h1, w2, b2, h2, BATCH, HIDDEN, HIDDEN, 1);
        linear_forward<<<blocks(BATCH * N_CLASSES), 128>>>(h2, w3, b3, z, BATCH, HIDDEN, N_CLASSES, 0);
        softmax_loss<<<blocks(BATCH), 128>>>(z, d_y, dz, d_loss, BATCH);

        linear_backward_w<<<blocks(HIDDEN * N_CLASSES), 128>>>(h2, dz, dw3, db3, BATCH, HIDDEN, N_CLASSES);
        linear_backward_in<<<blocks(BATCH * HIDDEN), 128>>>(dz, w3, h2, dh2, BATCH, HIDDEN, N_CLASSES);
        linear_backward_w<<<blocks(HIDDEN * HIDDEN), 128>>>(h1, dh2, dw2, db2, BATCH, HIDDEN, HIDDEN);
        linear_backward_in<<<blocks(BATCH * HIDDEN), 128>>>(dh2, w2, h1, dh1, BATCH, HIDDEN, HIDDEN);
        linear_backward_w<<<blocks(IN_DIM * HIDDEN), 128>>>(d_x, dh1, dw1, db1, BATCH, IN_DIM, HIDDEN);

        sgd<<<blocks(IN_DIM * HIDDEN), 128>>>(w1, dw1, LR, IN_DIM * HIDDEN);
        sgd<<<blocks(HIDDEN), 128>>>(b1, db1, LR, HIDDEN);
        sgd<<<blocks(HIDDEN * HIDDEN), 128>>>(w2, dw2, LR, HIDDEN * HIDDEN);
        sgd<<<blocks(HIDDEN), 128>>>(b2, db2, LR, HIDDEN);
        sgd<<<blocks(HIDDEN * N_CLASSES), 128>>>(w3, dw3, LR, HIDDEN * N_CLASSES);
        sgd<<<blocks(N_CLASSES), 128>>>(b3, db3, LR, N_CLASSES);
        CHECK(cudaGetLastError());

        if (step % 10 == 0 || step == STEPS - 1) {
            CHECK(cudaMemcpy(h_loss, d_loss, sizeof(h_loss), cudaMemcpyDeviceToHost));
            float total = 0.0f;
            for (int i = 0; i < BATCH; i++) total += h_loss[i];
            printf("step %4d  loss %.5f\n", step, total / BATCH);
        }
    }
    return 0;
}
