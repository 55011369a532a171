#include "layers.hh"
#include "../util/nn_exception.hh"

__global__ void linearLayerForward(float *W, float *A, float *Z, float *b, int W_x_dim, int W_y_dim, int A_x_dim)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < W_y_dim && col < A_x_dim) {
        float Z_value = 0;
        for (int i = 0; i < W_x_dim; i++)
            Z_value += W[row * W_x_dim + i] * A[i * A_x_dim + col];
        Z[row * A_x_dim + col] = Z_value + b[row];
    }
}

__global__ void linearLayerBackprop(float *W, float *dZ, float *dA, int W_x_dim, int W_y_dim, int dZ_x_dim)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < W_x_dim && col < dZ_x_dim) {
        float dA_value = 0.0f;
        for (int i = 0; i < W_y_dim; i++)
            dA_value += W[i * W_x_dim + row] * dZ[i * dZ_x_dim + col];
        dA[row * dZ_x_dim + col] = dA_value;
    }
}

__global__ void linearLayerUpdateWeights(float *dZ, float *A, float *W, int dZ_x_dim, int dZ_y_dim, int A_y_dim, float learning_rate)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < dZ_y_dim && col < A_y_dim) {
        float dW_value = 0.0f;
        for (int i = 0; i < dZ_x_dim; i++)
            dW_value += dZ[row * dZ_x_dim + i] * A[col * dZ_x_dim + i];
        W[row * A_y_dim + col] -= learning_rate * (dW_value / dZ_x_dim);
    }
}

__global__ void linearLayerUpdateBias(float *dZ, float *b, int dZ_x_dim, int dZ_y_dim, float learning_rate)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < dZ_x_dim * dZ_y_dim)
        atomicAdd(&b[index / dZ_x_dim], -learning_rate * (dZ[index] / dZ_x_dim));
}

__global__ void reluForward(float *Z, float *A, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) A[i] = fmaxf(Z[i], 0);
}

__global__ void reluBackprop(float *Z, float *dA, float *dZ, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dZ[i] = Z[i] > 0 ? dA[i] : 0;
}

__global__ void sigmoidForward(float *Z, float *A, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) A[i] = 1.0f / (1.0f + expf(-Z[i]));
}

__global__ void sigmoidBackprop(float *Z, float *dA, float *dZ, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 1.0f / (1.0f + expf(-Z[i]));
        dZ[i] = dA[i] * s * (1 - s);
    }
}

__global__ void binaryCrossEntropyCost(float *predictions, float *target, int size, float *cost)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        atomicAdd(cost, -(target[i] * logf(predictions[i] + 1e-7f) + (1.0f - target[i]) * logf(1.0f - predictions[i] + 1e-7f)) / size);
}

__global__ void dBinaryCrossEntropyCost(float *predictions, float *target, float *dY, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        dY[i] = -(target[i] / (predictions[i] + 1e-6f) - (1 - target[i]) / (1 - predictions[i] + 1e-6f));
}

static dim3 grid2(size_t x, size_t y) { return dim3((x + 7) / 8, (y + 7) / 8); }
static const dim3 block2(8, 8);

LinearLayer::LinearLayer(std::string name, Shape W_shape, std::mt19937 &gen) : NNLayer(name), W(W_shape), b(W_shape.y, 1)
{
    W.allocateMemory();
    b.allocateMemory();
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (size_t i = 0; i < W.shape.x * W.shape.y; i++)
        W[i] = normal(gen) / std::sqrt((float)W.shape.x);
    for (size_t i = 0; i < b.shape.x; i++)
        b[i] = 0;
    W.copyHostToDevice();
    b.copyHostToDevice();
}

Matrix &LinearLayer::forward(Matrix &A)
{
    this->A = A;
    Z.allocateMemoryIfNotAllocated(Shape(A.shape.x, W.shape.y));
    linearLayerForward<<<grid2(Z.shape.x, Z.shape.y), block2>>>(W.device(), A.device(), Z.device(), b.device(), W.shape.x, W.shape.y, A.shape.x);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform linear layer forward propagation.");
    return Z;
}

