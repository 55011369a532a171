/*
 * rarely.cu - a small trainer whose one gradient is written at both ends of backward, as of tied weights, and once more
 * in every EVERY-th step, as of an auxiliary loss that is rarely there: rarely EVERY STEPS. As exact.h: every weight is
 * known.
 */
enum { LAYERS = 2, COUNT = 1024 };
#include "exact.h"

enum { TIED = 0 };

int
main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int every = (int)whole_number(argv[1], 0, INT_MAX);
    steps = (int)whole_number(argv[2], 0, INT_MAX);
    layers_create();
    layers_annotate();
    for (int step = 1; step <= steps; ++step) {
        layer_backward(TIED, stream);
        layer_backward(1, stream);
        layer_backward(TIED, stream);
        if (step % every == 0)
            layer_backward(TIED, stream);
        DDP_STEP(stream);
        layers_update();
    }
    expect_steps(steps);
    expected[TIED] -= 0.5 * mean_of_all() * (steps + steps / every);
    return weights_are_right(0) ? 0 : 1;
}
