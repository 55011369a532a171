// Deep Q-learning on a small grid world, with a target network.
#include "replay.h"
#include <cmath>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>

#define HIDDEN 64
#define BATCH_SIZE 64
#define WARMUP 1000
#define UPDATES 200
#define ACT_PER_UPDATE 4
#define TARGET_EVERY 20
#define GAMMA 0.95f

struct QNet {
    float *w1, *b1, *w2, *b2;
};

static const int sizes[4] = {STATE * HIDDEN, HIDDEN, HIDDEN * ACTIONS, ACTIONS};

static void alloc_net(QNet *net)
{
    float **p = (float **)net;
    for (int i = 0; i < 4; i++) {
        cudaMalloc(&p[i], sizes[i] * sizeof(float));
        cudaMemset(p[i], 0, sizes[i] * sizeof(float));
    }
}

static void copy_net(QNet *dst, const QNet *src)
{
    for (int i = 0; i < 4; i++)
        cudaMemcpy(((float **)dst)[i], ((float *const *)src)[i], sizes[i] * sizeof(float), cudaMemcpyDeviceToDevice);
}

__global__ void q_forward(QNet net, const float *states, float *hidden, float *q, int n)
{
    int i = blockIdx.x, j = threadIdx.x;
    __shared__ float h[HIDDEN];
    float s = net.b1[j];
    for (int k = 0; k < STATE; k++) s += states[i * STATE + k] * net.w1[k * HIDDEN + j];
    h[j] = s > 0 ? s : 0;
    if (hidden) hidden[i * HIDDEN + j] = h[j];
    __syncthreads();
    if (j < ACTIONS) {
        float o = net.b2[j];
        for (int k = 0; k < HIDDEN; k++) o += h[k] * net.w2[k * ACTIONS + j];
        q[i * ACTIONS + j] = o;
    }
}

// batch layout: states, next states, rewards, masks in one float buffer
__global__ void td_error(const float *q, const float *q_next, const int *actions, const float *rewards, const float *masks, float *dq, float *loss)
{
    int i = threadIdx.x;
    float best = q_next[i * ACTIONS];
    for (int a = 1; a < ACTIONS; a++) best = fmaxf(best, q_next[i * ACTIONS + a]);
    float target = rewards[i] + GAMMA * masks[i] * best;
    for (int a = 0; a < ACTIONS; a++) dq[i * ACTIONS + a] = 0;
    float e = q[i * ACTIONS + actions[i]] - target;
    dq[i * ACTIONS + actions[i]] = fminf(fmaxf(e, -1.f), 1.f) / BATCH_SIZE;
    atomicAdd(loss, 0.5f * e * e / BATCH_SIZE);
}

__global__ void q_backward(QNet net, QNet grad, const float *states, const float *hidden, const float *dq)
{
    int j = threadIdx.x;
    float db = 0, dw1[STATE], dw2[ACTIONS];
    for (int k = 0; k < STATE; k++) dw1[k] = 0;
    for (int a = 0; a < ACTIONS; a++) dw2[a] = 0;
    for (int i = 0; i < BATCH_SIZE; i++) {
        float h = hidden[i * HIDDEN + j], dh = 0;
        for (int a = 0; a < ACTIONS; a++) {
            dw2[a] += h * dq[i * ACTIONS + a];
            dh += net.w2[j * ACTIONS + a] * dq[i * ACTIONS + a];
        }
        if (h > 0) {
            db += dh;
            for (int k = 0; k < STATE; k++) dw1[k] += dh * states[i * STATE + k];
        }
    }
    grad.b1[j] = db;
    for (int k = 0; k < STATE; k++) grad.w1[k * HIDDEN + j] = dw1[k];
    for (int a = 0; a < ACTIONS; a++) grad.w2[j * ACTIONS + a] = dw2[a];
    if (j < ACTIONS) {
        float s = 0;
        for (int i = 0; i < BATCH_SIZE; i++) s += dq[i * ACTIONS + j];
        grad.b2[j] = s;
    }
}

