// Variational autoencoder on 6x6 images of soft blobs.
#include "include/nn.hpp"

#include <cstdio>

namespace nn {

__global__ void fillBias(float *y, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = b[i % rows];
}

__global__ void sumColumns(const float *dy, float *db, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float s = 0;
    for (int c = 0; c < cols; ++c)
        s += dy[c * rows + r];
    db[r] = s;
}

__global__ void adamStep(float *w, const float *g, float *m, float *v, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.001f * (g[i] * g[i] - v[i]);
    w[i] -= lr * m[i] / (sqrtf(v[i]) + 1e-7f);
}

} // namespace nn

constexpr int SIDE = 6;
constexpr int PIXELS = SIDE * SIDE;
constexpr int HIDDEN = 40;
constexpr int LATENT = 4;

__global__ void tanhForward(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = tanhf(x[i]);
}

__global__ void tanhBackward(const float *y, float *dy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dy[i] *= 1 - y[i] * y[i];
}

__global__ void sampleLatent(const float *mu, const float *logvar, const float *eps, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = mu[i] + expf(0.5f * logvar[i]) * eps[i];
}

// adds the gradient of the KL term to that of the reconstruction
__global__ void latentBackward(const float *mu, const float *logvar, const float *eps, const float *dz, float *dmu,
                               float *dlogvar, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float var = expf(logvar[i]);
    dmu[i] = dz[i] + mu[i];
    dlogvar[i] = dz[i] * eps[i] * 0.5f * sqrtf(var) + 0.5f * (var - 1);
    atomicAdd(loss, 0.5f * (var + mu[i] * mu[i] - 1 - logvar[i]));
}

__global__ void reconstruction(const float *logit, const float *x, float *dlogit, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z = logit[i];
    dlogit[i] = 1 / (1 + expf(-z)) - x[i];
    atomicAdd(loss, fmaxf(z, 0.0f) - z * x[i] + log1pf(expf(-fabsf(z))));
}

struct VAE {
    nn::Linear<PIXELS, HIDDEN> enc;
    nn::Linear<HIDDEN, LATENT> toMu, toLogvar;
    nn::Linear<LATENT, HIDDEN> dec;
    nn::Linear<HIDDEN, PIXELS> out;
    nn::DeviceArray<float> h, mu, logvar, z, g, logit;
    nn::DeviceArray<float> dh, dmu, dlogvar, dz, dg, dlogit, loss;

    VAE(nn::Context &ctx, int batch)
        : h(batch * HIDDEN), mu(batch * LATENT), logvar(batch * LATENT), z(batch * LATENT), g(batch * HIDDEN),
          logit(batch * PIXELS), dh(batch * HIDDEN), dmu(batch * LATENT), dlogvar(batch * LATENT), dz(batch * LATENT),
          dg(batch * HIDDEN), dlogit(batch * PIXELS), loss(1)
    {
        enc.init(ctx);
        toMu.init(ctx);
        toLogvar.init(ctx);
        dec.init(ctx);
        out.init(ctx);
    }

    std::vector<nn::Parameter *> parameters()
    {
        std::vector<nn::Parameter *> p;
        enc.collect(p);
        toMu.collect(p);
        toLogvar.collect(p);
        dec.collect(p);
        out.collect(p);
        return p;
    }

