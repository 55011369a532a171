// Click prediction: embeddings of hashed categories and dense features into a small network.
// A step accumulates the gradients of several micro batches.
#include "model.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

struct Options {
    int batch = 128;
    int micro = 4;
    int steps = 120;
    int eval_every = 30;
    float lr = 0.05f;
};

static Options parse(int argc, char **argv)
{
    Options o;
    for (int i = 1; i < argc - 1; i++) {
        if (!strcmp(argv[i], "--batch")) o.batch = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--micro")) o.micro = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--steps")) o.steps = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--lr")) o.lr = atof(argv[++i]);
    }
    return o;
}

static double auc(const std::vector<Impression> &d, const std::vector<float> &p)
{
    std::vector<int> o(d.size());
    for (size_t i = 0; i < o.size(); i++) o[i] = (int)i;
    std::sort(o.begin(), o.end(), [&](int a, int b) { return p[a] < p[b]; });
    double rank = 0, pos = 0;
    for (size_t i = 0; i < o.size(); i++)
        if (d[o[i]].click > 0.5f) {
            rank += i + 1;
            pos++;
        }
    return (rank - pos * (pos + 1) / 2) / (pos * (d.size() - pos));
}

static std::vector<Impression> simulate(int n, std::mt19937 &gen)
{
    std::normal_distribution<float> nd(0, 1);
    std::vector<Impression> v(n);
    for (auto &e : v) {
        float z = -0.5f;
        for (int f = 0; f < NUM_FIELDS; f++) {
            e.cat[f] = f * (BUCKETS / NUM_FIELDS) + gen() % 40;
            z += 1.2f * std::sin(e.cat[f] * 1.3f + f);
        }
        for (int k = 0; k < NUM_DENSE; k++) {
            e.dense[k] = nd(gen);
            z += (k % 2 ? 0.5f : -0.7f) * e.dense[k];
        }
        e.click = gen() / 4294967296.0 < 1 / (1 + std::exp(-z)) ? 1.f : 0.f;
    }
    return v;
}

int main(int argc, char **argv)
{
    Options opt = parse(argc, argv);
    std::mt19937 gen(6);
    srand(6);
    std::vector<Impression> train = simulate(5000, gen), test = simulate(700, gen);
    const int micro_batch = opt.batch / opt.micro;
    CTRModel model(micro_batch);
    std::vector<float> prob(test.size());
    size_t cursor = 0;
    double running = 0;
    for (int step = 1; step <= opt.steps; step++) {
        if (cursor + opt.batch > train.size()) {
            std::shuffle(train.begin(), train.end(), gen);
            cursor = 0;
        }
        model.zero_grad();
        float loss = 0;
        for (int m = 0; m < opt.micro; m++) {
            loss += model.accumulate(&train[cursor], micro_batch, 1.f / opt.batch);
            cursor += micro_batch;
        }
        model.apply(opt.lr);
        running += loss / opt.batch;
        if (step % opt.eval_every == 0) {
            model.predict(test.data(), (int)test.size(), prob.data());
            printf("step %4d  logloss %.4f  test auc %.4f\n", step, running / opt.eval_every, auc(test, prob));
            running = 0;
        }
    }
    return 0;
}
