/*
 * carries.cu WAY - a recurrent net that carries its hidden state from batch to batch, as public ones do that train on
 * one long text. Without a word it prints all ways.
 *
 *     carries WAY [options of program.h]
 */
#include "tests/tools/plan/program.h"

static const char *const ways[] = {
    "before", /* the new state is copied before the update */
    "after",  /* after the update */
    "first",  /* as a batch begins: the state of the one before */
    "kernel", /* after the update, by a kernel of this program */
    "place",  /* nothing is copied: the forward pass changes it in place */
    "two",    /* two states, one of which is slower */
    "resets", /* each fifth batch begins with zeros */
    "shows",  /* the host reads it, and prints a sum of it */
    "large",  /* it lies in memory with what is computed from it */
};

enum { ROWS = 12, INPUTS = 6, HIDDEN = 8, OUTPUTS = 3, BATCHES = 40, RESET = 5 };
enum { U = INPUTS * HIDDEN, V = HIDDEN * HIDDEN, W = HIDDEN * OUTPUTS };

static float host_x[BATCHES][ROWS * INPUTS], host_y[BATCHES][ROWS * OUTPUTS];
static float *x, *y, *now, *carried, *kept, *delta, *below, *loss;
static float *weights[3], *gradients[3];

/* ---- kernels: a block for a row ---- */

__global__ void
recur(float *h, const float *x, const float *before, const float *u, const float *v)
{
    __shared__ float old[HIDDEN];
    const int row = (int)blockIdx.x, k = (int)threadIdx.x;
    old[k] = before[row * HIDDEN + k];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < INPUTS; ++i)
        sum += x[row * INPUTS + i] * u[i * HIDDEN + k];
    for (int i = 0; i < HIDDEN; ++i)
        sum += old[i] * v[i * HIDDEN + k];
    h[row * HIDDEN + k] = tanhf(sum);
}

__global__ void
errors(float *delta, float *loss, const float *h, const float *y, const float *w)
{
    float all = 0;
    for (int at = 0; at < ROWS * OUTPUTS; ++at) {
        float sum = -y[at];
        for (int i = 0; i < HIDDEN; ++i)
            sum += h[at / OUTPUTS * HIDDEN + i] * w[i * OUTPUTS + at % OUTPUTS];
        delta[at] = sum / ROWS;
        all += sum * sum / ROWS;
    }
    *loss = all;
}

__global__ void
errors_below(float *below, const float *delta, const float *w, const float *h)
{
    const int at = (int)(blockIdx.x * HIDDEN + threadIdx.x);
    float sum = 0;
    for (int o = 0; o < OUTPUTS; ++o)
        sum += delta[blockIdx.x * OUTPUTS + o] * w[threadIdx.x * OUTPUTS + o];
    below[at] = sum * (1 - h[at] * h[at]);
}

/* A thread for each weight. */
__global__ void
gradient(float *g, const float *in, const float *error, int ins, int outs)
{
    float sum = 0;
    for (int row = 0; row < ROWS; ++row)
        sum += in[row * ins + blockIdx.x] * error[row * outs + threadIdx.x];
    g[blockIdx.x * outs + threadIdx.x] = sum;
}

__global__ void
descend(float *w, const float *g)
{
    const int at = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    w[at] -= 0.2f * g[at];
}

__global__ void
carry(float *to, const float *from)
{
    const int at = (int)(blockIdx.x * HIDDEN + threadIdx.x);
    to[at] = from[at];
}

/* A state that follows the other one slowly. */
__global__ void
mix(float *slow, const float *from)
{
    const int at = (int)(blockIdx.x * HIDDEN + threadIdx.x);
    slow[at] = 0.5f * slow[at] + 0.5f * from[at];
}

/* ---- the program ---- */

