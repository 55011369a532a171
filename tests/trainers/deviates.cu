/*
 * deviates.cu - a trainer whose last rank has a step that lacks a touch, from step --deviate on: its buckets are sent
 * at DDP_STEP, the others' early. The host knows every weight. Modes:
 *   none    no rank deviates; DDP_MEAN of the loss stands before DDP_STEP
 *   mean    DDP_MEAN stands before DDP_STEP
 *   sync    as mean, and the host waits for the device before (a timer)
 *   after   DDP_MEAN stands after DDP_STEP
 *   barrier as after, and the program itself lets its ranks wait for each other before DDP_STEP, by --barrier FILE
 *   reduce  as after, and the loss is reduced by DDP_REDUCE in device memory: NCCL's second communicator
 *   own     as mean; before the first step the program makes and destroys an NCCL communicator of its own
 *           (deviates_own, which is linked with NCCL)
 * --leave MIB: before the first annotation it allocates all memory of the device but so much. --count: elements of a
 * gradient.
 */
#include "../lib/trainer_options.h"
#include "common.h"

#include <fcntl.h>
#ifdef OWN_NCCL
#include <nccl.h>
#endif
#include <sys/stat.h>
#include <unistd.h>

enum { GRADIENTS = 4, THREADS = 256 };

static int deviate = 30, steps = 60, leave_mib = -1;
static int uneven;
static size_t count = 1 << 14, counts[GRADIENTS];
static const char *barrier;

ELEMENTWISE(produce, (float *gradient, float value, int n), n, gradient[i] = value)
ELEMENTWISE(update, (float *weight, const float *gradient, int n), n, weight[i] -= 0.125f * gradient[i])

static unsigned
blocks(int i)
{
    return (unsigned)((counts[i] + THREADS - 1) / THREADS);
}

/* All memory that there is, but for `leave_mib`. */
static void
fill_memory(void)
{
    size_t available, total;
    void *memory;
    CHECK(cudaMemGetInfo(&available, &total));
    size_t left = (size_t)leave_mib << 20;
    if (available > left)
        CHECK(cudaMalloc(&memory, available - left));
}

#ifdef OWN_NCCL
/* What a trainer with code for several GPUs does with one, too. */
static void
use_own_nccl(float *memory)
{
    ncclUniqueId id;
    ncclComm_t comm;
    CHECK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRank(&comm, 1, id, 0));
    CHECK(ncclAllReduce(memory, memory, count, ncclFloat, ncclSum, comm, 0));
    CHECK(cudaStreamSynchronize(0));
    CHECK(ncclCommDestroy(comm));
}
#endif

/* Until all ranks have come: each adds a byte to the file in each step. */
static void
wait_for_ranks(int step)
{
    struct stat file = {};
    int fd = open(barrier, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && write(fd, "", 1) == 1);
    while (file.st_size < (step + 1) * DDP_WORLD_SIZE()) {
        usleep(100);
        REQUIRE(fstat(fd, &file) == 0);
    }
    close(fd);
}

static void
train_step(int step, float *weights[GRADIENTS], float *gradients[GRADIENTS], float *loss_on_device)
{
    bool lacks = step >= deviate && is_last_rank() && !is_mode("none");
    for (int i = GRADIENTS - 1; i >= 0; --i) {
        if (!lacks || i != 1)
            CHECK(cudaMemsetAsync(gradients[i], 0, counts[i] * sizeof(float)));
        produce<<<blocks(i), THREADS>>>(gradients[i], (float)(step + i) + mine(), (int)counts[i]);
    }
    if (is_mode("sync"))
        CHECK(cudaDeviceSynchronize());
    float loss = (float)step;
    if (is_mode("barrier"))
        wait_for_ranks(step);
    bool is_after = is_one_of({"after", "reduce", "barrier"});
    if (!is_after)
        DDP_MEAN(&loss);
    DDP_STEP(0);
    if (is_after)
        DDP_MEAN(&loss);
    REQUIRE(loss == (float)step);
    if (is_mode("reduce"))
        DDP_REDUCE(loss_on_device, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
    for (int i = 0; i < GRADIENTS; ++i)
        update<<<blocks(i), THREADS>>>(weights[i], gradients[i], (int)counts[i]);
}

int
main(int argc, char **argv)
{
    static const int times[GRADIENTS] = {15, 15, 9, 9};
    mode = argc > 1 ? argv[1] : "mean";
    take_options(argc, argv, 2,
                 {{"--deviate", &deviate},
                  {"--steps", &steps},
                  {"--leave", &leave_mib},
                  {"--count", &count},
                  {"--barrier", &barrier},
                  {"--uneven", &uneven}});
    float *weights[GRADIENTS], *gradients[GRADIENTS], *loss_on_device = device_floats(1);
    for (int i = 0; i < GRADIENTS; ++i) {
        counts[i] = count * (size_t)(uneven ? times[i] : 1);
        weights[i] = device_floats(counts[i]);
        gradients[i] = device_floats(counts[i]);
    }
    if (leave_mib >= 0)
        fill_memory();
#ifdef OWN_NCCL
    if (is_mode("own"))
        use_own_nccl(gradients[0]);
#endif
    for (int i = 0; i < GRADIENTS; ++i) {
        DDP_PARAMETER(weights[i], counts[i], DDP_FLOAT32);
        DDP_GRADIENT(gradients[i], counts[i], DDP_FLOAT32);
    }

    double expected[GRADIENTS] = {0}; /* eighths and halves of small numbers: exact */
    for (int step = 0; step < steps; ++step) {
        train_step(step, weights, gradients, loss_on_device);
        for (int i = 0; i < GRADIENTS; ++i)
            expected[i] -= 0.125 * (step + i + mean_of_all());
    }
    for (int i = 0; i < GRADIENTS; ++i) {
        float first;
        CHECK(cudaMemcpy(&first, weights[i] + counts[i] - 1, sizeof(first), cudaMemcpyDeviceToHost));
        REQUIRE(first == (float)expected[i]);
    }
    printf("rank %d: the weights are right\n", DDP_RANK());
    return 0;
}
