// Multi-class linear SVM (Crammer-Singer hinge loss), mini-batch Pegasos. The training set is on the GPU; a step's samples
// come as a list of indices.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>
#include <cuda_runtime.h>

namespace {

void check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        std::cerr << what << ": " << cudaGetErrorString(e) << "\n";
        std::exit(1);
    }
}

template <typename T> T *toDevice(const std::vector<T> &v)
{
    T *p = nullptr;
    check(cudaMalloc(&p, v.size() * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    return p;
}

} // namespace

// a block for each sample of the batch, a thread for each class
__global__ void hinge(const float *X, const int *label, const int *index, const float *W, int dim, int classes, float *coef,
                      float *loss)
{
    extern __shared__ float score[];
    const int row = index[blockIdx.x], c = threadIdx.x, y = label[row];
    float s = 0.f;
    for (int j = 0; j < dim; ++j)
        s += W[c * dim + j] * X[row * dim + j];
    score[c] = s + (c == y ? 0.f : 1.f);
    __syncthreads();
    if (c == 0) {
        int best = 0;
        for (int k = 1; k < classes; ++k)
            if (score[k] > score[best])
                best = k;
        for (int k = 0; k < classes; ++k)
            coef[blockIdx.x * classes + k] = 0.f;
        if (best != y) {
            coef[blockIdx.x * classes + best] = 1.f;
            coef[blockIdx.x * classes + y] = -1.f;
        }
        loss[blockIdx.x] = fmaxf(score[best] - score[y], 0.f);
    }
}

__global__ void subgradient(const float *X, const int *index, const float *coef, int batch, int dim, int classes, float *G)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= dim * classes)
        return;
    const int c = t / dim, j = t % dim;
    float g = 0.f;
    for (int b = 0; b < batch; ++b)
        g += coef[b * classes + c] * X[index[b] * dim + j];
    G[t] = g;
}

__global__ void pegasos(float *W, const float *G, int n, float eta, float lambda, float invBatch)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        W[t] = (1.f - eta * lambda) * W[t] - eta * invBatch * G[t];
}

class Options {
public:
    Options(int argc, char **argv)
    {
        values = {{"batch", 100}, {"epochs", 5}, {"lambda", 0.01}, {"seed", 8}};
        for (int i = 1; i + 1 < argc; i += 2)
            values[std::string(argv[i]).substr(2)] = std::atof(argv[i + 1]);
    }
    double operator[](const std::string &k) const { return values.at(k); }

private:
    std::unordered_map<std::string, double> values;
};

int main(int argc, char **argv)
{
    Options opt(argc, argv);
    const int dim = 81, classes = 7, samples = 2450, heldOut = 150;   // dim includes the constant feature
    const int batch = (int)opt["batch"];
    const float lambda = (float)opt["lambda"];

    std::mt19937 gen((unsigned)opt["seed"]);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<float> centers(classes * dim), X((samples + heldOut) * dim);
    std::vector<int> label(samples + heldOut);
    for (auto &v : centers)
        v = 0.28f * nd(gen);
    for (int i = 0; i < samples + heldOut; ++i) {
        label[i] = gen() % classes;
        for (int j = 0; j < dim; ++j)
            X[i * dim + j] = j == dim - 1 ? 1.f : centers[label[i] * dim + j] + 0.5f * nd(gen);
    }

    float *d_X = toDevice(X);
    int *d_label = toDevice(label);
    float *d_W = toDevice(std::vector<float>(classes * dim, 0.f));
    float *d_G = toDevice(std::vector<float>(classes * dim, 0.f));
    float *d_coef = toDevice(std::vector<float>(batch * classes));
    float *d_loss = toDevice(std::vector<float>(batch));
    std::vector<int> perm(samples);
    std::iota(perm.begin(), perm.end(), 0);
    int *d_perm = toDevice(perm);

    const int n = classes * dim;
    std::vector<float> loss(batch), W(n);
    int t = 0;
    for (int epoch = 0; epoch < (int)opt["epochs"]; ++epoch) {
        std::shuffle(perm.begin(), perm.end(), gen);
        check(cudaMemcpy(d_perm, perm.data(), samples * sizeof(int), cudaMemcpyHostToDevice), "perm");
        double sum = 0;
        int seen = 0;
        for (int k = 0; k + batch <= samples; k += batch) {
            ++t;
            const float eta = 1.f / (lambda * (t + 200));
            const int *index = d_perm + k;
            hinge<<<batch, classes, classes * sizeof(float)>>>(d_X, d_label, index, d_W, dim, classes, d_coef, d_loss);
            subgradient<<<(n + 127) / 128, 128>>>(d_X, index, d_coef, batch, dim, classes, d_G);
            pegasos<<<(n + 127) / 128, 128>>>(d_W, d_G, n, eta, lambda, 1.f / batch);
            check(cudaMemcpy(loss.data(), d_loss, batch * sizeof(float), cudaMemcpyDeviceToHost), "loss");
            sum += std::accumulate(loss.begin(), loss.end(), 0.0);
            seen += batch;
        }
        check(cudaMemcpy(W.data(), d_W, n * sizeof(float), cudaMemcpyDeviceToHost), "W");
        double norm = 0;
        for (float w : W)
            norm += w * w;
        int right = 0;
        for (int i = samples; i < samples + heldOut; ++i) {
            int best = 0;
            double top = -1e30;
            for (int c = 0; c < classes; ++c) {
                double s = 0;
                for (int j = 0; j < dim; ++j)
                    s += W[c * dim + j] * X[i * dim + j];
                if (s > top) {
                    top = s;
                    best = c;
                }
            }
            right += best == label[i];
        }
        printf("epoch %d: objective %.5f, accuracy on held-out samples %.3f\n", epoch, sum / seen + lambda / 2 * norm,
               (double)right / heldOut);
    }
    return 0;
}
