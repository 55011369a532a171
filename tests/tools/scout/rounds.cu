/*
 * rounds.cu HABIT [--steps S] [--turns N] [--seed X] [--save FILE] - trainers for tests/tools/scout/plan_guards.sh,
 * which `ddprun --plan` trains by turns, or ends. With --turns N one process plays the turns of N ranks: it averages
 * the gradients of N batches, and updates once. Nothing is annotated. Right by turns:
 *
 *   counter    Adam, by a number that the device counts
 *   dropout    a generator's state on the device
 *   constants  the rate is copied to a constant
 *   ahead      batches are copied two steps ahead
 *   amax       a place that cuBLAS finds, on the device, is an index
 *   events     steps are timed by events, and polled
 *   last       each fifth batch is smaller
 *   norm       batch-norm, with running means on the device
 *   index      the data lies on the device, and a kernel takes a batch by a number that the host draws
 *   clock      the seed of weights and data is the time, and a random byte of the system
 *   tests      after training comes a test, by lines of its own in the function that trains
 *   epochs     the same, and a validation each few batches, in the middle of rounds, too
 *   lines      a step calls a kernel from one of two lines of a function, by turns
 *   next       each step ends with a copy of the next batch
 *   shares     after training comes a test, by the lines of training
 *   clears     gradients are cleared after the update
 *
 * (figures of `tests` and `epochs` are held against the host's) and by guards, which end it:
 *
 *   rare       as `lines`, and from MORE_FIRST on from a third line
 *   amax-host  a place that cuBLAS gives the host is an index
 *   stop       training ends when the loss is small
 *   plateau    the rate falls when the loss does not
 *   returns    what the host reads of a step goes back to the device
 *   late       from MORE_FIRST on each batch ends with a decay of the weights
 *   signs      from MORE_FIRST on of complete gradients signs are kept
 *   validates  a forward pass of its own comes from the same lines as training's
 *   passing    memory that the update reads holds what one rank has computed, for a while
 *   elsewhere  from MORE_FIRST on each fifth batch, a smaller one, has lines of its own
 *   grid-rank  from MORE_FIRST on, ranks but the first launch one block more
 *   index-rank, seed-rank: with another seed on each rank
 */
#include "tests/tools/plan/oracle.h"
#include "tests/tools/scout/public.h"

#include <ctime>
#include <cublas_v2.h>
#include <thread>

enum {
    AHEAD = 3,
    FEW_ROWS = 10,
    PASSING_FIRST = 24,
    PASSING_END = 90,
    EPOCH = 5,
    VALIDATES_EACH = 33,
    MORE_FIRST = 40
};

static struct options {
    const char *habit, *save;
    int steps;
    unsigned seed;
} options = {"", NULL, 48, 0};

static const std::vector<option_row> option_table = {
    {"--steps", &options.steps},
    {"--turns", &oracle.ranks},
    {"--seed", &options.seed},
    {"--save", &options.save},
};

/* The habit, or the same with another seed on each rank. */
static bool
has(const char *habit)
{
    size_t length = strlen(habit);
    return strncmp(options.habit, habit, length) == 0 &&
           (options.habit[length] == '\0' || strcmp(options.habit + length, "-rank") == 0);
}

static bool differs; /* this rank, in a habit of the name -rank */

/* Gradients are complete: whether the update comes, with one process that plays all turns after the last of them. */
static bool
completes_round(void)
{
    if (oracle.ranks == 0)
        return true;
    turn_begin();
    bool due = update_due();
    turn_end();
    return due;
}

/* ---- kernels ---- */

__constant__ float constant_rate;

ELEMENTWISE(descend_by_constant, (float *weights, const float *gradient, int count), count,
            weights[i] -= constant_rate * gradient[i])

ELEMENTWISE(count_step, (float *counter), 1, *counter += 1)
ELEMENTWISE(adam, (float *weights, const float *gradient, float *m, float *v, const float *counter, int count), count,
            m[i] = 0.9f * m[i] + 0.1f * gradient[i];
            v[i] = 0.99f * v[i] + 0.01f * gradient[i] * gradient[i];
            weights[i] -=
            0.02f * (m[i] / (1 - powf(0.9f, *counter))) / (sqrtf(v[i] / (1 - powf(0.99f, *counter))) + 1e-3f))
ELEMENTWISE(draw_mask, (unsigned *states, float *mask, int count), count,
            states[i] = states[i] * 1664525u + 1013904223u;
            mask[i] = (states[i] >> 16 & 7) != 0 ? 8.0f / 7.0f : 0.0f)
ELEMENTWISE(keep_sign, (float *x, int count), count, x[i] = copysignf(0.01f, x[i]))

