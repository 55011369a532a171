#include <cmath>
#include <cstdio>
#include "qnet.h"

// A cart on a line, driven to the origin. State: position, speed, and their products.
struct Cart {
    float x, v;
    int t;
    void reset()
    {
        x = 2.f * rand() / RAND_MAX - 1.f;
        v = 0;
        t = 0;
    }
    void observe(float *s) const
    {
        s[0] = x;
        s[1] = v;
        s[2] = x * x;
        s[3] = x * v;
    }
    float step(int action, bool *done)
    {
        v = 0.8f * v + 0.15f * (action - 1);
        x += v;
        if (x > 1.5f || x < -1.5f) x = x > 0 ? 1.5f : -1.5f;
        *done = ++t >= 20;
        return 1.f - 2.f * std::fabs(x);
    }
};

static const int kBatch = 64, kActions = 3, kWarmup = 500, kUpdates = 180, kTargetEvery = 15;

int main()
{
    srand(4);
    QNetwork net(4, 48, kActions, kBatch, 0.6f, 0.004f);
    ReplayBuffer replay(2000);
    std::vector<Transition> batch;
    Cart env;
    env.reset();
    float running = 0, ret = 0;
    int frames = 0, updates = 0;

    while (updates < kUpdates) {
        Transition t;
        env.observe(t.state);
        float epsilon = 1.f - 0.8f * updates / kUpdates;
        t.action = rand() < epsilon * RAND_MAX ? rand() % kActions : net.act(t.state);
        bool done;
        t.reward = env.step(t.action, &done);
        env.observe(t.next);
        t.done = done;
        replay.push(t);
        ret += t.reward;
        if (done) env.reset();
        frames++;
        if (frames < kWarmup || frames % 2) continue;

        replay.sample(batch, kBatch);
        running += net.learn(batch);
        updates++;
        if (updates % kTargetEvery == 0) net.syncTarget();
        if (updates % 20 == 0) {
            std::printf("update %3d  loss %.4f  reward per frame %.3f  epsilon %.2f\n", updates, running / 20, ret / frames, epsilon);
            running = 0;
        }
    }
    return 0;
}
