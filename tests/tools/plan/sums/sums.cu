/*
 * sums.cu WAY - a linear classifier that is trained without annotations, and prints sums over several batches: the
 * device adds up losses (floats) and counts hits (integers), and the host reads and clears both. At the end of each
 * epoch of 15 batches a validation uses the same memory. Kernels reach a constant, and a scale of the rate, which in
 * one way falls once 20 steps in a row had finite losses. Without a word it prints all ways.
 *
 *     sums WAY [options of program.h]
 *
 * The oracle is by state: a round ends in front of each read of a sum.
 */
#include "tests/tools/plan/linear.h"

enum { EPOCH = 15 };

static const char *const ways[] = {"every-ten",   /* batches, and at the end of an epoch */
                                   "every-four",  /* the same */
                                   "epochs",      /* only there */
                                   "good-steps"}; /* it counts these */

static float *momentum, *loss;
static int *labels, *hits, *good_steps;
static int host_labels[ROWS];

__constant__ float rate = 0.02f;
__device__ float rate_scale = 1.0f;

__global__ void
forward_kernel(const float *w, const float *x, const int *labels, float *delta)
{
    int row = (int)threadIdx.x / CLASSES, c = (int)threadIdx.x % CLASSES;
    delta[row * CLASSES + c] = score_of(w, x, row, c) - (labels[row] == c ? 1.0f : 0.0f);
}

__global__ void
count_kernel(const float *delta, const int *labels, int *hits)
{
    int row = (int)threadIdx.x, best = 0;
    const float *mine = delta + row * CLASSES;
    for (int c = 0; c < CLASSES; ++c) {
        float now = mine[c] + (labels[row] == c ? 1.0f : 0.0f);
        best = now > mine[best] + (labels[row] == best ? 1.0f : 0.0f) ? c : best;
    }
    if (best == labels[row])
        atomicAdd(hits, 1);
}

__global__ void
update_kernel(float *w, float *momentum, const float *gradient)
{
    int i = (int)threadIdx.x;
    momentum[i] = 0.9f * momentum[i] + gradient[i];
    w[i] -= rate * rate_scale * momentum[i];
}

__global__ void
good_steps_kernel(const float *delta, int *good_steps)
{
    bool is_good = true;
    for (int i = 0; i < LABELS; ++i)
        is_good = is_good && isfinite(delta[i]);
    *good_steps = is_good ? *good_steps + 1 : 0;
    if (*good_steps == 20)
        rate_scale = 0.1f;
}

static void
load(void)
{
    for (int row = 0; row < ROWS; ++row)
        host_labels[row] = draw_row(row);
    CHECK(cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(labels, host_labels, sizeof(host_labels), cudaMemcpyHostToDevice));
}

/* Of all batches since the last call. */
static void
print_sums(const char *what, int step)
{
    float sum;
    int count;
    border();
    CHECK(cudaMemcpy(&sum, loss, sizeof(sum), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&count, hits, sizeof(count), cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(loss, 0, sizeof(sum)));
    CHECK(cudaMemset(hits, 0, sizeof(count)));
    printf("%s %d loss %.5f hits %d\n", what, step, sum, count);
}

static bool
prints(int step)
{
    if (step % EPOCH == EPOCH - 1)
        return true;
    return (is("every-ten") && step % 10 == 9) || (is("every-four") && step % 4 == 3);
}

static void
validate(int step)
{
    border();
    load();
    forward_kernel<<<1, LABELS>>>(weights, x, labels, delta);
    sum_kernel<<<1, 1>>>(delta, loss);
    count_kernel<<<1, ROWS>>>(delta, labels, hits);
    print_sums("validation", step);
}

static void
train(void)
{
    for (int step = 0; turn(step, steps); ++step) {
        load();
        forward_kernel<<<1, LABELS>>>(weights, x, labels, delta);
        sum_kernel<<<1, 1>>>(delta, loss);
        count_kernel<<<1, ROWS>>>(delta, labels, hits);
        backward_kernel<<<1, WEIGHTS>>>(delta, x, gradient);
        update_kernel<<<1, WEIGHTS>>>(weights, momentum, gradient);
        if (is("good-steps"))
            good_steps_kernel<<<1, 1>>>(delta, good_steps);
        if (prints(step))
            print_sums("step", step);
        if (step % EPOCH == EPOCH - 1)
            validate(step);
    }
}

int
main(int argc, char **argv)
{
    steps = 61;
    program_take(argc, argv, ways);
    create_classifier();
    momentum = device_floats(WEIGHTS), loss = device_floats(1);
    labels = (int *)device_floats(ROWS), hits = (int *)device_floats(1), good_steps = (int *)device_floats(1);
    keep("momentum", momentum, WEIGHTS);
    train();
    save(path);
    return 0;
}
