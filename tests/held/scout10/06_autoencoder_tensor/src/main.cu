// Autoencoder 48 -> 16 -> 48 on smooth random signals.
#include "tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

using Real = double;
using ae::Tensor;

namespace {
const int kSamples = 1000, kDim = 48, kCode = 16, kEpochs = 12;

struct Layer {
    Tensor<Real> w, b, dw, db, sw, sb;
    Tensor<Real> out, grad;
    Layer(int in, int units, int batch, std::mt19937 &rng)
        : b(1, units), dw(in, units), db(1, units), sw(in, units), sb(1, units), out(batch, units), grad(batch, units)
    {
        std::normal_distribution<Real> normal(0, std::sqrt(2.0 / (in + units)));
        std::vector<Real> init(in * units);
        std::generate(init.begin(), init.end(), [&] { return normal(rng); });
        w = Tensor<Real>::from(in, units, init);
    }
    void forward(const Tensor<Real> &x)
    {
        ae::matmul(x, false, w, false, out);
        ae::add_row(out, b);
        ae::sigmoid(out);
    }
    void backward(const Tensor<Real> &x, Tensor<Real> *dx)
    {
        ae::sigmoid_backward(grad, out);
        ae::matmul(x, true, grad, false, dw);
        ae::sum_rows(grad, db);
        if (dx)
            ae::matmul(grad, false, w, true, *dx);
    }
    void update(Real lr)
    {
        ae::rmsprop(w, dw, sw, lr, Real(0.9));
        ae::rmsprop(b, db, sb, lr, Real(0.9));
    }
};

std::vector<Real> signals(std::mt19937 &rng)
{
    std::uniform_real_distribution<Real> u(0, 1);
    std::vector<Real> x(kSamples * kDim);
    for (int i = 0; i < kSamples; ++i) {
        Real f = 0.1 + 0.3 * u(rng), phase = 6.28 * u(rng), a = 0.2 + 0.25 * u(rng);
        for (int j = 0; j < kDim; ++j)
            x[i * kDim + j] = 0.5 + a * std::sin(f * j + phase);
    }
    return x;
}
} // namespace

int main()
try {
    const int batch = 50;
    std::mt19937 rng(5);
    auto data = Tensor<Real>::from(kSamples, kDim, signals(rng));
    Layer encoder(kDim, kCode, batch, rng), decoder(kCode, kDim, batch, rng);
    Tensor<Real> x(batch, kDim), loss(batch, 1);

    std::vector<int> order(kSamples);
    std::iota(order.begin(), order.end(), 0);
    int *d_order;
    ae::check(cudaMalloc(&d_order, kSamples * sizeof(int)));

    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        std::shuffle(order.begin(), order.end(), rng);
        ae::check(cudaMemcpy(d_order, order.data(), kSamples * sizeof(int), cudaMemcpyHostToDevice));
        Real total = 0;
        const Real lr = epoch < 8 ? 0.01 : 0.003;
        for (int first = 0; first < kSamples; first += batch) {
            ae::gather_rows(data, d_order + first, x);
            encoder.forward(x);
            decoder.forward(encoder.out);
            ae::mse(decoder.out, x, decoder.grad, loss);
            decoder.backward(encoder.out, &encoder.grad);
            encoder.backward(x, nullptr);
            encoder.update(lr);
            decoder.update(lr);
            for (Real l : loss.to_host())
                total += l;
        }
        std::printf("epoch %d: loss %.6f\n", epoch, total / kSamples);
    }
    cudaFree(d_order);
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
}
