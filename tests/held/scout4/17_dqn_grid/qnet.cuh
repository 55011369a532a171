#pragma once
#include <cuda_runtime.h>
#include <cmath>
#include <random>
#include <vector>

constexpr int OBS = 5, HID = 48, ACTIONS = 4;

// Offsets of the tensors in one contiguous block
constexpr int OW1 = 0, OB1 = OW1 + OBS * HID, OW2 = OB1 + HID, OB2 = OW2 + HID * HID, OW3 = OB2 + HID,
              OB3 = OW3 + HID * ACTIONS, TOTAL = OB3 + ACTIONS;

struct Transition {
    float s[OBS], s2[OBS];
    int a;
    float r;
    int done;
};

// whole network for one state per block, HID threads
__global__ void q_forward(const float *th, const float *obs, int stride, float *h1, float *h2, float *q)
{
    __shared__ float sh1[HID], sh2[HID];
    int n = blockIdx.x, j = threadIdx.x;
    const float *s = obs + n * stride;
    float z = th[OB1 + j];
    for (int i = 0; i < OBS; i++) z += s[i] * th[OW1 + i * HID + j];
    sh1[j] = fmaxf(z, 0.0f);
    __syncthreads();
    z = th[OB2 + j];
    for (int i = 0; i < HID; i++) z += sh1[i] * th[OW2 + i * HID + j];
    sh2[j] = fmaxf(z, 0.0f);
    __syncthreads();
    if (j < ACTIONS) {
        z = th[OB3 + j];
        for (int i = 0; i < HID; i++) z += sh2[i] * th[OW3 + i * ACTIONS + j];
        q[n * ACTIONS + j] = z;
    }
    if (h1) {
        h1[n * HID + j] = sh1[j];
        h2[n * HID + j] = sh2[j];
    }
}

// Huber loss between Q(s, a) and r + gamma max Q'(s2)
__global__ void td_error(const Transition *tr, const float *q, const float *qnext, float gamma, float *dq, float *loss,
                         int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float best = qnext[i * ACTIONS];
    for (int a = 1; a < ACTIONS; a++) best = fmaxf(best, qnext[i * ACTIONS + a]);
    float target = tr[i].r + (tr[i].done ? 0.0f : gamma * best);
    for (int a = 0; a < ACTIONS; a++) dq[i * ACTIONS + a] = 0;
    float e = q[i * ACTIONS + tr[i].a] - target;
    dq[i * ACTIONS + tr[i].a] = fminf(fmaxf(e, -1.0f), 1.0f) / n;
    loss[i] = fabsf(e) < 1 ? 0.5f * e * e : fabsf(e) - 0.5f;
}

// one sample per block; adds its share to the gradient block
__global__ void q_backward(const float *th, float *grad, const Transition *tr, const float *h1, const float *h2,
                           const float *dq)
{
    __shared__ float d2[HID];
    int n = blockIdx.x, j = threadIdx.x;
    float d = 0;
    for (int a = 0; a < ACTIONS; a++) {
        float g = dq[n * ACTIONS + a];
        if (g != 0) atomicAdd(&grad[OW3 + j * ACTIONS + a], g * h2[n * HID + j]);
        d += g * th[OW3 + j * ACTIONS + a];
    }
    if (j < ACTIONS) atomicAdd(&grad[OB3 + j], dq[n * ACTIONS + j]);
    d2[j] = h2[n * HID + j] > 0 ? d : 0;
    __syncthreads();
    atomicAdd(&grad[OB2 + j], d2[j]);
    d = 0;
    for (int k = 0; k < HID; k++) {
        atomicAdd(&grad[OW2 + j * HID + k], h1[n * HID + j] * d2[k]);
        d += th[OW2 + j * HID + k] * d2[k];
    }
    if (h1[n * HID + j] <= 0) d = 0;
    atomicAdd(&grad[OB1 + j], d);
    for (int i = 0; i < OBS; i++) atomicAdd(&grad[OW1 + i * HID + j], tr[n].s[i] * d);
}

__global__ void rmsprop_update(float *th, float *grad, float *sq, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    sq[i] = 0.95f * sq[i] + 0.05f * grad[i] * grad[i];
    th[i] -= lr * grad[i] / (sqrtf(sq[i]) + 1e-3f);
    grad[i] = 0;   // for the next backward pass
}
