#include "kernels.h"
#include "network.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <numeric>
#include <random>
#include <vector>

int main() {
    const int rows = 720, train_rows = 616, features = 9, batch = 44, epochs = 4;
    std::mt19937 rng(321);
    std::normal_distribution<float> normal;
    std::vector<float> table(rows * features), label(rows);
    for (int i = 0; i < rows; i++) {
        float *r = &table[i * features];
        for (int k = 0; k < features; k++) r[k] = normal(rng);
        label[i] = r[0] * r[1] + std::sin(2.f * r[2]) + r[3] > 0.f;
    }
    float *d_table, *d_label, *d_x, *d_y, *d_dscore, *d_loss;
    int *d_order;
    cudaMalloc(&d_table, table.size() * sizeof(float));
    cudaMalloc(&d_label, rows * sizeof(float));
    cudaMalloc(&d_order, rows * sizeof(int));
    cudaMalloc(&d_x, batch * features * sizeof(float));
    cudaMalloc(&d_y, batch * sizeof(float));
    cudaMalloc(&d_dscore, batch * sizeof(float));
    cudaMalloc(&d_loss, batch * sizeof(float));
    cudaMemcpy(d_table, table.data(), table.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_label, label.data(), rows * sizeof(float), cudaMemcpyHostToDevice);

    Network net(features, 26, batch, 12);
    std::vector<int> order(rows);
    std::iota(order.begin(), order.end(), 0);
    std::vector<float> loss(batch);

    for (int epoch = 0; epoch < epochs; epoch++) {
        std::shuffle(order.begin(), order.begin() + train_rows, rng);
        cudaMemcpy(d_order, order.data(), rows * sizeof(int), cudaMemcpyHostToDevice);
        float train = 0.f;
        for (int i = 0; i < train_rows; i += batch) {
            gather_rows(d_table, d_order + i, d_x, batch, features);
            gather_rows(d_label, d_order + i, d_y, batch, 1);
            const float *score = net.forward(d_x, batch);
            logistic_loss(score, d_y, d_dscore, d_loss, batch);
            net.backward(d_x, d_dscore, batch);
            net.update(0.004f);
            cudaMemcpy(loss.data(), d_loss, batch * sizeof(float), cudaMemcpyDeviceToHost);
            train += std::accumulate(loss.begin(), loss.end(), 0.f) / batch;
        }
        float valid = 0.f;
        int seen = 0;
        for (int i = train_rows; i + batch <= rows; i += batch, seen += batch) {
            gather_rows(d_table, d_order + i, d_x, batch, features);
            gather_rows(d_label, d_order + i, d_y, batch, 1);
            logistic_loss(net.forward(d_x, batch), d_y, d_dscore, d_loss, batch);
            cudaMemcpy(loss.data(), d_loss, batch * sizeof(float), cudaMemcpyDeviceToHost);
            valid = std::accumulate(loss.begin(), loss.end(), valid);
        }
        std::printf("epoch %d  train %.4f  valid %.4f\n", epoch + 1, train * batch / train_rows, valid / seen);
    }
    for (float *p : {d_table, d_label, d_x, d_y, d_dscore, d_loss}) cudaFree(p);
    cudaFree(d_order);
    return 0;
}
