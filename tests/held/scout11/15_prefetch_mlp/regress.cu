// Regression with a three-layer network; copies and computation overlap.
#include "pipeline.cuh"
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define ROWS 4096
#define DIM 16
#define H1 64
#define H2 32
#define BATCH 128
#define STEPS 160

// name, number of elements, fan-in (0: starts at zero)
#define TENSORS(X)      \
    X(w1, DIM * H1, DIM) \
    X(b1, H1, 0)        \
    X(w2, H1 * H2, H1)  \
    X(b2, H2, 0)        \
    X(w3, H2, H2)       \
    X(b3, 1, 0)

struct Net {
#define DECLARE(name, n, fan) float *name, *d_##name, *v_##name;
    TENSORS(DECLARE)
#undef DECLARE
    float *a1, *a2, *out, *g1, *g2, *gout, *loss;
};

__global__ void dense(const float *x, const float *w, const float *b, float *y, int in, int out, bool act)
{
    int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= out) return;
    float s = b[c];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[k * out + c];
    y[r * out + c] = act ? tanhf(s) : s;
}

__global__ void huber(const float *out, const float *y, float *g, float *loss)
{
    int i = threadIdx.x;
    float e = out[i] - y[i], a = fabsf(e);
    g[i] = (a < 1.f ? e : copysignf(1.f, e)) / blockDim.x;
    atomicAdd(loss, (a < 1.f ? 0.5f * e * e : a - 0.5f) / blockDim.x);
}

__global__ void dense_grad(const float *x, const float *g, float *dw, float *db, int rows, int in, int out)
{
    int k = blockIdx.x, c = threadIdx.x;
    float s = 0, sb = 0;
    for (int r = 0; r < rows; ++r) {
        s += x[r * in + k] * g[r * out + c];
        sb += g[r * out + c];
    }
    dw[k * out + c] = s;
    if (k == 0) db[c] = sb;
}

__global__ void dense_back(const float *g, const float *w, const float *a, float *gx, int in, int out)
{
    int r = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int c = 0; c < out; ++c) s += g[r * out + c] * w[k * out + c];
    gx[r * in + k] = s * (1.f - a[r * in + k] * a[r * in + k]);
}

__global__ void nesterov(float *w, const float *g, float *v, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float old = v[i];
    v[i] = mu * v[i] - lr * g[i];
    w[i] += -mu * old + (1 + mu) * v[i];
}

int main()
{
    srand(6);
    auto uniform = [] { return 2.f * rand() / RAND_MAX - 1.f; };

    float *x = new float[ROWS * DIM], *y = new float[ROWS];
    for (int i = 0; i < ROWS; ++i) {
        for (int k = 0; k < DIM; ++k) x[i * DIM + k] = uniform();
        const float *r = x + i * DIM;
        y[i] = sinf(2 * r[0]) + r[1] * r[2] + 0.5f * r[3] - r[4] * r[4] + 0.02f * uniform();
    }

    Net net;
#define CREATE(name, n, fan)                                                       \
    {                                                                              \
        float *h = new float[n];                                                   \
        for (int i = 0; i < n; ++i) h[i] = fan ? uniform() / sqrtf(fan + 0.f) : 0; \
        cudaMalloc((void **)&net.name, (n) * sizeof(float));                       \
        cudaMalloc((void **)&net.d_##name, (n) * sizeof(float));                   \
        cudaMalloc((void **)&net.v_##name, (n) * sizeof(float));                   \
        cudaMemcpy(net.name, h, (n) * sizeof(float), cudaMemcpyHostToDevice);      \
        cudaMemset(net.v_##name, 0, (n) * sizeof(float));                          \
        delete[] h;                                                                \
    }
    TENSORS(CREATE)
    cudaMalloc((void **)&net.a1, BATCH * H1 * sizeof(float));
    cudaMalloc((void **)&net.a2, BATCH * H2 * sizeof(float));
    cudaMalloc((void **)&net.out, BATCH * sizeof(float));
    cudaMalloc((void **)&net.g1, BATCH * H1 * sizeof(float));
    cudaMalloc((void **)&net.g2, BATCH * H2 * sizeof(float));
    cudaMalloc((void **)&net.gout, BATCH * sizeof(float));
    cudaMalloc((void **)&net.loss, sizeof(float));
    cudaDeviceSynchronize();

    cudaStream_t compute;
    cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking);
    {
        Prefetcher loader(x, y, ROWS, DIM, BATCH);
        float lr = 0.2f;
        cudaMemsetAsync(net.loss, 0, sizeof(float), compute);
        for (int step = 1; step <= STEPS; ++step) {
            Slot &s = loader.next(compute);
            dense<<<dim3(1, BATCH), H1, 0, compute>>>(s.d_x, net.w1, net.b1, net.a1, DIM, H1, true);
            dense<<<dim3(1, BATCH), H2, 0, compute>>>(net.a1, net.w2, net.b2, net.a2, H1, H2, true);
            dense<<<dim3(1, BATCH), 1, 0, compute>>>(net.a2, net.w3, net.b3, net.out, H2, 1, false);
            huber<<<1, BATCH, 0, compute>>>(net.out, s.d_y, net.gout, net.loss);
            dense_grad<<<H2, 1, 0, compute>>>(net.a2, net.gout, net.d_w3, net.d_b3, BATCH, H2, 1);
            dense_back<<<BATCH, H2, 0, compute>>>(net.gout, net.w3, net.a2, net.g2, H2, 1);
            dense_grad<<<H1, H2, 0, compute>>>(net.a1, net.g2, net.d_w2, net.d_b2, BATCH, H1, H2);
            dense_back<<<BATCH, H1, 0, compute>>>(net.g2, net.w2, net.a1, net.g1, H1, H2);
            dense_grad<<<DIM, H1, 0, compute>>>(s.d_x, net.g1, net.d_w1, net.d_b1, BATCH, DIM, H1);
            loader.release(s, compute);
#define UPDATE(name, n, fan) nesterov<<<((n) + 63) / 64, 64, 0, compute>>>(net.name, net.d_##name, net.v_##name, n, lr, 0.9f);
            TENSORS(UPDATE)
            if (step % 40 == 0) {
                float l;
                cudaMemcpyAsync(&l, net.loss, sizeof(float), cudaMemcpyDeviceToHost, compute);
                cudaStreamSynchronize(compute);
                printf("step %d: loss %.5f\n", step, l / 40);
                cudaMemsetAsync(net.loss, 0, sizeof(float), compute);
                lr *= 0.7f;
            }
        }
        cudaStreamSynchronize(compute);
    }
    cudaStreamDestroy(compute);
#define DESTROY(name, n, fan) cudaFree(net.name); cudaFree(net.d_##name); cudaFree(net.v_##name);
    TENSORS(DESTROY)
    delete[] x;
    delete[] y;
    return 0;
}
