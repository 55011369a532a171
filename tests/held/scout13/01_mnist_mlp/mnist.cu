// Two layer perceptron on 14x14 digits, SGD with momentum.
// The digits are drawn by a small generator, so that no download is needed.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err_ = (call);                                                       \
        if (err_ != cudaSuccess) {                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

const int INPUT = 14 * 14;
const int HIDDEN = 40;
const int CLASSES = 10;
const int BATCH_SIZE = 32;
const int TRAIN_SIZE = 512;
const int TEST_SIZE = 128;
const int EPOCHS = 3;
const float LEARNING_RATE = 0.005f;
const float MOMENTUM = 0.9f;

struct DenseLayer {
    int in, out;
    float *weights, *bias;
    float *grad_weights, *grad_bias;
    float *vel_weights, *vel_bias;
    float *output, *delta;
};

__global__ void dense_forward(const float *x, const float *w, const float *b, float *y, int n, int in, int out, bool relu) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < n && col < out) {
        float acc = b[col];
        for (int k = 0; k < in; ++k) acc += x[row * in + k] * w[k * out + col];
        y[row * out + col] = relu ? fmaxf(acc, 0.f) : acc;
    }
}

__global__ void dense_grad_weights(const float *x, const float *delta, float *gw, int n, int in, int out) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < in && col < out) {
        float acc = 0.f;
        for (int k = 0; k < n; ++k) acc += x[k * in + row] * delta[k * out + col];
        gw[row * out + col] = acc / n;
    }
}

__global__ void dense_grad_bias(const float *delta, float *gb, int n, int out) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < out) {
        float acc = 0.f;
        for (int k = 0; k < n; ++k) acc += delta[k * out + col];
        gb[col] = acc / n;
    }
}

__global__ void dense_backprop(const float *delta, const float *w, const float *y, float *dx, int n, int in, int out) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < n && col < in) {
        float acc = 0.f;
        for (int k = 0; k < out; ++k) acc += delta[row * out + k] * w[col * out + k];
        dx[row * in + col] = y[row * in + col] > 0.f ? acc : 0.f;
    }
}

__global__ void softmax_loss(const float *logits, const int *labels, float *delta, float *loss, int n, int classes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *z = logits + i * classes;
    float m = z[0], s = 0.f;
    for (int c = 1; c < classes; ++c) m = fmaxf(m, z[c]);
    for (int c = 0; c < classes; ++c) s += expf(z[c] - m);
    for (int c = 0; c < classes; ++c) delta[i * classes + c] = expf(z[c] - m) / s - (c == labels[i] ? 1.f : 0.f);
    loss[i] = logf(s) + m - z[labels[i]];
}

__global__ void sgd_momentum(float *w, const float *g, float *v, int n, float lr, float mu) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = mu * v[i] - lr * g[i];
        w[i] += v[i];
    }
}

static float uniform() { return rand() / (float)RAND_MAX; }

