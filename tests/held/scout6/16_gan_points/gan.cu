// A GAN that learns a cloud of points around (2, -1)
#include "mlp.cuh"

#define BATCH 64
#define NOISE 4
#define ITERS 200

// d/dlogit and value of the binary cross entropy with the given label, averaged over n
__global__ void bce(const float *logit, float *dlogit, float *loss, int n, float label)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float p = 1.0f / (1.0f + expf(-logit[i]));
        dlogit[i] = (p - label) / n;
        loss[i] = -(label * logf(p + 1e-7f) + (1 - label) * logf(1 - p + 1e-7f));
    }
}

static std::mt19937 gen(8);

static void sample_real(std::vector<float> &out)
{
    std::normal_distribution<float> n;
    for (int i = 0; i < BATCH; ++i) {
        float u = n(gen), v = n(gen);
        out[2 * i] = 2.0f + 0.5f * u;
        out[2 * i + 1] = -1.0f + 0.4f * u + 0.25f * v;
    }
}

static void sample_noise(std::vector<float> &out)
{
    std::normal_distribution<float> n;
    for (float &x : out) x = n(gen);
}

static float mean(const float *d, int n)
{
    std::vector<float> h(n);
    CUDA_SAFE(cudaMemcpy(h.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost));
    float s = 0;
    for (float x : h) s += x;
    return s / n;
}

int main()
{
    Mlp G({NOISE, 32, 32, 2}, BATCH, 21);
    Mlp D({2, 32, 32, 1}, BATCH, 22);
    float *d_real, *d_noise, *d_dlogit, *d_loss;
    CUDA_SAFE(cudaMalloc(&d_real, BATCH * 2 * sizeof(float)));
    CUDA_SAFE(cudaMalloc(&d_noise, BATCH * NOISE * sizeof(float)));
    CUDA_SAFE(cudaMalloc(&d_dlogit, BATCH * sizeof(float)));
    CUDA_SAFE(cudaMalloc(&d_loss, BATCH * sizeof(float)));

    std::vector<float> real(BATCH * 2), noise(BATCH * NOISE), fake_host(BATCH * 2);
    for (int it = 1; it <= ITERS; ++it) {
        // 1. the discriminator, on real and generated points
        D.zero_grad();
        sample_real(real);
        CUDA_SAFE(cudaMemcpy(d_real, real.data(), real.size() * sizeof(float), cudaMemcpyHostToDevice));
        float *logit = D.forward(d_real, BATCH);
        bce<<<1, BATCH>>>(logit, d_dlogit, d_loss, BATCH, 1.0f);
        D.backward(d_dlogit, BATCH);
        float loss_d = mean(d_loss, BATCH);

        sample_noise(noise);
        CUDA_SAFE(cudaMemcpy(d_noise, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice));
        float *fake = G.forward(d_noise, BATCH);
        logit = D.forward(fake, BATCH);
        bce<<<1, BATCH>>>(logit, d_dlogit, d_loss, BATCH, 0.0f);
        D.backward(d_dlogit, BATCH);
        loss_d += mean(d_loss, BATCH);
        D.adam(3e-3f);

        // 2. the generator, through the discriminator (whose gradients are cleared above)
        G.zero_grad();
        sample_noise(noise);
        CUDA_SAFE(cudaMemcpy(d_noise, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice));
        fake = G.forward(d_noise, BATCH);
        logit = D.forward(fake, BATCH);
        bce<<<1, BATCH>>>(logit, d_dlogit, d_loss, BATCH, 1.0f);
        G.backward(D.backward(d_dlogit, BATCH), BATCH);
        float loss_g = mean(d_loss, BATCH);
        G.adam(2e-3f);

        if (it % 20 == 0 || it == 1) {
            CUDA_SAFE(cudaMemcpy(fake_host.data(), fake, fake_host.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float cx = 0, cy = 0;
            for (int i = 0; i < BATCH; ++i)
                cx += fake_host[2 * i] / BATCH, cy += fake_host[2 * i + 1] / BATCH;
            printf("iter %d  D %.4f  G %.4f  distance of the means %.4f\n", it, loss_d, loss_g,
                   std::hypot(cx - 2.0f, cy + 1.0f));
        }
    }
    return 0;
}
