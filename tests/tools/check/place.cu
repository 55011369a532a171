/*
 * place.cu - a program whose step of N ranks and that of one process first part in one known operation: least squares
 * of a few weights. Modes: right; divisor (a kernel divides by a number of the share), rate (the update's rate depends
 * on the number of ranks), centre (a kernel subtracts the mean of the share), noise (a kernel's seed is the rank),
 * teacher (a kernel reads memory that each rank trains alone), items (a copy begins where the batch does), order (a
 * rank takes other items), whole (the divisor is the batch), decay (a term is added to a sum on each rank), count (a
 * kernel divides by what another one counts of the share), symbol (the host weighs by the share), clear (the first item
 * of the batch clears the gradient), wide (a gradient of another type), buffer (a trained buffer), read (forward reads
 * it, too), mean (a sum is shown as a mean), freed (memory of each step alone), forgotten (a gradient without
 * annotation), grid (the update's grid is the share's), early (an update before DDP_STEP), late (backward adds to an
 * averaged gradient), uneven (shares of 12 and 11 items). averaged (DDP_STEP_PARAMETERS, right), unit (its parameters
 * are scaled before they are averaged), part (its divisor is the batch). micro (three micro-batches, right),
 * micro_divisor (each divides by the rank's number, besides), valid (a kernel divides by what another one counts, and
 * DDP_WEIGHT would do), twice (a pointer and an index begin at the share), unmoved (labels lack `first`), skip (a rank
 * leaves out batches by its own items), columns (data by column, without `first`), columns_order (data by column, other
 * items), outside (a pointer leaves its memory on other ranks than the first), life (little noise by the
 * rank, and from step 6 on the divisor is the batch), passes (three DDP_STEPs before an
 * update, the first two of other rows), norm, own_norm (the host clips by a norm of own gradients), late_norm (after
 * it, right), width (rows are as wide as the batch, and the divisor is the batch), by_share (data on the device begin
 * so many shares further on in each step, and not batches), each_step (a DDP_STEP for each item, before the update).
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

#include <cublas_v2.h>
#include <vector>

enum { WIDTH = 16, BATCH = 24, ITEMS = 240 };

static __global__ void
residuals(float *r, const float *x, const float *y, const float *w, const float *teacher, int count)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count)
        return;
    r[n] = -y[n];
    for (int d = 0; d < WIDTH; ++d)
        r[n] += x[n * WIDTH + d] * (w[d] - (teacher != NULL ? 0.3f * teacher[d] : 0));
}

static __global__ void
centre(float *r, int count)
{
    float sum = 0;
    for (int n = 0; n < count; ++n)
        sum += r[n];
    for (int n = 0; n < count; ++n)
        r[n] -= sum / (float)count;
}

static __global__ void
gradient(float *g, const float *x, const float *r, int count, float divisor, float beta)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= WIDTH)
        return;
    g[d] *= beta;
    for (int n = 0; n < count; ++n)
        g[d] += r[n] * x[n * WIDTH + d] / divisor;
}

static __global__ void
fetch(float *x, float *y, const float *data, const float *labels, int first, int count)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    for (int d = 0; n < count && d < WIDTH; ++d)
        x[n * WIDTH + d] = data[(first + n) * WIDTH + d];
    if (n < count)
        y[n] = labels[first + n];
}

ELEMENTWISE(noise, (float *g, unsigned seed, float size), WIDTH,
            g[i] += size * (float)(((unsigned)(i + 1) * 2654435761u ^ (seed + 1) * 2246822519u) >> 16 & 255) / 256)

/* Items of columns become rows. */
static __global__ void
turn(float *x, const float *columns, int count)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    for (int d = 0; n < count && d < WIDTH; ++d)
        x[n * WIDTH + d] = columns[d * count + n];
}

static __global__ void
widen(float *rows, float *r, int count, int width)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    for (int d = 0; n < count && d < width; ++d)
        rows[n * width + d] = r[n];
    if (n < count)
        r[n] = 0.5f * rows[n * width];
}

/* It compares the pointer, and does not read there. */
static __global__ void
skew(float *r, const float *at, const float *begin, int count)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count)
        r[n] += at == begin ? 0.25f : 0.5f;
}

static __device__ float weight = 1;

ELEMENTWISE(weigh, (float *r, int count), count, r[i] *= weight)

static __global__ void
positives(float *found, const float *y, int count)
{
    *found = 0;
    for (int n = 0; n < count; ++n)
        *found += y[n] > 0.15f ? 1 : 0;
}

ELEMENTWISE(divide, (float *r, const float *found, int count), count, r[i] /= *found)
ELEMENTWISE(decay, (float *g, const float *w), WIDTH, g[i] += 0.5f * w[i])
ELEMENTWISE(item, (float *g, const float *x, const float *r, float divisor, float beta), WIDTH,
            g[i] = beta * g[i] + r[0] * x[i] / divisor)
