// Fully connected classifier, cuBLAS, momentum SGD with step decay, accuracy on held-out data every 20 steps.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <cublas_v2.h>

#define CUDA_CALL(x) do { cudaError_t err_ = (x); if (err_ != cudaSuccess) { \
    printf("Error at %s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); exit(EXIT_FAILURE); } } while (0)
#define CUBLAS_CALL(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { printf("cuBLAS error at %s:%d\n", __FILE__, __LINE__); exit(EXIT_FAILURE); } } while (0)

const int batch_size = 100;
const int n_input = 64, n_hidden = 96, n_output = 8;
const int n_train = 3000, n_test = 500;
const int n_steps = 120;

__global__ void add_bias_relu(float *y, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(y[i] + b[i % rows], 0.0f);
}

__global__ void add_bias(float *y, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += b[i % rows];
}

__global__ void softmax_backward(const float *z, const int *label, float *dz, float *loss, int rows, int batch)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= batch) return;
    const float *v = z + s * rows;
    float mx = v[0], sum = 0.0f;
    for (int i = 1; i < rows; i++) mx = fmaxf(mx, v[i]);
    for (int i = 0; i < rows; i++) sum += expf(v[i] - mx);
    for (int i = 0; i < rows; i++)
        dz[s * rows + i] = (expf(v[i] - mx) / sum - (i == label[s] ? 1.0f : 0.0f)) / (float)batch;
    loss[s] = logf(sum) + mx - v[label[s]];
}

__global__ void relu_mask(float *d, const float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0.0f) d[i] = 0.0f;
}

__global__ void sum_columns(const float *d, float *db, int rows, int batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float s = 0.0f;
    for (int k = 0; k < batch; k++) s += d[k * rows + i];
    db[i] = s;
}

__global__ void momentum_update(float *w, float *v, const float *g, float lr, float mu, float wd, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = mu * v[i] - lr * (g[i] + wd * w[i]);
    w[i] += v[i];
}

#define GRID(n) (((n) + 255) / 256)

static void generate(std::vector<float> &x, std::vector<int> &y, int n, const std::vector<float> &proto, std::mt19937 &gen)
{
    std::normal_distribution<float> noise(0.0f, 1.1f);
    x.resize((size_t)n * n_input);
    y.resize(n);
    for (int i = 0; i < n; i++) {
        y[i] = gen() % n_output;
        int which = gen() % 2; // two prototypes a class
        for (int j = 0; j < n_input; j++) x[(size_t)i * n_input + j] = proto[(y[i] * 2 + which) * n_input + j] + noise(gen);
    }
}

