// LSTM predicts the next value of a noisy sum of two sines.
#include "lstm.cuh"
#include <random>

__global__ void adam_update(float *w, const float *g, float *m, float *v, size_t n, float lr, float b1t, float b2t)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = g[i];
    m[i] = 0.9f * m[i] + (1 - 0.9f) * gi;
    v[i] = 0.999f * v[i] + (1 - 0.999f) * gi * gi;
    w[i] -= lr * (m[i] / (1 - b1t)) / (sqrtf(v[i] / (1 - b2t)) + 1e-8f);
}

int main()
{
    const int input = 2, hidden = 24, batch = 64, seq = 10, iterations = 120;
    LstmNet net(input, hidden, batch, seq);

    float *m, *v, *d_x, *d_t, *d_loss;
    CUDA_CALL(cudaMalloc(&m, net.nTotal * sizeof(float)));
    CUDA_CALL(cudaMalloc(&v, net.nTotal * sizeof(float)));
    CUDA_CALL(cudaMemset(m, 0, net.nTotal * sizeof(float)));
    CUDA_CALL(cudaMemset(v, 0, net.nTotal * sizeof(float)));
    CUDA_CALL(cudaMalloc(&d_x, seq * input * batch * sizeof(float)));
    CUDA_CALL(cudaMalloc(&d_t, batch * sizeof(float)));
    CUDA_CALL(cudaMalloc(&d_loss, sizeof(float)));

    std::mt19937 rng(2024);
    std::uniform_real_distribution<float> phase(0.f, 6.2831853f);
    std::normal_distribution<float> noise(0.f, 0.02f);
    std::vector<float> x(seq * input * batch), t(batch);

    float b1t = 1, b2t = 1, lr = 5e-3f;
    for (int it = 0; it < iterations; ++it) {
        for (int k = 0; k < batch; ++k) {
            float p = phase(rng), q = phase(rng);
            for (int s = 0; s <= seq; ++s) {
                float a = std::sin(p + 0.4f * s), b = std::cos(q + 0.25f * s);
                if (s < seq) {
                    x[(s * batch + k) * input] = a + noise(rng);
                    x[(s * batch + k) * input + 1] = b + noise(rng);
                } else {
                    t[k] = 0.7f * a + 0.5f * b;
                }
            }
        }
        CUDA_CALL(cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpy(d_t, t.data(), t.size() * sizeof(float), cudaMemcpyHostToDevice));

        net.forward(d_x);
        net.loss_grad(d_t, d_loss);
        net.backward(d_x);
        b1t *= 0.9f;
        b2t *= 0.999f;
        adam_update<<<(net.nTotal + 255) / 256, 256>>>(net.weights, net.grads, m, v, net.nTotal, lr, b1t, b2t);
        if (it == 80) lr *= 0.3f;

        if (it % 20 == 0 || it + 1 == iterations) {
            float loss;
            CUDA_CALL(cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost));
            std::printf("iteration %4d  mse %.6f\n", it, loss);
        }
    }
    for (float *p : { m, v, d_x, d_t, d_loss }) cudaFree(p);
    return 0;
}
