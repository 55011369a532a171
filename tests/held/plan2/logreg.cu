// Logistic regression on synthetic clicks, SGD with momentum and weight decay.
// The whole data set lives on the device; each step takes the next 32 rows.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t e_ = (call);                                                 \
        if (e_ != cudaSuccess) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

static const int FEATURES = 16;
static const int ROWS = 1280;
static const int BATCH = 32;
static const int EPOCHS = 3;

__global__ void predict(const float *x, const float *y, const float *w, float *err, float *loss, int d)
{
    int i = threadIdx.x;
    float z = w[d];                                  // the bias is the last weight
    for (int j = 0; j < d; ++j)
        z += w[j] * x[i * d + j];
    float p = 1.0f / (1.0f + expf(-z));
    err[i] = p - y[i];
    loss[i] = y[i] > 0.5f ? -logf(p + 1e-7f) : -logf(1.0f - p + 1e-7f);
}

__global__ void gradient(const float *x, const float *err, float *g, int n, int d)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j > d)
        return;
    float s = 0.0f;
    for (int i = 0; i < n; ++i)
        s += err[i] * (j < d ? x[i * d + j] : 1.0f);
    g[j] = s / n;
}

__global__ void momentum_step(float *w, float *v, const float *g, float lr, float mu, float decay, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n)
        return;
    v[j] = mu * v[j] + g[j] + decay * w[j];
    w[j] -= lr * v[j];
}

__global__ void add_to(float *sum, const float *g, int n)
{
    int j = threadIdx.x;
    if (j < n)
        sum[j] += g[j];
}

__global__ void mean_of(float *g, const float *sum, int r, int n)
{
    int j = threadIdx.x;
    if (j < n)
        g[j] = sum[j] / r;
}

static unsigned state = 20240611u;
static float uniform()                                // in [-1, 1)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) * (2.0f / 16777216.0f) - 1.0f;
}

int main(int argc, char **argv)
{
    const char *save = NULL;
    int oracle = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--save"))
            save = argv[i + 1];
        else if (!strcmp(argv[i], "--oracle"))
            oracle = atoi(argv[i + 1]);
    }

    std::vector<float> x(ROWS * FEATURES), y(ROWS), truth(FEATURES);
    for (float &t : truth)
        t = 2.0f * uniform();
    for (int i = 0; i < ROWS; ++i) {
        float z = 0.3f;
        for (int j = 0; j < FEATURES; ++j)
            z += truth[j] * (x[i * FEATURES + j] = uniform());
        y[i] = z + 0.5f * uniform() > 0.0f ? 1.0f : 0.0f;
    }

    const int n = FEATURES + 1;
    float *dx, *dy, *w, *v, *g, *err, *loss, *sum = NULL;
    CHECK(cudaMalloc(&dx, x.size() * sizeof(float)));
    CHECK(cudaMalloc(&dy, y.size() * sizeof(float)));
    CHECK(cudaMalloc(&w, n * sizeof(float)));
    CHECK(cudaMalloc(&v, n * sizeof(float)));
    CHECK(cudaMalloc(&g, n * sizeof(float)));
    CHECK(cudaMalloc(&err, BATCH * sizeof(float)));
    CHECK(cudaMalloc(&loss, BATCH * sizeof(float)));
    CHECK(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(w, 0, n * sizeof(float)));
    CHECK(cudaMemset(v, 0, n * sizeof(float)));
    if (oracle > 0) {
        CHECK(cudaMalloc(&sum, n * sizeof(float)));
        CHECK(cudaMemset(sum, 0, n * sizeof(float)));
    }

    int gathered = 0, step = 0;
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        for (int first = 0; first + BATCH <= ROWS; first += BATCH, ++step) {
            const float *bx = dx + first * FEATURES;
            const float *by = dy + first;
            predict<<<1, BATCH>>>(bx, by, w, err, loss, FEATURES);
            gradient<<<1, 32>>>(bx, err, g, BATCH, FEATURES);
            if (step % 20 == 0) {
                float l[BATCH], total = 0.0f;
                CHECK(cudaMemcpy(l, loss, sizeof l, cudaMemcpyDeviceToHost));
                for (int i = 0; i < BATCH; ++i)
                    total += l[i];
                printf("epoch %d, step %d, loss %.4f\n", epoch, step, total / BATCH);
            }
            if (oracle > 0) {
                add_to<<<1, 32>>>(sum, g, n);
                if (++gathered < oracle)
                    continue;
                gathered = 0;
                mean_of<<<1, 32>>>(g, sum, oracle, n);
                CHECK(cudaMemset(sum, 0, n * sizeof(float)));
            }
            momentum_step<<<1, 32>>>(w, v, g, 0.1f, 0.9f, 1e-4f, n);
        }
    }
    CHECK(cudaDeviceSynchronize());

    if (save) {
        std::vector<float> h(n);
        CHECK(cudaMemcpy(h.data(), w, n * sizeof(float), cudaMemcpyDeviceToHost));
        FILE *f = fopen(save, "w");
        if (!f) {
            perror(save);
            return 1;
        }
        for (float value : h)
            fprintf(f, "%.9g\n", value);
        fclose(f);
    }
    for (float *p : {dx, dy, w, v, g, sum, err, loss})
        cudaFree(p);
    return 0;
}
