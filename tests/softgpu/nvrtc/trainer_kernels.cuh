/*
 * trainer_kernels.cuh - the kernels of trainer.cu: a net with one hidden layer, which learns a linear map. Included by
 * it, or read as a string and compiled by NVRTC. One thread computes one element, so that sums have an order.
 */
enum { IN = 12, HIDDEN = 8, OUT = 4, BATCH = 8 };

__global__ void
hidden_forward(const float *x, const float *w, const float *b, float *h)
{
    int row = blockIdx.x, j = threadIdx.x;
    float sum = b[j];
    for (int i = 0; i < IN; ++i)
        sum += x[row * IN + i] * w[i * HIDDEN + j];
    h[row * HIDDEN + j] = tanhf(sum);
}

__global__ void
output_forward(const float *h, const float *x, const float *w, float *delta)
{
    int row = blockIdx.x, j = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < HIDDEN; ++i)
        sum += h[row * HIDDEN + i] * w[i * OUT + j];
    delta[row * OUT + j] = (sum - .25f * x[row * IN + j]) / BATCH;
}

__global__ void
output_backward(const float *h, const float *delta, float *gradient)
{
    int i = blockIdx.x, j = threadIdx.x;
    float sum = 0;
    for (int row = 0; row < BATCH; ++row)
        sum += h[row * HIDDEN + i] * delta[row * OUT + j];
    gradient[i * OUT + j] = sum;
}

__global__ void
hidden_backward(const float *h, const float *delta, const float *w, float *dh)
{
    int row = blockIdx.x, i = threadIdx.x;
    float sum = 0, value = h[row * HIDDEN + i];
    for (int j = 0; j < OUT; ++j)
        sum += delta[row * OUT + j] * w[i * OUT + j];
    dh[row * HIDDEN + i] = sum * (1 - value * value);
}

__global__ void
input_backward(const float *x, const float *dh, float *gradient, float *bias_gradient)
{
    int i = blockIdx.x, j = threadIdx.x;
    float sum = 0;
    for (int row = 0; row < BATCH; ++row)
        sum += (i < IN ? x[row * IN + i] : 1) * dh[row * HIDDEN + j];
    if (i < IN)
        gradient[i * HIDDEN + j] = sum;
    else
        bias_gradient[j] = sum;
}

template <int Rule>
__global__ void
update(float *w, const float *gradient, float *momentum, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    momentum[i] = Rule * .5f * momentum[i] + gradient[i];
    w[i] -= rate * momentum[i];
}
