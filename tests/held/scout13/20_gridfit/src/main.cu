// Fits a picture with a multi resolution feature grid and a tiny MLP.
#include "model.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

using namespace gridfit;

static std::vector<Pixel> paint(int side)
{
    std::vector<Pixel> image;
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
            Pixel p;
            p.u = (x + 0.5f) / side;
            p.v = (y + 0.5f) / side;
            const float dx = p.u - 0.5f, dy = p.v - 0.4f, d = std::sqrt(dx * dx + dy * dy);
            p.color[0] = d < 0.25f ? 0.9f : 0.2f;
            p.color[1] = 0.5f + 0.5f * std::sin(12.f * p.u);
            p.color[2] = p.v;
            image.push_back(p);
        }
    return image;
}

int main()
{
    const int side = 48, batch = 256, passes = 6;
    const std::vector<Pixel> image = paint(side);
    Device<Pixel> pixels(image.size());
    cudaMemcpy(pixels.get(), image.data(), image.size() * sizeof(Pixel), cudaMemcpyHostToDevice);

    Model model(15);
    std::mt19937 rng(16);
    std::vector<int> order(image.size());
    std::iota(order.begin(), order.end(), 0);
    Device<int> deviceOrder(order.size());

    for (int pass = 0; pass < passes; ++pass) {
        std::shuffle(order.begin(), order.end(), rng);
        cudaMemcpy(deviceOrder.get(), order.data(), order.size() * sizeof(int), cudaMemcpyHostToDevice);
        float total = 0.f;
        const int steps = (int)order.size() / batch;
        for (int s = 0; s < steps; ++s) total += model.step(pixels.get(), deviceOrder.get() + s * batch, batch, 0.02f);
        std::printf("pass %d: loss %.5f, PSNR %.2f dB\n", pass, total / steps, model.psnr(pixels.get(), (int)image.size()));
    }
    return 0;
}
