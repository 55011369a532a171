// An Elman network that adds up a sequence of numbers.
#pragma once
#include <cuda_runtime.h>

enum { STEPS_IN = 5, UNITS = 8, BATCH = 10 };

struct Rnn {
    float *arena;                       // all parameters, one after the other
    float *w_in, *w_rec, *bias, *w_out; // slices of the arena
    float *d_arena;                     // gradients in the same order
    float *d_w_in, *d_w_rec, *d_bias, *d_w_out;
    float *velocity;
    float *state;                       // [STEPS_IN + 1][BATCH][UNITS]
    float *d_state;                     // [STEPS_IN][BATCH][UNITS], before tanh
    float *error;                       // [BATCH]
    int size;
};

void rnn_create(Rnn *net, unsigned seed);
void rnn_destroy(Rnn *net);
void rnn_forward(Rnn *net, const float *sequences, const float *targets);
void rnn_backward(Rnn *net, const float *sequences);
void rnn_update(Rnn *net, float rate, float momentum);
float rnn_loss(const Rnn *net);
