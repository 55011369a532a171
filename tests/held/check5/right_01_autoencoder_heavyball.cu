// A tanh autoencoder, trained by SGD with heavy-ball momentum. Matrices are row-major; cuBLAS does the products.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

enum { IN = 16, HID = 6, RECORDS = 512, BATCH = 64, STEPS = 120 };
static cublasHandle_t blas;

// c[m][n] = op(a) op(b), all row-major
static void matmul(bool ta, bool tb, int m, int n, int k, const float *a, const float *b, float *c)
{
    const float one = 1, zero = 0;
    cublasSgemm(blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, tb ? k : n, a,
                ta ? m : k, &zero, c, n);
}

__global__ void tanh_forward(float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        h[i] = tanhf(h[i]);
}

__global__ void tanh_backward(float *dh, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dh[i] *= 1 - h[i] * h[i];
}

__global__ void square_error(const float *y, const float *x, float *dy, float *loss, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float d = y[i] - x[i];
    dy[i] = 2 * d * scale;
    loss[i] = d * d * scale;
}

// velocity = mu * velocity + gradient; what the optimizer applies is left in the gradient's place
__global__ void heavy_ball(float *gradient, float *velocity, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        gradient[i] = velocity[i] = mu * velocity[i] + gradient[i];
}

__global__ void descend(float *w, const float *direction, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * direction[i];
}

static float *device(size_t n)
{
    float *p;
    CK(cudaMalloc(&p, n * sizeof(float)));
    CK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

int main()
{
    srand(4);
    std::vector<float> data(RECORDS * IN), init(IN * HID);
    for (int r = 0; r < RECORDS; ++r) {
        float a = rand() / (float)RAND_MAX - .5f, b = rand() / (float)RAND_MAX - .5f;
        for (int i = 0; i < IN; ++i)
            data[r * IN + i] = a * (i % 4) + b * (i / 4) * .7f + .05f * (rand() / (float)RAND_MAX);
    }
    float *x = device(RECORDS * IN), *w1 = device(IN * HID), *w2 = device(HID * IN), *g1 = device(IN * HID),
          *g2 = device(HID * IN), *v1 = device(IN * HID), *v2 = device(HID * IN), *h = device(BATCH * HID),
          *dh = device(BATCH * HID), *y = device(BATCH * IN), *dy = device(BATCH * IN), *loss = device(BATCH * IN);
    CK(cudaMemcpy(x, data.data(), data.size() * 4, cudaMemcpyHostToDevice));
    for (float *w : {w1, w2}) {
        for (float &v : init)
            v = .4f * (rand() / (float)RAND_MAX - .5f);
        CK(cudaMemcpy(w, init.data(), init.size() * 4, cudaMemcpyHostToDevice));
    }
    cublasCreate(&blas);
    DDP_PARAMETER(w1, IN * HID, DDP_FLOAT32);
    DDP_PARAMETER(w2, HID * IN, DDP_FLOAT32);
    DDP_GRADIENT(g1, IN * HID, DDP_FLOAT32);
    DDP_GRADIENT(g2, HID * IN, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const float *in = x + ((size_t)(step % (RECORDS / BATCH)) * BATCH + first) * IN;
        int c = (int)count;
        matmul(false, false, c, HID, IN, in, w1, h);
        tanh_forward<<<(c * HID + 63) / 64, 64>>>(h, c * HID);
        matmul(false, false, c, IN, HID, h, w2, y);
        square_error<<<(c * IN + 63) / 64, 64>>>(y, in, dy, loss, 1.f / (c * IN), c * IN);
        matmul(true, false, HID, IN, c, h, dy, g2);
        matmul(false, true, c, HID, IN, dy, w2, dh);
        tanh_backward<<<(c * HID + 63) / 64, 64>>>(dh, h, c * HID);
        matmul(true, false, IN, HID, c, in, dh, g1);
        heavy_ball<<<2, 64>>>(g2, v2, .9f, HID * IN);
        heavy_ball<<<2, 64>>>(g1, v1, .9f, IN * HID);
        DDP_STEP(0);
        descend<<<2, 64>>>(w2, g2, .1f, HID * IN);
        descend<<<2, 64>>>(w1, g1, .1f, IN * HID);
        if (step % 20 == 0 || step == STEPS - 1) {
            std::vector<float> l(c * IN);
            CK(cudaMemcpy(l.data(), loss, l.size() * 4, cudaMemcpyDeviceToHost));
            float sum = 0;
            for (float v : l)
                sum += v;
            DDP_MEAN(&sum);
            if (DDP_RANK() == 0)
                printf("step %d loss %.7g\n", step, sum);
        }
    }
    return 0;
}
