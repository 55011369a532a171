#include "rnn.h"
#include <stdlib.h>

__global__ void step_forward(Rnn n, const float *seq, int t)
{
    int b = blockIdx.x, u = threadIdx.x;
    const float *before = n.state + (t * BATCH + b) * UNITS;
    float s = n.bias[u] + n.w_in[u] * seq[b * STEPS_IN + t];
    for (int k = 0; k < UNITS; ++k) s += n.w_rec[u * UNITS + k] * before[k];
    n.state[((t + 1) * BATCH + b) * UNITS + u] = tanhf(s);
}

__global__ void readout(Rnn n, const float *target)
{
    int b = threadIdx.x;
    float s = 0;
    for (int u = 0; u < UNITS; ++u) s += n.w_out[u] * n.state[(STEPS_IN * BATCH + b) * UNITS + u];
    n.error[b] = s - target[b];
}

__global__ void step_backward(Rnn n, int t)
{
    int b = blockIdx.x, u = threadIdx.x;
    float s = 0, h = n.state[((t + 1) * BATCH + b) * UNITS + u];
    if (t == STEPS_IN - 1) s = 2 * n.error[b] / BATCH * n.w_out[u];
    else
        for (int k = 0; k < UNITS; ++k) s += n.d_state[((t + 1) * BATCH + b) * UNITS + k] * n.w_rec[k * UNITS + u];
    n.d_state[(t * BATCH + b) * UNITS + u] = s * (1 - h * h);
}

__global__ void gradients(Rnn n, const float *seq)
{
    int u = blockIdx.x, k = threadIdx.x;
    float rec = 0, in = 0, bias = 0, out = 0;
    for (int b = 0; b < BATCH; ++b) {
        for (int t = 0; t < STEPS_IN; ++t) {
            float d = n.d_state[(t * BATCH + b) * UNITS + u];
            rec += d * n.state[(t * BATCH + b) * UNITS + k];
            in += d * seq[b * STEPS_IN + t];
            bias += d;
        }
        out += 2 * n.error[b] / BATCH * n.state[(STEPS_IN * BATCH + b) * UNITS + u];
    }
    n.d_w_rec[u * UNITS + k] = rec;
    if (k == 0) {
        n.d_w_in[u] = in;
        n.d_bias[u] = bias;
        n.d_w_out[u] = out;
    }
}

__global__ void update(Rnn n, float rate, float momentum)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q < n.size) {
        n.velocity[q] = momentum * n.velocity[q] - rate * n.d_arena[q];
        n.arena[q] += n.velocity[q];
    }
}

static void carve(float *from, float **w_in, float **w_rec, float **bias, float **w_out)
{
    *w_in = from;
    *w_rec = *w_in + UNITS;
    *bias = *w_rec + UNITS * UNITS;
    *w_out = *bias + UNITS;
}

void rnn_create(Rnn *net, unsigned seed)
{
    net->size = UNITS + UNITS * UNITS + UNITS + UNITS;
    size_t bytes = net->size * sizeof(float);
    cudaMalloc(&net->arena, bytes);
    cudaMalloc(&net->d_arena, bytes);
    cudaMalloc(&net->velocity, bytes);
    cudaMalloc(&net->state, (STEPS_IN + 1) * BATCH * UNITS * sizeof(float));
    cudaMalloc(&net->d_state, STEPS_IN * BATCH * UNITS * sizeof(float));
    cudaMalloc(&net->error, BATCH * sizeof(float));
    cudaMemset(net->velocity, 0, bytes);
    cudaMemset(net->state, 0, (STEPS_IN + 1) * BATCH * UNITS * sizeof(float));
    carve(net->arena, &net->w_in, &net->w_rec, &net->bias, &net->w_out);
    carve(net->d_arena, &net->d_w_in, &net->d_w_rec, &net->d_bias, &net->d_w_out);
    float *h = (float *)malloc(bytes);
    srand(seed);
    for (int q = 0; q < net->size; ++q) h[q] = (rand() % 1001 - 500) * 0.0008f;
    cudaMemcpy(net->arena, h, bytes, cudaMemcpyHostToDevice);
    free(h);
}

void rnn_destroy(Rnn *net)
{
    float *all[] = {net->arena, net->d_arena, net->velocity, net->state, net->d_state, net->error};
    for (float *p : all) cudaFree(p);
}

void rnn_forward(Rnn *net, const float *sequences, const float *targets)
{
    for (int t = 0; t < STEPS_IN; ++t) step_forward<<<BATCH, UNITS>>>(*net, sequences, t);
    readout<<<1, BATCH>>>(*net, targets);
}

void rnn_backward(Rnn *net, const float *sequences)
{
    for (int t = STEPS_IN - 1; t >= 0; --t) step_backward<<<BATCH, UNITS>>>(*net, t);
    gradients<<<UNITS, UNITS>>>(*net, sequences);
}

void rnn_update(Rnn *net, float rate, float momentum) { update<<<(net->size + 31) / 32, 32>>>(*net, rate, momentum); }

float rnn_loss(const Rnn *net)
{
    float e[BATCH], s = 0;
    cudaMemcpy(e, net->error, sizeof e, cudaMemcpyDeviceToHost);
    for (int b = 0; b < BATCH; ++b) s += e[b] * e[b];
    return s / BATCH;
}
