#include "mininn.h"

namespace nn {

const float *Sequential::forward(const float *x, int n, cudaStream_t s)
{
    for (auto &l : layers_)
        x = l->forward(x, n, s);
    return x;
}

void Sequential::backward(float *dy, int n, cudaStream_t s)
{
    for (size_t k = layers_.size(); k-- > 0;)
        dy = layers_[k]->backward(dy, n, s);
}

std::vector<Parameter *> Sequential::parameters()
{
    std::vector<Parameter *> p;
    for (auto &l : layers_)
        l->parameters(p);
    return p;
}

} // namespace nn