__global__ void adam(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

int main()
{
    srand(13);
    QNet online, target, grad, m, v;
    for (QNet *n : {&online, &target, &grad, &m, &v}) alloc_net(n);
    for (int i = 0; i < 4; i += 2) {
        std::vector<float> h(sizes[i]);
        for (float &x : h) x = (2.f * rand() / RAND_MAX - 1.f) * (i == 0 ? 0.4f : 0.1f);
        cudaMemcpy(((float **)&online)[i], h.data(), sizes[i] * sizeof(float), cudaMemcpyHostToDevice);
    }
    copy_net(&target, &online);

    const int batch_floats = BATCH_SIZE * (2 * STATE + 2);
    float *h_batch = (float *)malloc(batch_floats * sizeof(float)), *d_batch, *d_state, *d_hidden, *d_q, *d_qnext, *d_dq, *d_loss;
    int h_actions[BATCH_SIZE], *d_actions;
    cudaMalloc(&d_batch, batch_floats * sizeof(float));
    cudaMalloc(&d_state, STATE * sizeof(float));
    cudaMalloc(&d_actions, sizeof(h_actions));
    cudaMalloc(&d_hidden, BATCH_SIZE * HIDDEN * sizeof(float));
    cudaMalloc(&d_q, BATCH_SIZE * ACTIONS * sizeof(float));
    cudaMalloc(&d_qnext, BATCH_SIZE * ACTIONS * sizeof(float));
    cudaMalloc(&d_dq, BATCH_SIZE * ACTIONS * sizeof(float));
    cudaMalloc(&d_loss, sizeof(float));
    cudaMemset(d_loss, 0, sizeof(float));

    ReplayBuffer replay(4000);
    GridWorld env;
    env.reset();
    float epsilon = 1.f, episode_return = 0, mean_return = 0;
    int episodes = 0, updates = 0;

    for (int frame = 0; updates < UPDATES; frame++) {
        transition_t t;
        env.observe(t.s);
        if (rand() / (float)RAND_MAX < epsilon) {
            t.action = rand() % ACTIONS;
        } else {
            float q[ACTIONS];
            cudaMemcpy(d_state, t.s, sizeof(t.s), cudaMemcpyHostToDevice);
            q_forward<<<1, HIDDEN>>>(online, d_state, NULL, d_q, 1);
            cudaMemcpy(q, d_q, sizeof(q), cudaMemcpyDeviceToHost);
            t.action = 0;
            for (int a = 1; a < ACTIONS; a++)
                if (q[a] > q[t.action]) t.action = a;
        }
        bool done;
        t.reward = env.act(t.action, done);
        env.observe(t.s2);
        t.not_done = done ? 0.f : 1.f;
        replay.push(t);
        episode_return += t.reward;
        if (done) {
            mean_return = episodes++ ? 0.95f * mean_return + 0.05f * episode_return : episode_return;
            episode_return = 0;
            env.reset();
        }
        if (frame < WARMUP || frame % ACT_PER_UPDATE) continue;

        // learn from a random mini batch
        float *states = h_batch, *next = states + BATCH_SIZE * STATE, *rewards = next + BATCH_SIZE * STATE, *masks = rewards + BATCH_SIZE;
        for (int i = 0; i < BATCH_SIZE; i++) {
            const transition_t &r = replay.sample();
            memcpy(states + i * STATE, r.s, sizeof(r.s));
            memcpy(next + i * STATE, r.s2, sizeof(r.s2));
            rewards[i] = r.reward;
            masks[i] = r.not_done;
            h_actions[i] = r.action;
        }
        cudaMemcpy(d_batch, h_batch, batch_floats * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(d_actions, h_actions, sizeof(h_actions), cudaMemcpyHostToDevice);
        float *d_next = d_batch + BATCH_SIZE * STATE, *d_rewards = d_next + BATCH_SIZE * STATE, *d_masks = d_rewards + BATCH_SIZE;

        q_forward<<<BATCH_SIZE, HIDDEN>>>(target, d_next, NULL, d_qnext, BATCH_SIZE);
        q_forward<<<BATCH_SIZE, HIDDEN>>>(online, d_batch, d_hidden, d_q, BATCH_SIZE);
        td_error<<<1, BATCH_SIZE>>>(d_q, d_qnext, d_actions, d_rewards, d_masks, d_dq, d_loss);
        q_backward<<<1, HIDDEN>>>(online, grad, d_batch, d_hidden, d_dq);
        updates++;
        float c1 = 1 - powf(0.9f, updates), c2 = 1 - powf(0.999f, updates);
        for (int i = 0; i < 4; i++)
            adam<<<(sizes[i] + 127) / 128, 128>>>(((float **)&online)[i], ((float **)&grad)[i], ((float **)&m)[i], ((float **)&v)[i], sizes[i], 5e-3f, c1, c2);

        if (updates % TARGET_EVERY == 0) copy_net(&target, &online);
        epsilon = fmaxf(0.1f, 1.f - updates / 150.f);
        if (updates % 25 == 0) {
            float loss;
            cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
            cudaMemset(d_loss, 0, sizeof(float));
            printf("update %3d  epsilon %.2f  TD loss %.4f  mean return %.3f\n", updates, epsilon, loss / 25, mean_return);
        }
    }
    free(h_batch);
    return 0;
}
