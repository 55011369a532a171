#include <cmath>
#include <random>
#include <cuda_runtime.h>
#include "network.h"

Dataset make_wine(int rows, unsigned seed)
{
    Dataset d;
    d.rows = rows;
    d.features = 13;
    d.classes = 3;
    std::mt19937 g(seed);
    std::normal_distribution<float> n(0.f, 1.f);
    std::vector<float> centre(d.classes * d.features);
    for (float &c : centre) c = 5.f + 1.1f * n(g);
    d.x.resize(rows * d.features);
    d.y.resize(rows);
    for (int i = 0; i < rows; i++) {
        d.y[i] = g() % d.classes;
        for (int f = 0; f < d.features; f++)
            d.x[i * d.features + f] = (centre[d.y[i] * d.features + f] + 1.5f * n(g)) * (1 + f);
    }
    return d;
}

void standardize(Dataset &d)
{
    for (int f = 0; f < d.features; f++) {
        double s = 0, q = 0;
        for (int i = 0; i < d.rows; i++) s += d.x[i * d.features + f];
        double mean = s / d.rows;
        for (int i = 0; i < d.rows; i++) q += std::pow(d.x[i * d.features + f] - mean, 2);
        double sd = std::sqrt(q / d.rows) + 1e-6;
        for (int i = 0; i < d.rows; i++) d.x[i * d.features + f] = (d.x[i * d.features + f] - mean) / sd;
    }
}

void Dataset::upload()
{
    cudaMalloc(&d_x, x.size() * sizeof(float));
    cudaMalloc(&d_y, y.size() * sizeof(int));
    cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, y.data(), y.size() * sizeof(int), cudaMemcpyHostToDevice);
}

void Dataset::release()
{
    cudaFree(d_x);
    cudaFree(d_y);
}
