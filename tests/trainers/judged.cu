/*
 * judged.cu - trainers with one step that differs from all others, which save what they have after each step: no wrong
 * step may be in the file.
 *
 *     judged MODE FILE [US]
 *
 * Rank 0 writes "STEP WEIGHT WEIGHT" under another name and renames that to FILE, directly after DDP_STEP and the
 * update, and US microseconds of host work. As exact.h: after STEP right steps each weight is known.
 *
 * The other step is number WRONG, but for escape. Its averages are right: late: a second backward pass; one: one
 * gradient is written once more; slow: the same, after its stream has paused; alone: the last rank writes it and is
 * slow before DDP_STEP, the others read it; epoch: six passes in place of four; read: all ranks read; ahead: rank 0
 * reads, and the last rank is slow before DDP_STEP, while others go on; escape: a kernel has stored the address of a
 * gradient, and backward writes through that, in all steps. The step is wrong: skip: the last rank leaves out DDP_STEP
 * and the update; weight: the counts of DDP_WEIGHT do not add up to the total; drift: the last rank's update is another
 * one; leave: the last rank ends in front of DDP_STEP, the others read.
 */
enum { LAYERS = 2, COUNT = 1024, WRONG = 10, STEPS = 40 };
#include "exact.h"

#include <unistd.h>

static float **slot, *seen;

__global__ void
store(float **slot, float *address)
{
    *slot = address;
}

ELEMENTWISE_OF_ALL(add_through, (float **slot, float summand), (*slot)[i] += summand)

static void
save(int step, const char *file)
{
    char other[4096];
    float weight[LAYERS];
    for (int l = 0; l < LAYERS; ++l)
        CHECK(cudaMemcpyAsync(&weight[l], weights[l], sizeof(weight[l]), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    snprintf(other, sizeof(other), "%s.new", file);
    FILE *out = fopen(other, "w");
    REQUIRE(out != NULL && fprintf(out, "%d %.9g %.9g\n", step, (double)weight[0], (double)weight[1]) > 0);
    REQUIRE(fclose(out) == 0 && rename(other, file) == 0);
}

static void
pause_stream(void *)
{
    usleep(50000);
}

static void
backward(int step)
{
    int passes = 1;
    if (is_mode("epoch"))
        passes = step % WRONG == 0 ? 6 : 4;
    for (int pass = 0; pass < passes; ++pass)
        layers_backward(is_mode("escape") ? 1 : 0, stream);
    if (is_mode("escape"))
        add_through<<<BLOCKS, THREADS, 0, stream>>>(slot, mine());
    if (step != WRONG)
        return;
    if (is_mode("late"))
        layers_backward(0, stream);
    if (is_mode("slow"))
        CHECK(cudaLaunchHostFunc(stream, pause_stream, NULL));
    if (is_one_of({"one", "slow"}) || (is_mode("alone") && is_last_rank()))
        layer_backward(LAYERS - 1, stream);
    if (is_mode("read") || (is_mode("ahead") && DDP_RANK() == 0) || (is_one_of({"alone", "leave"}) && !is_last_rank()))
        look<<<1, 1, 0, stream>>>(gradients[LAYERS - 1], seen);
}

int
main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    mode = argv[1];
    int us = argc > 3 ? (int)whole_number(argv[3], 0, INT_MAX) : 0;
    layers_create();
    seen = device_floats(1);
    CHECK(cudaMalloc(&slot, sizeof(*slot)));
    store<<<1, 1>>>(slot, gradients[0]);
    CHECK(cudaDeviceSynchronize());
    layers_annotate();
    for (int step = 1; step <= STEPS; ++step) {
        bool is_last = is_mode("epoch") ? step % WRONG == 0 : true; /* of what is saved together */
        backward(step);
        if (is_mode("escape")) /* host work, in which what overlaps is averaged */
            usleep(20000);
        if (is_one_of({"ahead", "alone"}) && step == WRONG && is_last_rank())
            sleep(is_mode("ahead") ? 3 : 1);
        if (is_mode("skip") && step == WRONG && is_last_rank())
            continue;
        if (is_mode("leave") && step == WRONG && is_last_rank())
            break;
        if (is_mode("weight"))
            DDP_WEIGHT(1, (size_t)DDP_WORLD_SIZE() + (step == WRONG));
        DDP_STEP(stream);
        layers_update();
        if (is_mode("drift") && step == WRONG && is_last_rank())
            add<<<BLOCKS, THREADS, 0, stream>>>(weights[0], 1.0f);
        if (us > 0)
            usleep((useconds_t)us);
        if (DDP_RANK() == 0 && is_last)
            save(step, argv[2]);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
