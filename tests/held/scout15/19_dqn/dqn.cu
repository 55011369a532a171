// Deep Q-learning on a corridor with a replay memory filled by a random policy.
// The memory stays on the device; each step samples transitions by number. A target network is copied every 12 steps.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <vector>

#define OBS 5
#define HID 23
#define ACT 3
#define MEMORY 640
#define MINIBATCH 46
#define STEPS 60
#define GAMMA 0.9f

typedef struct {
    float obs[OBS];
    float next[OBS];
    float reward;
    int action;
    int done;
} Transition;

// weights of a Q network, in one piece of memory
typedef struct {
    float w1[OBS][HID];
    float b1[HID];
    float w2[HID][ACT];
    float b2[ACT];
} QNet;
#define NET_FLOATS ((int)(sizeof(QNet) / sizeof(float)))

__device__ void q_values(const QNet *q, const float *obs, float *h, float *out) {
    for (int a = 0; a < ACT; a++) out[a] = q->b2[a];
    for (int j = 0; j < HID; j++) {
        float s = q->b1[j];
        for (int k = 0; k < OBS; k++) s += obs[k] * q->w1[k][j];
        h[j] = fmaxf(s, 0.0f);
        for (int a = 0; a < ACT; a++) out[a] += h[j] * q->w2[j][a];
    }
}

__global__ void td_gradient(const Transition *memory, const int *pick, const QNet *online, const QNet *target, QNet *grad, float *huber,
                            int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Transition *t = &memory[pick[i]];
    float h[HID], q[ACT], best;
    q_values(target, t->next, h, q);
    best = fmaxf(q[0], fmaxf(q[1], q[2]));
    float goal = t->reward + (t->done ? 0.0f : GAMMA * best);
    q_values(online, t->obs, h, q);
    float e = q[t->action] - goal;
    huber[i] = fabsf(e) < 1.0f ? 0.5f * e * e : fabsf(e) - 0.5f;
    float d = fminf(fmaxf(e, -1.0f), 1.0f) / n;
    atomicAdd(&grad->b2[t->action], d);
    for (int j = 0; j < HID; j++) {
        atomicAdd(&grad->w2[j][t->action], d * h[j]);
        if (h[j] <= 0.0f) continue;
        float dh = d * online->w2[j][t->action];
        atomicAdd(&grad->b1[j], dh);
        for (int k = 0; k < OBS; k++) atomicAdd(&grad->w1[k][j], dh * t->obs[k]);
    }
}

__global__ void rmsprop(float *w, const float *g, float *avg, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        avg[i] = 0.95f * avg[i] + 0.05f * g[i] * g[i];
        w[i] -= lr * g[i] / sqrtf(avg[i] + 1e-4f);
    }
}

static void observe(float *obs, int cell) {
    for (int k = 0; k < OBS; k++) obs[k] = k == cell ? 1.0f : 0.0f;
}

int main(void) {
    srand(10);
    std::vector<Transition> memory(MEMORY);
    int cell = 2;
    for (Transition &t : memory) {  // walk left, stay or walk right; the right end pays
        observe(t.obs, cell);
        t.action = rand() % ACT;
        int to = cell + t.action - 1;
        t.done = to < 0 || to >= OBS;
        t.reward = to >= OBS ? 1.0f : to < 0 ? -0.2f : -0.02f;
        cell = t.done ? rand() % OBS : to;
        observe(t.next, t.done ? 0 : cell);
    }

    QNet host;
    float *hw = (float *)&host;
    for (int i = 0; i < NET_FLOATS; i++) hw[i] = 0.6f * rand() / RAND_MAX - 0.3f;
    QNet *online, *target, *grad;
    float *avg, *huber;
    Transition *d_memory;
    int *d_pick;
    cudaMalloc((void **)&online, sizeof(QNet));
    cudaMalloc((void **)&target, sizeof(QNet));
    cudaMalloc((void **)&grad, sizeof(QNet));
    cudaMalloc((void **)&avg, sizeof(QNet));
    cudaMalloc((void **)&huber, MINIBATCH * sizeof(float));
    cudaMalloc((void **)&d_memory, MEMORY * sizeof(Transition));
    cudaMalloc((void **)&d_pick, MINIBATCH * sizeof(int));
    cudaMemcpy(online, &host, sizeof(QNet), cudaMemcpyHostToDevice);
    cudaMemcpy(target, &host, sizeof(QNet), cudaMemcpyHostToDevice);
    cudaMemset(avg, 0, sizeof(QNet));
    cudaMemcpy(d_memory, memory.data(), MEMORY * sizeof(Transition), cudaMemcpyHostToDevice);

    int pick[MINIBATCH];
    float loss[MINIBATCH];
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < MINIBATCH; i++) pick[i] = rand() % MEMORY;
        cudaMemcpy(d_pick, pick, sizeof(pick), cudaMemcpyHostToDevice);
        cudaMemset(grad, 0, sizeof(QNet));
        td_gradient<<<(MINIBATCH + 31) / 32, 32>>>(d_memory, d_pick, online, target, grad, huber, MINIBATCH);
        rmsprop<<<(NET_FLOATS + 63) / 64, 64>>>((float *)online, (const float *)grad, avg, NET_FLOATS, 0.005f);
        if (step % 12 == 11) cudaMemcpy(target, online, sizeof(QNet), cudaMemcpyDeviceToDevice);

        cudaMemcpy(loss, huber, sizeof(loss), cudaMemcpyDeviceToHost);
        float mean = 0.0f;
        for (int i = 0; i < MINIBATCH; i++) mean += loss[i];
        mean /= MINIBATCH;
        if (step % 6 == 0) printf("step %d, td loss %.5f\n", step, mean);
    }
    cudaFree(online); cudaFree(target); cudaFree(grad); cudaFree(avg); cudaFree(huber); cudaFree(d_memory); cudaFree(d_pick);
    return 0;
}
