// neural network from scratch with unified memory
#include <iostream>
#include <cmath>
#include <cstdlib>
#include <cuda_runtime.h>
using namespace std;

const int samples = 2560;
const int inputs = 6;
const int hidden1 = 40;
const int hidden2 = 20;
const int outputs = 2;
const int batchSize = 160;
const int epochs = 8;
const float learningRate = 0.25;

class Layer {
public:
    int nIn, nOut;
    float *W, *B;          // weights [nIn][nOut], biases [nOut]
    float *dW, *dB;
    float *A, *dZ;         // activations and deltas of the batch

    Layer(int in, int out) : nIn(in), nOut(out) {
        cudaMallocManaged(&W, in * out * sizeof(float));
        cudaMallocManaged(&B, out * sizeof(float));
        cudaMallocManaged(&dW, in * out * sizeof(float));
        cudaMallocManaged(&dB, out * sizeof(float));
        cudaMallocManaged(&A, batchSize * out * sizeof(float));
        cudaMallocManaged(&dZ, batchSize * out * sizeof(float));
        for (int i = 0; i < in * out; i++) W[i] = (rand() / (float)RAND_MAX * 2 - 1) * sqrt(3.0f / in);
        for (int i = 0; i < out; i++) B[i] = 0;
    }
    ~Layer() {
        cudaFree(W); cudaFree(B); cudaFree(dW); cudaFree(dB); cudaFree(A); cudaFree(dZ);
    }
};

__global__ void forwardKernel(float *X, float *W, float *B, float *A, int n, int in, int out, bool act) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < out) {
        float z = B[col];
        for (int k = 0; k < in; k++) z += X[row * in + k] * W[k * out + col];
        A[row * out + col] = act ? tanhf(z) : z;
    }
}

__global__ void outputDelta(float *A, int *Y, float *dZ, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float e0 = expf(A[2 * i]), e1 = expf(A[2 * i + 1]);
        A[2 * i] = e0 / (e0 + e1);
        A[2 * i + 1] = e1 / (e0 + e1);
        dZ[2 * i] = A[2 * i] - (Y[i] == 0);
        dZ[2 * i + 1] = A[2 * i + 1] - (Y[i] == 1);
    }
}

__global__ void hiddenDelta(float *dNext, float *Wnext, float *A, float *dZ, int n, int out, int outNext) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < out) {
        float s = 0;
        for (int k = 0; k < outNext; k++) s += dNext[row * outNext + k] * Wnext[col * outNext + k];
        float a = A[row * out + col];
        dZ[row * out + col] = s * (1 - a * a);
    }
}

__global__ void weightGradient(float *X, float *dZ, float *dW, float *dB, int n, int in, int out) {
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in && j < out) {
        float s = 0;
        for (int r = 0; r < n; r++) s += X[r * in + i] * dZ[r * out + j];
        dW[i * out + j] = s / n;
        if (i == 0) {
            s = 0;
            for (int r = 0; r < n; r++) s += dZ[r * out + j];
            dB[j] = s / n;
        }
    }
}

__global__ void updateKernel(float *P, float *dP, float lr, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) P[i] -= lr * dP[i];
}

dim3 block2d(16, 16);
dim3 grid2d(int cols, int rows) { return dim3((cols + 15) / 16, (rows + 15) / 16); }

int main() {
    srand(11);
    // two shells in 6 dimensions
    float *X;
    int *Y;
    cudaMallocManaged(&X, samples * inputs * sizeof(float));
    cudaMallocManaged(&Y, samples * sizeof(int));
    for (int s = 0; s < samples; s++) {
        Y[s] = rand() % 2;
        float norm = 0;
        for (int k = 0; k < inputs; k++) {
            X[s * inputs + k] = rand() / (float)RAND_MAX * 2 - 1;
            norm += X[s * inputs + k] * X[s * inputs + k];
        }
        float r = Y[s] ? 1.9 : 0.9;
        for (int k = 0; k < inputs; k++) X[s * inputs + k] *= r / sqrt(norm);
    }

    Layer l1(inputs, hidden1), l2(hidden1, hidden2), l3(hidden2, outputs);
    Layer *layers[3] = {&l1, &l2, &l3};

    for (int epoch = 0; epoch < epochs; epoch++) {
        float loss = 0;
        int correct = 0;
        for (int b = 0; b < samples / batchSize; b++) {
            float *x = X + b * batchSize * inputs;
            int *y = Y + b * batchSize;

            forwardKernel<<<grid2d(hidden1, batchSize), block2d>>>(x, l1.W, l1.B, l1.A, batchSize, inputs, hidden1, true);
            forwardKernel<<<grid2d(hidden2, batchSize), block2d>>>(l1.A, l2.W, l2.B, l2.A, batchSize, hidden1, hidden2, true);
            forwardKernel<<<grid2d(outputs, batchSize), block2d>>>(l2.A, l3.W, l3.B, l3.A, batchSize, hidden2, outputs, false);
            outputDelta<<<(batchSize + 63) / 64, 64>>>(l3.A, y, l3.dZ, batchSize);
            hiddenDelta<<<grid2d(hidden2, batchSize), block2d>>>(l3.dZ, l3.W, l2.A, l2.dZ, batchSize, hidden2, outputs);
            hiddenDelta<<<grid2d(hidden1, batchSize), block2d>>>(l2.dZ, l2.W, l1.A, l1.dZ, batchSize, hidden1, hidden2);
            weightGradient<<<grid2d(outputs, hidden2), block2d>>>(l2.A, l3.dZ, l3.dW, l3.dB, batchSize, hidden2, outputs);
            weightGradient<<<grid2d(hidden2, hidden1), block2d>>>(l1.A, l2.dZ, l2.dW, l2.dB, batchSize, hidden1, hidden2);
            weightGradient<<<grid2d(hidden1, inputs), block2d>>>(x, l1.dZ, l1.dW, l1.dB, batchSize, inputs, hidden1);
            for (Layer *l : layers) {
                updateKernel<<<(l->nIn * l->nOut + 127) / 128, 128>>>(l->W, l->dW, learningRate, l->nIn * l->nOut);
                updateKernel<<<1, 64>>>(l->B, l->dB, learningRate, l->nOut);
            }
            cudaDeviceSynchronize();

            // loss on the CPU
            for (int i = 0; i < batchSize; i++) {
                loss += -log(l3.A[2 * i + y[i]] + 1e-8f);
                if (l3.A[2 * i + y[i]] > 0.5f) correct++;
            }
        }
        int total = samples / batchSize * batchSize;
        cout << "Epoch " << epoch + 1 << " loss = " << loss / total << " accuracy = " << 100.0 * correct / total << "%" << endl;
    }
    cudaFree(X);
    cudaFree(Y);
    return 0;
}
