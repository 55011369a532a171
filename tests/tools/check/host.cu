/*
 * host.cu - programs of which part of a step is no operation of the device, or comes twice from one line: least squares
 * of a few weights by what an autograd engine with a tape makes, or in managed memory that the host updates.
 *
 * Device, with a second pass over the same weights by the same functions: tape (right), terms (the first of two losses
 * is divided by the whole batch), labels (are not moved by `first`, which the kernel gets besides), cleared (the
 * gradient is cleared as far as the share is long), restores (a rank goes back to the first weights by a figure of its
 * own). Managed, clipped and updated by the host: managed (right), clips (before DDP_STEP), writes (the host writes an
 * element of the gradient after DDP_STEP), moments (of the rank's own gradient), faster (the learning rate is
 * multiplied by the number of ranks), half (half of the gradient is annotated). Sums over the share, which the update
 * divides: sums (right), bias (a second gradient has no annotation).
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

#include <vector>

enum { WIDTH = 16, BATCH = 24, ITEMS = 240, STEPS = 12 };

ELEMENTWISE(predict, (float *s, const float *x, const float *w, int count), count, s[i] = 0;
            for (int d = 0; d < WIDTH; ++d) s[i] += x[i * WIDTH + d] * w[d])
/* `number`: of the share's first item in the batch, by which items are weighed. */
ELEMENTWISE(error, (float *r, const float *s, const float *y, int count, int number, float scale), count,
            r[i] = scale * (s[i] - y[i]) * (1 + 0.01f * (float)(number + i)))
ELEMENTWISE(shrink, (float *r, const float *s, int count, float scale), count, r[i] = scale * s[i])
ELEMENTWISE(accumulate, (float *g, const float *x, const float *r, int count), WIDTH,
            for (int n = 0; n < count; ++n) g[i] += r[n] * x[n * WIDTH + i])
ELEMENTWISE(accumulate_bias, (float *g, const float *r, int count), 1, for (int n = 0; n < count; ++n) g[i] += r[n])
ELEMENTWISE(clear, (float *g, int from, int count), count, g[(from + i) % WIDTH] = 0)
ELEMENTWISE(descend, (float *w, const float *g, int count, float rate), count, w[i] -= rate * g[i])

static float *x, *y, *s, *r, *w, *g, *first_w;

/* The share of a step: rows of x and y from `at` on. */
struct share {
    int first, count, at;
};

static struct share
share_of_step(int step)
{
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    return {(int)first, (int)count, step % (ITEMS / BATCH) * BATCH + (int)first};
}

