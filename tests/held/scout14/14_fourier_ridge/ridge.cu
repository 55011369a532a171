// Ridge regression on random Fourier features by gradient descent with heavy ball momentum. Double precision, cuBLAS,
// column major, one sample a row. Every step sees the whole data set.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define GPU(x) do { if ((x) != 0) { std::fprintf(stderr, "%s:%d: " #x "\n", __FILE__, __LINE__); std::exit(1); } } while (0)

struct Matrix {
    int rows, cols;
    double *p;
    Matrix(int r, int c) : rows(r), cols(c)
    {
        GPU(cudaMalloc(&p, sizeof(double) * r * c));
        GPU(cudaMemset(p, 0, sizeof(double) * r * c));
    }
    Matrix(int r, int c, const std::vector<double> &host) : Matrix(r, c)
    {
        GPU(cudaMemcpy(p, host.data(), sizeof(double) * r * c, cudaMemcpyHostToDevice));
    }
    Matrix(const Matrix &) = delete;
    ~Matrix() { cudaFree(p); }
    int size() const { return rows * cols; }
};

__global__ void cosine(double *z, const double *phase, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) z[i] = sqrt(2.0 / cols) * cos(z[i] + phase[i / rows]);
}

int main()
{
    const int samples = 480, inputs = 5, features = 64, outputs = 2, iterations = 100;
    const double lambda = 1e-4, momentum = 0.9;

    std::mt19937 rng(21);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> phase(0, 6.283185307);
    std::vector<double> x(samples * inputs), y(samples * outputs), omega(inputs * features), ph(features);
    for (double &v : x) v = normal(rng);
    for (double &v : omega) v = 0.4 * normal(rng);
    for (double &v : ph) v = phase(rng);
    for (int i = 0; i < samples; ++i) {
        auto at = [&](int k) { return x[k * samples + i]; };
        y[i] = std::sin(at(0) + at(1)) + 0.05 * normal(rng);
        y[samples + i] = at(2) * std::cos(at(3)) - 0.3 * at(4) + 0.05 * normal(rng);
    }

    Matrix X(samples, inputs, x), Y(samples, outputs, y), Omega(inputs, features, omega), phases(features, 1, ph);
    Matrix Z(samples, features), theta(features, outputs), grad(features, outputs), velocity(features, outputs), E(samples, outputs);
    cublasHandle_t h;
    GPU(cublasCreate(&h));

    // features of all samples, once
    const double one = 1, zero = 0, minus = -1;
    GPU(cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, samples, features, inputs, &one, X.p, samples, Omega.p, inputs, &zero, Z.p, samples));
    cosine<<<(Z.size() + 255) / 256, 256>>>(Z.p, phases.p, samples, features);

    for (int it = 1; it <= iterations; ++it) {
        // E = Z theta - Y
        GPU(cudaMemcpy(E.p, Y.p, sizeof(double) * E.size(), cudaMemcpyDeviceToDevice));
        GPU(cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, samples, outputs, features, &one, Z.p, samples, theta.p, features, &minus, E.p, samples));
        double norm;
        GPU(cublasDnrm2(h, E.size(), E.p, 1, &norm));

        // grad = 2 / samples * Z' E + lambda * theta
        const double mean = 2.0 / samples, rate = -1.2;
        GPU(cublasDgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, features, outputs, samples, &mean, Z.p, samples, E.p, samples, &zero, grad.p, features));
        GPU(cublasDaxpy(h, theta.size(), &lambda, theta.p, 1, grad.p, 1));

        // velocity = momentum * velocity - rate * grad; theta += velocity
        GPU(cublasDscal(h, velocity.size(), &momentum, velocity.p, 1));
        GPU(cublasDaxpy(h, velocity.size(), &rate, grad.p, 1, velocity.p, 1));
        GPU(cublasDaxpy(h, theta.size(), &one, velocity.p, 1, theta.p, 1));

        if (it == 1 || it % 10 == 0) std::printf("iteration %3d: mse %.8f\n", it, norm * norm / samples);
    }
    cublasDestroy(h);
    return 0;
}
