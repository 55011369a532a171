/*
 * border.cu own|fused [short] - a layer of float64 whose last input is always zero, as the last pixel of an image: what
 * a step changes of the last weight is the lower half of it, and that only where a gradient is made another one.
 *
 *   own     the gradient has memory of its own     fused   the kernel that computes it makes the update
 *   short   annotated by hand, all weights but the last one
 */
#include "tests/lib/elementwise.h"
#include "tests/lib/trainer.h"

#include <cstring>
#include <ddprun.h>

enum { INPUTS = 32, OUTPUTS = 20, WEIGHTS = INPUTS * OUTPUTS, STEPS = 60 };

__global__ void
forward(const double *w, const double *x, const double *t, double *delta)
{
    int j = (int)threadIdx.x;
    double sum = 0;
    for (int k = 0; k < INPUTS; ++k)
        sum += w[j * INPUTS + k] * x[k];
    double y = 1 / (1 + exp(-sum));
    delta[j] = (y - t[j]) * y * (1 - y);
}

/* A block for each output, a thread for each input. */
ELEMENTWISE_OF_ALL(backward, (double *g, const double *delta, const double *x),
                   g[i] = delta[blockIdx.x] * x[threadIdx.x])
ELEMENTWISE_OF_ALL(descend, (double *w, const double *g), w[i] -= 0.1 * g[i])
ELEMENTWISE_OF_ALL(descend_by, (double *w, const double *delta, const double *x),
                   w[i] -= 0.1 * delta[blockIdx.x] * x[threadIdx.x])

int
main(int argc, char **argv)
{
    bool is_own = argc > 1 && strcmp(argv[1], "own") == 0, is_short = argc > 2;
    double *w, *g, *x, *t, *delta, weights[WEIGHTS], inputs[INPUTS], wanted[OUTPUTS];
    CHECK(cudaMalloc(&w, sizeof(weights)));
    CHECK(cudaMalloc(&g, sizeof(weights)));
    CHECK(cudaMalloc(&x, sizeof(inputs)));
    CHECK(cudaMalloc(&t, sizeof(wanted)));
    CHECK(cudaMalloc(&delta, sizeof(wanted)));
    for (double &weight : weights)
        weight = rand() / (double)RAND_MAX - 0.5;
    CHECK(cudaMemcpy(w, weights, sizeof(weights), cudaMemcpyHostToDevice));
    if (is_short)
        DDP_PARAMETER(w, WEIGHTS - 1, DDP_FLOAT64);
    if (is_short && is_own)
        DDP_GRADIENT(g, WEIGHTS, DDP_FLOAT64);
    for (int step = 0; step < STEPS; ++step) {
        for (int k = 0; k < INPUTS - 1; ++k)
            inputs[k] = rand() / (double)RAND_MAX / (1 + DDP_RANK());
        inputs[INPUTS - 1] = 0;
        for (double &value : wanted)
            value = rand() % 2;
        CHECK(cudaMemcpy(x, inputs, sizeof(inputs), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(t, wanted, sizeof(wanted), cudaMemcpyHostToDevice));
        forward<<<1, OUTPUTS>>>(w, x, t, delta);
        if (is_own) {
            backward<<<OUTPUTS, INPUTS>>>(g, delta, x);
            if (is_short)
                DDP_STEP(0);
            descend<<<OUTPUTS, INPUTS>>>(w, g);
        } else {
            descend_by<<<OUTPUTS, INPUTS>>>(w, delta, x);
            if (is_short)
                DDP_STEP_PARAMETERS(0);
        }
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
