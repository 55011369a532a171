// GAN (least squares) on a 2-d ring of points.
#include "mlp.cuh"

static const int kNoise = 4, kBatch = 64, kIters = 150;

// d = (y - target) / n; the loss is half the mean square
__global__ void ls_loss(const float* y, float target, float* d, float* loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = y[i] - target;
    d[i] = e / n;
    atomicAdd(loss, 0.5f * e * e / n);
}

static void ring(std::vector<float>& out, int n, std::mt19937& gen) {
    std::uniform_real_distribution<float> angle(0, 6.2831853f);
    std::normal_distribution<float> nd(0, 0.05f);
    out.resize(n * 2);
    for (int i = 0; i < n; i++) {
        float a = angle(gen);
        out[2 * i] = 2.0f + std::cos(a) + nd(gen);
        out[2 * i + 1] = 1.0f + std::sin(a) + nd(gen);
    }
}
static void noise(std::vector<float>& out, int n, std::mt19937& gen) {
    std::normal_distribution<float> nd(0, 1);
    out.resize(n * kNoise);
    for (auto& v : out) v = nd(gen);
}
static void to_device(float* d, const std::vector<float>& h) {
    GPU(cudaMemcpy(d, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
}

int main() {
    std::mt19937 gen(4);
    Mlp G({kNoise, 24, 24, 2}, kBatch, 1), D({2, 24, 24, 1}, kBatch, 2);
    std::printf("generator %d parameters, discriminator %d\n", G.size(), D.size());
    std::vector<float> h;
    float *d_loss, loss[2];
    GPU(cudaMalloc(&d_loss, 2 * sizeof(float)));

    for (int it = 0; it < kIters; it++) {
        GPU(cudaMemset(d_loss, 0, 2 * sizeof(float)));
        // discriminator: real, then fake
        D.zero_grad();
        ring(h, kBatch, gen);
        to_device(D.input(), h);
        D.forward(kBatch);
        ls_loss<<<1, kBatch>>>(D.output(), 1.0f, D.d_output(), d_loss, kBatch);
        D.backward(kBatch);
        noise(h, kBatch, gen);
        to_device(G.input(), h);
        G.forward(kBatch);
        GPU(cudaMemcpy(D.input(), G.output(), kBatch * 2 * sizeof(float), cudaMemcpyDeviceToDevice));
        D.forward(kBatch);
        ls_loss<<<1, kBatch>>>(D.output(), 0.0f, D.d_output(), d_loss, kBatch);
        D.backward(kBatch);
        D.adam_step(0.004f);

        // generator
        G.zero_grad();
        noise(h, kBatch, gen);
        to_device(G.input(), h);
        G.forward(kBatch);
        GPU(cudaMemcpy(D.input(), G.output(), kBatch * 2 * sizeof(float), cudaMemcpyDeviceToDevice));
        D.forward(kBatch);
        ls_loss<<<1, kBatch>>>(D.output(), 1.0f, D.d_output(), d_loss + 1, kBatch);
        D.backward(kBatch, false);
        GPU(cudaMemcpy(G.d_output(), D.d_input(), kBatch * 2 * sizeof(float), cudaMemcpyDeviceToDevice));
        G.backward(kBatch);
        G.adam_step(0.002f);

        if (it % 25 == 0 || it == kIters - 1) {
            GPU(cudaMemcpy(loss, d_loss, sizeof(loss), cudaMemcpyDeviceToHost));
            // distance of the generated mean from the ring's centre
            std::vector<float> y(kBatch * 2);
            GPU(cudaMemcpy(y.data(), G.output(), y.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float mx = 0, my = 0;
            for (int i = 0; i < kBatch; i++) { mx += y[2 * i] / kBatch; my += y[2 * i + 1] / kBatch; }
            std::printf("iter %3d D %.4f G %.4f centre_loss %.4f\n", it, loss[0], loss[1], std::hypot(mx - 2, my - 1));
        }
    }
    cudaFree(d_loss);
    return 0;
}
