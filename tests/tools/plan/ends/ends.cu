/*
 * ends.cu WAY END - a linear model that is trained without annotations and ends as public programs do. Without a word
 * it prints all ways and ends; one END may be two, joined by +: how training ends, and how the program does.
 *
 *     ends WAY END [--call NAME] [options of program.h]
 *
 * WAY: gradients lie in memory; or "state", an update within backward; or "tail", the same, the device is tried first,
 * and a prediction by the new weights follows; or "ahead", an update within backward, and then the next batch is
 * copied, if there is one, and the loss is read; or "sums", the same, but losses are added up on the device, and after
 * the copy the host reads and clears the sum of each epoch. The oracle is what the file holds after training by so many
 * ranks, and what an epoch and a test print: by gradients of the last whole round, by state of the last whole step.
 *
 * --call: in each batch that evaluates it makes the calls of this name (calls.h); "ends calls" prints all names.
 */
#include "calls.h"
#include "tests/tools/plan/program.h"

#include <signal.h>
#include <stdexcept>
#include <unistd.h>

enum { INPUTS = 64, ROWS = 32, PASSES = 7, TESTS = 4, EPOCH = 8, FIRSTS = 8, SECONDS = 8 };

static const char *const ways[] = {"gradients", "state", "tail", "ahead", "sums"};
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
                                   "test",          /* a test by lines of its own, into the memory of losses */
                                   "test-apart",    /* or into other memory */
                                   "decay",         /* amid its last batch a kernel of its own changes weights */
                                   "restore",       /* amid its last batch it copies other weights to the device */
                                   "goes-on"};      /* from some batch on it has other kernels, and trains on */
static const char *const firsts[FIRSTS] = {"break", "early",   "evaluate", "evaluate-once",
                                           "fewer", "smaller", "test",     "test-apart"};
static const char *const seconds[SECONDS] = {"abort", "again",   "exception", "exit",
                                             "free",  "handler", "reset",     "signal"};

static const char *end_by, *call = "";
static float *weights, *gradient, *x[2], *y[2], *predicted, *loss, *other, *sum_of_losses;
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
add_kernel(float *sum, const float *loss)
{
    *sum += *loss;
}

__global__ void
decay_kernel(float *w)
{
    w[threadIdx.x] *= 0.5f;
}

__global__ void
update_kernel(float *w, const float *predicted, const float *x, const float *y, int rows)
{
    w[threadIdx.x] -= 0.05f * gradient_of(predicted, x, y, (int)threadIdx.x, rows);
}

static bool
ends_by(const char *name)
{
    size_t length = strlen(name);
    for (const char *at = end_by; at != NULL; at = strchr(at, '+')) {
        at += *at == '+';
        if (strncmp(at, name, length) == 0 && (at[length] == '\0' || at[length] == '+'))
            return true;
    }
    return false;
}

/* ---- the program ---- */

/* Of a batch that has begun nothing counts; by gradients a round that is not whole changes nothing. */
static void
settle(void)
{
    oracle.open = false;
    if (is("gradients"))
        oracle.turn = 0;
    round_end();
}

