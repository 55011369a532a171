/*
 * stops.cu - a trainer that is asked to stop by SIGTERM, SIGINT or SIGUSR1: all ranks leave at the same step (DDP_ANY),
 * rank 0 saves, and the next run resumes there. `stops --save FILE`; the last line of each rank is "rank R leaves after
 * step S".
 *
 * The weights are whole numbers that depend on each step, on their order and on all ranks: two files are equal only if
 * the same steps were made. Means are exact where the number of ranks is a power of two.
 *
 * Options: --agree any|reduce|alone (how ranks agree to stop: DDP_ANY, DDP_REDUCE, or not at all), --save-seconds N (so
 * long the file is half written), --pace-us N (of a step, which rank 0 then names), --steps N, --seed S: of the ranks
 * that send themselves the signal, and of the moment (0: no signal comes),
 * --all 1 (the signal reaches all ranks, each at a moment of its own), --passes N (backward passes of a step, all but
 * the last between DDP_NO_SYNC_BEGIN and DDP_NO_SYNC_END, with a DDP_ANY in each).
 */
#include "../lib/elementwise.h"
#include "../lib/trainer.h"
#include "../lib/trainer_options.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 4096, THREADS = 64, BLOCKS = COUNT / THREADS, MAGIC = 0x53544f50, SPINS_AT_MOST = 1 << 18 };

static struct {
    int steps, seed, all, passes, save_seconds, pace_us;
    const char *save, *agree;
} options = {60, 0, 0, 1, 0, 0, NULL, "any"};

static volatile sig_atomic_t stop_asked;
static volatile int steps_begun;
static float *weights, *gradients;

ELEMENTWISE_OF_ALL(backward, (float *gradient, const float *weight, float of_batch),
                   gradient[i] += of_batch + (float)((int)weight[i] % 5) + (float)(i % 3))
ELEMENTWISE_OF_ALL(update, (float *weight, float *gradient),
                   weight[i] = (float)(((int)weight[i] * 3 + (int)gradient[i]) % 4099);
                   gradient[i] = 0.0f)

/* ---- the signal ---- */

static void
ask(int number)
{
    (void)number;
    stop_asked = 1;
}

static unsigned
draw(unsigned *state)
{
    *state += 0x9e3779b9u;
    unsigned mixed = *state;
    mixed = (mixed ^ mixed >> 16) * 0x85ebca6bu;
    mixed = (mixed ^ mixed >> 13) * 0xc2b2ae35u;
    return mixed ^ mixed >> 16;
}

struct moment {
    int step, spins;
};

static void *
send_signal(void *at)
{
    const struct moment *moment = (const struct moment *)at;
    while (steps_begun < moment->step)
        usleep(50);
    for (volatile int spins = 0; spins < moment->spins; ++spins) {
    }
    kill(getpid(), SIGTERM);
    return NULL;
}

/* The ranks draw alike: first the rank that is reached, then a moment for each of them. */
static void
send_signal_later(void)
{
    static struct moment moment;
    pthread_t thread;
    unsigned state = (unsigned)options.seed;
    int reached = (int)(draw(&state) % (unsigned)DDP_WORLD_SIZE());
    for (int r = 0; r <= DDP_RANK(); ++r) {
        moment.step = 1 + (int)(draw(&state) % (unsigned)options.steps);
        moment.spins = (int)(draw(&state) % SPINS_AT_MOST);
    }
    if (options.seed == 0 || (options.all == 0 && DDP_RANK() != reached))
        return;
    CHECK(pthread_create(&thread, NULL, send_signal, &moment));
    CHECK(pthread_detach(thread));
}

/* ---- the checkpoint ---- */

struct checkpoint {
    int magic, step;
    float weights[COUNT];
};

static struct checkpoint checkpoint;

