/*
 * same.cu - models whose gradients are added up by float atomics, so that their last bits depend on the order of
 * blocks. The data lie on the device from the start. Words say what is different; several may be joined by +.
 *
 * Mistakes, by which all ranks train on the same data:
 *   resident   the ranks take the whole batch
 *   indices    a list of the items, shuffled on the device, of which all take the same part
 *   generator  items made on the device, by the number of the step
 *   copies     a data set of each rank's own, whose content is every rank's
 *   cursor     a place in the data set that lives on the device
 *   head       DDP_SHARD is asked, and the share begins with the batch's first item all the same
 *   rows       the whole batch, whose items name a row each of a large table
 *
 * Habits of right programs:
 *   one two few many          items of each rank in a step
 *   tied tied_labels twins    items that differ by 1e-4 of themselves; labels that do; pairs of equal items
 *   large ones bits           a column a million times as large; one that is 1; features and labels that are 0 or 1
 *   sparse zeros late         nine of ten features are 0; all of the first half are; gradients are 0 in the first steps
 *   table decay               items name rows of a large table; a term of the weights is added to each gradient
 *   scalar pair               models of one and two weights
 *   centred                   besides, a gradient that is zero but for rounding
 *   whole slow                all data in each step; a rate of 1e-6
 *   averaged passes           DDP_STEP_PARAMETERS; three passes a step
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

enum { ITEMS = 960, WIDTH = 128, ROWS = 512, STEPS = 16 };

static float *features, *labels, *weights, *gradients, *offset, *offset_gradient;
static int *list, *cursor;
static int columns = WIDTH, rows = 1;

static float
column_scale(int j)
{
    return j == 0 && is("large") ? 1e6f : 1;
}

static float
feature_of(int i, int j)
{
    int item = is("twins") ? i / 2 : i;
    float own = hashed_float(1, (unsigned)(item * WIDTH + j)), common = hashed_float(2, (unsigned)j);
    if ((is("zeros") && j < columns / 2) || (is("sparse") && hashed_float(3, (unsigned)(item * WIDTH + j)) < 0.9f))
        return 0;
    if (is("bits"))
        return own < 0.5f;
    if (j == 0 && is("ones"))
        return 1;
    if (is("tied") || (j == 0 && is("large")))
        return column_scale(j) * (common + 0.1f) * (1 + 1e-4f * own);
    return own - 0.5f;
}

static float
label_of(int i)
{
    float own = hashed_float(4, (unsigned)(is("twins") ? i / 2 : i));
    return is("bits") ? (float)(own < 0.5f) : is("tied_labels") || is("tied") ? 1 + 1e-4f * own : (float)own;
}

/* Items first to first + gridDim.x - 1 of the list, of each behind `from`. */
static __global__ void
backward(const float *x, const float *y, const int *list, const int *from, int first, const float *w, float *g,
         int rows, float part)
{
    int i = list[(first + (from != NULL ? *from : 0) + blockIdx.x) % ITEMS], j = threadIdx.x;
    int at = i * 7 % rows * blockDim.x + j;
    atomicAdd(&g[at], x[i * blockDim.x + j] * (w[at] * x[i * blockDim.x + j] - y[i]) * part);
}

/* Terms that cancel each other. */
static __global__ void
centre(const float *x, const int *list, int first, float *g, float part)
{
    float value = x[list[(first + blockIdx.x) % ITEMS] * WIDTH + threadIdx.x] * part;
    atomicAdd(&g[threadIdx.x], blockIdx.x % 2 == 0 ? value : (float)0);
    atomicAdd(&g[threadIdx.x], blockIdx.x % 2 == 0 ? -value : (float)0);
}

/* Mistake: the same items on each rank. */
static __global__ void
generate(float *x, float *y, int step)
{
    unsigned seed = (unsigned)(blockIdx.x * blockDim.x + threadIdx.x + step * 65536);
    x[blockIdx.x * blockDim.x + threadIdx.x] = hashed_float(5, seed) - 0.5f;
    y[blockIdx.x] = hashed_float(6, (unsigned)blockIdx.x + (unsigned)step * 65536u);
}

ELEMENTWISE_OF_ALL(shuffle, (int *list, int step), list[i] = (i * 7 + step * 131) % ITEMS)

static __global__ void
advance(int *cursor, int by)
{
    *cursor = (*cursor + by) % ITEMS;
}

