/*
 * towers.cu - two optimizers with rhythms of their own: backward of both perceptrons comes before both boundaries, so
 * that the gradients of the second are complete before the boundary of the first; and the second is stepped every other
 * time only, with the gradients of two batches.
 */
#include "perceptron.h"

int
main(int argc, char **argv)
{
    static struct perceptron nets[2];
    cudaStream_t stream = trainer_start(argc, argv);
    for (int n = 0; n < 2; ++n) {
        perceptron_create(&nets[n], n, 1, true);
        DDP_GRADIENT_GROUP(n);
        perceptron_annotate_gradients(&nets[n]);
    }

    return train_all(stream, [&](int step, size_t first_item, int count) {
        for (int n = 1; n >= 0; --n) {
            items_load(&nets[n].items, first_item, (size_t)count, stream);
            perceptron_forward(&nets[n], first_item, count, stream);
            perceptron_backward(&nets[n], first_item, count, n == 1 && step % 2 == 1 ? 1.0f : 0.0f, 1.0f, stream);
        }
        DDP_STEP_GROUP(0, stream);
        perceptron_update(&nets[0], 0.2f, stream);
        if (step % 2 == 1) {
            DDP_STEP_GROUP(1, stream);
            perceptron_update(&nets[1], 0.1f, stream);
        }
    });
}
