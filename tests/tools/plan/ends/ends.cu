/*
 * ends.cu WAY END - a linear model that is trained without annotations and ends as public programs do. Without a word
 * it prints all ways and ends.
 *
 *     ends WAY END [--steps N] [--save FILE] [--oracle RANKS]
 *
 * WAY: gradients lie in memory; or "state", an update within backward; or "tail", the same, the device is tried first,
 * and a prediction by the new weights follows. The oracle is what the file holds after training by so many ranks: by
 * gradients of the last whole round, by state of the last whole step.
 */
#include "tests/lib/trainer_memory.h"
#include "tests/lib/trainer_options.h"
#include "tests/tools/plan/oracle.h"

#include <signal.h>
#include <stdexcept>
#include <string.h>
#include <unistd.h>

enum { INPUTS = 64, ROWS = 32, PASSES = 7 };

static const char *const ways[] = {"gradients", "state", "tail"};
static const char *const ends[] = {"plain",         /* it saves its weights, and returns */
                                   "free",          /* the same, and gives back all memory */
                                   "reset",         /* or the device */
                                   "free-amid",     /* it begins a batch, gives back data, and saves */
                                   "break",         /* it begins a batch, and saves */
                                   "exit",          /* it saves amid an epoch, and ends with a code of its own */
                                   "handler",       /* a handler of exit() saves, and ends by _exit() */
                                   "early",         /* it stops when the loss is small */
                                   "evaluate",      /* a last epoch evaluates by the lines of training */
                                   "evaluate-once", /* as a batch does that stands alone */
                                   "smaller",       /* the last batch is smaller, and has kernels of its own */
                                   "fewer",         /* the last batch is smaller, and that is all */
                                   "exception",     /* it is thrown, and caught by what saves */
                                   "abort",         /* it saves, and aborts */
                                   "signal",        /* it saves, and ends by a signal */
                                   "again",         /* it saves, and trains another model by another line */
                                   "goes-on"};      /* from some batch on it has other kernels, and trains on */

static const char *way, *end_by, *path = "/dev/null";
static int steps = 40;
static float *weights, *gradient, *x, *y, *predicted, *loss;
static bool has_other_kernels; /* the forward pass */
static float host_x[ROWS][INPUTS], host_y[ROWS];

__device__ void
predict(const float *w, const float *x, float *predicted, int rows)
{
    int row = (int)threadIdx.x;
    float sum = 0;
    for (int i = 0; row < rows && i < INPUTS; ++i)
        sum += w[i] * x[row * INPUTS + i];
    predicted[row] = sum;
}

__global__ void
forward_kernel(const float *w, const float *x, float *predicted, int rows)
{
    predict(w, x, predicted, rows);
}

__global__ void
forward_rest(const float *w, const float *x, float *predicted, int rows)
{
    predict(w, x, predicted, rows);
}

__global__ void
loss_kernel(const float *predicted, const float *y, float *loss, int rows)
{
    float sum = 0;
    for (int row = 0; row < rows; ++row)
        sum += (predicted[row] - y[row]) * (predicted[row] - y[row]);
    *loss = sum / rows;
}

__device__ float
gradient_of(const float *predicted, const float *x, const float *y, int i, int rows)
{
    float sum = 0;
    for (int row = 0; row < rows; ++row)
        sum += (predicted[row] - y[row]) * x[row * INPUTS + i];
    return sum / rows;
}

__global__ void
backward_kernel(float *gradient, const float *predicted, const float *x, const float *y, int rows)
{
    gradient[threadIdx.x] += gradient_of(predicted, x, y, (int)threadIdx.x, rows);
}

__global__ void
sgd(float *w, float *gradient)
{
    w[threadIdx.x] -= 0.05f * gradient[threadIdx.x];
    gradient[threadIdx.x] = 0;
}

__global__ void
update_kernel(float *w, const float *predicted, const float *x, const float *y, int rows)
{
    w[threadIdx.x] -= 0.05f * gradient_of(predicted, x, y, (int)threadIdx.x, rows);
}

static bool
is(const char *name)
{
    return strcmp(end_by, name) == 0;
}

static bool
is_way(const char *name)
{
    return strcmp(way, name) == 0;
}

/* ---- the program ---- */

/* Of a batch that has begun nothing counts; by gradients a round that is not whole changes nothing. */
static void
save_weights(void)
{
    oracle.open = false;
    if (is_way("gradients"))
        oracle.turn = 0;
    save(path);
}

