/*
 * 1-D convolutional network that tells kinds of waveforms apart (sine, square, saw).
 *
 * While the GPU trains on one buffer, the CPU synthesises the next batch into the other one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

enum { LEN = 48, FILTERS = 6, TAPS = 7, OUT = (LEN - TAPS) / 2 + 1, KINDS = 3, BATCH = 32, STEPS = 50 };

#define OK(e) do { cudaError_t r = (e); if (r) { fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(r)); exit(1); } } while (0)

typedef struct {
    float *wave_host, *wave_dev;
    int *kind_host, *kind_dev;
    cudaEvent_t copied, used;
} slot_t;

/* all weights in one struct of arrays that is mirrored for gradients and velocities */
typedef struct {
    float conv[FILTERS * TAPS];
    float conv_b[FILTERS];
    float fc[KINDS * FILTERS * OUT];
    float fc_b[KINDS];
} net_t;

#define COUNT ((int)(sizeof(net_t) / sizeof(float)))

static unsigned lcg = 12345;
static float rnd(void)
{
    lcg = lcg * 1664525u + 1013904223u;
    return (lcg >> 8) / 16777216.0f;
}

static void synthesise(float *wave, int *kind, int n)
{
    for (int i = 0; i < n; i++) {
        float f = 0.05f + 0.1f * rnd(), p = rnd(), a = 0.7f + 0.6f * rnd();
        kind[i] = (int)(rnd() * KINDS);
        for (int t = 0; t < LEN; t++) {
            float ph = p + f * t;
            ph -= floorf(ph);
            float v = kind[i] == 0 ? sinf(6.2831853f * ph) : kind[i] == 1 ? (ph < 0.5f ? 1.0f : -1.0f) : 2 * ph - 1;
            wave[i * LEN + t] = a * v + 0.2f * (rnd() - 0.5f);
        }
    }
}

__global__ void conv_relu(const float *wave, const net_t *net, float *act, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * FILTERS * OUT) return;
    int o = id % OUT, f = id / OUT % FILTERS, s = id / (OUT * FILTERS);
    float v = net->conv_b[f];
    for (int k = 0; k < TAPS; k++) v += wave[s * LEN + 2 * o + k] * net->conv[f * TAPS + k];
    act[id] = v > 0 ? v : 0;
}

__global__ void classify(const float *act, const net_t *net, const int *kind, float *dz, float *loss, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float z[KINDS], sum = 0, top = -1e30f;
    for (int c = 0; c < KINDS; c++) {
        z[c] = net->fc_b[c];
        for (int i = 0; i < FILTERS * OUT; i++) z[c] += net->fc[c * FILTERS * OUT + i] * act[s * FILTERS * OUT + i];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < KINDS; c++) sum += expf(z[c] - top);
    for (int c = 0; c < KINDS; c++) dz[s * KINDS + c] = (expf(z[c] - top) / sum - (c == kind[s])) / n;
    loss[s] = logf(sum) + top - z[kind[s]];
}

__global__ void fc_gradient(const float *act, const float *dz, net_t *grad, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= KINDS * FILTERS * OUT) return;
    int i = id % (FILTERS * OUT), c = id / (FILTERS * OUT);
    float g = 0, b = 0;
    for (int s = 0; s < n; s++) {
        g += dz[s * KINDS + c] * act[s * FILTERS * OUT + i];
        b += dz[s * KINDS + c];
    }
    grad->fc[id] = g;
    if (i == 0) grad->fc_b[c] = b;
}

/* the activations are replaced by their gradients */
__global__ void act_gradient(float *act, const float *dz, const net_t *net, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * FILTERS * OUT) return;
    int i = id % (FILTERS * OUT), s = id / (FILTERS * OUT);
    float d = 0;
    for (int c = 0; c < KINDS; c++) d += dz[s * KINDS + c] * net->fc[c * FILTERS * OUT + i];
    act[id] = act[id] > 0 ? d : 0;
}

__global__ void conv_gradient(const float *wave, const float *dact, net_t *grad, int n)
{
    int f = blockIdx.x, k = threadIdx.x; /* TAPS threads and one more for the bias */
    float g = 0;
    for (int s = 0; s < n; s++)
        for (int o = 0; o < OUT; o++)
            g += dact[(s * FILTERS + f) * OUT + o] * (k < TAPS ? wave[s * LEN + 2 * o + k] : 1.0f);
    if (k < TAPS) grad->conv[f * TAPS + k] = g;
    else grad->conv_b[f] = g;
}