    void forwardBackward(nn::Context &ctx, const float *x, const float *eps, int batch)
    {
        auto grid = [](int n) { return (n + 127) / 128; };
        const int nh = batch * HIDDEN, nz = batch * LATENT, nx = batch * PIXELS;
        cudaStream_t s = ctx.stream;

        enc.forward(ctx, x, h.data(), batch);
        tanhForward<<<grid(nh), 128, 0, s>>>(h.data(), nh);
        toMu.forward(ctx, h.data(), mu.data(), batch);
        toLogvar.forward(ctx, h.data(), logvar.data(), batch);
        sampleLatent<<<grid(nz), 128, 0, s>>>(mu.data(), logvar.data(), eps, z.data(), nz);
        dec.forward(ctx, z.data(), g.data(), batch);
        tanhForward<<<grid(nh), 128, 0, s>>>(g.data(), nh);
        out.forward(ctx, g.data(), logit.data(), batch);

        nn::check(cudaMemsetAsync(loss.data(), 0, sizeof(float), s));
        reconstruction<<<grid(nx), 128, 0, s>>>(logit.data(), x, dlogit.data(), loss.data(), nx);
        out.backward(ctx, g.data(), dlogit.data(), dg.data(), batch);
        tanhBackward<<<grid(nh), 128, 0, s>>>(g.data(), dg.data(), nh);
        dec.backward(ctx, z.data(), dg.data(), dz.data(), batch);
        latentBackward<<<grid(nz), 128, 0, s>>>(mu.data(), logvar.data(), eps, dz.data(), dmu.data(), dlogvar.data(),
                                                loss.data(), nz);
        toMu.backward(ctx, h.data(), dmu.data(), dh.data(), batch);
        toLogvar.backward(ctx, h.data(), dlogvar.data(), dh.data(), batch, 1.0f);
        tanhBackward<<<grid(nh), 128, 0, s>>>(h.data(), dh.data(), nh);
        enc.backward(ctx, x, dh.data(), nullptr, batch);
    }
};

static void drawBlobs(std::mt19937 &rng, float *images, int n)
{
    std::uniform_real_distribution<float> u(0, 1);
    for (int k = 0; k < n; ++k) {
        float cx = 1 + 3 * u(rng), cy = 1 + 3 * u(rng), r = 0.8f + u(rng);
        for (int y = 0; y < SIDE; ++y)
            for (int x = 0; x < SIDE; ++x)
                images[k * PIXELS + y * SIDE + x] =
                    std::exp(-((x - cx) * (x - cx) + (y - cy) * (y - cy)) / (2 * r * r));
    }
}

int main()
try {
    const int batchSize = 128;
    const int iterations = 150;
    nn::Context ctx;
    VAE vae(ctx, batchSize);
    nn::Adam optimizer(vae.parameters(), 5e-3f);

    nn::DeviceArray<float> x(batchSize * PIXELS), eps(batchSize * LATENT);
    float *pinnedX, *pinnedEps, *pinnedLoss;
    nn::check(cudaMallocHost((void **)&pinnedX, x.size() * sizeof(float)));
    nn::check(cudaMallocHost((void **)&pinnedEps, eps.size() * sizeof(float)));
    nn::check(cudaMallocHost((void **)&pinnedLoss, sizeof(float)));
    std::normal_distribution<float> normal;

    for (int it = 0; it < iterations; ++it) {
        drawBlobs(ctx.rng, pinnedX, batchSize);
        for (size_t i = 0; i < eps.size(); ++i)
            pinnedEps[i] = normal(ctx.rng);
        nn::check(cudaMemcpyAsync(x.data(), pinnedX, x.size() * sizeof(float), cudaMemcpyHostToDevice, ctx.stream));
        nn::check(
            cudaMemcpyAsync(eps.data(), pinnedEps, eps.size() * sizeof(float), cudaMemcpyHostToDevice, ctx.stream));

        vae.forwardBackward(ctx, x.data(), eps.data(), batchSize);
        optimizer.step(ctx);

        nn::check(cudaMemcpyAsync(pinnedLoss, vae.loss.data(), sizeof(float), cudaMemcpyDeviceToHost, ctx.stream));
        nn::check(cudaStreamSynchronize(ctx.stream));
        if (it % 10 == 0 || it == iterations - 1)
            std::printf("[%3d/%d] ELBO loss: %.4f\n", it, iterations, *pinnedLoss / batchSize);
    }
    cudaFreeHost(pinnedX);
    cudaFreeHost(pinnedEps);
    cudaFreeHost(pinnedLoss);
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
