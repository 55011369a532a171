/*
 * evidence.cu MODE [NUMBER [SEED]] - annotated trainers whose numbers show little of what their kernels do.
 *
 *   sparse N   only every N-th input is ever other than zero, and so most elements of the first gradient are zero
 *   tiny S     a softmax over logits of scale S: most probabilities, and the gradients of their classes, are tiny
 *   random     a net that the seed makes: its widths (biases have 1 to 32 elements), inputs that are zero, units that
 *              never fire, rows with padding, scale, optimizer, kernels with the names of C; one buffer for all
 *              gradients, memory of each step, updates inside backward, a scale of the loss, records that a table
 *              chooses, one record a step, gradients that several launches add up
 *   row        the update computes its gradient from the parameter's rows: no element comes from its old value alone
 *   stale      forward uses copies of weights that are never renewed: the second weights feed back in two steps only
 *   pointers   one kernel does all, and gets all of 16 pointers in each launch, of which it reads few
 *
 * It trains for STEPS steps, and prints nothing.
 */
#include "tests/lib/trainer.h"
#include "tests/tools/scout/layers.h"

#include <cstring>
#include <ddprun.h>
#include <vector>

enum { STEPS = 40, TENSORS = 4, BLOCK = 32 };

/* Rows of the first weights are `pitch` elements apart, of which `hidden` are used. */
static struct {
    int inputs, hidden, outputs, batch, pitch, every, optimizer;
    int times; /* launches that add up a gradient, each of a part of the batch */
    bool relu, dead, linkage, adds, softmax, shared, remade, inside, gathered;
    bool stale; /* forward uses copies of weights that are never renewed, and nothing is annotated */
    bool apart; /* the first weights are updated by a kernel of their own: no other launch shows what it does */
    float scale, loss;
} net;

ELEMENTWISE(square_error, (float *error, const float *z, const int *wanted, int n, int out), (n * out),
            error[i] = z[i] - (i % out == wanted[i / out] ? 1.0f : 0.0f))

ELEMENTWISE(error_below,
            (float *below, const float *error, const float *w, const float *h, int n, int in, int out, int relu), n *in,
            float sum = dot(out, error + i / in * out, 1, w + i % in * out, 1);
            below[i] = relu ? (h[i] > 0 ? sum : 0.0f) : sum * (1 - h[i] * h[i]))

static __device__ void
update_one(float *p, const float *g, float *m, float *v, float rate, int optimizer)
{
    if (optimizer == 0) {
        *p -= rate * *g;
    } else if (optimizer == 1) {
        *m = 0.9f * *m + *g;
        *p -= rate * *m;
    } else {
        *m = 0.9f * *m + 0.1f * *g;
        *v = 0.99f * *v + 0.01f * *g * *g;
        *p -= rate * *m / (sqrtf(*v) + 1e-6f);
    }
}

ELEMENTWISE(update, (float *p, const float *g, float *m, float *v, int n, float rate, int optimizer), n,
            update_one(&p[i], &g[i], &m[i], &v[i], rate, optimizer))

/* By the names of C nothing of its arguments is known. */
#define C_ELEMENTWISE(...) extern "C" ELEMENTWISE(__VA_ARGS__)
C_ELEMENTWISE(update_c, (float *p, const float *g, float *m, float *v, int n, float rate, int optimizer), n,
              update_one(&p[i], &g[i], &m[i], &v[i], rate, optimizer))

/* ---- memory ---- */

static float
draw(void)
{
    return (float)rand() / (float)RAND_MAX - 0.5f;
}