ELEMENTWISE_OF_ALL(decay, (float *g, const float *w), g[i] += (float)0.01 * w[i])
ELEMENTWISE_OF_ALL(update, (float *w, float *g, float rate), w[i] -= rate * g[i]; g[i] = 0)

static float *
numbers(int count, float (*value)(int i))
{
    float *memory, *host = (float *)calloc((size_t)count, sizeof(float));
    for (int i = 0; i < count && value != NULL; ++i)
        host[i] = value(i);
    CHECK(cudaMalloc(&memory, (size_t)count * sizeof(float)));
    CHECK(cudaMemcpy(memory, host, (size_t)count * sizeof(float), cudaMemcpyHostToDevice));
    free(host);
    return memory;
}

static void
create(void)
{
    int host[ITEMS];
    for (int i = 0; i < ITEMS; ++i)
        host[i] = i;
    columns = is("scalar") ? 1 : is("pair") ? 2 : WIDTH;
    rows = is("table") || is("rows") ? ROWS : 1;
    features = numbers(ITEMS * columns, [](int e) { return feature_of(e / columns, e % columns); });
    labels = numbers(ITEMS, label_of);
    weights = numbers(rows * columns, [](int e) { return (float)(hashed_float(7, (unsigned)e) / column_scale(e)); });
    gradients = numbers(rows * columns, NULL);
    CHECK(cudaMalloc(&list, sizeof(host)));
    CHECK(cudaMemcpy(list, host, sizeof(host), cudaMemcpyHostToDevice));
    cursor = (int *)device_memory(sizeof(int));
    offset = numbers(WIDTH, NULL);
    offset_gradient = numbers(WIDTH, NULL);
    DDP_PARAMETER(weights, rows * columns, DDP_TYPE_OF(weights));
    if (!is("averaged"))
        DDP_GRADIENT(gradients, rows * columns, DDP_TYPE_OF(gradients));
    if (is("centred")) {
        DDP_PARAMETER(offset, WIDTH, DDP_TYPE_OF(offset));
        DDP_GRADIENT(offset_gradient, WIDTH, DDP_TYPE_OF(offset_gradient));
    }
}

int
main(int argc, char **argv)
{
    names_take(argc, argv,
               " resident indices generator copies cursor head rows one two few many tied tied_labels twins large ones "
               "bits sparse zeros late table decay scalar pair centred whole slow averaged passes plain ");
    create();
    int each = is("one") ? 1 : is("two") ? 2 : is("few") ? 4 : is("many") ? 120 : is("whole") ? ITEMS / 4 : 16;
    int items = is("whole") ? ITEMS : 4 * each, passes = is("passes") ? 3 : 1;
    bool own = is("copies"), all = is("resident") || is("indices") || is("generator") || is("cursor") || is("rows");
    size_t first = 0, count = (size_t)items;
    if (own)
        count /= (size_t)DDP_WORLD_SIZE();
    else if (!all)
        DDP_SHARD((size_t)items, &first, &count);
    if (is("head"))
        first = 0;
    float rate = (float)(is("slow") ? 1e-6 : is("large") ? 1e-14 : 0.1);
    for (int step = 0; step < STEPS; ++step) {
        if (is("generator"))
            generate<<<items, columns>>>(features, labels, step);
        if (is("indices"))
            shuffle<<<ITEMS / 32, 32>>>(list, step);
        for (int pass = 0; pass < passes; ++pass) {
            int from = is("indices") || is("cursor") || is("generator") ? 0 : (step * passes + pass) * items;
            float part = is("late") && step < 4 ? 0 : (float)1 / (float)((int)count * passes);
            backward<<<(int)count, columns>>>(features, labels, list, is("cursor") ? cursor : NULL, from + (int)first,
                                              weights, gradients, rows, part);
            if (is("centred"))
                centre<<<(int)count, WIDTH>>>(features, list, from + (int)first, offset_gradient, part);
        }
        if (is("decay"))
            decay<<<rows, columns>>>(gradients, weights);
        if (is("cursor"))
            advance<<<1, 1>>>(cursor, items);
        if (!is("averaged"))
            DDP_STEP(0);
        update<<<rows, columns>>>(weights, gradients, rate);
        if (is("averaged"))
            DDP_STEP_PARAMETERS(0);
        if (is("centred"))
            update<<<1, WIDTH>>>(offset, offset_gradient, rate);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