static void
create(void)
{
    const int counts[] = {U, V, W};
    for (int b = 0; b < BATCHES; ++b) {
        for (float &value : host_x[b])
            value = random_number() - 0.5f;
        for (int at = 0; at < ROWS * OUTPUTS; ++at) /* of the batch before, too */
            host_y[b][at] = host_x[b][at / OUTPUTS * INPUTS] + (b > 0 ? host_x[b - 1][at / OUTPUTS * INPUTS + 1] : 0);
    }
    x = device_floats(ROWS * INPUTS);
    y = device_floats(ROWS * OUTPUTS);
    now = device_floats(2 * ROWS * HIDDEN);
    carried = is("large") ? now + ROWS * HIDDEN : device_floats(ROWS * HIDDEN);
    kept = device_floats(ROWS * HIDDEN);
    delta = device_floats(ROWS * OUTPUTS);
    below = device_floats(ROWS * HIDDEN);
    loss = device_floats(1);
    for (int t = 0; t < 3; ++t) {
        weights[t] = device_drawn(counts[t], 1);
        gradients[t] = device_floats(counts[t]);
        keep("weights", weights[t], counts[t]);
        keep("gradient", gradients[t], counts[t], GRADIENT);
    }
    keep("hidden", is("first") ? now : carried, ROWS * HIDDEN, OWN);
    if (is("two"))
        keep("hidden", kept, ROWS * HIDDEN, OWN);
}

static void
carry_by_copy(void)
{
    CHECK(cudaMemcpy(carried, now, ROWS * HIDDEN * sizeof(float), cudaMemcpyDeviceToDevice));
}

/* All ranks begin anew. */
static void
reset(void)
{
    CHECK(cudaMemset(carried, 0, ROWS * HIDDEN * sizeof(float)));
    for (struct array &a : oracle.arrays)
        for (values &own : a.own)
            if (a.kind == OWN)
                own.assign(a.count, 0.0f);
}

static void
forward(int step)
{
    CHECK(cudaMemcpy(x, host_x[step % BATCHES], sizeof(host_x[0]), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y, host_y[step % BATCHES], sizeof(host_y[0]), cudaMemcpyHostToDevice));
    if (is("first"))
        carry_by_copy();
    if (is("place"))
        recur<<<ROWS, HIDDEN>>>(carried, x, carried, weights[0], weights[1]);
    else
        recur<<<ROWS, HIDDEN>>>(now, x, carried, weights[0], weights[1]);
    if (is("two")) { /* and what is slower adds to it */
        mix<<<ROWS, HIDDEN>>>(kept, now);
        carry<<<ROWS, HIDDEN>>>(now, kept);
    }
    errors<<<1, 1>>>(delta, loss, is("place") ? carried : now, y, weights[2]);
}

static void
backward(void)
{
    const float *h = is("place") ? carried : now;
    errors_below<<<ROWS, HIDDEN>>>(below, delta, weights[2], h);
    gradient<<<HIDDEN, OUTPUTS>>>(gradients[2], h, delta, HIDDEN, OUTPUTS);
    gradient<<<INPUTS, HIDDEN>>>(gradients[0], x, below, INPUTS, HIDDEN);
    gradient<<<HIDDEN, HIDDEN>>>(gradients[1], h, below, HIDDEN, HIDDEN);
}

static void
update(void)
{
    descend<<<INPUTS, HIDDEN>>>(weights[0], gradients[0]);
    descend<<<HIDDEN, HIDDEN>>>(weights[1], gradients[1]);
    descend<<<HIDDEN, OUTPUTS>>>(weights[2], gradients[2]);
}

static void
train(void)
{
    float value;
    for (int step = 0; turn(step, steps); ++step) {
        if (is("resets") && step % RESET == RESET - 1)
            reset();
        forward(step);
        backward();
        if (is("before") || is("resets") || is("large") || is("shows"))
            carry_by_copy();
        if (update_due())
            update();
        if (is("after") || is("two"))
            carry_by_copy();
        if (is("kernel"))
            carry<<<ROWS, HIDDEN>>>(carried, now);
        CHECK(cudaMemcpy(&value, loss, sizeof(value), cudaMemcpyDeviceToHost));
        printf("step %d loss %.6f", step, value);
        if (is("shows")) {
            float host[ROWS * HIDDEN], sum = 0;
            CHECK(cudaMemcpy(host, carried, sizeof(host), cudaMemcpyDeviceToHost));
            for (float of : host)
                sum += of;
            printf(" sum %.5f", sum);
        }
        printf("\n");
    }
}

int
main(int argc, char **argv)
{
    program_take(argc, argv, ways);
    create();
    train();
    save(path);
    return 0;
}
