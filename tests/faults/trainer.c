/*
 * trainer.c - the trainer of the fault campaign: many quick steps, each of whose averages is checked on the host, and a
 * record of how far it came that outlives it.
 *
 * Plain C over the runtime; gradients are written by copies, the last one first, as backward would. A process that it
 * starts, as loaders of data are, never ends by itself. Started by campaign.c, through ddprun. It never ends well with
 * a wrong average: every rank knows what all of them put in.
 *
 * `turns` is another trainer, for `ddprun --plan`, which leaves the annotations aside: kernels make gradients of a
 * batch and of the weights, a step is a batch, and all ranks know the weights after each round. `regions` is the same
 * trainer with turns by annotations.
 *
 * Usage: faults_trainer RECORDS STEPS [turns|state|regions] [chat BYTES] [pause STEP SECONDS] [exit|_exit CODE RANK
 * POINT] RECORDS: the file of struct rank_record, one for each rank chat:    so many bytes are printed in each step
 *   pause:   rank 0 spends so long in host code in this step, as for a checkpoint
 *   exit:    rank RANK ends with this code at the POINTth place that it reaches
 */
#include "tests/lib/trainer.h"
#include "tests/faults/record.h"
#include "tests/faults/turns.h"

#include <cuda_runtime_api.h>
#include <ddprun.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { GRADIENTS = 4, COUNT = 600, KEPT_BYTES = 64 * 1024, STEP_US = 300 };