static float *
device_copy(const std::vector<float> &values)
{
    float *memory = device_floats(values.size());
    CHECK(cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

/* ---- one layer in two places ---- */

static void
pass_back(const struct share &share)
{
    accumulate<<<1, 32>>>(g, x + share.at * WIDTH, r, share.count);
}

static void
pass_forward(const struct share &share)
{
    predict<<<1, 32>>>(s, x + share.at * WIDTH, w, share.count);
}

/* By the residual of the share's first item. */
static void
restore(int step)
{
    float figure;
    CHECK(cudaMemcpy(&figure, r, sizeof(figure), cudaMemcpyDeviceToHost));
    if (step > 3 && figure > 0)
        CHECK(cudaMemcpy(w, first_w, WIDTH * sizeof(float), cudaMemcpyDeviceToDevice));
}

static void
train_with_tape(int step)
{
    const struct share share = share_of_step(step);
    const float *labels = y + share.at - (is("labels") ? share.first : 0);
    const float scale = 1.0f / (float)(is("terms") ? BATCH : share.count);
    clear<<<1, 32>>>(g, is("cleared") ? share.first : 0, is("cleared") ? share.count : WIDTH);
    pass_forward(share);
    error<<<1, 32>>>(r, s, labels, share.count, share.first, scale);
    pass_back(share);
    pass_forward(share);
    shrink<<<1, 32>>>(r, s, share.count, 0.3f / (float)share.count);
    pass_back(share);
    DDP_STEP(0);
    descend<<<1, 32>>>(w, g, WIDTH, 0.05f);
    if (is("restores"))
        restore(step);
}

/* ---- sums ---- */

static void
train_by_sums(int step, float *bias, float *bias_gradient)
{
    const struct share share = share_of_step(step);
    clear<<<1, 32>>>(g, 0, WIDTH);
    clear<<<1, 32>>>(bias_gradient, 0, 1);
    pass_forward(share);
    error<<<1, 32>>>(r, s, y + share.at, share.count, share.first, 1);
    pass_back(share);
    accumulate_bias<<<1, 1>>>(bias_gradient, r, share.count);
    DDP_STEP(0);
    descend<<<1, 32>>>(w, g, WIDTH, 0.05f / (float)share.count);
    descend<<<1, 32>>>(bias, bias_gradient, 1, 0.05f / (float)share.count);
}

/* ---- the host's part ---- */

static void
clip(float most)
{
    float square = 0;
    for (int d = 0; d < WIDTH; ++d)
        square += g[d] * g[d];
    for (int d = 0; d < WIDTH && square > most * most; ++d)
        g[d] *= most / sqrtf(square);
}

static void
update_on_host(const std::vector<float> &moments)
{
    const float rate = 0.05f * (float)(is("faster") ? DDP_WORLD_SIZE() : 1);
    for (int d = 0; d < WIDTH; ++d)
        w[d] -= rate * g[d] / (0.1f + sqrtf(moments[d]));
}

static void
train_on_host(int step, std::vector<float> *moments)
{
    const struct share share = share_of_step(step);
    CHECK(cudaMemset(g, 0, WIDTH * sizeof(float)));
    pass_forward(share);
    error<<<1, 32>>>(r, s, y + share.at, share.count, share.first, 1.0f / (float)share.count);
    pass_back(share);
    CHECK(cudaDeviceSynchronize());
    const float own = g[3];
    if (is("clips"))
        clip(0.02f);
    std::vector<float> before(g, g + WIDTH);
    DDP_STEP(0);
    if (is("writes"))
        g[3] = 0.5f * own;
    if (!is("clips"))
        clip(0.02f);
    for (int d = 0; d < WIDTH; ++d)
        (*moments)[d] += is("moments") ? before[d] * before[d] : g[d] * g[d];
    update_on_host(*moments);
}

/* ---- all of it ---- */

static float *
managed_floats(void)
{
    float *memory;
    CHECK(cudaMallocManaged((void **)&memory, WIDTH * sizeof(float)));
    return memory;
}

static bool
is_any(const std::vector<const char *> &names)
{
    for (const char *name : names)
        if (is(name))
            return true;
    return false;
}

int
main(int argc, char **argv)
{
    given_names[0] = argc > 1 ? argv[1] : "tape";
    std::vector<float> data(ITEMS * WIDTH), labels(ITEMS), start(WIDTH), moments(WIDTH);
    unsigned state = 1;
    auto draw = [&state] { return (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f; };
    for (std::vector<float> *values : {&data, &labels, &start})
        for (float &value : *values)
            value = draw();
    const bool is_of_host = is_any({"managed", "clips", "writes", "moments", "faster", "half"}),
               sums = is_any({"sums", "bias"});
    x = device_copy(data);
    y = device_copy(labels);
    first_w = device_copy(start);
    s = device_floats(BATCH);
    r = device_floats(BATCH);
    w = is_of_host ? managed_floats() : device_floats(WIDTH);
    g = is_of_host ? managed_floats() : device_floats(WIDTH);
    CHECK(cudaMemcpy(w, start.data(), WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    float *bias = device_floats(1), *bias_gradient = device_floats(1);
    DDP_PARAMETER(w, WIDTH, DDP_FLOAT32);
    DDP_GRADIENT(g, is("half") ? WIDTH / 2 : WIDTH, DDP_FLOAT32);
    if (sums)
        DDP_PARAMETER(bias, 1, DDP_FLOAT32);
    if (is("sums"))
        DDP_GRADIENT(bias_gradient, 1, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        if (is_of_host)
            train_on_host(step, &moments);
        else if (sums)
            train_by_sums(step, bias, bias_gradient);
        else
            train_with_tape(step);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
