#include "optimizer.h"
#include <cmath>

__global__ void adam_kernel(float *w, const float *g, float *m, float *v, int n, float lr, float b1, float b2, float c1,
                            float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = b1 * m[i] + (1.f - b1) * g[i];
    v[i] = b2 * v[i] + (1.f - b2) * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

void Adam::step()
{
    ++t_;
    float c1 = 1.f - std::pow(b1_, (float)t_), c2 = 1.f - std::pow(b2_, (float)t_);
    for (Parameter *p : params_) {
        int n = (int)p->value.size();
        adam_kernel<<<(n + 127) / 128, 128>>>(p->value.data(), p->grad.data(), p->m.data(), p->v.data(), n, lr_, b1_, b2_,
                                               c1, c2);
    }
}
