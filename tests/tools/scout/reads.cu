/*
 * reads.cu HABIT [--average N] [--steps N] - trainers of one linear layer for tests/tools/scout/reads.sh, whose host
 * reads what a batch has computed, and prints it: `each`: the loss of each batch; `late`: one batch later; `tenth`: of
 * each tenth batch, between batches; `behind`: behind the update; `async`: by a copy in a stream; `rows`: a column of
 * the predictions, to rows of its own; `norm`: a norm that cuBLAS gives; `managed`: in managed memory; `length`: the
 * square of the gradient's length, in memory that is cleared for it. And acts on it: `stops`: training ends when it is
 * small; `plateau`: the rate falls when it does not; `factor`: a number that is computed from it goes back to the
 * device; `softmax`: errors are computed on the host. `thread`: another thread reads it. `kept`: errors of some steps
 * are kept, and measured between later ones. Rank 1 is killed (`dies`), or ends (`leaves`), in front of the read of its
 * third batch.
 *
 * --average N: the same program, whose update is made of N batches: what N ranks by turns must print.
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

#include <cublas_v2.h>
#include <pthread.h>
#include <signal.h>

enum { BATCH = 32, COUNT = 8 };

static int average = 1, steps = 60;
static float rate = 0.3f, loss[2];
static float *device_loss;

/* The output of a linear layer for each record, and the error of sum(w * x) against x[0] * 3 - x[1]. */
__global__ void
forward(float *y, float *errors, const float *weight, const float *x)
{
    int row = (int)threadIdx.x;
    float sum = 0;
    for (int i = 0; i < COUNT; ++i)
        sum += weight[i] * x[row * COUNT + i];
    y[row] = sum;
    errors[row] = (sum - 3 * x[row * COUNT] + x[row * COUNT + 1]) / BATCH;
}

__global__ void
measure(float *mean, const float *errors)
{
    float sum = 0;
    for (int row = 0; row < BATCH; ++row)
        sum += errors[row] * errors[row] * BATCH;
    *mean = sum;
}

__global__ void
backward(float *gradient, const float *errors, const float *x)
{
    float sum = 0;
    for (int row = 0; row < BATCH; ++row)
        sum += errors[row] * x[row * COUNT + threadIdx.x];
    gradient[threadIdx.x] = sum;
}

ELEMENTWISE_OF_ALL(add, (float *sum, const float *gradient, float factor), sum[i] += gradient[i] * factor)
ELEMENTWISE_OF_ALL(update, (float *weight, const float *gradient, float by), weight[i] -= by * gradient[i])
ELEMENTWISE_OF_ALL(scale, (float *errors, const float *factor), errors[i] *= *factor)

__global__ void
add_square(float *to, const float *gradient)
{
    for (int i = 0; i < COUNT; ++i)
        *to += gradient[i] * gradient[i];
}

