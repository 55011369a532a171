#include <cmath>
#include <random>
#include <utility>
#include <cuda_runtime.h>
#include "network.h"

static float *zeros(int n)
{
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static void fill_random(float *dst, int n, float scale, std::mt19937 &g)
{
    std::normal_distribution<float> dist(0.f, scale);
    std::vector<float> h(n);
    for (float &v : h) v = dist(g);
    cudaMemcpy(dst, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
}

Network::Network(int in, int hidden, int out, int max_rows) : in_(in), hid_(hidden), out_(out)
{
    w1_ = zeros(in * hidden);   b1_ = zeros(hidden);
    w2_ = zeros(hidden * out);  b2_ = zeros(out);
    gw1_ = zeros(in * hidden);  gb1_ = zeros(hidden);
    gw2_ = zeros(hidden * out); gb2_ = zeros(out);
    a1_ = zeros(max_rows * hidden);  z_ = zeros(max_rows * out);
    da1_ = zeros(max_rows * hidden); dz_ = zeros(max_rows * out);
    stats_ = zeros(2);
    std::mt19937 g(17);
    fill_random(w1_, in * hidden, std::sqrt(2.f / in), g);
    fill_random(w2_, hidden * out, std::sqrt(1.f / hidden), g);
}

Network::~Network()
{
    for (float *p : {w1_, b1_, w2_, b2_, gw1_, gb1_, gw2_, gb2_, a1_, z_, da1_, dz_, stats_}) cudaFree(p);
}

void Network::forward(const float *x, int rows)
{
    launch_dense(x, w1_, b1_, a1_, rows, in_, hid_);
    launch_elu(a1_, rows * hid_);
    launch_dense(a1_, w2_, b2_, z_, rows, hid_, out_);
}

void Network::backward(const float *x, const int *y, int rows)
{
    launch_loss(z_, y, dz_, stats_, rows, out_);
    launch_dense_grad(a1_, dz_, gw2_, gb2_, rows, hid_, out_);
    launch_dense_input_grad(dz_, w2_, da1_, rows, hid_, out_);
    launch_elu_grad(a1_, da1_, rows * hid_);
    launch_dense_grad(x, da1_, gw1_, gb1_, rows, in_, hid_);
}

void Network::step(float lr)
{
    launch_sgd(w1_, gw1_, lr, in_ * hid_);
    launch_sgd(b1_, gb1_, lr, hid_);
    launch_sgd(w2_, gw2_, lr, hid_ * out_);
    launch_sgd(b2_, gb2_, lr, out_);
}

void Network::score(const int *y, int rows) { launch_loss(z_, y, nullptr, stats_, rows, out_); }
void Network::reset_stats() { cudaMemset(stats_, 0, 2 * sizeof(float)); }

std::pair<float, int> Network::stats() const
{
    float h[2];
    cudaMemcpy(h, stats_, sizeof(h), cudaMemcpyDeviceToHost);
    return {h[0], (int)h[1]};
}
