#pragma once
#include "rnn.h"

class Adagrad {
public:
    Adagrad(std::vector<Parameter *> params, float lr);
    ~Adagrad();
    float clip(float max_norm); // returns the norm before clipping
    void step();

private:
    std::vector<Parameter *> params_;
    float lr_;
    float *norm_;
};
