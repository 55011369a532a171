#pragma once
#include <vector>

// Elman network over time-major data: x is [time][batch][input].
struct Shape {
    int steps, batch, input, hidden, output;
};

struct Slot {
    const char *name;
    float *weight;
    float *grad;
    int size;
};

class Rnn {
public:
    Rnn(const Shape &s, unsigned seed);
    ~Rnn();
    // uploads the sequences, leaves the gradients in the slots, returns the loss
    float gradients(const float *x, const float *target);
    std::vector<Slot> &slots() { return slots_; }

private:
    float *param(const char *name, int size, float range);
    Shape s_;
    std::vector<Slot> slots_;
    unsigned state_;
    float *wx_, *wh_, *bh_, *wy_, *by_;
    float *x_, *t_, *h_, *y_, *dy_, *dh_, *err_;
};

class AdamClip {
public:
    AdamClip(std::vector<Slot> &slots, float rate, float maxNorm);
    ~AdamClip();
    void apply();

private:
    std::vector<Slot> slots_;
    std::vector<float *> m_, v_;
    float *norm2_;
    float rate_, maxNorm_;
    int t_ = 0;
};

float *deviceArray(int n);
