#include "model.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

int main()
{
    Hyper hp;
    hp.users = 200;
    hp.items = 120;
    hp.factors = 8;
    hp.lr = 0.08f;
    hp.reg = 0.02f;
    hp.batch = 256;

    // ratings from hidden tastes
    std::mt19937 gen(3);
    std::normal_distribution<float> nd(0.f, 1.f);
    const int k = 3;
    std::vector<float> a(hp.users * k), b(hp.items * k);
    for (auto &v : a) v = nd(gen) * 0.8f;
    for (auto &v : b) v = nd(gen) * 0.8f;
    std::vector<Rating> train, test;
    for (int n = 0; n < 5632; ++n) {
        Rating r;
        r.user = gen() % hp.users;
        r.item = gen() % hp.items;
        float v = 3.2f;
        for (int j = 0; j < k; ++j)
            v += a[r.user * k + j] * b[r.item * k + j];
        r.value = std::min(5.f, std::max(1.f, v + 0.1f * nd(gen)));
        (n % 11 == 10 ? test : train).push_back(r);
    }
    double mean = 0;
    for (const Rating &r : train)
        mean += r.value;
    mean /= train.size();

    MatrixFactorization mf(hp);
    mf.setMean((float)mean);
    std::vector<int> order(train.size());
    std::iota(order.begin(), order.end(), 0);
    printf("%zu ratings, mean %.3f\n", train.size(), mean);

    for (int epoch = 0; epoch < 9; ++epoch) {
        std::shuffle(order.begin(), order.end(), gen);
        double sse = 0;
        for (int begin = 0; begin + hp.batch <= (int)train.size(); begin += hp.batch)
            sse += mf.fitBatch(train, order, begin, begin + hp.batch);
        printf("epoch %d  train rmse %.4f  test rmse %.4f\n", epoch, std::sqrt(sse / train.size()), mf.rmse(test));
        mf.decay(0.95f);
    }
    return 0;
}