static int
resume(void)
{
    FILE *file = fopen(options.save, "rb");
    if (file == NULL)
        return 0;
    REQUIRE(fread(&checkpoint, sizeof(checkpoint), 1, file) == 1);
    REQUIRE(fgetc(file) == EOF && checkpoint.magic == MAGIC);
    fclose(file);
    CHECK(cudaMemcpy(weights, checkpoint.weights, sizeof(checkpoint.weights), cudaMemcpyHostToDevice));
    return checkpoint.step;
}

static void
wait_seconds(int seconds)
{
    struct timespec left = {seconds, 0};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void
save(int step)
{
    const size_t half = sizeof(checkpoint) / 2;
    char next[4096];
    snprintf(next, sizeof(next), "%s.next", options.save);
    FILE *file = fopen(next, "wb");
    REQUIRE(file != NULL);
    checkpoint.magic = MAGIC;
    checkpoint.step = step;
    CHECK(cudaMemcpy(checkpoint.weights, weights, sizeof(checkpoint.weights), cudaMemcpyDeviceToHost));
    REQUIRE(fwrite(&checkpoint, half, 1, file) == 1);
    CHECK(fflush(file));
    wait_seconds(options.save_seconds);
    REQUIRE(fwrite((const char *)&checkpoint + half, sizeof(checkpoint) - half, 1, file) == 1);
    CHECK(fclose(file));
    CHECK(rename(next, options.save));
}

/* ---- training ---- */

/* Whether this rank is to stop, and with it all of them, if they agree. */
static bool
asks_all(void)
{
    int flag = stop_asked;
    if (strcmp(options.agree, "alone") == 0)
        return flag != 0;
    if (strcmp(options.agree, "any") == 0)
        return DDP_ANY(&stop_asked);
    DDP_REDUCE(&flag, 1, DDP_INT32, DDP_OP_MAX, 0);
    return flag != 0;
}

static bool
backward_passes(int step)
{
    bool stops = false;
    for (int pass = 0; pass < options.passes; ++pass) {
        bool more = pass + 1 < options.passes;
        if (more)
            DDP_NO_SYNC_BEGIN();
        backward<<<BLOCKS, THREADS>>>(gradients, weights, (float)(step % 7 + 2 * DDP_RANK()));
        if (options.passes > 1)
            stops = asks_all() || stops;
        if (more)
            DDP_NO_SYNC_END();
    }
    return stops;
}

/* Of a run that others watch: it takes its time, and says where it is. */
static void
pace(int step)
{
    if (options.pace_us == 0)
        return;
    (void)usleep((useconds_t)options.pace_us);
    if (DDP_RANK() == 0)
        printf("step %d\n", step);
}

int
main(int argc, char **argv)
{
    take_options(argc, argv, 1,
                 {OPTION(options, steps), OPTION(options, seed), OPTION(options, all), OPTION(options, passes),
                  OPTION(options, save), OPTION(options, save_seconds), OPTION(options, pace_us),
                  OPTION(options, agree)});
    REQUIRE(options.save != NULL);
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = ask;
    for (int number : {SIGTERM, SIGINT, SIGUSR1})
        CHECK(sigaction(number, &action, NULL));
    CHECK(cudaMalloc((void **)&weights, COUNT * sizeof(float)));
    CHECK(cudaMalloc((void **)&gradients, COUNT * sizeof(float)));
    CHECK(cudaMemset(weights, 0, COUNT * sizeof(float)));
    CHECK(cudaMemset(gradients, 0, COUNT * sizeof(float)));
    int step = resume();
    DDP_PARAMETER(weights, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gradients, COUNT, DDP_FLOAT32);
    send_signal_later();
    bool stops = false;
    while (step < options.steps && !stops) {
        steps_begun = step + 1;
        stops = backward_passes(step);
        DDP_STEP(0);
        update<<<BLOCKS, THREADS>>>(weights, gradients);
        ++step;
        pace(step);
        stops = asks_all() || stops;
    }
    if (DDP_RANK() == 0)
        save(step);
    printf("rank %d leaves after step %d\n", DDP_RANK(), step);
    return 0;
}
