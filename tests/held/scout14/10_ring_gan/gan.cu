// A generator that learns points on a ring, and its critic. Real and made points go through the critic together:
// the first half of its input is real, the second half is made.
#include "mlp.h"

#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>

// Rows below `real` should be called real. loss[0] += mean loss, loss[1] += mean score of the rows that were right.
__global__ void judge(const float *score, float *d, float *loss, int n, int real)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float want = i < real ? 1.f : 0.f, s = score[i];
    d[i] = (1.f / (1.f + expf(-s)) - want) / n;
    atomicAdd(&loss[0], (fmaxf(s, 0.f) - s * want + log1pf(expf(-fabsf(s)))) / n);
    if ((s > 0.f) == (want > 0.5f))
        atomicAdd(&loss[1], 1.f / n);
}

int main()
{
    const int batch = 32, latent = 4, steps = 120;
    std::mt19937 rng(8);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> angle(0.f, 6.2831853f);

    Mlp generator({latent, 20, 16, 2}, batch, rng);
    Mlp critic({2, 24, 12, 1}, 2 * batch, rng);

    std::vector<float> real(2 * batch), noise(latent * batch);
    float *both, *z, *d, *loss;
    cudaMalloc(&both, 2 * batch * 2 * sizeof(float));
    cudaMalloc(&z, latent * batch * sizeof(float));
    cudaMalloc(&d, 2 * batch * sizeof(float));
    cudaMalloc(&loss, 4 * sizeof(float));
    cudaMemset(loss, 0, 4 * sizeof(float));

    for (int step = 1; step <= steps; step++) {
        for (int i = 0; i < batch; i++) {
            float a = angle(rng);
            real[2 * i] = 1.2f * std::cos(a) + 0.05f * normal(rng);
            real[2 * i + 1] = 1.2f * std::sin(a) + 0.05f * normal(rng);
        }
        for (float &x : noise)
            x = normal(rng);
        cudaMemcpy(both, real.data(), real.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(z, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice);

        // critic
        float *made = generator.forward(z, batch);
        cudaMemcpy(both + 2 * batch, made, 2 * batch * sizeof(float), cudaMemcpyDeviceToDevice);
        float *score = critic.forward(both, 2 * batch);
        judge<<<1, 64>>>(score, d, loss, 2 * batch, batch);
        critic.backward(d, 2 * batch, true);
        critic.step(0.01f);

        // generator
        score = critic.forward(made, batch);
        judge<<<1, 64>>>(score, d, loss + 2, batch, batch);
        generator.backward(critic.backward(d, batch, false), batch, true);
        generator.step(0.005f);

        if (step % 10 == 0) {
            float h[4];
            cudaMemcpy(h, loss, sizeof h, cudaMemcpyDeviceToHost);
            cudaMemset(loss, 0, sizeof h);
            std::printf("step %3d  critic loss %.4f (right %.2f)  generator loss %.4f (fooled %.2f)\n", step, h[0] / 10, h[1] / 10, h[2] / 10, h[3] / 10);
        }
    }
    for (float *p : {both, z, d, loss})
        cudaFree(p);
    return 0;
}