static void init_layer(DenseLayer *l, int in, int out) {
    l->in = in;
    l->out = out;
    std::vector<float> w(in * out);
    float a = sqrtf(6.f / (in + out));
    for (float &v : w) v = (2.f * uniform() - 1.f) * a;
    CHECK(cudaMalloc(&l->weights, in * out * sizeof(float)));
    CHECK(cudaMalloc(&l->grad_weights, in * out * sizeof(float)));
    CHECK(cudaMalloc(&l->vel_weights, in * out * sizeof(float)));
    CHECK(cudaMalloc(&l->bias, out * sizeof(float)));
    CHECK(cudaMalloc(&l->grad_bias, out * sizeof(float)));
    CHECK(cudaMalloc(&l->vel_bias, out * sizeof(float)));
    CHECK(cudaMalloc(&l->output, BATCH_SIZE * out * sizeof(float)));
    CHECK(cudaMalloc(&l->delta, BATCH_SIZE * out * sizeof(float)));
    CHECK(cudaMemcpy(l->weights, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(l->bias, 0, out * sizeof(float)));
    CHECK(cudaMemset(l->vel_weights, 0, in * out * sizeof(float)));
    CHECK(cudaMemset(l->vel_bias, 0, out * sizeof(float)));
}

static void free_layer(DenseLayer *l) {
    float *all[] = {l->weights, l->bias, l->grad_weights, l->grad_bias, l->vel_weights, l->vel_bias, l->output, l->delta};
    for (float *p : all) cudaFree(p);
}

static void forward(DenseLayer *l, const float *x, int n, bool relu) {
    dim3 block(16, 16), grid((l->out + 15) / 16, (n + 15) / 16);
    dense_forward<<<grid, block>>>(x, l->weights, l->bias, l->output, n, l->in, l->out, relu);
}

static void backward(DenseLayer *l, const float *x, int n) {
    dim3 block(16, 16), grid((l->out + 15) / 16, (l->in + 15) / 16);
    dense_grad_weights<<<grid, block>>>(x, l->delta, l->grad_weights, n, l->in, l->out);
    dense_grad_bias<<<(l->out + 63) / 64, 64>>>(l->delta, l->grad_bias, n, l->out);
}

static void update(DenseLayer *l) {
    int nw = l->in * l->out;
    sgd_momentum<<<(nw + 255) / 256, 256>>>(l->weights, l->grad_weights, l->vel_weights, nw, LEARNING_RATE, MOMENTUM);
    sgd_momentum<<<(l->out + 255) / 256, 256>>>(l->bias, l->grad_bias, l->vel_bias, l->out, LEARNING_RATE, MOMENTUM);
}

static void make_digits(std::vector<float> &images, std::vector<int> &labels, int count, const std::vector<float> &proto) {
    images.resize(count * INPUT);
    labels.resize(count);
    for (int i = 0; i < count; ++i) {
        labels[i] = rand() % CLASSES;
        for (int p = 0; p < INPUT; ++p)
            images[i * INPUT + p] = 0.5f * proto[labels[i] * INPUT + p] + 0.5f * uniform();
    }
}

int main() {
    srand(1);
    std::vector<float> proto(CLASSES * INPUT);
    for (float &p : proto) p = uniform() > 0.7f ? 1.f : 0.f;
    std::vector<float> train_x, test_x;
    std::vector<int> train_y, test_y;
    make_digits(train_x, train_y, TRAIN_SIZE, proto);
    make_digits(test_x, test_y, TEST_SIZE, proto);

    DenseLayer l1, l2;
    init_layer(&l1, INPUT, HIDDEN);
    init_layer(&l2, HIDDEN, CLASSES);

    float *d_x, *d_loss;
    int *d_y;
    CHECK(cudaMalloc(&d_x, BATCH_SIZE * INPUT * sizeof(float)));
    CHECK(cudaMalloc(&d_y, BATCH_SIZE * sizeof(int)));
    CHECK(cudaMalloc(&d_loss, BATCH_SIZE * sizeof(float)));
    float h_loss[BATCH_SIZE], h_out[BATCH_SIZE * CLASSES];

    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        float total = 0.f;
        int batches = TRAIN_SIZE / BATCH_SIZE;
        for (int b = 0; b < batches; ++b) {
            CHECK(cudaMemcpy(d_x, &train_x[b * BATCH_SIZE * INPUT], BATCH_SIZE * INPUT * sizeof(float), cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(d_y, &train_y[b * BATCH_SIZE], BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));
            forward(&l1, d_x, BATCH_SIZE, true);
            forward(&l2, l1.output, BATCH_SIZE, false);
            softmax_loss<<<1, BATCH_SIZE>>>(l2.output, d_y, l2.delta, d_loss, BATCH_SIZE, CLASSES);
            backward(&l2, l1.output, BATCH_SIZE);
            dim3 block(16, 16), grid((HIDDEN + 15) / 16, (BATCH_SIZE + 15) / 16);
            dense_backprop<<<grid, block>>>(l2.delta, l2.weights, l1.output, l1.delta, BATCH_SIZE, HIDDEN, CLASSES);
            backward(&l1, d_x, BATCH_SIZE);
            update(&l1);
            update(&l2);
            CHECK(cudaMemcpy(h_loss, d_loss, sizeof(h_loss), cudaMemcpyDeviceToHost));
            float sum = 0.f;
            for (int i = 0; i < BATCH_SIZE; ++i) sum += h_loss[i];
            total += sum / BATCH_SIZE;
            if (b % 8 == 0) printf("epoch %d batch %d loss %.4f\n", epoch, b, sum / BATCH_SIZE);
        }

        int correct = 0;
        for (int b = 0; b < TEST_SIZE / BATCH_SIZE; ++b) {
            CHECK(cudaMemcpy(d_x, &test_x[b * BATCH_SIZE * INPUT], BATCH_SIZE * INPUT * sizeof(float), cudaMemcpyHostToDevice));
            forward(&l1, d_x, BATCH_SIZE, true);
            forward(&l2, l1.output, BATCH_SIZE, false);
            CHECK(cudaMemcpy(h_out, l2.output, sizeof(h_out), cudaMemcpyDeviceToHost));
            for (int i = 0; i < BATCH_SIZE; ++i) {
                int best = 0;
                for (int c = 1; c < CLASSES; ++c)
                    if (h_out[i * CLASSES + c] > h_out[i * CLASSES + best]) best = c;
                correct += best == test_y[b * BATCH_SIZE + i];
            }
        }
        printf("epoch %d mean loss %.4f test accuracy %.3f\n", epoch, total / batches, correct / (float)TEST_SIZE);
    }

    free_layer(&l1);
    free_layer(&l2);
    cudaFree(d_x);
    cudaFree(d_y);
    cudaFree(d_loss);
    return 0;
}