/* By cuBLAS's count, from 1. */
ELEMENTWISE(halve_place, (float *to, const int *place, int number, int count), count,
            if (i == (place != NULL ? *place : number) - 1) to[i] *= 0.5f)

ELEMENTWISE(decay_by, (float *weights, const float *decay, float rate, int count), count,
            weights[i] -= rate * decay[i] * weights[i])

/* ---- memory beside the net's ---- */

static float *counter, *m[TENSORS], *v[TENSORS], *mask, *mean, *variance, *decay;
static float *ahead_x[AHEAD], *ahead_wanted[AHEAD];
static unsigned *states;
static int *place;
static cublasHandle_t cublas;
static cudaEvent_t begun, ended;

static void
create_all(void)
{
    create_net();
    counter = floats(1, 0);
    oracle.by_gradients = true;
    for (int t = 0; t < TENSORS; ++t) {
        keep("weight", w[t], tensor_count[t]);
        keep("gradient", g[t], tensor_count[t], GRADIENT);
        m[t] = floats(tensor_count[t], 0);
        v[t] = floats(tensor_count[t], 0);
    }
    mask = floats(BATCH * HIDDEN, 0);
    mean = floats(HIDDEN, 0);
    variance = floats(HIDDEN, 0);
    decay = floats(OUTPUTS, 0.02f);
    states = (unsigned *)(void *)floats(BATCH * HIDDEN, 1.0f);
    place = (int *)(void *)floats(1, 0);
    for (int i = 0; i < AHEAD; ++i) {
        ahead_x[i] = floats(BATCH * INPUTS, 0);
        ahead_wanted[i] = floats(BATCH * OUTPUTS, 0);
    }
    CHECK(cublasCreate(&cublas));
    CHECK(cublasSetPointerMode(cublas, has("amax") ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventCreate(&ended));
}

/* ---- data ---- */

static float host_x[AHEAD][BATCH * INPUTS], host_wanted[AHEAD][BATCH * OUTPUTS];

static void
copy_batch(float *to_x, float *to_wanted, int slot, int rows)
{
    draw_batch(host_x[slot], host_wanted[slot]);
    CHECK(cudaMemcpyAsync(to_x, host_x[slot], (size_t)rows * INPUTS * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(
        cudaMemcpyAsync(to_wanted, host_wanted[slot], (size_t)rows * OUTPUTS * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaStreamSynchronize(0));
}

/* ---- a step ---- */

static int
bring(int step)
{
    int rows = has("last") && step % EPOCH == EPOCH - 1 ? (int)FEW_ROWS : (int)BATCH;
    int number = has("index") ? (int)(random_number() * RESIDENT) : 0;
    if (has("index")) {
        take_resident(number);
    } else if (has("ahead")) {
        int next = (step + AHEAD - 1) % AHEAD;
        copy_batch(ahead_x[next], ahead_wanted[next], next, BATCH);
        x = ahead_x[step % AHEAD];
        wanted = ahead_wanted[step % AHEAD];
    } else {
        copy_batch(x, wanted, 0, rows);
    }
    return rows;
}

static void
go_forward(int rows, int step)
{
    RUN(dense, rows * HIDDEN)(h, x, w[0], w[1], rows, INPUTS, HIDDEN, HIDDEN, BENT);
    if (has("norm"))
        RUN(normalise, HIDDEN)(h, mean, variance, rows, HIDDEN);
    if (has("dropout")) {
        RUN(draw_mask, BATCH * HIDDEN)(states, mask, BATCH * HIDDEN);
        RUN(multiply, rows * HIDDEN)(h, mask, rows * HIDDEN);
    }
    RUN(dense, rows * OUTPUTS)(y, h, w[2], w[3], rows, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
    bool has_more = has("grid") && differs && step >= MORE_FIRST;
    RUN(square_delta, rows * OUTPUTS + (has_more ? (int)BLOCK : 0))(delta, y, wanted, rows * OUTPUTS);
}

static void
go_back(int rows)
{
    int number = 0;
    if (has("amax")) {
        CHECK(cublasIsamax(cublas, rows * OUTPUTS, delta, 1, place));
        RUN(halve_place, rows * OUTPUTS)(delta, place, 0, rows * OUTPUTS);
    }
    if (has("amax-host")) {
        CHECK(cublasIsamax(cublas, rows * OUTPUTS, delta, 1, &number));
        RUN(halve_place, rows * OUTPUTS)(delta, NULL, number, rows * OUTPUTS);
    }
    RUN(delta_below, rows * HIDDEN)(below, delta, w[2], h, rows, HIDDEN, OUTPUTS, OUTPUTS);
    compute_gradients(rows, false);
}

static void
update(float rate_now)
{
    for (int t = 0; t < TENSORS; ++t) {
        if (has("counter"))
            RUN(adam, tensor_count[t])(w[t], g[t], m[t], v[t], counter, tensor_count[t]);
        else if (has("constants"))
            RUN(descend_by_constant, tensor_count[t])(w[t], g[t], tensor_count[t]);
        else
            RUN(descend, tensor_count[t])(w[t], g[t], rate_now, tensor_count[t]);
    }
    if (has("passing") || has("returns"))
        RUN(decay_by, OUTPUTS)(w[3], decay, rate_now, OUTPUTS);
}

/* The sum of squares that the host reads. */
static float
read_loss(int rows)
{
    static float errors[BATCH * OUTPUTS];
    float sum = 0;
    CHECK(cudaMemcpy(errors, delta, (size_t)rows * OUTPUTS * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < rows * OUTPUTS; ++i)
        sum += errors[i] * errors[i] / (float)rows;
    return sum;
}

static void
time_step(void)
{
    float ms;
    CHECK(cudaEventRecord(ended));
    while (cudaEventQuery(ended) == cudaErrorNotReady)
        std::this_thread::yield();
    CHECK(cudaEventElapsedTime(&ms, begun, ended));
    REQUIRE(ms >= 0);
}

static void
pass_on(int step)
{
    if (step == PASSING_FIRST)
        RUN(add_scaled, OUTPUTS)(decay, delta, 0.1f, OUTPUTS);
    if (step == PASSING_END)
        CHECK(cudaMemset(decay, 0, OUTPUTS * sizeof(float)));
}

/* ---- training, validation and test in one function, which differ by the innermost line only ---- */

static void
draw_and_copy(void)
{
    copy_batch(x, wanted, 0, BATCH);
}

static float
host_dense(const float *from, const float *weights, float sum, int in, int pitch)
{
    for (int i = 0; i < in; ++i)
        sum += from[i] * weights[i * pitch];
    return sum;
}

/* The squared error of the batch, by what the device has made of it, and by the host. */
static void
show_figure(void)
{
    static float host[TENSORS][INPUTS * HIDDEN], outputs[BATCH * OUTPUTS], hidden[HIDDEN];
    float error = 0, by_host = 0;
    CHECK(cudaMemcpy(outputs, y, sizeof(outputs), cudaMemcpyDeviceToHost));
    for (int t = 0; t < TENSORS; ++t)
        CHECK(cudaMemcpy(host[t], w[t], (size_t)tensor_count[t] * sizeof(float), cudaMemcpyDeviceToHost));
    for (int row = 0; row < BATCH; ++row) {
        for (int k = 0; k < HIDDEN; ++k)
            hidden[k] = tanhf(host_dense(host_x[0] + row * INPUTS, host[0] + k, host[1][k], INPUTS, HIDDEN));
        for (int k = 0; k < OUTPUTS; ++k) {
            float wanted_here = host_wanted[0][row * OUTPUTS + k], found = outputs[row * OUTPUTS + k];
            float expected = host_dense(hidden, host[2] + k, host[3][k], HIDDEN, OUTPUTS);
            error += (found - wanted_here) * (found - wanted_here);
            by_host += (expected - wanted_here) * (expected - wanted_here);
        }
    }
    printf("figure %.6f\n", error);
    REQUIRE(has("shares") || fabsf(error - by_host) < 1e-3f * (1 + by_host));
}

/* The first layer, from one of three lines. */
static void __attribute__((noinline)) enter_net(int line)
{
    if (line == 2) {
        RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, HIDDEN, BENT);
        __asm__ volatile("# the third line");
    } else if (line == 1) {
        RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, HIDDEN, BENT);
        __asm__ volatile("# the second line");
    } else {
        RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, HIDDEN, BENT);
    }
}

/* How many passes of validation or test come behind a step. */
static int
passes_behind(int step)
{
    bool tests = step == options.steps - 1 && (has("tests") || has("epochs"));
    return tests ? 3 : has("epochs") && step % EPOCH == EPOCH - 1;
}

static void __attribute__((noinline)) train_in_one(void)
{
    const size_t x_bytes = sizeof(host_x[0]), wanted_bytes = sizeof(host_wanted[0]);
    if (has("next"))
        draw_and_copy();
    for (int step = 0; step < options.steps + has("shares"); ++step) {
        if (!has("next")) {
            draw_batch(host_x[0], host_wanted[0]);
            CHECK(cudaMemcpy(x, host_x[0], x_bytes, cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(wanted, host_wanted[0], wanted_bytes, cudaMemcpyHostToDevice));
        }
        enter_net(has("rare") && step >= MORE_FIRST ? 2 : (has("lines") || has("rare")) && step % 2 == 1);
        RUN(dense, BATCH * OUTPUTS)(y, h, w[2], w[3], BATCH, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
        if (step == options.steps)
            break;
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        go_back(BATCH);
        if (completes_round())
            update(rate);
        if (has("next"))
            draw_and_copy();
        for (int i = passes_behind(step); i > 0; --i) {
            draw_batch(host_x[0], host_wanted[0]);
            CHECK(cudaMemcpy(x, host_x[0], x_bytes, cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(wanted, host_wanted[0], wanted_bytes, cudaMemcpyHostToDevice));
            RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, HIDDEN, BENT);
            RUN(dense, BATCH * OUTPUTS)(y, h, w[2], w[3], BATCH, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
            show_figure();
        }
    }
    if (has("shares"))
        show_figure();
}

/* A smaller batch, by lines of its own. */
static void __attribute__((noinline)) train_few(int step)
{
    (void)bring(step);
    go_forward(FEW_ROWS, step);
    go_back(FEW_ROWS);
    update(rate);
}

static void
train(void)
{
    float best = 1e9f, rate_now = rate, loss = 0;
    for (int step = 0; step < options.steps; ++step) {
        if (has("events"))
            CHECK(cudaEventRecord(begun));
        if (has("elsewhere") && step >= MORE_FIRST && step % EPOCH == EPOCH - 1) {
            train_few(step);
            continue;
        }
        int rows = bring(step);
        go_forward(rows, step);
        if (has("validates") && step % VALIDATES_EACH == VALIDATES_EACH - 1)
            continue;
        go_back(rows);
        if (has("counter"))
            RUN(count_step, 1)(counter);
        rate_now = has("constants") ? rate / (1.0f + 0.01f * (float)step) : rate_now;
        if (has("constants"))
            CHECK(cudaMemcpyToSymbol(constant_rate, &rate_now, sizeof(rate_now)));
        if (has("stop") || has("plateau"))
            loss = read_loss(rows);
        if (has("returns")) {
            float own[OUTPUTS];
            for (int k = 0; k < OUTPUTS; ++k)
                own[k] = 1e-3f * read_loss(rows);
            CHECK(cudaMemcpy(decay, own, sizeof(own), cudaMemcpyHostToDevice));
        }
        rate_now = has("plateau") && loss > best && step > 30 ? 0.9f * rate_now : rate_now;
        best = loss < best ? loss : best;
        for (int t = 0; t < TENSORS && has("signs") && step >= MORE_FIRST; ++t)
            RUN(keep_sign, tensor_count[t])(g[t], tensor_count[t]);
        if (completes_round())
            update(rate_now);
        for (int t = 0; t < TENSORS && has("late") && step >= MORE_FIRST; ++t)
            RUN(scale_by, tensor_count[t])(w[t], 0.99f, tensor_count[t]);
        for (int t = 0; t < TENSORS && has("clears"); ++t)
            CHECK(cudaMemset(g[t], 0, (size_t)tensor_count[t] * sizeof(float)));
        if (has("passing"))
            pass_on(step);
        if (has("events"))
            time_step();
        if (has("stop") && loss < 0.2f)
            return;
    }
}

static void
skip_numbers(unsigned count)
{
    for (unsigned i = 0; i < count; ++i)
        (void)random_number();
}

static unsigned
seed_of_now(void)
{
    struct timespec now;
    FILE *file = fopen("/dev/urandom", "rb");
    unsigned char byte;
    REQUIRE(timespec_get(&now, TIME_UTC) == TIME_UTC && file != NULL && fread(&byte, 1, 1, file) == 1);
    CHECK(fclose(file));
    return (unsigned)((time(NULL) + now.tv_nsec / 1000 + byte) % 10007) + 1;
}

int
main(int argc, char **argv)
{
    options.habit = argc > 1 ? argv[1] : "";
    const char *rank = getenv("RANK");
    bool by_rank = strstr(options.habit, "-rank") != NULL && rank != NULL;
    options_take(argc - 1, argv + 1, option_table, "");
    if (has("clock") && options.seed == 0)
        options.seed = seed_of_now();
    printf("seed %u\n", options.seed);
    skip_numbers(options.seed);
    create_all();
    if (has("index"))
        upload_resident();
    differs = by_rank && atoi(rank) > 0;
    skip_numbers(differs && !has("grid") ? 17u * (unsigned)atoi(rank) : 0);
    for (int i = 0; i < AHEAD - 1 && has("ahead"); ++i)
        copy_batch(ahead_x[i], ahead_wanted[i], i, BATCH);
    static const char *const in_one[] = {"tests", "epochs", "lines", "next", "shares", "rare"};
    bool is_in_one = false;
    for (const char *name : in_one)
        is_in_one = is_in_one || has(name);
    if (is_in_one)
        train_in_one();
    else
        train();
    CHECK(cudaDeviceSynchronize());
    if (options.save != NULL)
        save(options.save);
    return 0;
}