ELEMENTWISE(add, (float *sum, const float *a, const float *b, float factor), WIDTH, sum[i] = a[i] + factor * b[i])
ELEMENTWISE(sgd, (float *w, const float *g, float rate), WIDTH, w[i] -= rate * g[i])

static __global__ void
unit_length(float *w)
{
    float sum = 0;
    for (int d = 0; d < WIDTH; ++d)
        sum += w[d] * w[d];
    for (int d = 0; d < WIDTH; ++d)
        w[d] *= rsqrtf(sum);
}

ELEMENTWISE(follow, (float *teacher, const float *r, int count), WIDTH, teacher[i] += 0.01f * r[i % count])

int
main(int argc, char **argv)
{
    given_names[0] = argc > 1 ? argv[1] : "right";
    std::vector<float> data(ITEMS * WIDTH), labels(ITEMS), start(WIDTH);
    unsigned state = is("own") ? 1 + (unsigned)DDP_RANK() : 1;
    auto draw = [&state] { return (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f; };
    for (float &value : data)
        value = draw();
    for (float &value : labels)
        value = draw();
    for (float &value : start)
        value = draw();
    float *x = device_floats(BATCH * WIDTH), *y = device_floats(BATCH), *r = device_floats(BATCH),
          *w = device_floats(WIDTH), *g = device_floats(WIDTH), *teacher = device_floats(WIDTH);
    CHECK(cudaMemcpy(w, start.data(), WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    if (is("begin")) {
        size_t first, share;
        DDP_SHARD(BATCH, &first, &share);
        CHECK(cudaMemcpy(x, &data[first * WIDTH], share * WIDTH * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(y, &labels[first], share * sizeof(float), cudaMemcpyHostToDevice));
        gradient<<<1, 8>>>(w, x, y, (int)share, (float)share, 1);
    }
    DDP_PARAMETER(w, WIDTH, DDP_FLOAT32);
    bool averages = is("averaged") || is("unit") || is("part");
    if (averages)
        ;
    else if (is("wide"))
        DDP_GRADIENT((void *)g, WIDTH / 2, DDP_FLOAT64);
    else
        DDP_GRADIENT(g, WIDTH, DDP_FLOAT32);
    float *buffer = device_floats(WIDTH), *own = device_floats(WIDTH), *zeros = device_floats(WIDTH),
          *found = device_floats(1), *table = device_floats(ITEMS + BATCH),
          *all = device_floats((ITEMS + BATCH) * WIDTH), *rows = device_floats(BATCH * BATCH);
    cublasHandle_t handle;
    CHECK(cublasCreate(&handle));
    CHECK(cudaMemcpy(all, data.data(), ITEMS * WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(table, labels.data(), ITEMS * sizeof(float), cudaMemcpyHostToDevice));
    bool is_micro = is("micro") || is("micro_divisor");
    if (is("buffer") || is("read")) {
        CHECK(cudaMemcpy(buffer, start.data(), WIDTH * sizeof(float), cudaMemcpyHostToDevice));
        DDP_BUFFER(buffer, WIDTH, DDP_FLOAT32);
    } else if (is("forgotten")) {
        DDP_PARAMETER(buffer, WIDTH, DDP_FLOAT32);
    }
    for (int step = 0; step < 20; ++step) {
        size_t first, share;
        DDP_SHARD(is("uneven") ? BATCH - 1 : BATCH, &first, &share);
        int count = (int)share, at = step % (ITEMS / BATCH) * BATCH + (int)first;
        if (is("items") || is("columns") || (is("passes") && step % 3 < 2))
            at -= (int)first;
        if (is("order") || is("columns_order"))
            at = (step + 3 * DDP_RANK()) % (ITEMS / BATCH) * BATCH + (int)first;
        const bool is_second_life = is("life") && step >= 5;
        float divisor = is_second_life || is("whole") || is("part") || is("width") ? (float)BATCH
                        : is("decay")                                              ? 1
                        : is("divisor")                                            ? (float)(count + 3 * DDP_RANK())
                                                                                   : (float)count;
        if (is("twice")) {
            fetch<<<1, 32>>>(x, y, all + (size_t)at * WIDTH, table + at, (int)first, count);
        } else if (is("resident") || is("own") || is("unmoved") || is("by_share")) {
            at -= is("resident") ? (int)first : 0;
            at = is("by_share") ? step % (ITEMS / BATCH) * count + (int)first : at;
            x = all + (size_t)at * WIDTH;
            y = table + at - (is("unmoved") ? (int)first : 0);
        } else if (is("columns") || is("columns_order")) {
            std::vector<float> columns(share * WIDTH);
            for (size_t i = 0; i < columns.size(); ++i)
                columns[i % WIDTH * share + i / WIDTH] = data[(size_t)at * WIDTH + i];
            CHECK(cudaMemcpy(all, columns.data(), columns.size() * sizeof(float), cudaMemcpyHostToDevice));
            turn<<<1, 32>>>(x, all, count);
            CHECK(cudaMemcpy(y, &labels[(size_t)at], share * sizeof(float), cudaMemcpyHostToDevice));
        } else {
            CHECK(cudaMemcpy(x, &data[(size_t)at * WIDTH], share * WIDTH * sizeof(float), cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(y, &labels[(size_t)at], share * sizeof(float), cudaMemcpyHostToDevice));
        }
        residuals<<<1, 32>>>(r, x, y, w, is("teacher") ? teacher : is("read") ? buffer : NULL, count);
        if (is("skip") && labels[(size_t)(at + count - 1)] > 0.2f) /* of the rank's last item */
            continue;
        if (is("width"))
            widen<<<1, 32>>>(rows, r, count, BATCH);
        if (is("teacher"))
            follow<<<1, 32>>>(teacher, r, count);
        if (is("symbol")) {
            float sum = 0;
            for (int n = 0; n < count; ++n)
                sum += labels[(size_t)(at + n)];
            CHECK(cudaMemcpyToSymbol(weight, &sum, sizeof(sum)));
            weigh<<<1, 32>>>(r, count);
        }
        if (is("count") || is("valid")) {
            positives<<<1, 1>>>(found, y, count);
            divide<<<1, 32>>>(r, found, count);
        }
        if (is("outside"))
            skew<<<1, 32>>>(r, first > 0 ? (const float *)(1UL << 46) : y, y, count);
        if (is("centre"))
            centre<<<1, 1>>>(r, count);
        for (int n = 0; n < count && is("clear"); ++n)
            item<<<1, 32>>>(g, x + n * WIDTH, r + n, divisor, first + (size_t)n == 0 ? 0.0f : 1.0f);
        for (int n = 0; n < count && is_micro; n += count / 3)
            gradient<<<1, 32>>>(g, x + n * WIDTH, r + n, count / 3,
                                is("micro") ? (float)count : (float)(count + 3 * DDP_RANK()), n == 0 ? 0.0f : 1.0f);
        for (int n = 0; n < count && is("each_step"); ++n) {
            gradient<<<1, 32>>>(g, x + n * WIDTH, r + n, 1, divisor, n == 0 ? 0.0f : 1.0f);
            DDP_STEP(0);
        }
        if (!is("clear") && !is_micro && !is("each_step"))
            gradient<<<1, 32>>>(g, x, r, count, is("valid") ? 1 : divisor, 0);
        if (is("buffer") || is("read") || is("forgotten"))
            gradient<<<1, 32>>>(own, x, r, count, divisor, 0);
        if (is("decay"))
            decay<<<1, 32>>>(g, w);
        if (is("mean")) {
            double sum = count;
            DDP_MEAN(&sum);
        }
        if (is("noise") || is("life"))
            noise<<<1, 32>>>(g, (unsigned)DDP_RANK(), is("noise") ? 0.1f : 1e-3f);
        float norm = 0, bound = argc > 2 ? (float)atof(argv[2]) : 1000;
        if (is("norm"))
            CHECK(cublasSnrm2(handle, WIDTH, g, 1, &norm));
        if (is("own_norm")) {
            positives<<<1, 1>>>(found, g, WIDTH);
            CHECK(cudaMemcpy(&norm, found, sizeof(norm), cudaMemcpyDeviceToHost));
        }
        if (norm > bound)
            add<<<1, 32>>>(g, zeros, g, bound / norm);
        if (is("early") || averages)
            sgd<<<1, 32>>>(w, g, 0.1f);
        if (is("unit"))
            unit_length<<<1, 1>>>(w);
        if (averages) {
            DDP_STEP_PARAMETERS(0);
            continue;
        }
        if (!is("each_step"))
            DDP_STEP(0);
        if (is("early"))
            continue;
        if (is("late"))
            add<<<1, 32>>>(g, g, r, 0.1f);
        if (is("late_norm")) {
            positives<<<1, 1>>>(found, g, WIDTH);
            CHECK(cudaMemcpy(&norm, found, sizeof(norm), cudaMemcpyDeviceToHost));
        }
        if (is("passes")) {
            add<<<1, 32>>>(own, own, g, 1);
            if (step % 3 < 2)
                continue;
            sgd<<<2, 8>>>(w, own, 0.1f);
            CHECK(cudaMemset(own, 0, WIDTH * sizeof(float)));
            continue;
        }
        if (is("buffer") || is("read") || is("forgotten"))
            sgd<<<1, 32>>>(buffer, own, argc > 2 ? (float)atof(argv[2]) : 1e-5f);
        if (is("freed")) {
            float *change = device_floats(WIDTH);
            add<<<1, 32>>>(change, zeros, r, 0.1f);
            add<<<1, 32>>>(change, zeros, g, 0.1f);
            add<<<1, 32>>>(w, w, change, -1);
            CHECK(cudaFree(change));
            continue;
        }
        sgd<<<is("grid") ? count / 12 : 2, 8>>>(w, g,
                                                is("decay")  ? 0.1f * (float)DDP_WORLD_SIZE() / BATCH
                                                : is("rate") ? 0.1f * (float)DDP_WORLD_SIZE()
                                                             : 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
