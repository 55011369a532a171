/*
 * draws.cu [FILE [bias]] - a net of two layers whose weights and data are drawn anew in each run: from
 * std::random_device, and from the date. Annotated as it has to be. What it drew goes to FILE, a line for each run.
 * bias: each item has one, which is updated by the delta, as the gradients of weights are computed from it.
 */
#include "tests/tools/scout/public.h"

#include <random>

static float drawn[INPUTS * HIDDEN]; /* last */

static void
draw(float *to, int count, float spread)
{
    static std::mt19937 generator(std::random_device{}() ^ (unsigned)time(NULL));
    static std::normal_distribution<float> normal;
    for (int k = 0; k < count; ++k)
        drawn[k] = spread * normal(generator);
    CHECK(cudaMemcpy(to, drawn, (size_t)count * sizeof(float), cudaMemcpyHostToDevice));
}

int
main(int argc, char **argv)
{
    create_net();
    float *bias = argc > 2 ? floats(BATCH * OUTPUTS, 0.3f) : NULL;
    for (int t = 0; t < TENSORS; ++t)
        draw(w[t], tensor_count[t], 0.3f);
    FILE *file = argc > 1 ? fopen(argv[1], "a") : NULL;
    if (file != NULL && (fprintf(file, "%a\n", drawn[0]) < 0 || fclose(file) != 0))
        return 1;
    for (int step = 0; step < STEPS; ++step) {
        draw(x, BATCH * INPUTS, 1);
        draw(wanted, BATCH * OUTPUTS, 1);
        forward();
        if (bias != NULL)
            RUN(add_scaled, BATCH * OUTPUTS)(y, bias, 1, BATCH * OUTPUTS);
        backward(false);
        DDP_STEP(0);
        descend_all();
        if (bias != NULL)
            RUN(descend, BATCH * OUTPUTS)(bias, delta, rate, BATCH * OUTPUTS);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
