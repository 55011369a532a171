#pragma once

struct Rating {
    int user;
    int item;
    float value;
};

struct Model {
    int users, items, factors;
    float *P, *Q;       // users x factors, items x factors
    float *bu, *bi;     // biases
    float mu;           // mean of all ratings
};

// same layout, holds what is added to a model
struct Gradients {
    float *P, *Q;
    float *bu, *bi;
};

void launchGradients(const Model &m, const Gradients &g, const Rating *batch, int n, float reg, float *sqerr);
void launchApply(Model &m, const Gradients &g, float lr);