static float *
floats(int count, float scale)
{
    float *memory;
    std::vector<float> values(count);
    for (float &value : values)
        value = scale == 0 ? 0 : scale * draw();
    CHECK(cudaMalloc(&memory, count * sizeof(float)));
    CHECK(cudaMemcpy(memory, values.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

template <typename T>
static void
upload(T *to, const std::vector<T> &from)
{
    CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
}

#define RUN(kernel, count) kernel<<<((count) + BLOCK - 1) / BLOCK, BLOCK>>>

/* ---- a net of two layers ---- */

/* Where memory and launches are otherwise, numbers are as those of most trainers. */
static void
choose_habits(void)
{
    net.shared = rand() % 3 == 0;
    net.remade = !net.shared && rand() % 3 == 0;
    net.inside = net.shared || net.remade || rand() % 3 == 0;
    net.loss = rand() % 3 == 0 ? 1024 : 1;
    net.gathered = rand() % 3 == 0;
    net.times = rand() % 3 == 0 ? 2 + rand() % 3 : 1;
    net.adds = net.adds || net.times > 1;
    net.batch = rand() % 6 == 0 ? net.times : net.batch / net.times * net.times + net.times;
    net.scale = 0.5f;
    net.every = 1;
    net.dead = false;
}

static void
choose(bool random, int number)
{
    net = {.inputs = 96,
           .hidden = 16,
           .outputs = 10,
           .batch = 16,
           .pitch = 16,
           .every = 1,
           .times = 1,
           .scale = 0.5f,
           .loss = 1};
    if (!random)
        return;
    net.inputs = 4 + rand() % 120;
    net.hidden = 1 + rand() % 32;
    net.outputs = 1 + rand() % 32;
    net.batch = 4 + rand() % 28;
    net.pitch = net.hidden + (rand() % 3 == 0 ? rand() % 9 : 0);
    net.every = rand() % 2 ? 1 : 1 + rand() % net.inputs;
    net.optimizer = rand() % 3;
    net.relu = rand() % 2;
    net.dead = net.relu && rand() % 2 && net.hidden > 3;
    net.linkage = rand() % 2;
    net.adds = rand() % 2;
    net.softmax = net.outputs > 1 && rand() % 2;
    net.scale = rand() % 3 || !net.softmax ? 0.5f : (float)(1 + rand() % 100);
    if (rand() % 2 == 0)
        choose_habits();
    if (getenv("MATRIX_DESCRIBE") != NULL)
        fprintf(stderr,
                "%d: %d-%d-%d batch %d pitch %d every %d optimizer %d%s%s%s%s%s%s%s%s%s times %d loss %g scale %g\n",
                number, net.inputs, net.hidden, net.outputs, net.batch, net.pitch, net.every, net.optimizer,
                net.relu ? " relu" : "", net.dead ? " dead" : "", net.linkage ? " C" : "", net.adds ? " adds" : "",
                net.softmax ? " softmax" : "", net.shared ? " shared" : "", net.remade ? " remade" : "",
                net.inside ? " inside" : "", net.gathered ? " gathered" : "", net.times, net.loss, net.scale);
}

enum { RECORDS = 64 };

static float *all;  /* the records, where a table chooses among them */
static int *chosen; /* the table */

static std::vector<float>
draw_records(int count)
{
    std::vector<float> inputs(count * net.inputs);
    for (int i = 0; i < (int)inputs.size(); ++i)
        inputs[i] = i % net.inputs % net.every == net.every / 2 ? draw() + 0.6f : 0.0f;
    return inputs;
}

static void
load(float *x, int *wanted)
{
    std::vector<int> classes(net.batch), table(net.batch);
    for (int &number : classes)
        number = rand() % (1 + net.outputs / 2); /* the others never occur */
    for (int &number : table)
        number = net.gathered ? rand() % RECORDS : 0;
    if (net.gathered) {
        upload(chosen, table);
        RUN(gather_rows, net.batch * net.inputs)(x, all, chosen, net.batch, net.inputs);
    } else {
        upload(x, draw_records(net.batch));
    }
    upload(wanted, classes);
}

/* Half of the hidden units never fire. */
static void
bury(float *bias)
{
    std::vector<float> values(net.hidden, 0.1f);
    for (int k = 0; k < net.hidden; k += 2)
        values[k] = -60;
    upload(bias, values);
}

/* Of each tensor: parameter, gradient, state of the optimizer, and how many elements it has. */
static float *p[TENSORS], *g[TENSORS], *m[TENSORS], *v[TENSORS];
static float *used[TENSORS]; /* by forward */
static int counts[TENSORS];

static void
create(void)
{
    const int sizes[TENSORS] = {net.inputs * net.pitch, net.hidden, net.hidden * net.outputs, net.outputs};
    int most = 0;
    for (int t = 0; t < TENSORS; ++t) {
        counts[t] = sizes[t];
        most = sizes[t] > most ? sizes[t] : most;
    }
    float *buffer = net.shared ? floats(most, 0) : NULL;
    for (int t = 0; t < TENSORS; ++t) {
        p[t] = floats(counts[t], t == 2 ? net.scale : t % 2 ? 0.1f : 0.5f);
        g[t] = net.shared ? buffer : net.remade ? NULL : floats(counts[t], 0);
        m[t] = floats(counts[t], 0);
        v[t] = floats(counts[t], 0);
        used[t] = net.stale && t % 2 == 0 ? floats(counts[t], 0.5f) : p[t];
        if (net.stale)
            continue;
        DDP_PARAMETER(p[t], counts[t], DDP_FLOAT32);
        if (g[t] != NULL && !net.shared)
            DDP_GRADIENT(g[t], counts[t], DDP_FLOAT32);
    }
    if (net.shared)
        DDP_GRADIENT(buffer, most, DDP_FLOAT32);
    if (net.dead)
        bury(p[1]);
    if (net.gathered) {
        all = floats(RECORDS * net.inputs, 0);
        upload(all, draw_records(RECORDS));
        chosen = (int *)floats(net.batch, 0);
    }
}

static void
update_tensor(int t)
{
    float rate = net.optimizer < 2 ? 0.01f / net.loss : 0.01f; /* Adam's steps know no scale */
    if (net.linkage != (net.apart && t == 0))
        RUN(update_c, counts[t])(p[t], g[t], m[t], v[t], counts[t], rate, net.optimizer);
    else
        RUN(update, counts[t])(p[t], g[t], m[t], v[t], counts[t], rate, net.optimizer);
}

/* By `times` launches, each of a part of the batch. */
static void
compute(int t, const float *in, const float *out)
{
    int rows = t == 0 ? net.inputs : t == 2 ? net.hidden : 1, columns = t < 2 ? net.hidden : net.outputs;
    int part = net.batch / net.times;
    if (net.adds)
        CHECK(cudaMemset(g[t], 0, counts[t] * sizeof(float)));
    for (int k = 0; k < net.times; ++k)
        RUN(gradient_of, rows * columns)
    (g[t], in != NULL ? in + k * part * rows : NULL, out + k * part * columns, part, rows, columns,
     t == 0 ? net.pitch : columns, net.adds);
}

static void
train(void)
{
    float *x = floats(net.batch * net.inputs, 0), *h = floats(net.batch * net.hidden, 0);
    float *z = floats(net.batch * net.outputs, 0), *error = floats(net.batch * net.outputs, 0);
    float *below = floats(net.batch * net.hidden, 0);
    int *wanted = (int *)floats(net.batch, 0), act = net.relu ? RECTIFIED : BENT;
    create();
    for (int step = 0; step < STEPS; ++step) {
        load(x, wanted);
        RUN(dense, net.batch * net.hidden)(h, x, used[0], used[1], net.batch, net.inputs, net.hidden, net.pitch, act);
        RUN(dense, net.batch * net.outputs)
        (z, h, used[2], used[3], net.batch, net.hidden, net.outputs, net.outputs, STRAIGHT);
        if (net.softmax)
            RUN(softmax_delta, net.batch)(error, NULL, z, wanted, net.batch, net.outputs, 1.0f);
        else
            RUN(square_error, net.batch * net.outputs)(error, z, wanted, net.batch, net.outputs);
        if (net.loss > 1)
            RUN(scale_by, net.batch * net.outputs)(error, net.loss, net.batch * net.outputs);
        RUN(error_below, net.batch * net.hidden)
        (below, error, p[2], h, net.batch, net.hidden, net.outputs, net.relu);
        const float *in[TENSORS] = {x, NULL, h, NULL}, *out[TENSORS] = {below, below, error, error};
        for (int t = 0; t < TENSORS; ++t) {
            if (net.remade) {
                CHECK(cudaMalloc(&g[t], counts[t] * sizeof(float)));
                CHECK(cudaMemset(g[t], 0, counts[t] * sizeof(float)));
                DDP_GRADIENT(g[t], counts[t], DDP_FLOAT32);
            }
            compute(t, in[t], out[t]);
            if (net.inside) {
                DDP_STEP(0);
                update_tensor(t);
            }
            if (net.remade) {
                DDP_FORGET(g[t]);
                CHECK(cudaFree(g[t]));
            }
        }
        if (!net.inside && !net.stale)
            DDP_STEP(0);
        for (int t = 0; t < TENSORS && !net.inside; ++t)
            update_tensor(t);
        CHECK(cudaDeviceSynchronize());
    }
}

/* ---- what scout has to ask about ---- */

enum { WORDS = 50, WIDTH = 16, PAIRS = 64 };

/* Words and their neighbours: `other` is updated where its gradient is computed, from the product of two rows. */
__global__ void
update_row(const float *table, float *other, const int *words, const int *others, float *gradient, float rate)
{
    __shared__ float products[WIDTH];
    int d = threadIdx.x, from = words[blockIdx.x] * WIDTH + d, to = others[blockIdx.x] * WIDTH + d;
    float x = table[from], y = other[to], sum = 0;
    products[d] = x * y;
    __syncthreads();
    for (int k = 0; k < WIDTH; ++k)
        sum += products[k];
    float error = 1 / (1 + expf(-sum)) - (float)(blockIdx.x % 2);
    gradient[blockIdx.x * WIDTH + d] = error * y;
    atomicAdd(&other[to], -rate * error * x);
}

__global__ void
add_rows(float *table, const int *words, const float *gradient, float rate)
{
    atomicAdd(&table[words[blockIdx.x] * WIDTH + threadIdx.x], -rate * gradient[blockIdx.x * WIDTH + threadIdx.x]);
}

static void
train_rows(void)
{
    float *table = floats(WORDS * WIDTH, 1), *other = floats(WORDS * WIDTH, 1), *gradient = floats(PAIRS * WIDTH, 0);
    int *words = (int *)floats(PAIRS, 0), *others = (int *)floats(PAIRS, 0);
    for (int step = 0; step < STEPS; ++step) {
        std::vector<int> first(PAIRS), second(PAIRS);
        for (int i = 0; i < PAIRS; ++i) {
            first[i] = rand() % WORDS;
            second[i] = rand() % WORDS;
        }
        upload(words, first);
        upload(others, second);
        update_row<<<PAIRS, WIDTH>>>(table, other, words, others, gradient, 0.05f);
        add_rows<<<PAIRS, WIDTH>>>(table, words, gradient, 0.05f);
        CHECK(cudaDeviceSynchronize());
    }
}

/* ---- one kernel with 16 pointers ---- */

enum { IN = 12, UNITS = 16, ITEMS = 32, PASSES = 4 };

__global__ void
pass(int number, const float *x, const float *wanted, float *w1, float *b1, float *w2, float *b2, float *h, float *z,
     float *error, float *unused, float *g1, float *gb1, float *g2, float *gb2, float *m1, float *m2)
{
    int i = INDEX;
    float sum = 0;
    if (number == 0 && i < ITEMS * UNITS) {
        for (int k = 0; k < IN; ++k)
            sum += x[i / UNITS * IN + k] * w1[k * UNITS + i % UNITS];
        h[i] = tanhf(sum + b1[i % UNITS]);
    } else if (number == 1 && i < ITEMS) {
        for (int k = 0; k < UNITS; ++k)
            sum += h[i * UNITS + k] * w2[k];
        z[i] = sum + b2[0];
        error[i] = (z[i] - wanted[i]) / ITEMS;
    } else if (number == 2 && i < IN * UNITS) {
        float bias = 0, weight = 0, last = 0;
        for (int b = 0; b < ITEMS; ++b) {
            float y = h[b * UNITS + i % UNITS], below = error[b] * w2[i % UNITS] * (1 - y * y);
            sum += x[b * IN + i / UNITS] * below;
            bias += below;
            weight += h[b * UNITS + i % UNITS] * error[b];
            last += error[b];
        }
        g1[i] = sum;
        if (i < UNITS) {
            gb1[i] = bias;
            g2[i] = weight;
        }
        if (i == 0)
            gb2[0] = last;
    } else if (number == 3 && i < IN * UNITS) {
        m1[i] = 0.9f * m1[i] + g1[i];
        w1[i] -= 0.05f * m1[i];
        if (i < UNITS) {
            m2[i] = 0.9f * m2[i] + g2[i];
            w2[i] -= 0.05f * m2[i];
            b1[i] -= 0.05f * gb1[i];
        }
        if (i == 0)
            b2[0] -= 0.05f * gb2[0];
    }
}

static void
train_pointers(void)
{
    const int counts[TENSORS] = {IN * UNITS, UNITS, UNITS, 1};
    float *p[TENSORS], *g[TENSORS], *x = floats(ITEMS * IN, 0), *wanted = floats(ITEMS, 0);
    float *h = floats(ITEMS * UNITS, 0), *z = floats(ITEMS, 0), *error = floats(ITEMS, 0);
    float *unused = floats(ITEMS * UNITS, 0), *m1 = floats(IN * UNITS, 0), *m2 = floats(UNITS, 0);
    for (int t = 0; t < TENSORS; ++t) {
        p[t] = floats(counts[t], 0.5f);
        g[t] = floats(counts[t], 0);
        DDP_PARAMETER(p[t], counts[t], DDP_FLOAT32);
        DDP_GRADIENT(g[t], counts[t], DDP_FLOAT32);
    }
    for (int step = 0; step < STEPS; ++step) {
        std::vector<float> inputs(ITEMS * IN), outputs(ITEMS);
        for (float &value : inputs)
            value = (float)rand() / (float)RAND_MAX - 0.5f;
        for (int i = 0; i < ITEMS; ++i)
            outputs[i] = sinf(3 * inputs[i * IN]) + inputs[i * IN + 1];
        upload(x, inputs);
        upload(wanted, outputs);
        for (int number = 0; number < PASSES; ++number) {
            if (number == PASSES - 1)
                DDP_STEP(0);
            RUN(pass, ITEMS * UNITS)
            (number, x, wanted, p[0], p[1], p[2], p[3], h, z, error, unused, g[0], g[1], g[2], g[3], m1, m2);
        }
        CHECK(cudaDeviceSynchronize());
    }
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "random";
    int number = argc > 2 ? atoi(argv[2]) : 1;
    srand(argc > 3 ? (unsigned)atoi(argv[3]) : (unsigned)number);
    choose(strcmp(mode, "random") == 0, number);
    if (strcmp(mode, "sparse") == 0) {
        net.inputs = 1200;
        net.every = number;
        net.apart = true;
    } else if (strcmp(mode, "tiny") == 0) {
        net.inputs = net.outputs = 32;
        net.softmax = true;
        net.scale = (float)number;
    }
    net.stale = strcmp(mode, "stale") == 0;
    if (strcmp(mode, "row") == 0)
        train_rows();
    else if (strcmp(mode, "pointers") == 0)
        train_pointers();
    else
        train();
    return 0;
}
