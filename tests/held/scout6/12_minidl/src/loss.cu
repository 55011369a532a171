#include "minidl/nn.h"
#include <cmath>

namespace minidl {

__global__ static void cross_entropy(const float* z, const float* y, float* dz, float* loss, int rows, int cols, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    z += r * cols, y += r * cols, dz += r * cols;
    float m = z[0], sum = 0, l = 0;
    for (int c = 1; c < cols; ++c)
        m = fmaxf(m, z[c]);
    for (int c = 0; c < cols; ++c)
        sum += expf(z[c] - m);
    for (int c = 0; c < cols; ++c) {
        float logp = z[c] - m - logf(sum);
        l -= y[c] * logp;
        dz[c] = scale * (expf(logp) - y[c]);
    }
    loss[r] = scale * l;
}

float CrossEntropyLoss::operator()(const Tensor& logits, const Tensor& one_hot)
{
    grad_ = Tensor(logits.rows(), logits.cols());
    Tensor losses(logits.rows(), 1);
    float scale = reduction_ == Reduction::Mean ? 1.0f / logits.rows() : 1.0f;
    cross_entropy<<<div_up(logits.rows(), 64), 64>>>(logits.data(), one_hot.data(), grad_.data(), losses.data(),
                                                     logits.rows(), logits.cols(), scale);
    float sum = 0;
    for (float l : losses.to_host())
        sum += l;
    return sum;
}

}  // namespace minidl
