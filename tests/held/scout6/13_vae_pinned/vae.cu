// Variational autoencoder for binary 8x8 bar images. Reconstruction and KL terms are summed, as in the PyTorch example.
#include "kernels.cuh"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#define CK(x)                                                                           \
    if (cudaError_t e = (x)) {                                                          \
        fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e));       \
        exit(1);                                                                        \
    }

static const int IMAGE = 64, HIDDEN = 40, LATENT = 6;
static const int BATCH = 80, EXAMPLES = 1600, EPOCHS = 8;

struct Weight {
    float *value, *grad, *m, *v;
    int n;
};

struct Vae {
    Weight w[10];   // enc w, b; mu w, b; logvar w, b; dec1 w, b; dec2 w, b
    float *h1, *mu, *logvar, *z, *h2, *recon;
    float *dh1, *dmu, *dlogvar, *dz, *dh2, *dlogits;
    float *x, *eps, *loss;
    float *host_x, *host_eps, *host_loss;   // page-locked
    cudaStream_t stream;
};

static float *device(int n)
{
    float *p;
    CK(cudaMalloc(&p, n * sizeof(float)));
    CK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static void make(Weight &w, int fan_in, int n, bool bias, std::mt19937 &g)
{
    w.n = n;
    w.value = device(n);
    w.grad = device(n);
    w.m = device(n);
    w.v = device(n);
    if (bias)
        return;
    std::normal_distribution<float> d(0.f, 1.f / std::sqrt((float)fan_in));
    std::vector<float> h(n);
    for (float &f : h)
        f = d(g);
    CK(cudaMemcpy(w.value, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
}

static void step(Vae &m, int t)
{
    cudaStream_t s = m.stream;
    Weight *w = m.w;
    CK(cudaMemcpyAsync(m.x, m.host_x, BATCH * IMAGE * sizeof(float), cudaMemcpyHostToDevice, s));
    CK(cudaMemcpyAsync(m.eps, m.host_eps, BATCH * LATENT * sizeof(float), cudaMemcpyHostToDevice, s));

    fc_forward(m.x, w[0].value, w[1].value, m.h1, BATCH, IMAGE, HIDDEN, ACT_RELU, s);
    fc_forward(m.h1, w[2].value, w[3].value, m.mu, BATCH, HIDDEN, LATENT, ACT_NONE, s);
    fc_forward(m.h1, w[4].value, w[5].value, m.logvar, BATCH, HIDDEN, LATENT, ACT_NONE, s);
    reparameterize(m.mu, m.logvar, m.eps, m.z, BATCH * LATENT, s);
    fc_forward(m.z, w[6].value, w[7].value, m.h2, BATCH, LATENT, HIDDEN, ACT_RELU, s);
    fc_forward(m.h2, w[8].value, w[9].value, m.recon, BATCH, HIDDEN, IMAGE, ACT_SIGMOID, s);
    elbo(m.recon, m.x, m.mu, m.logvar, m.dlogits, m.loss, BATCH, IMAGE, LATENT, s);
    CK(cudaMemcpyAsync(m.host_loss, m.loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost, s));

    fc_backward(m.h2, w[8].value, m.recon, m.dlogits, w[8].grad, w[9].grad, m.dh2, BATCH, HIDDEN, IMAGE, ACT_SIGMOID, false, s);
    fc_backward(m.z, w[6].value, m.h2, m.dh2, w[6].grad, w[7].grad, m.dz, BATCH, LATENT, HIDDEN, ACT_RELU, false, s);
    latent_backward(m.mu, m.logvar, m.eps, m.dz, m.dmu, m.dlogvar, BATCH * LATENT, s);
    fc_backward(m.h1, w[2].value, m.mu, m.dmu, w[2].grad, w[3].grad, m.dh1, BATCH, HIDDEN, LATENT, ACT_NONE, false, s);
    fc_backward(m.h1, w[4].value, m.logvar, m.dlogvar, w[4].grad, w[5].grad, m.dh1, BATCH, HIDDEN, LATENT, ACT_NONE, true, s);
    fc_backward(m.x, w[0].value, m.h1, m.dh1, w[0].grad, w[1].grad, nullptr, BATCH, IMAGE, HIDDEN, ACT_RELU, false, s);

    for (int i = 0; i < 10; i++)
        adam(w[i].value, w[i].grad, w[i].m, w[i].v, w[i].n, 4e-3f, t, s);
    CK(cudaStreamSynchronize(s));
}

int main()
{
    std::mt19937 gen(314);
    std::vector<float> images(EXAMPLES * IMAGE, 0.f);
    for (int i = 0; i < EXAMPLES; i++)
        for (int bar = 0; bar < 2; bar++) {
            int where = gen() % 8, vertical = gen() % 2;
            for (int k = 0; k < 8; k++)
                images[i * IMAGE + (vertical ? k * 8 + where : where * 8 + k)] = 1.f;
        }

    Vae m;
    const int dims[5][2] = {{IMAGE, HIDDEN}, {HIDDEN, LATENT}, {HIDDEN, LATENT}, {LATENT, HIDDEN}, {HIDDEN, IMAGE}};
    for (int l = 0; l < 5; l++) {
        make(m.w[2 * l], dims[l][0], dims[l][0] * dims[l][1], false, gen);
        make(m.w[2 * l + 1], dims[l][0], dims[l][1], true, gen);
    }
    m.h1 = device(BATCH * HIDDEN), m.dh1 = device(BATCH * HIDDEN);
    m.h2 = device(BATCH * HIDDEN), m.dh2 = device(BATCH * HIDDEN);
    m.mu = device(BATCH * LATENT), m.dmu = device(BATCH * LATENT);
    m.logvar = device(BATCH * LATENT), m.dlogvar = device(BATCH * LATENT);
    m.z = device(BATCH * LATENT), m.dz = device(BATCH * LATENT);
    m.recon = device(BATCH * IMAGE), m.dlogits = device(BATCH * IMAGE);
    m.x = device(BATCH * IMAGE), m.eps = device(BATCH * LATENT), m.loss = device(BATCH);
    CK(cudaMallocHost(&m.host_x, BATCH * IMAGE * sizeof(float)));
    CK(cudaMallocHost(&m.host_eps, BATCH * LATENT * sizeof(float)));
    CK(cudaMallocHost(&m.host_loss, BATCH * sizeof(float)));
    CK(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
    CK(cudaDeviceSynchronize());

    std::normal_distribution<float> normal;
    int t = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double sum = 0;
        for (int b = 0; b < EXAMPLES / BATCH; b++) {
            memcpy(m.host_x, &images[b * BATCH * IMAGE], BATCH * IMAGE * sizeof(float));
            for (int i = 0; i < BATCH * LATENT; i++)
                m.host_eps[i] = normal(gen);
            step(m, ++t);
            for (int i = 0; i < BATCH; i++)
                sum += m.host_loss[i];
        }
        printf("====> Epoch: %d Average loss: %.4f\n", epoch, sum / EXAMPLES);
    }
    return 0;
}