__global__ void nesterov(float *w, const float *g, float *v, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float old = v[i];
    v[i] = mu * old - lr * g[i];
    w[i] += -mu * old + (1 + mu) * v[i];
}

int main(void)
{
    net_t *net, *grad, *vel, *init = (net_t *)calloc(1, sizeof(net_t));
    float *act, *dz, *loss, host_loss[BATCH];
    OK(cudaMalloc((void **)&net, sizeof *net));
    OK(cudaMalloc((void **)&grad, sizeof *grad));
    OK(cudaMalloc((void **)&vel, sizeof *vel));
    OK(cudaMalloc((void **)&act, BATCH * FILTERS * OUT * sizeof(float)));
    OK(cudaMalloc((void **)&dz, BATCH * KINDS * sizeof(float)));
    OK(cudaMalloc((void **)&loss, BATCH * sizeof(float)));
    for (int i = 0; i < FILTERS * TAPS; i++) init->conv[i] = (rnd() - 0.5f);
    for (int i = 0; i < KINDS * FILTERS * OUT; i++) init->fc[i] = 0.2f * (rnd() - 0.5f);
    OK(cudaMemcpy(net, init, sizeof *net, cudaMemcpyHostToDevice));
    OK(cudaMemset(vel, 0, sizeof *vel));

    cudaStream_t work, copy;
    OK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
    slot_t slot[2];
    for (int i = 0; i < 2; i++) {
        OK(cudaMallocHost((void **)&slot[i].wave_host, BATCH * LEN * sizeof(float)));
        OK(cudaMallocHost((void **)&slot[i].kind_host, BATCH * sizeof(int)));
        OK(cudaMalloc((void **)&slot[i].wave_dev, BATCH * LEN * sizeof(float)));
        OK(cudaMalloc((void **)&slot[i].kind_dev, BATCH * sizeof(int)));
        OK(cudaEventCreateWithFlags(&slot[i].copied, cudaEventDisableTiming));
        OK(cudaEventCreateWithFlags(&slot[i].used, cudaEventDisableTiming));
    }
    OK(cudaDeviceSynchronize());

    for (int step = 0; step < STEPS; step++) {
        slot_t *s = &slot[step & 1];
        OK(cudaEventSynchronize(s->copied)); /* the pinned buffer is free again */
        synthesise(s->wave_host, s->kind_host, BATCH);
        OK(cudaStreamWaitEvent(copy, s->used, 0));
        OK(cudaMemcpyAsync(s->wave_dev, s->wave_host, BATCH * LEN * sizeof(float), cudaMemcpyHostToDevice, copy));
        OK(cudaMemcpyAsync(s->kind_dev, s->kind_host, BATCH * sizeof(int), cudaMemcpyHostToDevice, copy));
        OK(cudaEventRecord(s->copied, copy));

        OK(cudaStreamWaitEvent(work, s->copied, 0));
        int acts = BATCH * FILTERS * OUT;
        conv_relu<<<(acts + 127) / 128, 128, 0, work>>>(s->wave_dev, net, act, BATCH);
        classify<<<1, BATCH, 0, work>>>(act, net, s->kind_dev, dz, loss, BATCH);
        fc_gradient<<<(KINDS * FILTERS * OUT + 63) / 64, 64, 0, work>>>(act, dz, grad, BATCH);
        act_gradient<<<(acts + 127) / 128, 128, 0, work>>>(act, dz, net, BATCH);
        conv_gradient<<<FILTERS, TAPS + 1, 0, work>>>(s->wave_dev, act, grad, BATCH);
        OK(cudaEventRecord(s->used, work));
        nesterov<<<(COUNT + 127) / 128, 128, 0, work>>>((float *)net, (const float *)grad, (float *)vel, COUNT, 0.05f, 0.9f);

        if (step % 10 == 0 || step == STEPS - 1) {
            OK(cudaMemcpyAsync(host_loss, loss, sizeof host_loss, cudaMemcpyDeviceToHost, work));
            OK(cudaStreamSynchronize(work));
            float mean = 0;
            for (int i = 0; i < BATCH; i++) mean += host_loss[i] / BATCH;
            printf("[%02d] loss = %f\n", step, mean);
        }
    }
    OK(cudaDeviceSynchronize());
    free(init);
    return 0;
}
