// REINFORCE on a small grid walk.  The host plays the game, the device holds the policy
// net (one hidden layer) and its gradient.  The walker goes on from where it stood when
// the batch before ended; the baseline is a running mean of the returns on the host.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <vector>
#include <random>
#ifdef ORACLE
#include "oracle.h"
#endif

#define SIDE 5
#define CELLS (SIDE * SIDE)
#define HID 24
#define ACTS 4
#define STEPS 40      // steps of play for each update

#define TRY(x) do { if ((x) != cudaSuccess) { fprintf(stderr, "cuda error, line %d\n", __LINE__); exit(1); } } while (0)

struct Policy {
    float *w1, *b1, *w2, *b2;       // device: CELLS x HID, HID, HID x ACTS, ACTS
    float *gw1, *gb1, *gw2, *gb2;
};

// probabilities of the actions in one cell
__global__ void act(Policy p, int cell, float *prob)
{
    __shared__ float h[HID], z[ACTS];
    int t = threadIdx.x;
    h[t] = tanhf(p.w1[cell * HID + t] + p.b1[t]);
    __syncthreads();
    if (t < ACTS) {
        float s = p.b2[t];
        for (int i = 0; i < HID; i++) s += h[i] * p.w2[i * ACTS + t];
        z[t] = s;
    }
    __syncthreads();
    if (t < ACTS) {
        float m = fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3])), s = 0;
        for (int i = 0; i < ACTS; i++) s += expf(z[i] - m);
        prob[t] = expf(z[t] - m) / s;
    }
}

// policy gradient over the whole stretch; one block, a thread for each hidden unit
__global__ void policy_grad(Policy p, const int *cell, const int *action, const float *adv)
{
    __shared__ float h[HID], z[ACTS], d[ACTS];
    int t = threadIdx.x;
    for (int k = 0; k < STEPS; k++) {
        int c = cell[k];
        h[t] = tanhf(p.w1[c * HID + t] + p.b1[t]);
        __syncthreads();
        if (t < ACTS) { float s = p.b2[t]; for (int i = 0; i < HID; i++) s += h[i] * p.w2[i * ACTS + t]; z[t] = s; }
        __syncthreads();
        if (t < ACTS) {
            float m = fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3])), s = 0;
            for (int i = 0; i < ACTS; i++) s += expf(z[i] - m);
            d[t] = adv[k] * (expf(z[t] - m) / s - (t == action[k])) / STEPS;
            p.gb2[t] += d[t];
        }
        __syncthreads();
        float dh = 0;
        for (int a = 0; a < ACTS; a++) { dh += d[a] * p.w2[t * ACTS + a]; p.gw2[t * ACTS + a] += d[a] * h[t]; }
        dh *= 1 - h[t] * h[t];
        p.gw1[c * HID + t] += dh;
        p.gb1[t] += dh;
        __syncthreads();
    }
}

__global__ void descend(float *w, const float *g, int n, float lr) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) w[i] -= lr * g[i]; }

int main(int argc, char **argv)
{
    const int size[4] = {CELLS * HID, HID, HID * ACTS, ACTS};
    std::mt19937 rng(4);
    std::uniform_real_distribution<float> uni(0, 1);
    Policy p;
    float **t = (float **)&p;
    for (int i = 0; i < 8; i++) { TRY(cudaMalloc(&t[i], size[i % 4] * sizeof(float))); TRY(cudaMemset(t[i], 0, size[i % 4] * sizeof(float))); }
    for (int i = 0; i < 4; i += 2) {
        std::vector<float> h(size[i]);
        for (float &v : h) v = 0.4f * (uni(rng) - 0.5f);
        TRY(cudaMemcpy(t[i], h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
#ifdef ORACLE
    // the oracle lets the game go on in the program's order with the old policy for N stretches
    for (int i = 0; i < 4; i++) { oracle::state(t[i], size[i]); oracle::grad(t[4 + i], size[i]); }
#endif
    float *dprob, *dadv; int *dcell, *daction;
    TRY(cudaMalloc(&dprob, ACTS * 4)); TRY(cudaMalloc(&dadv, STEPS * 4)); TRY(cudaMalloc(&dcell, STEPS * 4)); TRY(cudaMalloc(&daction, STEPS * 4));
    int x = 0, y = 0;                    // the goal is the far corner
    float baseline = 0;
    double lossSum = 0, rewardSum = 0;
    for (int it = 1; it <= 120; it++) {
        int cell[STEPS], action[STEPS]; float prob[ACTS], reward[STEPS], adv[STEPS], logp = 0;
#ifdef ORACLE
        oracle::begin();
#endif
        for (int k = 0; k < STEPS; k++) {
            cell[k] = y * SIDE + x;
            act<<<1, HID>>>(p, cell[k], dprob);
            TRY(cudaMemcpy(prob, dprob, sizeof prob, cudaMemcpyDeviceToHost));
            float u = uni(rng); int a = 0;
            while (a < ACTS - 1 && u > prob[a]) u -= prob[a++];
            action[k] = a;
            if (a == 0 && x < SIDE - 1) x++;
            if (a == 1 && x > 0) x--;
            if (a == 2 && y < SIDE - 1) y++;
            if (a == 3 && y > 0) y--;
            reward[k] = -0.1f;
            if (x == SIDE - 1 && y == SIDE - 1) { reward[k] = 2; x = rng() % 2; y = rng() % 2; }
            adv[k] = -logf(prob[a] + 1e-9f);
        }
        float ret = 0, total = 0;
        for (int k = STEPS - 1; k >= 0; k--) {
            ret = reward[k] + (reward[k] > 0 ? 0 : 0.9f * ret);
            logp += adv[k] * (ret - baseline) / STEPS;
            adv[k] = ret - baseline;
            total += reward[k];
            baseline += 0.002f * (ret - baseline);
        }
        TRY(cudaMemcpy(dcell, cell, sizeof cell, cudaMemcpyHostToDevice));
        TRY(cudaMemcpy(daction, action, sizeof action, cudaMemcpyHostToDevice));
        TRY(cudaMemcpy(dadv, adv, sizeof adv, cudaMemcpyHostToDevice));
        for (int i = 0; i < 4; i++) TRY(cudaMemset(t[4 + i], 0, size[i] * sizeof(float)));
        policy_grad<<<1, HID>>>(p, dcell, daction, dadv);
#ifdef ORACLE
        if (oracle::ready())
#endif
        for (int i = 0; i < 4; i++) descend<<<(size[i] + 63) / 64, 64>>>(t[i], t[4 + i], size[i], 0.7f);
#ifdef ORACLE
        oracle::end();
#endif
        lossSum += logp; rewardSum += total;
        if (it % 10 == 0) { printf("update %d  reward per stretch %.3f  loss %.4f  baseline %.3f\n", it, rewardSum / 10, lossSum / 10, baseline); lossSum = rewardSum = 0; }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { perror("model"); return 1; }
    for (int i = 0; i < 4; i++) {
        std::vector<float> h(size[i]);
        TRY(cudaMemcpy(h.data(), t[i], h.size() * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(h.data(), sizeof(float), h.size(), f);
    }
    fclose(f);
    return 0;
}
