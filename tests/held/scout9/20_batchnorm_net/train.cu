#include "layers.cuh"
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <algorithm>

static const int FEATURES = 20;
static const int BATCH_SIZE = 128;
static const int TRAIN_SAMPLES = 1280;
static const int EPOCHS = 9;
static const float BASE_LR = 0.08f;

// squared error, averaged over the batch
__global__ void mse_loss(const float *y, const float *t, float *dy, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float d = y[i] - t[i];
        dy[i] = 2.f * d / n;
        atomicAdd(sum, d * d / n);
    }
}

__global__ void sgd_momentum(float *w, const float *g, float *v, int n, float lr, float momentum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = momentum * v[i] + g[i];
        w[i] -= lr * v[i];
    }
}

class Model {
public:
    Model(cublasHandle_t h, int batch, unsigned seed)
    {
        std::mt19937 rng(seed);
        const int width[] = {FEATURES, 40, 24};
        for (int l = 0; l < 2; ++l) {
            modules.push_back(std::make_shared<Linear>(h, width[l], width[l + 1], batch, rng));
            modules.push_back(std::make_shared<BatchNorm>(width[l + 1], batch));
            modules.push_back(std::make_shared<ReLU>(width[l + 1], batch));
        }
        modules.push_back(std::make_shared<Linear>(h, 24, 1, batch, rng));
    }
    Tensor operator()(Tensor x, bool training)
    {
        for (auto &m : modules)
            x = m->forward(x, training);
        return x;
    }
    void backward(Tensor d)
    {
        for (auto it = modules.rbegin(); it != modules.rend(); ++it)
            d = (*it)->backward(d);
    }
    std::vector<Variable *> variables()
    {
        std::vector<Variable *> all;
        for (auto &m : modules)
            for (Variable *v : m->variables())
                all.push_back(v);
        return all;
    }

private:
    std::vector<std::shared_ptr<Module>> modules;
};

class SGD {
public:
    SGD(std::vector<Variable *> vars, float momentum) : vars(vars), momentum(momentum)
    {
        for (Variable *v : vars)
            velocity.emplace_back(v->value.rows, v->value.cols);
    }
    void step(float lr)
    {
        for (size_t k = 0; k < vars.size(); ++k) {
            int n = vars[k]->value.size();
            sgd_momentum<<<(n + 127) / 128, 128>>>(vars[k]->value.ptr(), vars[k]->grad.ptr(), velocity[k].ptr(), n, lr, momentum);
        }
    }

private:
    std::vector<Variable *> vars;
    std::vector<Tensor> velocity;
    float momentum;
};

// Friedman's first regression problem, with badly scaled inputs
static void generate(std::vector<float> &x, std::vector<float> &t, int n, std::mt19937 &rng)
{
    std::uniform_real_distribution<float> u(0.f, 1.f);
    x.resize(n * FEATURES);
    t.resize(n);
    for (int i = 0; i < n; ++i) {
        float *r = &x[i * FEATURES];
        for (int j = 0; j < FEATURES; ++j)
            r[j] = u(rng);
        t[i] = (10.f * std::sin(3.14159f * r[0] * r[1]) + 20.f * (r[2] - .5f) * (r[2] - .5f) + 10.f * r[3] + 5.f * r[4] - 14.f) / 5.f;
        for (int j = 0; j < FEATURES; ++j)
            r[j] = r[j] * (1 + j % 4) + j % 3;
    }
}

int main()
{
    cublasHandle_t handle;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) {
        std::cerr << "no cuBLAS\n";
        return 1;
    }
    std::mt19937 rng(6);
    std::vector<float> x, t, xt, tt;
    generate(x, t, TRAIN_SAMPLES, rng);
    generate(xt, tt, BATCH_SIZE, rng);

    {
        Model model(handle, BATCH_SIZE, 1);
        SGD optimizer(model.variables(), 0.9f);
        Tensor input(FEATURES, BATCH_SIZE), target(1, BATCH_SIZE), d(1, BATCH_SIZE), loss(1, 1);
        std::vector<int> order(TRAIN_SAMPLES);
        std::iota(order.begin(), order.end(), 0);
        std::vector<float> bx(BATCH_SIZE * FEATURES), bt(BATCH_SIZE);

        for (int epoch = 0; epoch < EPOCHS; ++epoch) {
            std::shuffle(order.begin(), order.end(), rng);
            const float lr = BASE_LR * std::pow(0.5f, epoch / 3);
            loss.zero();
            for (int b = 0; b < TRAIN_SAMPLES / BATCH_SIZE; ++b) {
                for (int i = 0; i < BATCH_SIZE; ++i) {
                    const int s = order[b * BATCH_SIZE + i];
                    std::copy(&x[s * FEATURES], &x[s * FEATURES] + FEATURES, &bx[i * FEATURES]);
                    bt[i] = t[s];
                }
                input.set(bx.data());
                target.set(bt.data());
                Tensor y = model(input, true);
                mse_loss<<<(BATCH_SIZE + 63) / 64, 64>>>(y.ptr(), target.ptr(), d.ptr(), loss.ptr(), BATCH_SIZE);
                model.backward(d);
                optimizer.step(lr);
            }
            float train_loss, test_loss;
            cudaMemcpy(&train_loss, loss.ptr(), sizeof(float), cudaMemcpyDeviceToHost);

            input.set(xt.data());
            target.set(tt.data());
            loss.zero();
            mse_loss<<<(BATCH_SIZE + 63) / 64, 64>>>(model(input, false).ptr(), target.ptr(), d.ptr(), loss.ptr(), BATCH_SIZE);
            cudaMemcpy(&test_loss, loss.ptr(), sizeof(float), cudaMemcpyDeviceToHost);
            std::printf("epoch %d  lr %.3f  train mse %.4f  test mse %.4f\n", epoch, lr,
                        train_loss * BATCH_SIZE / TRAIN_SAMPLES, test_loss);
        }
    }
    cublasDestroy(handle);
    return 0;
}
