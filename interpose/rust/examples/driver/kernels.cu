/*
 * kernels.cu - a net with sparse inputs: each item has ACTIVE features, which are rows of `rows`; their sum and a bias
 * are the hidden layer, and one output is a linear function of it. One thread computes one item, or one gradient's
 * element: sums have an order, so that runs repeat bit for bit.
 *
 *     nvcc -fatbin -o kernels.fatbin kernels.cu
 */
enum { ACTIVE = 4 };

__device__ int
thread_number()
{
    return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

extern "C" __global__ void
forward(const int *features, const float *rows, const float *bias, const float *output, float *hidden, float *value,
        int hidden_count, int count)
{
    int item = thread_number();
    if (item >= count)
        return;
    float sum = output[hidden_count]; /* the output's bias */
    for (int h = 0; h < hidden_count; ++h) {
        float before = bias[h];
        for (int k = 0; k < ACTIVE; ++k)
            before += rows[features[item * ACTIVE + k] * hidden_count + h];
        float after = before > 0 ? before : 0;
        hidden[item * hidden_count + h] = after;
        sum += after * output[h];
    }
    value[item] = sum;
}

/* delta: the derivative of the mean loss of `count` items with respect to each value. */
extern "C" __global__ void
loss(const float *value, const float *wanted, float *delta, float *item_loss, int count)
{
    int item = thread_number();
    if (item >= count)
        return;
    float difference = value[item] - wanted[item];
    item_loss[item] = 0.5f * difference * difference;
    delta[item] = difference / (float)count;
}

/* The last element is that of the output's bias. */
extern "C" __global__ void
backward_output(const float *hidden, const float *delta, float *output_gradient, int hidden_count, int count)
{
    int h = thread_number();
    if (h > hidden_count)
        return;
    float sum = 0;
    for (int item = 0; item < count; ++item)
        sum += delta[item] * (h < hidden_count ? hidden[item * hidden_count + h] : 1.0f);
    output_gradient[h] = sum;
}

extern "C" __global__ void
backward_hidden(const int *features, const float *hidden, const float *delta, const float *output, float *rows_gradient,
                float *bias_gradient, int feature_count, int hidden_count, int count)
{
    int at = thread_number();
    int feature = at / hidden_count, h = at % hidden_count;
    if (feature > feature_count)
        return;
    float sum = 0;
    for (int item = 0; item < count; ++item) {
        if (!(hidden[item * hidden_count + h] > 0))
            continue;
        int times = feature == feature_count ? 1 : 0; /* the bias is in each item */
        for (int k = 0; k < ACTIVE; ++k)
            times += feature < feature_count && features[item * ACTIVE + k] == feature;
        sum += (float)times * delta[item] * output[h];
    }
    if (feature < feature_count)
        rows_gradient[feature * hidden_count + h] = sum;
    else
        bias_gradient[h] = sum;
}

extern "C" __global__ void
momentum_step(float *weights, const float *gradient, float *momentum, float rate, int count)
{
    int at = thread_number();
    if (at >= count)
        return;
    momentum[at] = 0.9f * momentum[at] + gradient[at];
    weights[at] -= rate * momentum[at];
}
