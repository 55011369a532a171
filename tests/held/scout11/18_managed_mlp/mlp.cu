/*
 * Homework 4: neural network with unified memory.
 * The output layer's error is computed on the CPU, everything else on the GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#define INPUTS 16
#define HIDDEN 40
#define OUTPUTS 4
#define NUM_PATTERNS 960
#define MINI_BATCH 96
#define MAX_EPOCHS 12

typedef struct {
    int in, out;
    float *weights;   /* out x in */
    float *bias;
    float *w_grad;
    float *b_grad;
    float *output;
    float *delta;
} layer_t;

float *patterns; /* unified */
int *classes;

float frand(void) { return (float)rand() / RAND_MAX; }

layer_t *create_layer(int in, int out)
{
    layer_t *l;
    cudaMallocManaged(&l, sizeof(layer_t));
    l->in = in;
    l->out = out;
    cudaMallocManaged(&l->weights, in * out * sizeof(float));
    cudaMallocManaged(&l->bias, out * sizeof(float));
    cudaMallocManaged(&l->w_grad, in * out * sizeof(float));
    cudaMallocManaged(&l->b_grad, out * sizeof(float));
    cudaMallocManaged(&l->output, out * MINI_BATCH * sizeof(float));
    cudaMallocManaged(&l->delta, out * MINI_BATCH * sizeof(float));
    for (int i = 0; i < in * out; i++)
        l->weights[i] = (frand() - 0.5f) * 2.0f / sqrtf(in);
    for (int i = 0; i < out; i++)
        l->bias[i] = 0.0f;
    return l;
}

void destroy_layer(layer_t *l)
{
    cudaFree(l->weights);
    cudaFree(l->bias);
    cudaFree(l->w_grad);
    cudaFree(l->b_grad);
    cudaFree(l->output);
    cudaFree(l->delta);
    cudaFree(l);
}

__global__ void forward(layer_t *l, const float *input, int apply_tanh)
{
    int p = blockIdx.x, j = threadIdx.x;
    float sum = l->bias[j];
    for (int i = 0; i < l->in; i++)
        sum += l->weights[j * l->in + i] * input[p * l->in + i];
    l->output[p * l->out + j] = apply_tanh ? tanhf(sum) : sum;
}

__global__ void hidden_delta(layer_t *hidden, layer_t *next)
{
    int p = blockIdx.x, j = threadIdx.x;
    float sum = 0.0f, h = hidden->output[p * hidden->out + j];
    for (int k = 0; k < next->out; k++)
        sum += next->weights[k * next->in + j] * next->delta[p * next->out + k];
    hidden->delta[p * hidden->out + j] = sum * (1.0f - h * h);
}

__global__ void gradients(layer_t *l, const float *input, int n)
{
    int j = blockIdx.x, i = threadIdx.x;
    float g = 0.0f, gb = 0.0f;
    for (int p = 0; p < n; p++) {
        g += l->delta[p * l->out + j] * input[p * l->in + i];
        gb += l->delta[p * l->out + j];
    }
    l->w_grad[j * l->in + i] = g / n;
    if (i == 0)
        l->b_grad[j] = gb / n;
}

__global__ void update(layer_t *l, float rate)
{
    int j = blockIdx.x, i = threadIdx.x;
    l->weights[j * l->in + i] -= rate * l->w_grad[j * l->in + i];
    if (i == 0)
        l->bias[j] -= rate * l->b_grad[j];
}

/* softmax and cross entropy on the host */
float output_delta(layer_t *l, const int *target, int n)
{
    float loss = 0.0f;
    for (int p = 0; p < n; p++) {
        float *o = l->output + p * l->out, *d = l->delta + p * l->out, sum = 0.0f, max = o[0];
        for (int k = 1; k < l->out; k++)
            if (o[k] > max)
                max = o[k];
        for (int k = 0; k < l->out; k++)
            sum += d[k] = expf(o[k] - max);
        for (int k = 0; k < l->out; k++)
            d[k] /= sum;
        loss -= logf(d[target[p]]);
        d[target[p]] -= 1.0f;
    }
    return loss;
}

int main(void)
{
    srand(2020);
    cudaMallocManaged(&patterns, NUM_PATTERNS * INPUTS * sizeof(float));
    cudaMallocManaged(&classes, NUM_PATTERNS * sizeof(int));
    for (int p = 0; p < NUM_PATTERNS; p++) {
        float *x = patterns + p * INPUTS;
        for (int i = 0; i < INPUTS; i++)
            x[i] = 2.0f * frand() - 1.0f;
        classes[p] = (x[0] + x[1] > 0) * 2 + (x[2] * x[3] > 0);
    }

    layer_t *hidden = create_layer(INPUTS, HIDDEN);
    layer_t *output = create_layer(HIDDEN, OUTPUTS);
    float rate = 1.0f;

    for (int epoch = 1; epoch <= MAX_EPOCHS; epoch++) {
        float error = 0.0f;
        for (int b = 0; b < NUM_PATTERNS / MINI_BATCH; b++) {
            float *x = patterns + b * MINI_BATCH * INPUTS;
            int *t = classes + b * MINI_BATCH;

            forward<<<MINI_BATCH, HIDDEN>>>(hidden, x, 1);
            forward<<<MINI_BATCH, OUTPUTS>>>(output, hidden->output, 0);
            cudaDeviceSynchronize();
            error += output_delta(output, t, MINI_BATCH);
            hidden_delta<<<MINI_BATCH, HIDDEN>>>(hidden, output);
            gradients<<<OUTPUTS, HIDDEN>>>(output, hidden->output, MINI_BATCH);
            gradients<<<HIDDEN, INPUTS>>>(hidden, x, MINI_BATCH);
            update<<<OUTPUTS, HIDDEN>>>(output, rate);
            update<<<HIDDEN, INPUTS>>>(hidden, rate);
            cudaDeviceSynchronize();
        }
        printf("Epoch %3d: loss = %f\n", epoch, error / NUM_PATTERNS);
    }

    destroy_layer(hidden);
    destroy_layer(output);
    cudaFree(patterns);
    cudaFree(classes);
    return 0;
}
