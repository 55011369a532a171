#include <iostream>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <cmath>
#include <random>
#include <algorithm>
#include <cuda_runtime.h>
#include <cublas_v2.h>

using namespace std;

// Logistic regression by mini-batch gradient ascent on the log likelihood.
// usage: train [batch_size] [epochs] [learning_rate]

__global__ void sigmoid_error(const float *z, const float *y, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        err[i] = y[i] - 1.0f / (1.0f + expf(-z[i]));
}

struct Dataset {
    vector<float> x;       // row major, with a leading 1 for the intercept
    vector<float> y;
    int rows, cols;
};

Dataset generate(int rows, int features, unsigned seed, const vector<float> &w)
{
    mt19937 g(seed);
    normal_distribution<float> nd;
    Dataset d;
    d.rows = rows;
    d.cols = features + 1;
    for (int i = 0; i < rows; i++) {
        float z = w[0];
        d.x.push_back(1.0f);
        for (int j = 0; j < features; j++) {
            d.x.push_back(nd(g));
            z += w[j + 1] * d.x.back();
        }
        d.y.push_back(1 / (1 + exp(-z)) > (g() % 1000) / 1000.0f ? 1.0f : 0.0f);
    }
    return d;
}

double log_likelihood(const Dataset &d, const vector<float> &w, double *accuracy)
{
    double ll = 0;
    int ok = 0;
    for (int i = 0; i < d.rows; i++) {
        double z = 0;
        for (int j = 0; j < d.cols; j++) z += d.x[i * d.cols + j] * w[j];
        ll += d.y[i] * z - log1p(exp(z));
        ok += (z > 0) == (d.y[i] > 0.5f);
    }
    *accuracy = (double)ok / d.rows;
    return ll / d.rows;
}

int main(int argc, char *argv[])
{
    int batch_size = argc > 1 ? stoi(argv[1]) : 100;
    int epochs = argc > 2 ? stoi(argv[2]) : 5;
    float lr = argc > 3 ? stof(argv[3]) : 0.01f;
    const int features = 400;

    mt19937 g(1);
    normal_distribution<float> nd(0, 0.25f);
    vector<float> truth(features + 1);
    for (auto &t : truth) t = nd(g);
    Dataset train = generate(2950, features, 2, truth);
    Dataset valid = generate(500, features, 3, truth);

    cublasHandle_t handle;
    cublasCreate(&handle);

    float *d_x, *d_y, *d_z, *d_w, *d_grad;
    cudaMalloc((void **)&d_x, batch_size * train.cols * sizeof(float));
    cudaMalloc((void **)&d_y, batch_size * sizeof(float));
    cudaMalloc((void **)&d_z, batch_size * sizeof(float));
    cudaMalloc((void **)&d_w, train.cols * sizeof(float));
    cudaMalloc((void **)&d_grad, train.cols * sizeof(float));
    vector<float> w(train.cols, 0.0f);
    cublasSetVector(train.cols, sizeof(float), w.data(), 1, d_w, 1);

    const float one = 1.0f, zero = 0.0f;
    for (int e = 0; e < epochs; e++) {
        float rate = lr / (1 + 0.3f * e);
        int seen = 0;
        while (seen < train.rows) {
            int n = min(batch_size, train.rows - seen);
            cudaMemcpy(d_x, &train.x[seen * train.cols], n * train.cols * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(d_y, &train.y[seen], n * sizeof(float), cudaMemcpyHostToDevice);
            // z = X w;  grad = X^T (y - sigmoid(z));  w += rate * grad
            cublasSgemv(handle, CUBLAS_OP_T, train.cols, n, &one, d_x, train.cols, d_w, 1, &zero, d_z, 1);
            sigmoid_error<<<(n + 127) / 128, 128>>>(d_z, d_y, d_z, n);
            cublasSgemv(handle, CUBLAS_OP_N, train.cols, n, &one, d_x, train.cols, d_z, 1, &zero, d_grad, 1);
            cublasSaxpy(handle, train.cols, &rate, d_grad, 1, d_w, 1);
            seen += n;
        }
        cublasGetVector(train.cols, sizeof(float), d_w, 1, w.data(), 1);
        double acc, vacc;
        double ll = log_likelihood(train, w, &acc);
        double vll = log_likelihood(valid, w, &vacc);
        cout << "epoch " << e + 1 << ": log likelihood " << ll << " accuracy " << acc << " | validation " << vll << " " << vacc << endl;
    }

    cudaFree(d_x); cudaFree(d_y); cudaFree(d_z); cudaFree(d_w); cudaFree(d_grad);
    cublasDestroy(handle);
    return 0;
}
