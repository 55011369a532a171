// Ridge regression by stochastic gradient descent, double precision.
// Intercept is the last column of the design matrix (all ones).
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <random>
#include <vector>

__global__ void prepare_residual(double *pred, const double *price, double *residual, int count) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < count) residual[i] = pred[i] - price[i];
}

__global__ void shrink(double *theta, const double *grad, double *velocity, int count, double rate, double lambda) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= count) return;
    double g = grad[i] + (i + 1 < count ? lambda * theta[i] : 0.0);
    velocity[i] = 0.8 * velocity[i] - rate * g;
    theta[i] += velocity[i];
}

int main() {
    const int rows = 800, cols = 17, batch = 80, epochs = 5;

    std::mt19937_64 engine(1978);
    std::normal_distribution<double> normal(0.0, 1.0);
    std::vector<double> design(rows * cols), price(rows), truth(cols);
    for (double &t : truth) t = 2.0 * normal(engine);
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; ++c) {
            design[r * cols + c] = c + 1 == cols ? 1.0 : normal(engine);
            price[r] += design[r * cols + c] * truth[c];
        }
        price[r] += 0.3 * normal(engine);
    }

    double *d_design, *d_price, *d_theta, *d_grad, *d_velocity, *d_pred, *d_residual;
    cudaMalloc(&d_design, batch * cols * sizeof(double));
    cudaMalloc(&d_price, batch * sizeof(double));
    cudaMalloc(&d_theta, cols * sizeof(double));
    cudaMalloc(&d_grad, cols * sizeof(double));
    cudaMalloc(&d_velocity, cols * sizeof(double));
    cudaMalloc(&d_pred, batch * sizeof(double));
    cudaMalloc(&d_residual, batch * sizeof(double));
    cudaMemset(d_theta, 0, cols * sizeof(double));
    cudaMemset(d_velocity, 0, cols * sizeof(double));

    cublasHandle_t cublas;
    if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS) {
        std::cerr << "no cuBLAS\n";
        return 1;
    }
    const double one = 1.0, zero = 0.0, scale = 1.0 / batch;
    std::cout << std::fixed << std::setprecision(6);
    for (int epoch = 0; epoch < epochs; ++epoch) {
        const double rate = 0.1 / (1.0 + 0.3 * epoch);
        double mse = 0.0;
        for (int first = 0; first < rows; first += batch) {
            cudaMemcpy(d_design, &design[first * cols], batch * cols * sizeof(double), cudaMemcpyHostToDevice);
            cudaMemcpy(d_price, &price[first], batch * sizeof(double), cudaMemcpyHostToDevice);
            cublasDgemv(cublas, CUBLAS_OP_T, cols, batch, &one, d_design, cols, d_theta, 1, &zero, d_pred, 1);
            prepare_residual<<<(batch + 63) / 64, 64>>>(d_pred, d_price, d_residual, batch);
            cublasDgemv(cublas, CUBLAS_OP_N, cols, batch, &scale, d_design, cols, d_residual, 1, &zero, d_grad, 1);
            shrink<<<1, 32>>>(d_theta, d_grad, d_velocity, cols, rate, 1e-3);
            double square = 0.0;
            cublasDdot(cublas, batch, d_residual, 1, d_residual, 1, &square);
            mse += square / batch;
        }
        std::cout << "epoch " << epoch << "  rate " << rate << "  mse " << mse / (rows / batch) << '\n';
    }

    std::vector<double> theta(cols);
    cudaMemcpy(theta.data(), d_theta, cols * sizeof(double), cudaMemcpyDeviceToHost);
    double worst = 0.0;
    for (int c = 0; c < cols; ++c) worst = std::fmax(worst, std::fabs(theta[c] - truth[c]));
    std::cout << "largest error of a coefficient " << worst << '\n';

    for (double *p : {d_design, d_price, d_theta, d_grad, d_velocity, d_pred, d_residual}) cudaFree(p);
    cublasDestroy(cublas);
    return 0;
}
