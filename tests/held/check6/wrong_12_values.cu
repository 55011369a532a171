/* TD(0): a value network for a random walk in the plane, observations normalised by running statistics, a target network
 * that is copied every eight steps. Adam. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define OBS 6
#define HID 40
#define BATCH 32
#define PARAMS (OBS * HID + HID + HID + 1)

#define CU(x) expect((x), #x)
static void expect(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
        exit(1);
    }
}

/* random number `k` of walker `walker` at time `t`; all processes agree on it */
static float chance(unsigned walker, unsigned t, unsigned k)
{
    unsigned x = walker * 2654435761u + t * 40503u + k * 2246822519u + 12345u;
    x = (x ^ (x >> 15)) * 2246822507u;
    x = (x ^ (x >> 13)) * 3266489909u;
    return (float)((x ^ (x >> 16)) >> 8) / 16777216.f;
}

struct walker {
    float x, y, vx, vy;
};

static void observe(const struct walker *w, float *o)
{
    o[0] = 10.f * w->x;
    o[1] = 10.f * w->y;
    o[2] = w->vx;
    o[3] = w->vy;
    o[4] = w->x * w->y + 3.f;
    o[5] = 0.1f * (w->x * w->x + w->y * w->y);
}

static void move(struct walker *w, unsigned id, unsigned t)
{
    w->vx = 0.8f * w->vx + 0.4f * (chance(id, t, 0) - 0.5f) - 0.05f * w->x;
    w->vy = 0.8f * w->vy + 0.4f * (chance(id, t, 1) - 0.5f) - 0.05f * w->y;
    w->x += w->vx;
    w->y += w->vy;
}

__global__ void track(const float *obs, float *mean, float *var, float rate, int n)
{
    int k = threadIdx.x;
    float m = 0.f, v = 0.f;
    for (int i = 0; i < n; ++i)
        m += obs[i * OBS + k];
    m /= n;
    for (int i = 0; i < n; ++i)
        v += (obs[i * OBS + k] - m) * (obs[i * OBS + k] - m);
    v /= n;
    mean[k] += rate * (m - mean[k]);
    var[k] += rate * (v - var[k]);
}

__global__ void normalise(const float *obs, const float *mean, const float *var, float *out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n * OBS)
        out[t] = (obs[t] - mean[t % OBS]) / sqrtf(var[t % OBS] + 1e-3f);
}

__global__ void value(const float *o, const float *p, float *h, float *v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float s = p[PARAMS - 1];
    for (int j = 0; j < HID; ++j) {
        float a = p[OBS * HID + j];
        for (int k = 0; k < OBS; ++k)
            a += o[i * OBS + k] * p[k * HID + j];
        a = tanhf(a);
        if (h)
            h[i * HID + j] = a;
        s += a * p[OBS * HID + HID + j];
    }
    v[i] = s;
}

__global__ void td_error(const float *v, const float *vnext, const float *reward, float gamma, float *d, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    float e = v[i] - (reward[i] + gamma * vnext[i]);
    loss[i] = e * e;
    d[i] = e / n;
}

__global__ void gradient(const float *o, const float *h, const float *d, const float *p, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= PARAMS)
        return;
    float s = 0.f;
    for (int i = 0; i < n; ++i) {
        if (t == PARAMS - 1)
            s += d[i];
        else if (t >= OBS * HID + HID)
            s += d[i] * h[i * HID + t - OBS * HID - HID];
        else {
            int j = t % HID;
            float a = h[i * HID + j];
            s += d[i] * p[OBS * HID + HID + j] * (1.f - a * a) * (t < OBS * HID ? o[i * OBS + t / HID] : 1.f);
        }
    }
    g[t] = s;
}