Matrix &LinearLayer::backprop(Matrix &dZ, float learning_rate)
{
    dA.allocateMemoryIfNotAllocated(A.shape);
    linearLayerBackprop<<<grid2(A.shape.x, A.shape.y), block2>>>(W.device(), dZ.device(), dA.device(), W.shape.x, W.shape.y, dZ.shape.x);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform back propagation.");
    linearLayerUpdateBias<<<(dZ.shape.x * dZ.shape.y + 255) / 256, 256>>>(dZ.device(), b.device(), dZ.shape.x, dZ.shape.y, learning_rate);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform bias update.");
    linearLayerUpdateWeights<<<grid2(W.shape.x, W.shape.y), block2>>>(dZ.device(), A.device(), W.device(), dZ.shape.x, dZ.shape.y, A.shape.y, learning_rate);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform weights update.");
    return dA;
}

#define ACTIVATION(CLASS, FORWARD, BACKWARD)                                                  \
    Matrix &CLASS::forward(Matrix &Z)                                                         \
    {                                                                                         \
        this->Z = Z;                                                                          \
        A.allocateMemoryIfNotAllocated(Z.shape);                                              \
        int n = Z.shape.x * Z.shape.y;                                                        \
        FORWARD<<<(n + 255) / 256, 256>>>(Z.device(), A.device(), n);                         \
        NNException::throwIfDeviceErrorsOccurred("Cannot perform " #FORWARD);                 \
        return A;                                                                             \
    }                                                                                         \
    Matrix &CLASS::backprop(Matrix &dA, float)                                                \
    {                                                                                         \
        dZ.allocateMemoryIfNotAllocated(Z.shape);                                             \
        int n = Z.shape.x * Z.shape.y;                                                        \
        BACKWARD<<<(n + 255) / 256, 256>>>(Z.device(), dA.device(), dZ.device(), n);          \
        NNException::throwIfDeviceErrorsOccurred("Cannot perform " #BACKWARD);                \
        return dZ;                                                                            \
    }
ACTIVATION(ReLUActivation, reluForward, reluBackprop)
ACTIVATION(SigmoidActivation, sigmoidForward, sigmoidBackprop)

float BCECost::cost(Matrix &predictions, Matrix &target)
{
    total.allocateMemoryIfNotAllocated(Shape(1, 1));
    total[0] = 0.0f;
    total.copyHostToDevice();
    int n = predictions.shape.x;
    binaryCrossEntropyCost<<<(n + 255) / 256, 256>>>(predictions.device(), target.device(), n, total.device());
    total.copyDeviceToHost();
    return total[0];
}

Matrix &BCECost::dCost(Matrix &predictions, Matrix &target, Matrix &dY)
{
    int n = predictions.shape.x;
    dBinaryCrossEntropyCost<<<(n + 255) / 256, 256>>>(predictions.device(), target.device(), dY.device(), n);
    NNException::throwIfDeviceErrorsOccurred("Cannot compute derivative for binary cross entropy.");
    return dY;
}

NeuralNetwork::~NeuralNetwork()
{
    for (auto layer : layers)
        delete layer;
}

Matrix NeuralNetwork::forward(Matrix X)
{
    Matrix Z = X;
    for (auto layer : layers)
        Z = layer->forward(Z);
    Y = Z;
    return Y;
}

void NeuralNetwork::backprop(Matrix predictions, Matrix target)
{
    dY.allocateMemoryIfNotAllocated(predictions.shape);
    Matrix error = bce_cost.dCost(predictions, target, dY);
    for (auto it = layers.rbegin(); it != layers.rend(); it++)
        error = (*it)->backprop(error, learning_rate);
    cudaDeviceSynchronize();
}
