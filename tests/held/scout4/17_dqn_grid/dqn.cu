// Deep Q-learning: an agent on a 6x6 grid walks to a goal. Replay memory on the host, target network.
#include "qnet.cuh"
#include <cstdio>
#include <cstdlib>
#include <cstring>

static const int GRID = 6, CAPACITY = 2000, MINIBATCH = 64, WARM = 500, UPDATES = 200, SYNC = 10;
static const float GAMMA = 0.8f;

static std::mt19937 rng(8);
static int randint(int n) { return (int)(rng() % n); }

struct Env {
    int x, y, gx, gy, steps;
    void reset()
    {
        x = randint(GRID); y = randint(GRID);
        do { gx = randint(GRID); gy = randint(GRID); } while (gx == x && gy == y);
        steps = 0;
    }
    void observe(float *o) const
    {
        o[0] = x / 5.0f; o[1] = y / 5.0f; o[2] = (gx - x) / 5.0f; o[3] = (gy - y) / 5.0f;
        o[4] = (gx == x) + (gy == y);
    }
    bool act(int a, float *reward)
    {
        static const int dx[] = {1, -1, 0, 0}, dy[] = {0, 0, 1, -1};
        int before = abs(gx - x) + abs(gy - y);
        x = std::min(std::max(x + dx[a], 0), GRID - 1);
        y = std::min(std::max(y + dy[a], 0), GRID - 1);
        int after = abs(gx - x) + abs(gy - y);
        *reward = after == 0 ? 1.0f : 0.2f * (before - after) - 0.05f;
        return after == 0 || ++steps >= 30;
    }
};

class Agent {
public:
    Agent()
    {
        cudaMalloc(&theta, TOTAL * sizeof(float));
        cudaMalloc(&target, TOTAL * sizeof(float));
        cudaMalloc(&grad, TOTAL * sizeof(float));
        cudaMalloc(&sq, TOTAL * sizeof(float));
        cudaMalloc(&dTr, MINIBATCH * sizeof(Transition));
        cudaMalloc(&h1, MINIBATCH * HID * sizeof(float));
        cudaMalloc(&h2, MINIBATCH * HID * sizeof(float));
        cudaMalloc(&q, MINIBATCH * ACTIONS * sizeof(float));
        cudaMalloc(&qnext, MINIBATCH * ACTIONS * sizeof(float));
        cudaMalloc(&dq, MINIBATCH * ACTIONS * sizeof(float));
        cudaMalloc(&loss, MINIBATCH * sizeof(float));
        cudaMalloc(&one, OBS * sizeof(float));
        std::vector<float> w(TOTAL, 0.0f);
        std::normal_distribution<float> nd;
        for (int i = 0; i < OBS * HID; i++) w[OW1 + i] = nd(rng) * sqrtf(2.0f / OBS);
        for (int i = 0; i < HID * HID; i++) w[OW2 + i] = nd(rng) * sqrtf(2.0f / HID);
        for (int i = 0; i < HID * ACTIONS; i++) w[OW3 + i] = nd(rng) * sqrtf(0.5f / HID);
        cudaMemcpy(theta, w.data(), TOTAL * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(grad, 0, TOTAL * sizeof(float));
        cudaMemset(sq, 0, TOTAL * sizeof(float));
        syncTarget();
    }

    void syncTarget() { cudaMemcpy(target, theta, TOTAL * sizeof(float), cudaMemcpyDeviceToDevice); }

    int greedy(const float *obs)
    {
        float h[ACTIONS];
        cudaMemcpy(one, obs, OBS * sizeof(float), cudaMemcpyHostToDevice);
        q_forward<<<1, HID>>>(theta, one, OBS, nullptr, nullptr, q);
        cudaMemcpy(h, q, sizeof(h), cudaMemcpyDeviceToHost);
        int best = 0;
        for (int a = 1; a < ACTIONS; a++)
            if (h[a] > h[best]) best = a;
        return best;
    }

    void remember(const Transition &t)
    {
        if ((int)memory.size() < CAPACITY) memory.push_back(t);
        else memory[next++ % CAPACITY] = t;
    }

    float learn(float lr)
    {
        Transition batch[MINIBATCH];
        for (int i = 0; i < MINIBATCH; i++) batch[i] = memory[randint((int)memory.size())];
        cudaMemcpy(dTr, batch, sizeof(batch), cudaMemcpyHostToDevice);

        const int stride = sizeof(Transition) / sizeof(float);
        const float *s = (const float *)dTr;
        q_forward<<<MINIBATCH, HID>>>(target, s + OBS, stride, nullptr, nullptr, qnext);
        q_forward<<<MINIBATCH, HID>>>(theta, s, stride, h1, h2, q);
        td_error<<<1, MINIBATCH>>>(dTr, q, qnext, GAMMA, dq, loss, MINIBATCH);
        q_backward<<<MINIBATCH, HID>>>(theta, grad, dTr, h1, h2, dq);
        rmsprop_update<<<(TOTAL + 127) / 128, 128>>>(theta, grad, sq, lr, TOTAL);

        float h[MINIBATCH], sum = 0;
        cudaMemcpy(h, loss, sizeof(h), cudaMemcpyDeviceToHost);
        for (float l : h) sum += l;
        return sum / MINIBATCH;
    }

private:
    float *theta, *target, *grad, *sq, *h1, *h2, *q, *qnext, *dq, *loss, *one;
    Transition *dTr;
    std::vector<Transition> memory;
    size_t next = 0;
};

int main()
{
    Agent agent;
    Env env;
    env.reset();
    float reward_sum = 0, loss_sum = 0;
    int moves = 0;

    auto play = [&](float epsilon) {
        Transition t;
        env.observe(t.s);
        t.a = rng() % 1000 < epsilon * 1000 ? randint(ACTIONS) : agent.greedy(t.s);
        bool end = env.act(t.a, &t.r);
        t.done = end && env.steps < 30;
        env.observe(t.s2);
        agent.remember(t);
        reward_sum += t.r;
        moves++;
        if (end) env.reset();
    };

    for (int i = 0; i < WARM; i++) play(1.0f);
    reward_sum = moves = 0;
    for (int u = 1; u <= UPDATES; u++) {
        float epsilon = std::max(0.1f, 1.0f - u / 120.0f);
        for (int k = 0; k < 4; k++) play(epsilon);
        loss_sum += agent.learn(0.003f);
        if (u % SYNC == 0) agent.syncTarget();
        if (u % 20 == 0) {
            printf("update %3d  loss %.5f  reward per move %.3f\n", u, loss_sum / 20, reward_sum / moves);
            loss_sum = reward_sum = moves = 0;
        }
    }
    if (cudaGetLastError() != cudaSuccess) return 1;
    return 0;
}
