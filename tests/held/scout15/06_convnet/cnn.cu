// Convolutional network on 12x12 glyphs: conv 3x3 (4 maps), ReLU, 2x2 max pooling, fully connected.
// All images are kept on the GPU.
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

#define SIDE 12
#define MAPS 4
#define CONV (SIDE - 2)
#define POOL (CONV / 2)
#define FEAT (MAPS * POOL * POOL)
#define CLASSES 6
#define NUM_TRAIN 480

struct Param {
    const char *name;
    int size;
    float scale;
    float *data, *diff, *history;
};

static Param params[] = {
    {"conv.weight", MAPS * 9, 0.33f},
    {"conv.bias", MAPS, 0.0f},
    {"fc.weight", CLASSES * FEAT, 0.1f},
    {"fc.bias", CLASSES, 0.0f},
};
enum { CONV_W, CONV_B, FC_W, FC_B, NUM_PARAMS };

__global__ void conv_relu(const float *img, const float *w, const float *b, float *out) {
    int n = blockIdx.x, m = blockIdx.y, y = threadIdx.y, x = threadIdx.x;
    const float *in = img + n * SIDE * SIDE;
    float acc = b[m];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) acc += in[(y + i) * SIDE + x + j] * w[m * 9 + i * 3 + j];
    out[((n * MAPS + m) * CONV + y) * CONV + x] = fmaxf(acc, 0.0f);
}

__global__ void max_pool(const float *in, float *out, int *where) {
    int n = blockIdx.x, m = blockIdx.y, y = threadIdx.y, x = threadIdx.x;
    int base = (n * MAPS + m) * CONV * CONV, best = 0;
    float top = -FLT_MAX;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int at = base + (2 * y + i) * CONV + 2 * x + j;
            if (in[at] > top) {
                top = in[at];
                best = at;
            }
        }
    int o = ((n * MAPS + m) * POOL + y) * POOL + x;
    out[o] = top;
    where[o] = best;
}

__global__ void fc_softmax(const float *feat, const float *w, const float *b, const int *label, float *delta, float *loss,
                           int batch) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= batch) return;
    float z[CLASSES], top = -FLT_MAX, sum = 0.0f;
    for (int c = 0; c < CLASSES; c++) {
        z[c] = b[c];
        for (int k = 0; k < FEAT; k++) z[c] += feat[n * FEAT + k] * w[c * FEAT + k];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < CLASSES; c++) sum += expf(z[c] - top);
    for (int c = 0; c < CLASSES; c++) delta[n * CLASSES + c] = (expf(z[c] - top) / sum - (label[n] == c)) / batch;
    loss[n] = logf(sum) - (z[label[n]] - top);
}

__global__ void fc_backward(const float *feat, const float *delta, float *gw, float *gb, int batch) {
    int c = blockIdx.x, k = threadIdx.x;
    float s = 0.0f;
    for (int n = 0; n < batch; n++) s += delta[n * CLASSES + c] * (k < FEAT ? feat[n * FEAT + k] : 1.0f);
    if (k < FEAT) gw[c * FEAT + k] = s;
    else gb[c] = s;
}

__global__ void unpool(const float *w, const float *delta, const int *where, const float *act, float *dconv) {
    int n = blockIdx.x, k = threadIdx.x;
    float s = 0.0f;
    for (int c = 0; c < CLASSES; c++) s += delta[n * CLASSES + c] * w[c * FEAT + k];
    int at = where[n * FEAT + k];
    dconv[at] = act[at] > 0.0f ? s : 0.0f;
}

__global__ void conv_backward(const float *img, const float *dconv, float *gw, float *gb, int batch) {
    int m = blockIdx.x, tap = threadIdx.x;
    float s = 0.0f;
    for (int n = 0; n < batch; n++)
        for (int y = 0; y < CONV; y++)
            for (int x = 0; x < CONV; x++) {
                float d = dconv[((n * MAPS + m) * CONV + y) * CONV + x];
                s += tap < 9 ? d * img[n * SIDE * SIDE + (y + tap / 3) * SIDE + x + tap % 3] : d;
            }
    if (tap < 9) gw[m * 9 + tap] = s;
    else gb[m] = s;
}

__global__ void sgd(float *data, const float *diff, float *history, int n, float lr, float momentum, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        history[i] = momentum * history[i] + lr * (diff[i] + decay * data[i]);
        data[i] -= history[i];
    }
}

