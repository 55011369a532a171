#include "minidl/minidl.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace minidl {

Linear::Linear(size_t in, size_t out, unsigned seed)
    : weight(std::make_shared<Variable>(in, out)), bias(std::make_shared<Variable>(1, out))
{
    std::mt19937 rng(seed);
    std::normal_distribution<float> d(0.f, std::sqrt(2.f / in));
    std::vector<float> h(in * out);
    for (auto &v : h) v = d(rng);
    weight->data->from_host(h.data(), h.size());
}

Var Linear::forward(const Var &x)
{
    x_ = x;
    if (!y_ || y_->n != x->n) y_ = std::make_shared<Variable>(x->n, weight->d);
    ops::matmul(x->data->get(), weight->data->get(), y_->data->get(), x->n, x->d, weight->d, false, false);
    ops::add_row(y_->data->get(), bias->data->get(), y_->n, y_->d);
    return y_;
}

void Linear::backward()
{
    const float *dy = y_->grad->get();
    ops::matmul(x_->data->get(), dy, weight->grad->get(), weight->n, x_->n, weight->d, true, false);
    ops::sum_rows(dy, bias->grad->get(), y_->n, y_->d);
    if (x_->grad) ops::matmul(dy, weight->data->get(), x_->grad->get(), x_->n, weight->d, x_->d, false, true);
}

Var ReLU::forward(const Var &x)
{
    x_ = x;
    if (!y_ || y_->n != x->n) y_ = std::make_shared<Variable>(x->n, x->d);
    ops::relu(x->data->get(), y_->data->get(), x->n * x->d);
    return y_;
}

void ReLU::backward() { ops::relu_grad(y_->data->get(), y_->grad->get(), x_->grad->get(), x_->n * x_->d); }

Var Sequential::forward(const Var &x)
{
    Var v = x;
    for (auto &m : modules_) v = m->forward(v);
    return v;
}

void Sequential::backward()
{
    for (auto it = modules_.rbegin(); it != modules_.rend(); ++it) (*it)->backward();
}

std::vector<Var> Sequential::parameters()
{
    std::vector<Var> all;
    for (auto &m : modules_)
        for (auto &p : m->parameters()) all.push_back(p);
    return all;
}

float CrossEntropy::forward(const Var &z, const Var &onehot)
{
    Buffer loss(z->n);
    ops::softmax_cross_entropy(z->data->get(), onehot->data->get(), z->grad->get(), loss.get(), z->n, z->d);
    std::vector<float> h(z->n);
    loss.to_host(h.data(), h.size());
    return std::accumulate(h.begin(), h.end(), 0.f);
}

SGD::SGD(std::vector<Var> params, float lr, float momentum) : lr(lr), params_(std::move(params)), momentum_(momentum)
{
    for (auto &p : params_) velocity_.push_back(std::make_shared<Buffer>(p->data->size()));
}

void SGD::step(size_t batch)
{
    for (size_t i = 0; i < params_.size(); ++i)
        ops::sgd(params_[i]->data->get(), params_[i]->grad->get(), velocity_[i]->get(), velocity_[i]->size(), lr, momentum_, 1.f / batch);
}

DataLoader::DataLoader(std::vector<float> x, std::vector<int> y, size_t dim, size_t classes, size_t batch, unsigned seed)
    : x_(std::move(x)), hx_(batch * dim), hy_(batch * classes), y_(std::move(y)), perm_(y_.size()), dim_(dim), classes_(classes),
      batch_(batch), at_(0), state_(seed)
{
    std::iota(perm_.begin(), perm_.end(), size_t(0));
    shuffle();
}

void DataLoader::shuffle()
{
    std::mt19937 rng(state_++);
    std::shuffle(perm_.begin(), perm_.end(), rng);
    at_ = 0;
}

bool DataLoader::next(Var &x, Var &onehot)
{
    if (at_ + batch_ > perm_.size()) {
        shuffle();
        return false;
    }
    std::fill(hy_.begin(), hy_.end(), 0.f);
    for (size_t i = 0; i < batch_; ++i) {
        size_t k = perm_[at_ + i];
        std::copy_n(&x_[k * dim_], dim_, &hx_[i * dim_]);
        hy_[i * classes_ + y_[k]] = 1.f;
    }
    at_ += batch_;
    if (!x) x = std::make_shared<Variable>(batch_, dim_, false);
    if (!onehot) onehot = std::make_shared<Variable>(batch_, classes_, false);
    x->data->from_host(hx_.data(), hx_.size());
    onehot->data->from_host(hy_.data(), hy_.size());
    return true;
}

}