__global__ void adam(float *p, const float *g, float *m, float *v, float rate, float fix1, float fix2)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= PARAMS)
        return;
    m[t] = 0.9f * m[t] + 0.1f * g[t];
    v[t] = 0.99f * v[t] + 0.01f * g[t] * g[t];
    p[t] -= rate * m[t] * fix1 / (sqrtf(v[t] * fix2) + 1e-4f);
}

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    static float host[PARAMS], obs_h[2][BATCH * OBS], reward_h[BATCH], ones[OBS], loss_h[BATCH];
    static struct walker walkers[BATCH];
    float *p, *target, *g, *m, *v, *obs, *next, *on, *nn, *mean, *var, *h, *val, *vnext, *reward, *d, *loss;
    float **all[] = {&p, &target, &g, &m, &v};
    for (int i = 0; i < 5; ++i) {
        CU(cudaMalloc((void **)all[i], sizeof host));
        CU(cudaMemset(*all[i], 0, sizeof host));
    }
    float **rows[] = {&obs, &next, &on, &nn, &h, &val, &vnext, &reward, &d, &loss, &mean, &var};
    for (int i = 0; i < 12; ++i)
        CU(cudaMalloc((void **)rows[i], BATCH * HID * sizeof(float)));
    for (int i = 0; i < PARAMS; ++i)
        host[i] = 0.8f * (chance(999, 0, i) - 0.5f);
    for (int i = 0; i < OBS; ++i)
        ones[i] = 1.f;
    CU(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    CU(cudaMemcpy(target, host, sizeof host, cudaMemcpyHostToDevice));
    CU(cudaMemset(mean, 0, OBS * sizeof(float)));
    CU(cudaMemcpy(var, ones, sizeof ones, cudaMemcpyHostToDevice));
    DDP_PARAMETER(p, PARAMS, DDP_FLOAT32);
    DDP_STATE(m, PARAMS, DDP_FLOAT32);
    DDP_STATE(v, PARAMS, DDP_FLOAT32);
    DDP_GRADIENT(g, PARAMS, DDP_FLOAT32);
    DDP_BUFFER(mean, OBS, DDP_FLOAT32);
    DDP_BUFFER(var, OBS, DDP_FLOAT32);
    for (int i = 0; i < BATCH; ++i)
        walkers[i].x = 4.f * chance(i, 0, 5) - 2.f, walkers[i].y = 4.f * chance(i, 0, 6) - 2.f;

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        for (int i = 0; i < n; ++i) {
            struct walker *w = &walkers[first + i];
            observe(w, obs_h[0] + i * OBS);
            move(w, (unsigned)first + i, s + 1);
            observe(w, obs_h[1] + i * OBS);
            reward_h[i] = 2.f * expf(-0.2f * (w->x * w->x + w->y * w->y)) - 0.5f * fabsf(w->x);
        }
        CU(cudaMemcpy(obs, obs_h[0], n * OBS * sizeof(float), cudaMemcpyHostToDevice));
        CU(cudaMemcpy(next, obs_h[1], n * OBS * sizeof(float), cudaMemcpyHostToDevice));
        CU(cudaMemcpy(reward, reward_h, n * sizeof(float), cudaMemcpyHostToDevice));
        track<<<1, OBS>>>(obs, mean, var, 0.1f, n);
        normalise<<<(n * OBS + 63) / 64, 64>>>(obs, mean, var, on, n);
        normalise<<<(n * OBS + 63) / 64, 64>>>(next, mean, var, nn, n);
        if (s % 8 == 0)
            CU(cudaMemcpy(target, p, sizeof host, cudaMemcpyDeviceToDevice));
        value<<<1, BATCH>>>(on, p, h, val, n);
        value<<<1, BATCH>>>(nn, target, NULL, vnext, n);
        td_error<<<1, BATCH>>>(val, vnext, reward, 0.5f, d, loss, n);
        gradient<<<(PARAMS + 63) / 64, 64>>>(on, h, d, p, g, n);
        DDP_STEP(0);
        adam<<<(PARAMS + 63) / 64, 64>>>(p, g, m, v, 0.01f, 1.f / (1.f - powf(0.9f, s + 1.f)), 1.f / (1.f - powf(0.99f, s + 1.f)));
        float sum = 0.f;
        CU(cudaMemcpy(loss_h, loss, n * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i)
            sum += loss_h[i] / n;
        DDP_MEAN_AS("td error", &sum);
        if (DDP_RANK() == 0 && (s % 10 == 0 || s == steps - 1))
            printf("step %d: squared TD error %.4f\n", s, sum);
    }
    CU(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host, 1, sizeof host, f);
        fclose(f);
    }
    return 0;
}