int main()
{
    std::mt19937 gen(2718);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> proto(n_output * 2 * n_input), train_x, test_x;
    std::vector<int> train_y, test_y;
    for (float &p : proto) p = normal(gen) * 0.7f;
    generate(train_x, train_y, n_train, proto, gen);
    generate(test_x, test_y, n_test, proto, gen);

    cublasHandle_t cublas;
    CUBLAS_CALL(cublasCreate(&cublas));

    float *w1, *b1, *w2, *b2, *dw1, *db1, *dw2, *db2, *vw1, *vb1, *vw2, *vb2;
    const int n_w1 = n_hidden * n_input, n_w2 = n_output * n_hidden;
    CUDA_CALL(cudaMalloc(&w1, n_w1 * sizeof(float)));
    CUDA_CALL(cudaMalloc(&b1, n_hidden * sizeof(float)));
    CUDA_CALL(cudaMalloc(&w2, n_w2 * sizeof(float)));
    CUDA_CALL(cudaMalloc(&b2, n_output * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dw1, n_w1 * sizeof(float)));
    CUDA_CALL(cudaMalloc(&db1, n_hidden * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dw2, n_w2 * sizeof(float)));
    CUDA_CALL(cudaMalloc(&db2, n_output * sizeof(float)));
    CUDA_CALL(cudaMalloc(&vw1, n_w1 * sizeof(float)));
    CUDA_CALL(cudaMalloc(&vb1, n_hidden * sizeof(float)));
    CUDA_CALL(cudaMalloc(&vw2, n_w2 * sizeof(float)));
    CUDA_CALL(cudaMalloc(&vb2, n_output * sizeof(float)));
    CUDA_CALL(cudaMemset(b1, 0, n_hidden * sizeof(float)));
    CUDA_CALL(cudaMemset(b2, 0, n_output * sizeof(float)));
    CUDA_CALL(cudaMemset(vw1, 0, n_w1 * sizeof(float)));
    CUDA_CALL(cudaMemset(vb1, 0, n_hidden * sizeof(float)));
    CUDA_CALL(cudaMemset(vw2, 0, n_w2 * sizeof(float)));
    CUDA_CALL(cudaMemset(vb2, 0, n_output * sizeof(float)));
    {
        std::vector<float> h1(n_w1), h2(n_w2);
        for (float &v : h1) v = normal(gen) * sqrtf(2.0f / n_input);
        for (float &v : h2) v = normal(gen) * sqrtf(2.0f / n_hidden);
        CUDA_CALL(cudaMemcpy(w1, h1.data(), n_w1 * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpy(w2, h2.data(), n_w2 * sizeof(float), cudaMemcpyHostToDevice));
    }

    float *x, *h, *z, *dz, *dh, *loss;
    int *label;
    CUDA_CALL(cudaMalloc(&x, batch_size * n_input * sizeof(float)));
    CUDA_CALL(cudaMalloc(&label, batch_size * sizeof(int)));
    CUDA_CALL(cudaMalloc(&h, batch_size * n_hidden * sizeof(float)));
    CUDA_CALL(cudaMalloc(&z, batch_size * n_output * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dz, batch_size * n_output * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dh, batch_size * n_hidden * sizeof(float)));
    CUDA_CALL(cudaMalloc(&loss, batch_size * sizeof(float)));
    float *host_x, host_loss[batch_size], host_z[batch_size * n_output];
    int *host_label;
    CUDA_CALL(cudaMallocHost(&host_x, batch_size * n_input * sizeof(float)));
    CUDA_CALL(cudaMallocHost(&host_label, batch_size * sizeof(int)));

    const float one = 1.0f, zero = 0.0f;
    auto forward = [&]() {
        CUBLAS_CALL(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n_hidden, batch_size, n_input, &one, w1, n_hidden, x, n_input, &zero, h, n_hidden));
        add_bias_relu<<<GRID(n_hidden * batch_size), 256>>>(h, b1, n_hidden, n_hidden * batch_size);
        CUBLAS_CALL(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n_output, batch_size, n_hidden, &one, w2, n_output, h, n_hidden, &zero, z, n_output));
        add_bias<<<GRID(n_output * batch_size), 256>>>(z, b2, n_output, n_output * batch_size);
    };

    float lr = 0.05f;
    for (int step = 0; step < n_steps; step++) {
        if (step == 80) lr *= 0.1f;
        for (int i = 0; i < batch_size; i++) {
            int pick = gen() % n_train;
            std::copy(&train_x[(size_t)pick * n_input], &train_x[(size_t)pick * n_input] + n_input, host_x + i * n_input);
            host_label[i] = train_y[pick];
        }
        CUDA_CALL(cudaMemcpyAsync(x, host_x, batch_size * n_input * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpyAsync(label, host_label, batch_size * sizeof(int), cudaMemcpyHostToDevice));
        forward();
        softmax_backward<<<GRID(batch_size), 256>>>(z, label, dz, loss, n_output, batch_size);

        CUBLAS_CALL(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, n_output, n_hidden, batch_size, &one, dz, n_output, h, n_hidden, &zero, dw2, n_output));
        sum_columns<<<1, 32>>>(dz, db2, n_output, batch_size);
        CUBLAS_CALL(cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, n_hidden, batch_size, n_output, &one, w2, n_output, dz, n_output, &zero, dh, n_hidden));
        relu_mask<<<GRID(n_hidden * batch_size), 256>>>(dh, h, n_hidden * batch_size);
        CUBLAS_CALL(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, n_hidden, n_input, batch_size, &one, dh, n_hidden, x, n_input, &zero, dw1, n_hidden));
        sum_columns<<<1, 128>>>(dh, db1, n_hidden, batch_size);

        momentum_update<<<GRID(n_w1), 256>>>(w1, vw1, dw1, lr, 0.9f, 1e-4f, n_w1);
        momentum_update<<<1, 256>>>(b1, vb1, db1, lr, 0.9f, 0.0f, n_hidden);
        momentum_update<<<GRID(n_w2), 256>>>(w2, vw2, dw2, lr, 0.9f, 1e-4f, n_w2);
        momentum_update<<<1, 256>>>(b2, vb2, db2, lr, 0.9f, 0.0f, n_output);

        CUDA_CALL(cudaMemcpy(host_loss, loss, sizeof(host_loss), cudaMemcpyDeviceToHost));
        float l = 0.0f;
        for (float v : host_loss) l += v / batch_size;

        if ((step + 1) % 20 == 0 || step == 0) {
            int correct = 0;
            for (int first = 0; first < n_test; first += batch_size) {
                CUDA_CALL(cudaMemcpy(x, &test_x[(size_t)first * n_input], batch_size * n_input * sizeof(float), cudaMemcpyHostToDevice));
                forward();
                CUDA_CALL(cudaMemcpy(host_z, z, sizeof(host_z), cudaMemcpyDeviceToHost));
                for (int i = 0; i < batch_size; i++) {
                    int best = 0;
                    for (int c = 1; c < n_output; c++)
                        if (host_z[i * n_output + c] > host_z[i * n_output + best]) best = c;
                    correct += best == test_y[first + i];
                }
            }
            printf("step %d: loss = %.4f, test accuracy = %.2f%%\n", step + 1, l, 100.0f * correct / n_test);
        }
    }
    CUBLAS_CALL(cublasDestroy(cublas));
    return 0;
}
