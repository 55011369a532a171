#include "qnet.h"

#include <cmath>
#include <cuda_runtime.h>
#include <random>
#include <vector>

__device__ void evaluate(const float *th, int agent, int goal, float *hidden, float *q)
{
    for (int j = 0; j < QNet::H; ++j) // the state is two one-hot vectors
        hidden[j] = fmaxf(0.f, th[QNet::W1 + agent * QNet::H + j] + th[QNet::W1 + (25 + goal) * QNet::H + j] + th[QNet::B1 + j]);
    for (int a = 0; a < QNet::A; ++a) {
        q[a] = th[QNet::B2 + a];
        for (int j = 0; j < QNet::H; ++j)
            q[a] += hidden[j] * th[QNet::W2 + j * QNet::A + a];
    }
}

__global__ void td_error(const float *online, const float *target, const Transition *tr, float *hidden, float *delta, float *loss, int n, float gamma)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float tmp[QNet::H], q[QNet::A], best;
    evaluate(target, tr[i].next, tr[i].goal, tmp, q);
    best = fmaxf(fmaxf(q[0], q[1]), fmaxf(q[2], q[3]));
    evaluate(online, tr[i].agent, tr[i].goal, hidden + i * QNet::H, q);
    float e = q[tr[i].action] - (tr[i].reward + (tr[i].done ? 0.f : gamma * best));
    delta[i] = fminf(fmaxf(e, -1.f), 1.f); // Huber
    loss[i] = fabsf(e) < 1.f ? 0.5f * e * e : fabsf(e) - 0.5f;
}

__global__ void td_backward(const float *th, const Transition *tr, const float *hidden, const float *delta, float *grad, float scale)
{
    int i = blockIdx.x, j = threadIdx.x, a = tr[i].action;
    float d = delta[i] * scale, h = hidden[i * QNet::H + j];
    atomicAdd(&grad[QNet::W2 + j * QNet::A + a], d * h);
    if (j == 0) atomicAdd(&grad[QNet::B2 + a], d);
    if (h > 0.f) {
        float g = d * th[QNet::W2 + j * QNet::A + a];
        atomicAdd(&grad[QNet::W1 + tr[i].agent * QNet::H + j], g);
        atomicAdd(&grad[QNet::W1 + (25 + tr[i].goal) * QNet::H + j], g);
        atomicAdd(&grad[QNet::B1 + j], g);
    }
}

__global__ void adam(float *th, float *g, float *m, float *v, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= QNet::TOTAL) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    th[i] -= lr * m[i] / (sqrtf(v[i]) + 1e-6f);
    g[i] = 0.f; // for the next step
}

__global__ void greedy_values(const float *th, int agent, int goal, float *q)
{
    float hidden[QNet::H];
    evaluate(th, agent, goal, hidden, q);
}

QNet::QNet(unsigned seed)
{
    std::mt19937 rng(seed);
    std::vector<float> h(TOTAL, 0.f);
    std::uniform_real_distribution<float> u(-0.25f, 0.25f);
    for (int i = W1; i < B1; ++i) h[i] = u(rng);
    for (int i = W2; i < B2; ++i) h[i] = u(rng);
    cudaMalloc(&theta, TOTAL * sizeof(float));
    cudaMemcpy(theta, h.data(), TOTAL * sizeof(float), cudaMemcpyHostToDevice);
}
QNet::~QNet() { cudaFree(theta); }
void QNet::copy_from(const QNet &o) { cudaMemcpy(theta, o.theta, TOTAL * sizeof(float), cudaMemcpyDeviceToDevice); }

Learner::Learner(QNet &online, QNet &target, int batch, float gamma, float lr)
    : online_(online), target_(target), batch_(batch), gamma_(gamma), lr_(lr)
{
    for (float **p : {&grad_, &m_, &v_}) {
        cudaMalloc(p, QNet::TOTAL * sizeof(float));
        cudaMemset(*p, 0, QNet::TOTAL * sizeof(float));
    }
    cudaMalloc(&hidden_, batch * QNet::H * sizeof(float));
    cudaMalloc(&delta_, batch * sizeof(float));
    cudaMalloc(&loss_, batch * sizeof(float));
    cudaMalloc(&q_, QNet::A * sizeof(float));
    cudaMalloc(&sample_, batch * sizeof(Transition));
}
Learner::~Learner()
{
    for (float *p : {grad_, m_, v_, hidden_, delta_, loss_, q_}) cudaFree(p);
    cudaFree(sample_);
}

float Learner::learn(const Transition *sample)
{
    cudaMemcpy(sample_, sample, batch_ * sizeof(Transition), cudaMemcpyHostToDevice);
    td_error<<<(batch_ + 31) / 32, 32>>>(online_.theta, target_.theta, sample_, hidden_, delta_, loss_, batch_, gamma_);
    td_backward<<<batch_, QNet::H>>>(online_.theta, sample_, hidden_, delta_, grad_, 1.f / batch_);
    ++t_;
    float lr = lr_ * std::sqrt(1.f - std::pow(0.99f, t_)) / (1.f - std::pow(0.9f, t_));
    adam<<<(QNet::TOTAL + 127) / 128, 128>>>(online_.theta, grad_, m_, v_, lr);
    std::vector<float> l(batch_);
    cudaMemcpy(l.data(), loss_, batch_ * sizeof(float), cudaMemcpyDeviceToHost);
    float s = 0;
    for (float x : l) s += x;
    return s / batch_;
}

int Learner::greedy(int agent, int goal)
{
    float q[QNet::A];
    greedy_values<<<1, 1>>>(online_.theta, agent, goal, q_);
    cudaMemcpy(q, q_, sizeof(q), cudaMemcpyDeviceToHost);
    int best = 0;
    for (int a = 1; a < QNet::A; ++a)
        if (q[a] > q[best]) best = a;
    return best;
}
