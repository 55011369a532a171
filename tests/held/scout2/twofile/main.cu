#include "rnn.h"
#include <stdio.h>
#include <stdlib.h>

#define SEQUENCES 150

static float sequences[SEQUENCES][STEPS_IN], sums[SEQUENCES];

int main(void)
{
    Rnn net;
    float *x, *y;

    srand(8);
    for (int i = 0; i < SEQUENCES; ++i)
        for (int t = 0; t < STEPS_IN; ++t)
            sums[i] += sequences[i][t] = (rand() % 201 - 100) * 0.005f;
    rnn_create(&net, 21);
    cudaMalloc(&x, BATCH * STEPS_IN * sizeof(float));
    cudaMalloc(&y, BATCH * sizeof(float));

    for (int step = 0; step < 20; ++step) {
        int first = step * BATCH % SEQUENCES;
        cudaMemcpy(x, sequences[first], BATCH * STEPS_IN * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, &sums[first], BATCH * sizeof(float), cudaMemcpyHostToDevice);
        rnn_forward(&net, x, y);
        rnn_backward(&net, x);
        rnn_update(&net, 0.05f, 0.8f);
        if (step % 4 == 3)
            printf("step %d: loss %.5f\n", step + 1, rnn_loss(&net));
    }
    cudaFree(x);
    cudaFree(y);
    rnn_destroy(&net);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
