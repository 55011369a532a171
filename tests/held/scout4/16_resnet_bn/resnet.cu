/* Residual MLP with batch normalisation; AdamW, warmup and cosine decay. */
#include "ops.cuh"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

enum { FEAT = 16, WIDTH = 32, CLASSES = 6, BLOCKS = 2, BATCH_SIZE = 128, STEPS = 120, WARMUP = 10 };

#define LAUNCH(n) <<<((n) + 127) / 128, 128>>>

static std::mt19937 gen(4);

/* every tensor that the optimizer has to know is entered here */
struct Slot {
    float *p, *g, *m, *v;
    int n;
    float decay;
};
static std::vector<Slot> slots;

static float *dev(int n)
{
    float *p;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess || cudaMemset(p, 0, n * sizeof(float)) != cudaSuccess)
        abort();
    return p;
}

static void new_tensor(float **p, float **g, int n, float scale, float offset, float decay)
{
    std::normal_distribution<float> d;
    std::vector<float> h(n);
    for (float &x : h)
        x = offset + (scale > 0 ? scale * d(gen) : 0.f);
    *p = dev(n);
    *g = dev(n);
    cudaMemcpy(*p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    slots.push_back({*p, *g, dev(n), dev(n), n, decay});
}

template <int IN, int OUT> struct Affine {
    float *w, *dw, *b, *db;
    void init()
    {
        new_tensor(&w, &dw, IN * OUT, sqrtf(2.f / IN), 0, 0.01f);
        new_tensor(&b, &db, OUT, 0, 0, 0);
    }
    void forward(const float *x, float *y, int n) { affine<IN, OUT> LAUNCH(n * OUT)(x, w, b, y, n); }
    void backward(const float *x, const float *dy, float *dx, int n)
    {
        affine_dw<IN, OUT> LAUNCH(IN * OUT)(x, dy, dw, db, n);
        if (dx)
            affine_dx<IN, OUT> LAUNCH(n * IN)(dy, w, dx, n);
    }
};

template <int C> struct BatchNorm {
    float *gamma, *dgamma, *beta, *dbeta;
    float *mean, *var, *xhat, *inv_std;
    void init()
    {
        new_tensor(&gamma, &dgamma, C, 0, 1, 0);
        new_tensor(&beta, &dbeta, C, 0, 0, 0);
        std::vector<float> one(C, 1.f);
        mean = dev(C);
        var = dev(C);
        cudaMemcpy(var, one.data(), C * sizeof(float), cudaMemcpyHostToDevice);
        xhat = dev(BATCH_SIZE * C);
        inv_std = dev(C);
    }
    void forward(const float *x, float *y, int n, bool training)
    {
        batchnorm<C><<<C, 64>>>(x, gamma, beta, mean, var, xhat, inv_std, y, n, training);
    }
    void backward(const float *dy, float *dx, int n)
    {
        batchnorm_back<C><<<C, 64>>>(dy, gamma, xhat, inv_std, dgamma, dbeta, dx, n);
    }
};

/* y = x + relu(bn(affine(x))) */
template <int W> struct ResBlock {
    Affine<W, W> fc;
    BatchNorm<W> bn;
    float *a, *b, *y, *da;
    void init()
    {
        fc.init();
        bn.init();
        a = dev(BATCH_SIZE * W);
        b = dev(BATCH_SIZE * W);
        y = dev(BATCH_SIZE * W);
        da = dev(BATCH_SIZE * W);
    }
    float *forward(float *x, int n, bool training)
    {
        fc.forward(x, a, n);
        bn.forward(a, b, n, training);
        relu_skip LAUNCH(n * W)(b, x, y, n * W);
        return y;
    }
    /* dy becomes dx */
    void backward(const float *x, float *dy, int n)
    {
        relu_back LAUNCH(n * W)(b, dy, da, n * W);
        bn.backward(da, da, n);
        fc.backward(x, da, a, n);
        add_to LAUNCH(n * W)(dy, a, n * W);
    }
};

struct ResNet {
    Affine<FEAT, WIDTH> stem;
    ResBlock<WIDTH> block[BLOCKS];
    Affine<WIDTH, CLASSES> head;
    float *h[BLOCKS + 1], *z, *dz, *dh, *loss;
    int *hit;

    ResNet()
    {
        stem.init();
        for (auto &b : block)
            b.init();
        head.init();
        h[0] = dev(BATCH_SIZE * WIDTH);
        z = dev(BATCH_SIZE * CLASSES);
        dz = dev(BATCH_SIZE * CLASSES);
        dh = dev(BATCH_SIZE * WIDTH);
        loss = dev(BATCH_SIZE);
        cudaMalloc(&hit, BATCH_SIZE * sizeof(int));
    }
    void forward(const float *x, const int *y, int n, bool training)
    {
        stem.forward(x, h[0], n);
        for (int l = 0; l < BLOCKS; l++)
            h[l + 1] = block[l].forward(h[l], n, training);
        head.forward(h[BLOCKS], z, n);
        softmax_xent<CLASSES> LAUNCH(n)(z, y, dz, loss, hit, n);
    }
    void backward(const float *x, int n)
    {
        head.backward(h[BLOCKS], dz, dh, n);
        for (int l = BLOCKS - 1; l >= 0; l--)
            block[l].backward(h[l], dh, n);
        stem.backward(x, dh, nullptr, n);
    }
    void report(const char *what, int step, int n)
    {
        std::vector<float> hl(n);
        std::vector<int> hh(n);
        cudaMemcpy(hl.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(hh.data(), hit, n * sizeof(int), cudaMemcpyDeviceToHost);
        float s = 0, c = 0;
        for (int i = 0; i < n; i++) {
            s += hl[i];
            c += hh[i];
        }
        printf("%-6s %4d loss %.4f acc %.3f\n", what, step, s / n, c / n);
    }
};

static void teacher(std::vector<float> &x, std::vector<int> &y, int n)
{
    static std::vector<float> proj;
    std::normal_distribution<float> d;
    if (proj.empty()) {
        proj.resize(CLASSES * FEAT * 2);
        for (float &p : proj)
            p = d(gen);
    }
    x.resize(n * FEAT);
    y.resize(n);
    for (float &v : x)
        v = d(gen);
    for (int i = 0; i < n; i++) {
        float best = -1e9f;
        for (int k = 0; k < CLASSES; k++) {
            float a = 0, b = 0;
            for (int f = 0; f < FEAT; f++) {
                a += proj[k * FEAT + f] * x[i * FEAT + f];
                b += proj[(CLASSES + k) * FEAT + f] * x[i * FEAT + f];
            }
            if (a + fabsf(b) > best) {
                best = a + fabsf(b);
                y[i] = k;
            }
        }
    }
}

int main()
{
    ResNet net;
    std::vector<float> train_x, valid_x;
    std::vector<int> train_y, valid_y;
    teacher(train_x, train_y, 40 * BATCH_SIZE);
    teacher(valid_x, valid_y, BATCH_SIZE);

    float *x = dev(BATCH_SIZE * FEAT);
    int *y;
    cudaMalloc(&y, BATCH_SIZE * sizeof(int));

    for (int step = 0; step < STEPS; step++) {
        int at = step % 40 * BATCH_SIZE;
        cudaMemcpy(x, &train_x[at * FEAT], BATCH_SIZE * FEAT * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, &train_y[at], BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice);
        net.forward(x, y, BATCH_SIZE, true);
        net.backward(x, BATCH_SIZE);

        float lr = 0.01f;
        lr *= step < WARMUP ? (step + 1.f) / WARMUP
                            : 0.5f + 0.5f * cosf(3.14159265f * (step - WARMUP) / (STEPS - WARMUP));
        float c1 = 1.f / (1.f - powf(.9f, step + 1)), c2 = 1.f / (1.f - powf(.99f, step + 1));
        for (const Slot &s : slots)
            adamw LAUNCH(s.n)(s.p, s.g, s.m, s.v, lr, s.decay, c1, c2, s.n);

        if (step % 20 == 0)
            net.report("train", step, BATCH_SIZE);
        if (step % 20 == 19) {
            cudaMemcpy(x, valid_x.data(), BATCH_SIZE * FEAT * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(y, valid_y.data(), BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice);
            net.forward(x, y, BATCH_SIZE, false);
            net.report("valid", step, BATCH_SIZE);
        }
    }
    cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess)
        printf("%s\n", cudaGetErrorString(e));
    return e != cudaSuccess;
}