static float *
make(size_t elements, float value)
{
    float *memory, values[BATCH * COUNT];
    for (int i = 0; i < BATCH * COUNT; ++i)
        values[i] = value * (float)(i % COUNT + 1);
    CHECK(is("managed") && elements == 1 ? cudaMallocManaged(&memory, sizeof(float))
                                         : cudaMalloc(&memory, elements * sizeof(float)));
    CHECK(cudaMemcpy(memory, values, elements * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

/* The host computes what a step's backward pass begins with. */
static void
correct(float *errors, const float *y, const float *x)
{
    float out[BATCH];
    CHECK(cudaMemcpy(out, y, sizeof(out), cudaMemcpyDeviceToHost));
    for (int row = 0; row < BATCH; ++row)
        out[row] = (out[row] - 3 * x[row * COUNT] + x[row * COUNT + 1]) / BATCH;
    CHECK(cudaMemcpy(errors, out, sizeof(out), cudaMemcpyHostToDevice));
}

static void *
read_loss(void *)
{
    CHECK(cudaMemcpy(loss, device_loss, sizeof(*loss), cudaMemcpyDeviceToHost));
    return NULL;
}

static void
read_by_thread(void)
{
    pthread_t thread;
    CHECK(cudaDeviceSynchronize());
    CHECK(pthread_create(&thread, NULL, read_loss, NULL));
    CHECK(pthread_join(thread, NULL));
}

/* What is read in front of the backward pass, or behind the update. */
static void
read_result(bool is_behind, cublasHandle_t blas, cudaStream_t stream, const float *y)
{
    int index;
    if (is("async")) {
        CHECK(cudaMemcpyAsync(loss, device_loss, sizeof(*loss), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
    } else if (is("rows")) {
        static float rows[2][3];
        CHECK(cudaMemcpy2D(rows, sizeof(rows[0]), y, 16 * sizeof(float), sizeof(float), 2, cudaMemcpyDeviceToHost));
        loss[0] = rows[0][0];
        loss[1] = rows[1][0];
    } else if (is("norm")) {
        CHECK(cublasSnrm2(blas, BATCH, y, 1, loss));
        CHECK(cublasIsamax(blas, BATCH, y, 1, &index));
        loss[1] = (float)index;
    } else if (is("managed")) {
        CHECK(cudaDeviceSynchronize());
        loss[0] = *device_loss;
    } else if (is_behind == is("behind")) {
        CHECK(cudaMemcpy(loss, device_loss, sizeof(*loss), cudaMemcpyDeviceToHost));
    }
}

/* Whether training goes on, and at which rate. */
static bool
decide(void)
{
    static float least = 1e9f;
    static int waited;
    waited = loss[0] < least ? 0 : waited + 1;
    least = loss[0] < least ? loss[0] : least;
    if (is("plateau") && waited == 3) {
        rate *= 0.5f;
        waited = 0;
    }
    return !is("stops") || loss[0] > 0.3f;
}

int
main(int argc, char **argv)
{
    static const std::vector<option_row> options = {{"--average", &average}, {"--steps", &steps}};
    options_take(
        argc, argv, options,
        " each late tenth behind async rows norm length managed stops plateau factor softmax thread kept dies leaves ");
    float batch[BATCH * COUNT], *x = make(BATCH * COUNT, 0), *weight = make(COUNT, 0.1f), *gradient = make(COUNT, 0),
                                *y = make(BATCH, 0), *errors = make(BATCH, 0), *sum = make(COUNT, 0),
                                *factor = make(2, 1), *kept = make(BATCH, 0);
    const char *rank = getenv("RANK");
    cublasHandle_t blas;
    cudaStream_t stream;
    device_loss = make(1, 0);
    CHECK(cublasCreate(&blas));
    CHECK(cudaStreamCreate(&stream));
    bool reads_each = !is("tenth") && !is("late") && !is("thread");
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < BATCH * COUNT; ++i)
            batch[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        if (is("late") && step > 0) {
            CHECK(cudaMemcpy(loss, device_loss, sizeof(*loss), cudaMemcpyDeviceToHost));
            printf("%d %.9g\n", step - 1, loss[0]);
        }
        CHECK(cudaMemcpy(x, batch, sizeof(batch), cudaMemcpyHostToDevice));
        forward<<<1, BATCH>>>(y, errors, weight, x);
        if (is("softmax"))
            correct(errors, y, batch);
        measure<<<1, 1>>>(device_loss, errors);
        if (step == 7 && rank != NULL && strcmp(rank, "1") == 0 && is("leaves"))
            exit(0);
        if (step == 7 && rank != NULL && strcmp(rank, "1") == 0 && is("dies"))
            raise(SIGKILL);
        if (reads_each && !is("behind"))
            read_result(false, blas, stream, y);
        if (is("factor")) {
            float by = 1 / (1 + loss[0]);
            CHECK(cudaMemcpy(factor, &by, sizeof(by), cudaMemcpyHostToDevice));
            scale<<<1, BATCH>>>(errors, factor);
        }
        backward<<<1, COUNT>>>(gradient, errors, x);
        if (average > 1)
            add<<<1, COUNT>>>(sum, gradient, 1 / (float)average);
        bool updates = step % average == average - 1;
        if (is("length") && updates) {
            CHECK(cudaMemset(kept, 0, sizeof(float)));
            add_square<<<1, 1>>>(kept, average > 1 ? sum : gradient);
        }
        if (updates)
            update<<<1, COUNT>>>(weight, average > 1 ? sum : gradient, rate);
        if (is("length"))
            CHECK(cudaMemcpy(loss + 1, kept, sizeof(*loss), cudaMemcpyDeviceToHost));
        if (average > 1 && updates)
            CHECK(cudaMemset(sum, 0, COUNT * sizeof(float)));
        if (reads_each && is("behind"))
            read_result(true, blas, stream, y);
        if (is("tenth") && step % 10 == 9) {
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaMemcpy(loss, device_loss, sizeof(*loss), cudaMemcpyDeviceToHost));
        }
        if (is("thread") && step % 10 == 9)
            read_by_thread();
        if (is("kept") && step % 8 == 3)
            CHECK(cudaMemcpy(kept, errors, BATCH * sizeof(float), cudaMemcpyDeviceToDevice));
        if (is("kept") && step % 8 == 6) {
            measure<<<1, 1>>>(factor, kept);
            CHECK(cudaMemcpy(loss + 1, factor, sizeof(*loss), cudaMemcpyDeviceToHost));
        }
        if (reads_each || (step % 10 == 9 && (is("tenth") || is("thread"))))
            printf("%d %.9g %g\n", step, loss[0], loss[1]);
        if (reads_each && !decide())
            break;
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
