// Deep Q learning in a 5x5 grid: walk to the goal, one of the corners. Environment and replay memory are on the host.
#include "qnet.h"

#include <cstdio>
#include <random>
#include <vector>

class Grid {
public:
    explicit Grid(unsigned seed) : rng_(seed) { reset(); }
    void reset()
    {
        static const int corners[] = {0, 4, 20, 24};
        goal = corners[rng_() % 4];
        do agent = rng_() % 25; while (agent == goal);
        steps = 0;
    }
    Transition act(int action)
    {
        static const int dx[] = {1, -1, 0, 0}, dy[] = {0, 0, 1, -1};
        int x = agent % 5 + dx[action], y = agent / 5 + dy[action];
        bool wall = x < 0 || y < 0 || x > 4 || y > 4;
        Transition t;
        t.agent = agent;
        t.goal = goal;
        t.action = action;
        t.next = wall ? agent : y * 5 + x;
        t.done = t.next == goal;
        t.reward = t.done ? 1.f : wall ? -0.3f : -0.05f;
        agent = t.next;
        ++steps;
        return t;
    }
    int agent, goal, steps;

private:
    std::mt19937 rng_;
};

class Replay {
public:
    Replay(size_t capacity, unsigned seed) : capacity_(capacity), rng_(seed) {}
    void push(const Transition &t)
    {
        if (buf_.size() < capacity_) buf_.push_back(t);
        else buf_[head_] = t;
        head_ = (head_ + 1) % capacity_;
    }
    void sample(std::vector<Transition> &out)
    {
        for (auto &t : out) t = buf_[rng_() % buf_.size()];
    }

private:
    size_t capacity_, head_ = 0;
    std::vector<Transition> buf_;
    std::mt19937 rng_;
};

int main()
{
    const int batch = 64, train_steps = 200, env_per_step = 4, sync_every = 10;
    Grid env(3);
    Replay replay(1500, 4);
    QNet online(1), target(2);
    target.copy_from(online);
    Learner learner(online, target, batch, 0.9f, 0.01f);
    std::mt19937 rng(6);
    std::vector<Transition> sample(batch);

    auto interact = [&](float epsilon) {
        int a = (rng() % 1000) < epsilon * 1000 ? rng() % 4 : learner.greedy(env.agent, env.goal);
        Transition t = env.act(a);
        replay.push(t);
        if (t.done || env.steps >= 40) env.reset();
    };
    for (int i = 0; i < 400; ++i) interact(1.f); // random play first

    float loss = 0;
    for (int step = 1; step <= train_steps; ++step) {
        float epsilon = 1.f - 0.8f * step / train_steps;
        for (int i = 0; i < env_per_step; ++i) interact(epsilon);
        replay.sample(sample);
        loss += learner.learn(sample.data());
        if (step % sync_every == 0) target.copy_from(online);
        if (step % 40 == 0) {
            Grid test(77);
            int reached = 0;
            for (int e = 0; e < 20; ++e) {
                test.reset();
                bool done = false;
                while (!done && test.steps < 12) done = test.act(learner.greedy(test.agent, test.goal)).done;
                reached += done;
            }
            printf("step %d  td loss %.5f  reached %d/20\n", step, loss / 40, reached);
            loss = 0;
        }
    }
    return 0;
}
