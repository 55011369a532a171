#include "adam.h"
#include <cmath>
void HostAdam::step(std::vector<double> &x, const std::vector<double> &g)
{
    ++t_;
    const double c1 = 1 - std::pow(0.9, t_), c2 = 1 - std::pow(0.999, t_);
    for (size_t i = 0; i < x.size(); ++i) {
        m_[i] = 0.9 * m_[i] + 0.1 * g[i];
        v_[i] = 0.999 * v_[i] + 0.001 * g[i] * g[i];
        x[i] -= lr_ * (m_[i] / c1) / (std::sqrt(v_[i] / c2) + 1e-12);
    }
}