struct trainer {
    struct rank_record *record;
    int rank; /* by the environment: known before any library of ddprun is loaded */
    int steps, chat_bytes;
    int pause_step, pause_s;
    int fault_code, fault_rank, fault_point; /* point 0: none */
    bool fault_quick;                        /* _exit instead of exit */
    bool by_turns, by_state, by_regions;
    int world;
    float *weights[GRADIENTS], *gradients[GRADIENTS];
    float host[COUNT];
    /* By turns: */
    float *batch, rows[TURNS_ROWS * COUNT];
    double expected[GRADIENTS][COUNT]; /* weights after each round */
    bool is_wrong;                     /* this process; the record is that of all its runs */
};

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
rest(int seconds, int us)
{
    struct timespec left = {seconds, us * 1000L};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* A place at which the campaign may have ordered this rank to leave. */
static void
point(struct trainer *t)
{
    int number = (int)atomic_fetch_add(&t->record->points, 1) + 1;
    if (t->fault_rank != t->rank || t->fault_point != number)
        return;
    t->record->hit_ns = now_ns();
    if (t->fault_quick)
        _exit(t->fault_code);
    exit(t->fault_code);
}

/* What rank `rank` adds in element `i`: small whole numbers, so that means of up to 8 ranks are exact. */
static float
share(int rank, int step, int gradient, int i)
{
    return (float)(8 * (1 + rank) * (1 + (step + gradient + i) % 7));
}

static void
backward(struct trainer *t, int step)
{
    for (int g = GRADIENTS - 1; g >= 0; --g) {
        for (int i = 0; i < COUNT; ++i)
            t->host[i] = share(t->rank, step, g, i);
        CHECK(cudaMemcpy(t->gradients[g], t->host, sizeof(t->host), cudaMemcpyHostToDevice));
        if (g == GRADIENTS / 2)
            point(t);
    }
}

/* Takes the averages, looks at each element, and moves the weights. */
static void
update(struct trainer *t, int step)
{
    int ranks = DDP_WORLD_SIZE();
    for (int g = 0; g < GRADIENTS; ++g) {
        CHECK(cudaMemcpy(t->host, t->gradients[g], sizeof(t->host), cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; ++i) {
            float mean = share(0, step, g, i) * (float)(ranks + 1) / 2.0f;
            t->is_wrong = t->is_wrong || t->host[i] != mean;
            if (t->host[i] != mean && t->record->wrong == 0) {
                t->record->wrong = (uint32_t)step;
                fprintf(stderr, "faults_trainer: step %d, gradient %d, element %d: %g instead of %g\n", step, g, i,
                        (double)t->host[i], (double)mean);
            }
        }
        CHECK(cudaMemcpy(t->weights[g], t->host, sizeof(t->host), cudaMemcpyHostToDevice));
    }
    t->record->step = (uint32_t)step;
}

/* ---- by turns ---- */

/* The mean of a batch is what rank 0 adds in the other trainer. */
static void
backward_by_turns(struct trainer *t, int step)
{
    for (int g = GRADIENTS - 1; g >= 0; --g) {
        for (int i = 0; i < TURNS_ROWS * COUNT; ++i)
            t->rows[i] = share(0, step, g, i % COUNT) + (float)(i < COUNT ? 1 : -1);
        CHECK(cudaMemcpy(t->batch, t->rows, sizeof(t->rows), cudaMemcpyHostToDevice));
        turns_gradient(t->gradients[g], t->weights[g], t->batch, COUNT);
        if (g == GRADIENTS / 2)
            point(t);
    }
}

/* The batches of the round that ends with this one; 0: it does not end. By annotations the first batch is a round. */
static int
ends_round(const struct trainer *t, int step)
{
    const bool is_first = t->by_regions && step == 1;
    const int batches = t->by_regions ? step - 1 : step;
    if (is_first)
        return 1;
    return batches % t->world == 0 ? t->world : 0;
}

/* A round's mean of the gradients of its batches moves the weights, at its last batch. By state the host reads what the
 * batch alone has made of what the round began with; but after the batch's last write of state, what the round began
 * with, and in its last batch the mean (docs/plan.md). */
static void
update_by_turns(struct trainer *t, int step)
{
    const int batches = ends_round(t, step);
    for (int g = 0; g < GRADIENTS; ++g) {
        bool is_own = t->by_state && g + 1 < GRADIENTS;
        turns_update(t->weights[g], t->gradients[g], COUNT);
        CHECK(cudaMemcpy(t->host, t->weights[g], sizeof(t->host), cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; ++i) {
            double sum = 0;
            for (int r = 0; r < batches; ++r)
                sum += (double)share(0, step - r, g, i);
            double own = t->expected[g][i] - TURNS_RATE * (t->expected[g][i] - (double)share(0, step, g, i));
            if (batches > 0)
                t->expected[g][i] -= TURNS_RATE * (t->expected[g][i] - sum / batches);
            double expected = is_own ? own : t->expected[g][i];
            if (fabs((double)t->host[i] - expected) > 1e-3 && t->record->wrong == 0) {
                t->record->wrong = (uint32_t)step;
                fprintf(stderr, "faults_trainer: batch %d, weight %d, element %d: %g instead of %g\n", step, g, i,
                        (double)t->host[i], expected);
            }
        }
    }
    t->record->step = (uint32_t)step;
}

/* A trainer keeps what it reads, and reports when there is no memory for it. */
static void
load(void)
{
    char *kept = malloc(KEPT_BYTES);
    if (kept == NULL) {
        fprintf(stderr, "faults_trainer: out of memory\n");
        exit(1);
    }
    memset(kept, 1, KEPT_BYTES);
    *(char *volatile *)&kept = kept;
}

static void
say(const struct trainer *t, int step)
{
    printf("step %d", step);
    for (int i = 0; i < t->chat_bytes; ++i)
        putchar('.');
    putchar('\n');
    fflush(stdout);
}

static void
compute_gradients(struct trainer *t, int step)
{
    if (t->by_turns)
        backward_by_turns(t, step);
    else
        backward(t, step);
}

static void
make_update(struct trainer *t, int step)
{
    if (t->by_turns)
        update_by_turns(t, step);
    else
        update(t, step);
}

static void
train(struct trainer *t)
{
    for (int step = 1; step <= t->steps; ++step) {
        load();
        rest(0, STEP_US);
        if (step == t->pause_step && t->rank == 0)
            rest(t->pause_s, 0);
        if (t->by_regions)
            DDP_TURN_OPEN();
        compute_gradients(t, step);
        point(t);
        DDP_STEP(0);
        point(t);
        make_update(t, step);
        if (t->by_regions)
            DDP_TURN_END();
        say(t, step);
    }
}

static void
create(struct trainer *t)
{
    point(t);
    CHECK(cudaMalloc((void **)&t->batch, sizeof(t->rows)));
    for (int g = 0; g < GRADIENTS; ++g) {
        CHECK(cudaMalloc((void **)&t->weights[g], sizeof(t->host)));
        CHECK(cudaMalloc((void **)&t->gradients[g], sizeof(t->host)));
        CHECK(cudaMemset(t->weights[g], 0, sizeof(t->host)));
    }
    point(t);
    for (int g = 0; g < GRADIENTS; ++g) {
        DDP_PARAMETER(t->weights[g], COUNT, DDP_FLOAT32);
        point(t);
        DDP_GRADIENT(t->gradients[g], COUNT, DDP_FLOAT32);
    }
    point(t);
}

/* Nothing that a trainer has started may live longer than the job. */
static void
start_loader(void)
{
    if (fork() != 0)
        return;
    for (;;)
        pause();
}

static bool
take_arguments(struct trainer *t, int argc, char **argv)
{
    const struct {
        const char *word;
        bool *given[2];
        int *numbers[3]; /* the words that follow */
    } arguments[] = {{"turns", .given = {&t->by_turns}},
                     {"state", .given = {&t->by_turns, &t->by_state}},
                     {"regions", .given = {&t->by_turns, &t->by_regions}},
                     {"chat", .numbers = {&t->chat_bytes}},
                     {"pause", .numbers = {&t->pause_step, &t->pause_s}},
                     {"exit", .numbers = {&t->fault_code, &t->fault_rank, &t->fault_point}},
                     {"_exit", {&t->fault_quick}, {&t->fault_code, &t->fault_rank, &t->fault_point}}};
    for (int i = 3; i < argc; ++i) {
        size_t a = 0, count = sizeof(arguments) / sizeof(arguments[0]);
        while (a < count && strcmp(argv[i], arguments[a].word) != 0)
            ++a;
        if (a == count)
            return false;
        for (int g = 0; g < 2 && arguments[a].given[g] != NULL; ++g)
            *arguments[a].given[g] = true;
        for (int n = 0; n < 3 && arguments[a].numbers[n] != NULL; ++n) {
            if (++i == argc)
                return false;
            *arguments[a].numbers[n] = atoi(argv[i]);
        }
    }
    return true;
}

static struct rank_record *
map_record(const char *path, int rank)
{
    size_t bytes = RECORD_RANKS_AT_MOST * sizeof(struct rank_record);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC); /* by turns, files of ranks are private */
    void *records = fd >= 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    return records == MAP_FAILED ? NULL : (struct rank_record *)records + rank;
}

int
main(int argc, char **argv)
{
    static struct trainer t;
    const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE");
    t.rank = rank != NULL ? atoi(rank) : 0;
    t.world = world != NULL ? atoi(world) : 1;
    t.record = argc >= 3 && t.rank < RECORD_RANKS_AT_MOST ? map_record(argv[1], t.rank) : NULL;
    if (t.record == NULL || !take_arguments(&t, argc, argv)) {
        fprintf(stderr,
                "faults_trainer: RECORDS STEPS [turns|state|regions] [chat BYTES] [pause STEP SECONDS] [exit|_exit "
                "CODE RANK POINT]\n");
        return 2;
    }
    t.steps = atoi(argv[2]);
    t.record->pid = (int32_t)getpid();
    start_loader();
    create(&t);
    train(&t);
    for (int g = 0; g < GRADIENTS; ++g) {
        CHECK(cudaFree(t.weights[g]));
        CHECK(cudaFree(t.gradients[g]));
    }
    point(&t);
    t.record->done_ns = now_ns();
    return t.is_wrong;
}
