#include "solver.h"

#include <cmath>

__global__ void regularize(const float *w, float *diff, int n, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) diff[i] += decay * w[i];
}

__global__ void computeUpdate(float *diff, float *history, int n, float rate, float momentum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) diff[i] = history[i] = momentum * history[i] + rate * diff[i];
}

__global__ void update(float *w, const float *diff, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= diff[i];
}

SGDSolver::SGDSolver(std::vector<BlobPtr> params, const SolverParameter &p) : params_(std::move(params)), p_(p)
{
    for (auto &b : params_) history_.push_back(std::make_shared<Blob>(b->num, b->channels, b->height, b->width));
}

void SGDSolver::applyUpdate(int iter)
{
    float rate = p_.base_lr * std::pow(p_.gamma, (float)(iter / p_.stepsize));
    for (size_t i = 0; i < params_.size(); ++i) {
        Blob &b = *params_[i];
        int n = b.count();
        regularize<<<blocks(n), 128>>>(b.data(), b.diff(), n, p_.weight_decay);
        computeUpdate<<<blocks(n), 128>>>(b.diff(), history_[i]->data(), n, rate, p_.momentum);
        update<<<blocks(n), 128>>>(b.data(), b.diff(), n);
    }
}
