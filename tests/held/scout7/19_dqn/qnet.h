#pragma once
#include "replay.h"

struct QNetImpl;

class QNetwork {
public:
    QNetwork(int states, int hidden, int actions, int maxBatch, float gamma, float lr);
    ~QNetwork();
    int act(const float *state);                          // greedy
    float learn(const std::vector<Transition> &batch);    // returns the Huber loss
    void syncTarget();

private:
    QNetImpl *impl;
};
