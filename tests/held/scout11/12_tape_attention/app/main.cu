// Is a "needle" token followed, anywhere later, by its partner? One attention block, mean pooling.
#include "tape.h"
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <random>

struct Options {
    int batch_size = 32;
    int length = 12;
    int vocab = 16;
    int dim = 24;
    int steps = 150;
    float lr = 4e-3f;
};

struct Batch {
    std::vector<int> tokens, labels;
};

static Batch next_batch(const Options &o, std::mt19937 &rng)
{
    Batch b;
    for (int i = 0; i < o.batch_size; ++i) {
        int label = rng() % 3;
        std::vector<int> s(o.length);
        for (auto &t : s) t = 3 + rng() % (o.vocab - 3);
        int at = rng() % (o.length / 2);
        s[at] = 0;
        if (label > 0) s[at + 1 + rng() % (o.length / 2 - 1)] = label;
        b.tokens.insert(b.tokens.end(), s.begin(), s.end());
        b.labels.push_back(label);
    }
    return b;
}

int main()
{
    Options opt;
    std::mt19937 rng(21);
    unsigned seed = 77;
    tt::Tape tape;

    float s = 1.f / std::sqrt((float)opt.dim);
    auto E = tape.parameter(opt.vocab, opt.dim, 0.5f, seed);
    auto P = tape.parameter(opt.length, opt.dim, 0.1f, seed);
    auto Wq = tape.parameter(opt.dim, opt.dim, s, seed);
    auto Wk = tape.parameter(opt.dim, opt.dim, s, seed);
    auto Wv = tape.parameter(opt.dim, opt.dim, s, seed);
    auto W1 = tape.parameter(opt.dim, 2 * opt.dim, s, seed);
    auto b1 = tape.zeros(1, 2 * opt.dim);
    auto W2 = tape.parameter(2 * opt.dim, 3, s, seed);
    auto b2 = tape.zeros(1, 3);

    tt::AdamW optim(opt.lr, 1e-3f);
    for (auto &p : {E, P, Wq, Wk, Wv, W1, b1, W2, b2}) optim.add(p);

    int *d_tokens, *d_labels;
    cudaMalloc(&d_tokens, opt.batch_size * opt.length * sizeof(int));
    cudaMalloc(&d_labels, opt.batch_size * sizeof(int));

    float running = 0;
    for (int step = 0; step < opt.steps; ++step) {
        Batch batch = next_batch(opt, rng);
        cudaMemcpy(d_tokens, batch.tokens.data(), batch.tokens.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(d_labels, batch.labels.data(), batch.labels.size() * sizeof(int), cudaMemcpyHostToDevice);

        // warm-up, then cosine
        optim.lr = step < 10 ? opt.lr * (step + 1) / 10 : opt.lr * 0.5f * (1 + std::cos(3.14159f * step / opt.steps));

        auto x = tape.embedding(E, d_tokens, (int)batch.tokens.size(), opt.length, P);
        auto q = tape.matmul(x, Wq);
        auto k = tape.matmul(x, Wk);
        auto v = tape.matmul(x, Wv);
        auto att = tape.softmax_rows(tape.bmm(q, k, opt.length, true), s);
        auto ctx = tape.mean_pool(tape.bmm(att, v, opt.length, false), opt.length);
        auto h = tape.relu(tape.add_bias(tape.matmul(ctx, W1), b1));
        auto logits = tape.add_bias(tape.matmul(h, W2), b2);
        auto loss = tape.cross_entropy(logits, d_labels);

        optim.zero_grad();
        tape.backward(loss);
        optim.step();
        tape.clear();

        std::vector<float> l;
        tt::copy_to_host(loss, l);
        running = step == 0 ? l[0] : 0.9f * running + 0.1f * l[0];
        if (step % 25 == 0 || step + 1 == opt.steps) std::printf("step %3d: loss %.4f (lr %.5f)\n", step, running, optim.lr);
    }
    cudaFree(d_tokens);
    cudaFree(d_labels);
    return 0;
}
