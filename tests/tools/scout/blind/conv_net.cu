// conv 3x3 -> ReLU -> 2x2 max pool -> fully connected -> softmax, on 8x8 synthetic shapes.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>

namespace cfg {
const int IMG = 8, K = 3, F = 6, CONV = IMG - K + 1, POOL = CONV / 2;
const int FLAT = F * POOL * POOL, CLASSES = 4;
const int BATCH = 16, TRAIN = 256, VALID = 64, EPOCHS = 6;
const float LR = 0.15f, DECAY = 5e-4f;
}
using namespace cfg;

#define GPU(x)                                                                     \
    if (cudaError_t err = (x)) {                                                   \
        fprintf(stderr, "error %s in %s\n", cudaGetErrorString(err), #x);          \
        exit(1);                                                                   \
    }

struct Param {
    float *w, *g;
    int n;
};

Param param_new(int n, float scale, unsigned *seed) {
    Param p;
    p.n = n;
    std::vector<float> h(n);
    for (float &v : h) {
        *seed = *seed * 1103515245u + 12345u;
        v = scale * (((*seed >> 16) & 0x7fff) / 16383.5f - 1.0f);
    }
    GPU(cudaMalloc((void **)&p.w, n * sizeof(float)));
    GPU(cudaMalloc((void **)&p.g, n * sizeof(float)));
    GPU(cudaMemcpy(p.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    GPU(cudaMemset(p.g, 0, n * sizeof(float)));
    return p;
}

// One block per image, one thread per output position; loops over filters.
__global__ void conv_relu(const float *img, const float *w, const float *b, float *out) {
    const float *im = img + blockIdx.x * IMG * IMG;
    int y = threadIdx.y, x = threadIdx.x;
    for (int f = 0; f < F; ++f) {
        float s = b[f];
        for (int i = 0; i < K; ++i)
            for (int j = 0; j < K; ++j) s += w[(f * K + i) * K + j] * im[(y + i) * IMG + x + j];
        out[((blockIdx.x * F + f) * CONV + y) * CONV + x] = fmaxf(s, 0.0f);
    }
}

__global__ void maxpool(const float *in, float *out, int *arg, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = i % POOL, y = (i / POOL) % POOL, plane = i / (POOL * POOL);
    int best = plane * CONV * CONV + 2 * y * CONV + 2 * x;
    for (int dy = 0; dy < 2; ++dy)
        for (int dx = 0; dx < 2; ++dx) {
            int j = plane * CONV * CONV + (2 * y + dy) * CONV + 2 * x + dx;
            if (in[j] > in[best]) best = j;
        }
    out[i] = in[best];
    arg[i] = best;
}

__global__ void fc_forward(const float *in, const float *w, const float *b, float *logits) {
    int n = blockIdx.x, c = threadIdx.x;
    float s = b[c];
    for (int i = 0; i < FLAT; ++i) s += in[n * FLAT + i] * w[c * FLAT + i];
    logits[n * CLASSES + c] = s;
}

__global__ void softmax_loss(const float *logits, const int *label, float *dlogits, float *loss) {
    __shared__ float part[BATCH];
    int n = threadIdx.x;
    const float *z = logits + n * CLASSES;
    float m = z[0], sum = 0.0f;
    for (int c = 1; c < CLASSES; ++c) m = fmaxf(m, z[c]);
    for (int c = 0; c < CLASSES; ++c) sum += expf(z[c] - m);
    for (int c = 0; c < CLASSES; ++c)
        dlogits[n * CLASSES + c] = (expf(z[c] - m) / sum - (c == label[n])) / BATCH;
    part[n] = logf(sum) + m - z[label[n]];
    __syncthreads();
    if (n == 0) {
        float t = 0.0f;
        for (int i = 0; i < BATCH; ++i) t += part[i];
        *loss = t / BATCH;
    }
}

__global__ void fc_backward(const float *in, const float *w, const float *dz, float *gw, float *gb, float *din) {
    int i = threadIdx.x;
    for (int c = 0; c < CLASSES; ++c) {
        float s = 0.0f;
        for (int n = 0; n < BATCH; ++n) s += dz[n * CLASSES + c] * in[n * FLAT + i];
        gw[c * FLAT + i] = s;
    }
    for (int n = 0; n < BATCH; ++n) {
        float s = 0.0f;
        for (int c = 0; c < CLASSES; ++c) s += dz[n * CLASSES + c] * w[c * FLAT + i];
        din[n * FLAT + i] = s;
    }
    if (i < CLASSES) {
        float s = 0.0f;
        for (int n = 0; n < BATCH; ++n) s += dz[n * CLASSES + i];
        gb[i] = s;
    }
}

// dconv has been cleared; each pooled cell owns its window, so there are no collisions.
__global__ void unpool(const float *dpool, const int *arg, const float *conv, float *dconv, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && conv[arg[i]] > 0.0f) dconv[arg[i]] = dpool[i];
}

__global__ void conv_backward(const float *img, const float *dconv, float *gw, float *gb) {
    int f = blockIdx.x, i = threadIdx.x / K, j = threadIdx.x % K;
    float s = 0.0f, sb = 0.0f;
    for (int n = 0; n < BATCH; ++n)
        for (int y = 0; y < CONV; ++y)
            for (int x = 0; x < CONV; ++x) {
                float d = dconv[((n * F + f) * CONV + y) * CONV + x];
                s += d * img[(n * IMG + y + i) * IMG + x + j];
                sb += d;
            }
    gw[f * K * K + threadIdx.x] = s;
    if (threadIdx.x == 0) gb[f] = sb;
}

__global__ void sgd_decay(float *w, const float *g, int n, float lr, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * (g[i] + decay * w[i]);
}

static unsigned data_seed = 2024;
static float noise() {
    data_seed = data_seed * 1103515245u + 12345u;
    return ((data_seed >> 16) & 0x7fff) / 32768.0f;
}

static void draw(float *im, int cls) {
    int p = 1 + (int)(noise() * 6);
    for (int y = 0; y < IMG; ++y)
        for (int x = 0; x < IMG; ++x) {
            bool on = cls == 0 ? y == p : cls == 1 ? x == p : cls == 2 ? (x + y) % IMG == p : (x - y + IMG) % IMG == p;
            im[y * IMG + x] = (on ? 1.0f : 0.0f) + 0.3f * (noise() - 0.5f);
        }
}

int main(int argc, char **argv) {
    std::vector<float> images((TRAIN + VALID) * IMG * IMG);
    std::vector<int> labels(TRAIN + VALID);
    for (int n = 0; n < TRAIN + VALID; ++n) {
        labels[n] = (int)(noise() * CLASSES);
        draw(&images[n * IMG * IMG], labels[n]);
    }
    unsigned seed = 7;
    Param params[4] = {param_new(F * K * K, 0.33f, &seed), param_new(F, 0.0f, &seed),
                       param_new(CLASSES * FLAT, 0.15f, &seed), param_new(CLASSES, 0.0f, &seed)};
    float *img, *conv, *pool, *logits, *dlogits, *dpool, *dconv, *loss;
    int *arg, *lab;
    const int nconv = BATCH * F * CONV * CONV, npool = BATCH * FLAT;
    GPU(cudaMalloc((void **)&img, BATCH * IMG * IMG * sizeof(float)));
    GPU(cudaMalloc((void **)&conv, nconv * sizeof(float)));
    GPU(cudaMalloc((void **)&dconv, nconv * sizeof(float)));
    GPU(cudaMalloc((void **)&pool, npool * sizeof(float)));
    GPU(cudaMalloc((void **)&dpool, npool * sizeof(float)));
    GPU(cudaMalloc((void **)&arg, npool * sizeof(int)));
    GPU(cudaMalloc((void **)&logits, BATCH * CLASSES * sizeof(float)));
    GPU(cudaMalloc((void **)&dlogits, BATCH * CLASSES * sizeof(float)));
    GPU(cudaMalloc((void **)&loss, sizeof(float)));
    GPU(cudaMalloc((void **)&lab, BATCH * sizeof(int)));

    auto forward = [&](int start) {
        float h = 0.0f;
        GPU(cudaMemcpy(img, &images[start * IMG * IMG], BATCH * IMG * IMG * sizeof(float), cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(lab, &labels[start], BATCH * sizeof(int), cudaMemcpyHostToDevice));
        conv_relu<<<BATCH, dim3(CONV, CONV)>>>(img, params[0].w, params[1].w, conv);
        maxpool<<<(npool + 63) / 64, 64>>>(conv, pool, arg, npool);
        fc_forward<<<BATCH, CLASSES>>>(pool, params[2].w, params[3].w, logits);
        softmax_loss<<<1, BATCH>>>(logits, lab, dlogits, loss);
        GPU(cudaMemcpy(&h, loss, sizeof(float), cudaMemcpyDeviceToHost));
        return h;
    };

    for (int e = 0; e < EPOCHS; ++e) {
        float train_loss = 0.0f, valid_loss = 0.0f;
        for (int s = 0; s < TRAIN; s += BATCH) {
            train_loss += forward(s);
            fc_backward<<<1, FLAT>>>(pool, params[2].w, dlogits, params[2].g, params[3].g, dpool);
            GPU(cudaMemset(dconv, 0, nconv * sizeof(float)));
            unpool<<<(npool + 63) / 64, 64>>>(dpool, arg, conv, dconv, npool);
            conv_backward<<<F, K * K>>>(img, dconv, params[0].g, params[1].g);
            for (Param &p : params) sgd_decay<<<(p.n + 63) / 64, 64>>>(p.w, p.g, p.n, LR, DECAY);
            GPU(cudaGetLastError());
        }
        for (int s = TRAIN; s < TRAIN + VALID; s += BATCH) valid_loss += forward(s);
        printf("epoch %d train %.4f valid %.4f\n", e, train_loss / (TRAIN / BATCH), valid_loss / (VALID / BATCH));
    }

    FILE *f = fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
    if (!f) return 1;
    for (Param &p : params) {
        std::vector<float> h(p.n);
        GPU(cudaMemcpy(h.data(), p.w, p.n * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(h.data(), sizeof(float), p.n, f);
        cudaFree(p.w);
        cudaFree(p.g);
    }
    fclose(f);
    return 0;
}
