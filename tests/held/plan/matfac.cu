// Matrix factorisation of a sparse ratings table with biases, stochastic descent.
// A thread takes one rating and moves the user row and the item row at once.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define USERS 80
#define ITEMS 60
#define RANK 8
#define NRATE 3072
#define BATCH 128

struct Rating { int u, i; float r; };

// managed memory: the host makes the table, the device reads it
struct Model { float *P, *Q, *bu, *bi; };

__global__ void sgd_step(const Rating *rt, Model m, float mean, float lr, float reg, float *err)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= BATCH) return;
    Rating x = rt[t];
    float *p = m.P + x.u * RANK, *q = m.Q + x.i * RANK;
    float pred = mean + m.bu[x.u] + m.bi[x.i];
    for (int k = 0; k < RANK; k++) pred += p[k] * q[k];
    float e = x.r - pred;
    err[t] = e * e;
    atomicAdd(&m.bu[x.u], lr * (e - reg * m.bu[x.u]));
    atomicAdd(&m.bi[x.i], lr * (e - reg * m.bi[x.i]));
    for (int k = 0; k < RANK; k++) {
        float pk = p[k], qk = q[k];
        atomicAdd(&p[k], lr * (e * qk - reg * pk));
        atomicAdd(&q[k], lr * (e * pk - reg * qk));
    }
}

static double uniform(unsigned *s) { *s = *s * 1103515245u + 12345u; return ((*s >> 8) & 0xFFFFFF) / 16777216.0; }

int main(int argc, char **argv)
{
    unsigned s = 1u;
    float tu[USERS][3], ti[ITEMS][3];
    for (auto &r : tu) for (float &v : r) v = (float)(2 * uniform(&s) - 1);
    for (auto &r : ti) for (float &v : r) v = (float)(2 * uniform(&s) - 1);
    Rating *rt; Model m; float *err;
    cudaMallocManaged(&rt, NRATE * sizeof(Rating));
    cudaMallocManaged(&m.P, USERS * RANK * sizeof(float));
    cudaMallocManaged(&m.Q, ITEMS * RANK * sizeof(float));
    cudaMallocManaged(&m.bu, USERS * sizeof(float));
    cudaMallocManaged(&m.bi, ITEMS * sizeof(float));
    cudaMallocManaged(&err, BATCH * sizeof(float));
    double mean = 0;
    for (int n = 0; n < NRATE; n++) {
        rt[n].u = (int)(uniform(&s) * USERS); rt[n].i = (int)(uniform(&s) * ITEMS);
        float v = 3;
        for (int k = 0; k < 3; k++) v += 1.5f * tu[rt[n].u][k] * ti[rt[n].i][k];
        rt[n].r = v + 0.2f * (float)(uniform(&s) - 0.5);
        mean += rt[n].r / NRATE;
    }
    for (int i = 0; i < USERS * RANK; i++) m.P[i] = 0.6f * (float)(uniform(&s) - 0.5);
    for (int i = 0; i < ITEMS * RANK; i++) m.Q[i] = 0.6f * (float)(uniform(&s) - 0.5);
    for (int i = 0; i < USERS; i++) m.bu[i] = 0;
    for (int i = 0; i < ITEMS; i++) m.bi[i] = 0;
#ifdef ORACLE
    oracle::state(m.P, USERS * RANK); oracle::state(m.Q, ITEMS * RANK);
    oracle::state(m.bu, USERS); oracle::state(m.bi, ITEMS);
    oracle::fused();
#endif
    for (int epoch = 0; epoch < 12; epoch++) {
        double se = 0;
        for (int b = 0; b < NRATE / BATCH; b++) {
#ifdef ORACLE
            oracle::begin();
#endif
            sgd_step<<<2, 64>>>(rt + b * BATCH, m, (float)mean, 0.05f, 0.02f, err);
            cudaDeviceSynchronize();
            for (int i = 0; i < BATCH; i++) se += err[i];
#ifdef ORACLE
            oracle::end();
#endif
        }
        printf("epoch %d rmse %.5f\n", epoch, sqrt(se / NRATE));
    }
    if (cudaGetLastError() != cudaSuccess) { fprintf(stderr, "kernel error\n"); return 1; }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { perror("model"); return 1; }
    fwrite(m.P, sizeof(float), USERS * RANK, f);
    fwrite(m.Q, sizeof(float), ITEMS * RANK, f);
    fwrite(m.bu, sizeof(float), USERS, f);
    fwrite(m.bi, sizeof(float), ITEMS, f);
    fclose(f);
    cudaFree(rt); cudaFree(m.P); cudaFree(m.Q); cudaFree(m.bu); cudaFree(m.bi); cudaFree(err);
    return 0;
}