int main() {
    const int batch = 20, epochs = 2;
    srand(5);
    std::vector<float> images(NUM_TRAIN * SIDE * SIDE);
    std::vector<int> labels(NUM_TRAIN);
    for (int n = 0; n < NUM_TRAIN; n++) {
        int c = labels[n] = rand() % CLASSES;
        int off = 2 + rand() % 7;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                bool ink = c == 0 ? x == off : c == 1 ? y == off : c == 2 ? x == y : c == 3 ? x + y == SIDE - 1
                         : c == 4 ? (x == off || y == off) : (x == off && y % 2);
                images[(n * SIDE + y) * SIDE + x] = (ink ? 1.0f : 0.0f) + 0.2f * rand() / RAND_MAX;
            }
    }

    for (Param &p : params) {
        cudaMalloc(&p.data, p.size * sizeof(float));
        cudaMalloc(&p.diff, p.size * sizeof(float));
        cudaMalloc(&p.history, p.size * sizeof(float));
        cudaMemset(p.history, 0, p.size * sizeof(float));
        std::vector<float> h(p.size);
        for (float &v : h) v = p.scale * (2.0f * rand() / RAND_MAX - 1.0f);
        cudaMemcpy(p.data, h.data(), p.size * sizeof(float), cudaMemcpyHostToDevice);
    }

    float *d_images, *d_conv, *d_pool, *d_delta, *d_dconv, *d_loss;
    int *d_labels, *d_where;
    cudaMalloc(&d_images, images.size() * sizeof(float));
    cudaMalloc(&d_labels, labels.size() * sizeof(int));
    cudaMalloc(&d_conv, batch * MAPS * CONV * CONV * sizeof(float));
    cudaMalloc(&d_dconv, batch * MAPS * CONV * CONV * sizeof(float));
    cudaMalloc(&d_pool, batch * FEAT * sizeof(float));
    cudaMalloc(&d_where, batch * FEAT * sizeof(int));
    cudaMalloc(&d_delta, batch * CLASSES * sizeof(float));
    cudaMalloc(&d_loss, batch * sizeof(float));
    cudaMemcpy(d_images, images.data(), images.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_labels, labels.data(), labels.size() * sizeof(int), cudaMemcpyHostToDevice);
    std::vector<float> loss(batch);

    for (int epoch = 1; epoch <= epochs; epoch++) {
        for (int iter = 0; iter < NUM_TRAIN / batch; iter++) {
            const float *img = d_images + iter * batch * SIDE * SIDE;
            const int *lab = d_labels + iter * batch;
            dim3 maps(batch, MAPS);
            conv_relu<<<maps, dim3(CONV, CONV)>>>(img, params[CONV_W].data, params[CONV_B].data, d_conv);
            max_pool<<<maps, dim3(POOL, POOL)>>>(d_conv, d_pool, d_where);
            fc_softmax<<<1, 32>>>(d_pool, params[FC_W].data, params[FC_B].data, lab, d_delta, d_loss, batch);

            fc_backward<<<CLASSES, FEAT + 1>>>(d_pool, d_delta, params[FC_W].diff, params[FC_B].diff, batch);
            cudaMemset(d_dconv, 0, batch * MAPS * CONV * CONV * sizeof(float));
            unpool<<<batch, FEAT>>>(params[FC_W].data, d_delta, d_where, d_conv, d_dconv);
            conv_backward<<<MAPS, 10>>>(img, d_dconv, params[CONV_W].diff, params[CONV_B].diff, batch);

            for (int i = 0; i < NUM_PARAMS; i++)
                sgd<<<(params[i].size + 63) / 64, 64>>>(params[i].data, params[i].diff, params[i].history, params[i].size,
                                                        0.02f, 0.9f, 0.0005f);
            if (iter % 6 == 5) {
                cudaMemcpy(loss.data(), d_loss, batch * sizeof(float), cudaMemcpyDeviceToHost);
                float mean = 0.0f;
                for (float l : loss) mean += l / batch;
                printf("epoch %d iter %d: loss = %.4f\n", epoch, iter, mean);
            }
        }
    }
    for (Param &p : params) cudaFree(p.data), cudaFree(p.diff), cudaFree(p.history);
    cudaFree(d_images), cudaFree(d_labels), cudaFree(d_conv), cudaFree(d_dconv), cudaFree(d_pool);
    cudaFree(d_where), cudaFree(d_delta), cudaFree(d_loss);
    return 0;
}