static void
load(int step)
{
    unsigned state = 12345u + 7919u * (unsigned)step;
    for (int row = 0; row < ROWS; ++row) {
        host_y[row] = 0;
        for (int i = 0; i < INPUTS; ++i) {
            state = state * 1664525u + 1013904223u;
            host_x[row][i] = (float)(state >> 8) / (1 << 24) - 0.5f;
            host_y[row] += host_x[row][i] * (i % 3);
        }
    }
}

__attribute__((noinline)) static float
forward(int rows)
{
    float host;
    CHECK(cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y, host_y, sizeof(host_y), cudaMemcpyHostToDevice));
    if (has_other_kernels)
        forward_rest<<<1, ROWS>>>(weights, x, predicted, rows);
    else
        forward_kernel<<<1, ROWS>>>(weights, x, predicted, rows);
    loss_kernel<<<1, 1>>>(predicted, y, loss, rows);
    CHECK(cudaMemcpy(&host, loss, sizeof(host), cudaMemcpyDeviceToHost));
    return host;
}

__attribute__((noinline)) static void
backward(int rows)
{
    if (is_way("gradients")) {
        backward_kernel<<<1, INPUTS>>>(gradient, predicted, x, y, rows);
        sgd<<<1, INPUTS>>>(weights, gradient);
    } else {
        update_kernel<<<1, INPUTS>>>(weights, predicted, x, y, rows);
    }
}

static void
handler(void)
{
    save_weights();
    fflush(NULL);
    _exit(0);
}

static void
train(void)
{
    float sum = 0;
    int passes = is("evaluate") ? PASSES : is("evaluate-once");
    for (int step = 0; step < steps + passes; ++step) {
        if (oracle.ranks > 0 && step < steps)
            turn_begin();
        bool is_last = step == steps - (is("break") || is("free-amid") ? 3 : 1); /* of 3 ranks two have made a step */
        int rows = is_last && (is("smaller") || is("fewer")) ? ROWS / 2 : ROWS;
        has_other_kernels = (is("smaller") && is_last) || (is("goes-on") && step >= steps / 2);
        load(step);
        float now = forward(rows);
        printf("step %d loss %.5f\n", step, now);
        if (step >= steps) { /* the lines of training evaluate */
            sum += now;
            continue;
        }
        if ((is("early") && now < 4) || (is_last && (is("break") || is("free-amid"))))
            break;
        oracle.open = oracle.open && !(is("smaller") && is_last); /* that batch is given up */
        if (oracle.open || oracle.ranks == 0)
            backward(rows);
        turn_end();
        if (is_way("tail")) {
            CHECK(cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
            forward_kernel<<<1, ROWS>>>(weights, x, predicted, rows);
        }
        if (is_last && is("exit")) {
            save_weights();
            exit(3);
        }
        if (is_last && is("exception"))
            throw std::runtime_error("the data are at their end");
    }
    if (passes > 0)
        printf("evaluated %.5f\n", sum);
}

int
main(int argc, char **argv)
{
    const int way_count = sizeof(ways) / sizeof(*ways), end_count = sizeof(ends) / sizeof(*ends);
    for (int i = 0; argc == 1 && i < way_count * end_count; ++i)
        printf("%s %s\n", ways[i / end_count], ends[i % end_count]);
    if (argc < 3)
        return 2;
    way = argv[1];
    end_by = argv[2];
    take_options(argc, argv, 3, {{"--steps", &steps}, {"--save", &path}, {"--oracle", &oracle.ranks}});
    for (int tries = is_way("tail") ? 3 : 0; tries >= 0; --tries) { /* of the device, which is reset after each */
        weights = device_floats(INPUTS), gradient = device_floats(INPUTS);
        x = device_floats(ROWS * INPUTS), y = device_floats(ROWS);
        predicted = device_floats(ROWS), loss = device_floats(1);
        for (int i = 0; i < tries; ++i)
            (void)forward(ROWS);
        if (tries > 0)
            CHECK(cudaDeviceReset());
    }
    keep("weight", weights, INPUTS);
    if (is("handler"))
        REQUIRE(atexit(handler) == 0);
    try {
        train();
    } catch (const std::exception &error) {
        puts(error.what());
        save_weights();
        return 4;
    }
    if (is("free-amid"))
        CHECK(cudaFree(x));
    if (is("handler"))
        return 0;
    save_weights();
    if (is("reset"))
        CHECK(cudaDeviceReset());
    for (float *memory : {weights, gradient, x, y, predicted, loss})
        if (is("free"))
            CHECK(cudaFree(memory));
    if (is("again")) {
        weights = device_floats(INPUTS), gradient = device_floats(INPUTS);
        train();
    }
    if (is("abort"))
        abort();
    if (is("signal"))
        raise(SIGTERM);
    return 0;
}