static void
save_weights(void)
{
    settle();
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

/* The batch of the host, to one of the buffers. */
__attribute__((noinline)) static void
send(int to)
{
    CHECK(cudaMemcpy(x[to], host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y[to], host_y, sizeof(host_y), cudaMemcpyHostToDevice));
}

__attribute__((noinline)) static void
forward(int of, int rows)
{
    if (has_other_kernels)
        forward_rest<<<1, ROWS>>>(weights, x[of], predicted, rows);
    else
        forward_kernel<<<1, ROWS>>>(weights, x[of], predicted, rows);
    loss_kernel<<<1, 1>>>(predicted, y[of], loss, rows);
    if (is("sums"))
        add_kernel<<<1, 1>>>(sum_of_losses, loss);
}

static float
read_loss(void)
{
    float host;
    CHECK(cudaMemcpy(&host, loss, sizeof(host), cudaMemcpyDeviceToHost));
    return host;
}

__attribute__((noinline)) static void
backward(int of, int rows)
{
    if (is("gradients")) {
        backward_kernel<<<1, INPUTS>>>(gradient, predicted, x[of], y[of], rows);
        sgd<<<1, INPUTS>>>(weights, gradient);
    } else {
        update_kernel<<<1, INPUTS>>>(weights, predicted, x[of], y[of], rows);
    }
}

static void
handler(void)
{
    save_weights();
    fflush(NULL);
    _exit(0);
}

/* As a program that has kept the best of its models. */
static void
restore_weights(void)
{
    float best[INPUTS];
    for (float &value : best)
        value = 0.25f;
    if (oracle.ranks > 0)
        settle();
    CHECK(cudaMemcpy(weights, best, sizeof(best), cudaMemcpyHostToDevice));
}

/* By lines of its own. */
static void
test(void)
{
    float sum = 0, host, *to = ends_by("test") ? loss : other;
    if (oracle.ranks > 0)
        settle();
    for (int batch = 0; batch < TESTS; ++batch) {
        load(steps + PASSES + batch);
        send(0);
        forward_kernel<<<1, ROWS>>>(weights, x[0], predicted, ROWS);
        loss_kernel<<<1, 1>>>(predicted, y[0], to, ROWS);
        CHECK(cudaMemcpy(&host, to, sizeof(host), cudaMemcpyDeviceToHost));
        sum += host;
    }
    printf("tested %.5f\n", sum);
}

static void
end_training(void)
{
    if (ends_by("test") || ends_by("test-apart"))
        test();
    if (ends_by("exit")) {
        save_weights();
        exit(3);
    }
    if (ends_by("exception"))
        throw std::runtime_error("the data are at their end");
}

static void
end_epoch(int step)
{
    float host;
    if (oracle.ranks > 0)
        round_end();
    CHECK(cudaMemcpy(&host, sum_of_losses, sizeof(host), cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(sum_of_losses, 0, sizeof(host)));
    printf("epoch %d loss %.5f\n", step / EPOCH, host / EPOCH);
}

static void
predict_by_new_weights(void)
{
    CHECK(cudaMemcpy(x[0], host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    forward_kernel<<<1, ROWS>>>(weights, x[0], predicted, ROWS);
}

static void
train(void)
{
    const bool is_ahead = is("ahead") || is("sums"), breaks = ends_by("break") || ends_by("free-amid");
    const bool decays = ends_by("decay") && !is("gradients"); /* else all ranks do */
    float sum = 0, now = 0;
    int passes = ends_by("evaluate") ? PASSES : ends_by("evaluate-once");
    if (is_ahead) {
        load(0);
        send(0);
    }
    for (int step = 0; step < steps + passes; ++step) {
        int of = is_ahead ? step % 2 : 0;
        bool evaluates = step >= steps;                  /* by the lines of training */
        bool is_last = step == steps - (breaks ? 3 : 1); /* of 3 ranks two have made a step */
        int rows = is_last && (ends_by("smaller") || ends_by("fewer")) ? ROWS / 2 : ROWS;
        has_other_kernels = (ends_by("smaller") && is_last) || (ends_by("goes-on") && step >= steps / 2);
        if (oracle.ranks > 0 && step == steps)
            settle();
        if (evaluates && call[0] != '\0')
            make_calls(call);
        if (oracle.ranks > 0 && !evaluates && !(is_ahead && step == 0)) /* its first batch comes by another line */
            turn_begin();
        if (!is_ahead) {
            load(step);
            send(0);
        }
        forward(of, rows);
        if (!is_ahead)
            now = read_loss();
        if (is_last && ends_by("restore"))
            restore_weights();
        if (is_last && (breaks || ends_by("restore")))
            break;
        if (!is_ahead && ends_by("early") && now < 4)
            break;
        if (is_last && decays && oracle.ranks == 0)
            decay_kernel<<<1, INPUTS>>>(weights);
        oracle.open = oracle.open && !(is_last && (ends_by("smaller") || decays)); /* that batch is given up */
        if (!evaluates && (oracle.open || oracle.ranks == 0 || (is_ahead && step == 0)))
            backward(of, rows);
        turn_end();
        if (is_ahead && step + 1 < steps + passes) {
            load(step + 1);
            send((step + 1) % 2);
        }
        if (is("ahead"))
            now = read_loss();
        else if (is("sums") && step % EPOCH == EPOCH - 1)
            end_epoch(step);
        printf("step %d loss %.5f\n", step, now);
        sum += evaluates ? now : 0;
        if (is("ahead") && ends_by("early") && now < 4)
            break;
        if (is("tail") && !evaluates)
            predict_by_new_weights();
    }
    if (passes > 0)
        printf("evaluated %.5f\n", sum);
    end_training();
}

/* All rows, or all names of calls. */
static void
list(bool of_calls)
{
    for (const struct call &row : calls)
        if (of_calls)
            puts(row.name);
    for (const char *name : ways) {
        for (const char *end : ends)
            if (!of_calls)
                printf("%s %s\n", name, end);
        for (size_t i = 0; !of_calls && i < FIRSTS * SECONDS; ++i)
            printf("%s %s+%s\n", name, firsts[i / SECONDS], seconds[i % SECONDS]);
    }
}

static void
allocate_all(void)
{
    weights = device_floats(INPUTS), gradient = device_floats(INPUTS);
    for (int i = 0; i <= (is("ahead") || is("sums")); ++i)
        x[i] = device_floats(ROWS * INPUTS), y[i] = device_floats(ROWS);
    predicted = device_floats(ROWS), loss = device_floats(1), other = device_floats(1),
    sum_of_losses = device_floats(1);
}

static void
try_device(int times)
{
    for (int i = 0; i < times; ++i) {
        send(0);
        forward(0, ROWS);
        (void)read_loss();
    }
    CHECK(cudaDeviceReset());
}

/* After the weights are saved. */
static void
end_program(void)
{
    if (ends_by("reset"))
        CHECK(cudaDeviceReset());
    for (float *memory : {weights, gradient, x[0], x[1], y[0], y[1], predicted, loss, other, sum_of_losses})
        if (ends_by("free"))
            CHECK(cudaFree(memory));
    if (ends_by("again")) {
        weights = device_floats(INPUTS), gradient = device_floats(INPUTS);
        train();
    }
    if (ends_by("abort"))
        abort();
    if (ends_by("signal"))
        raise(SIGTERM);
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        list(argc == 2 && strcmp(argv[1], "calls") == 0);
        return 2;
    }
    end_by = argv[2];
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* it may abort */
    program_take(argc, argv, ways, {{"--call", &call}}, 3);
    allocate_all();
    for (int times = is("tail") ? 3 : 0; times > 0; --times) {
        try_device(times);
        allocate_all();
    }
    keep("weight", weights, INPUTS);
    if (ends_by("handler"))
        REQUIRE(atexit(handler) == 0);
    try {
        train();
    } catch (const std::exception &error) {
        puts(error.what());
        save_weights();
        return 4;
    }
    if (ends_by("free-amid"))
        CHECK(cudaFree(x[0]));
    if (ends_by("handler"))
        return 0;
    save_weights();
    end_program();
    return 0;
}
