/* Matrix factorisation of a ratings table by minibatch gradient descent.
 * Ratings are shuffled on the host before each epoch and copied to the device as a whole. */
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>
#include <random>
#include <vector>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        exit(code);
    }
}

struct Rating { int user; int item; float value; };

struct Factors {
    int n, k;
    float *f;     // n x k
    float *grad;  // n x k
};

Factors create_factors(int n, int k, std::mt19937 &gen)
{
    Factors m = {n, k, nullptr, nullptr};
    std::normal_distribution<float> dist(0.0f, 0.3f);
    std::vector<float> host(n * k);
    for (int i = 0; i < n * k; i++) host[i] = dist(gen);
    gpuErrchk(cudaMalloc(&m.f, n * k * sizeof(float)));
    gpuErrchk(cudaMalloc(&m.grad, n * k * sizeof(float)));
    gpuErrchk(cudaMemcpy(m.f, host.data(), n * k * sizeof(float), cudaMemcpyHostToDevice));
    return m;
}

__global__ void mf_gradient(const Rating *ratings, int count, const float *P, const float *Q, float *dP, float *dQ, float *sq, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Rating r = ratings[i];
    float e = -r.value;
    for (int f = 0; f < k; f++) e += P[r.user * k + f] * Q[r.item * k + f];
    sq[i] = e * e;
    for (int f = 0; f < k; f++) {
        atomicAdd(dP + r.user * k + f, 2.0f * e * Q[r.item * k + f]);
        atomicAdd(dQ + r.item * k + f, 2.0f * e * P[r.user * k + f]);
    }
}

__global__ void mf_update(float *F, const float *dF, int n, float lr, float lambda)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) F[i] -= lr * dF[i] + lambda * F[i];
}

int main(int argc, char **argv)
{
    const int users = 90, items = 70, k = 6, n_ratings = 1024, batch = 64;
    int epochs = argc > 1 ? atoi(argv[1]) : 4;
    float lr = 3.0f;

    std::mt19937 gen(2020);
    std::normal_distribution<float> dist(0.0f, 0.7f);
    std::vector<float> a(users * 3), b(items * 3);
    for (auto &v : a) v = dist(gen);
    for (auto &v : b) v = dist(gen);
    std::vector<Rating> ratings(n_ratings);
    for (auto &r : ratings) {
        r.user = gen() % users;
        r.item = gen() % items;
        r.value = 0.1f * dist(gen);
        for (int f = 0; f < 3; f++) r.value += a[r.user * 3 + f] * b[r.item * 3 + f];
    }

    Factors P = create_factors(users, k, gen);
    Factors Q = create_factors(items, k, gen);
    Rating *d_ratings;
    float *d_sq;
    gpuErrchk(cudaMalloc(&d_ratings, n_ratings * sizeof(Rating)));
    gpuErrchk(cudaMalloc(&d_sq, batch * sizeof(float)));
    std::vector<float> sq(batch);

    for (int epoch = 0; epoch < epochs; epoch++) {
        std::shuffle(ratings.begin(), ratings.end(), gen);
        gpuErrchk(cudaMemcpy(d_ratings, ratings.data(), n_ratings * sizeof(Rating), cudaMemcpyHostToDevice));
        double mse = 0.0;
        for (int start = 0; start < n_ratings; start += batch) {
            gpuErrchk(cudaMemset(P.grad, 0, P.n * k * sizeof(float)));
            gpuErrchk(cudaMemset(Q.grad, 0, Q.n * k * sizeof(float)));
            mf_gradient<<<(batch + 127) / 128, 128>>>(d_ratings + start, batch, P.f, Q.f, P.grad, Q.grad, d_sq, k);
            gpuErrchk(cudaGetLastError());
            mf_update<<<(P.n * k + 127) / 128, 128>>>(P.f, P.grad, P.n * k, lr / batch, 1e-4f);
            mf_update<<<(Q.n * k + 127) / 128, 128>>>(Q.f, Q.grad, Q.n * k, lr / batch, 1e-4f);
            gpuErrchk(cudaMemcpy(sq.data(), d_sq, batch * sizeof(float), cudaMemcpyDeviceToHost));
            double s = 0.0;
            for (float v : sq) s += v;
            mse += s / batch;
        }
        printf("epoch %2d: rmse %.4f (lr %.3f)\n", epoch, sqrt(mse / (n_ratings / batch)), lr);
        lr *= 0.9f;
    }
    cudaFree(P.f); cudaFree(P.grad); cudaFree(Q.f); cudaFree(Q.grad);
    cudaFree(d_ratings); cudaFree(d_sq);
    return 0;
}
