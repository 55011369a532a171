#include "ratings.h"
#include <algorithm>
#include <random>

// synthetic MovieLens: low-rank preferences plus biases, clipped to 1..5
std::vector<Rating> loadRatings(int users, int items, int count, float *mean)
{
    const int rank = 3;
    std::mt19937 gen(2024);
    std::normal_distribution<float> n01;
    std::vector<float> U(users * rank), V(items * rank), bu(users), bi(items);
    for (auto &x : U) x = 0.7f * n01(gen);
    for (auto &x : V) x = 0.7f * n01(gen);
    for (auto &x : bu) x = 0.5f * n01(gen);
    for (auto &x : bi) x = 0.5f * n01(gen);
    std::vector<Rating> r(count);
    double sum = 0;
    for (auto &e : r) {
        e.user = gen() % users;
        e.item = gen() % items;
        float v = 3.3f + bu[e.user] + bi[e.item] + 0.1f * n01(gen);
        for (int k = 0; k < rank; k++) v += U[e.user * rank + k] * V[e.item * rank + k];
        e.value = std::min(5.f, std::max(1.f, v));
        sum += e.value;
    }
    *mean = (float)(sum / count);
    return r;
}
