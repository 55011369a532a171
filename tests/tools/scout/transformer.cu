/*
 * transformer.cu WHERE [STEPS [SEQUENCES]] - a trainer with a step of several hundred operations: a transformer that
 * computes each sequence of a batch by itself, 430 operations for 4 of them.
 *
 * WHERE: `apart`, each tensor has memory of its own; `wide`, the same, and each has room for 2^18 numbers; `pool`, all
 * lie in one allocation of 64 MiB. It prints how many bytes an update writes.
 */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

enum { DIM = 16, LENGTH = 16, HEADS = 2, HEAD = DIM / HEADS, LAYERS = 2, WIDE = 32, WORDS = 32 };
enum { POOL_BYTES = 1 << 26, ROOM_NUMBERS = 1 << 18 };

static const char *where;
static int sequences = 4;

static float *
get(size_t count)
{
    static char *pool;
    static size_t used;
    float *memory;
    if (strcmp(where, "pool") != 0) {
        size_t room = strcmp(where, "wide") == 0 ? (size_t)ROOM_NUMBERS : count;
        cudaMalloc(&memory, room * sizeof(float));
        cudaMemset(memory, 0, room * sizeof(float));
        return memory;
    }
    if (pool == nullptr) {
        cudaMalloc(&pool, POOL_BYTES);
        cudaMemset(pool, 0, POOL_BYTES);
    }
    memory = reinterpret_cast<float *>(pool + used);
    used += (count * sizeof(float) + 255) / 256 * 256;
    return memory;
}

/* One thread computes one number of the result, or one row of it. */
#define THREAD_OF(count)                                  \
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); \
    if (i >= (count))                                     \
    return

#define LAUNCH(kernel, count, ...) kernel<<<((count) + 63) / 64, 64>>>(__VA_ARGS__, count)

__global__ void
embed(const int *words, const float *table, const float *places, float *x, int count)
{
    THREAD_OF(count);
    x[i] = table[words[i / DIM] * DIM + i % DIM] + places[i];
}

__global__ void
embed_back(const int *words, const float *dx, float *dtable, float *dplaces, int count)
{
    THREAD_OF(count);
    for (int t = 0; t < LENGTH; ++t) {
        dtable[words[t] * DIM + i] += dx[t * DIM + i];
        dplaces[t * DIM + i] += dx[t * DIM + i];
    }
}

/* c = a b, of rows of `inner` numbers; strides let a head be a part of each row. */
__global__ void
multiply(const float *a, int a_stride, const float *b, int b_stride, float *c, int c_stride, int inner, int columns,
         int count)
{
    THREAD_OF(count);
    float sum = 0;
    for (int k = 0; k < inner; ++k)
        sum += a[i / columns * a_stride + k] * b[k * b_stride + i % columns];
    c[i / columns * c_stride + i % columns] = sum;
}

/* c = a b^T */
__global__ void
multiply_turned(const float *a, int a_stride, const float *b, int b_stride, float *c, int c_stride, int inner,
                int columns, int count)
{
    THREAD_OF(count);
    float sum = 0;
    for (int k = 0; k < inner; ++k)
        sum += a[i / columns * a_stride + k] * b[i % columns * b_stride + k];
    c[i / columns * c_stride + i % columns] = sum;
}

/* c = a^T b */
__global__ void
turned_multiply(const float *a, int a_stride, const float *b, int b_stride, float *c, int c_stride, int inner,
                int columns, int count)
{
    THREAD_OF(count);
    float sum = 0;
    for (int k = 0; k < inner; ++k)
        sum += a[k * a_stride + i / columns] * b[k * b_stride + i % columns];
    c[i / columns * c_stride + i % columns] = sum;
}

/* c += a^T b: the gradient of a weight, over all sequences of a batch. */
__global__ void
add_gradient(const float *a, const float *b, float *c, int inner, int rows, int columns, int count)
{
    THREAD_OF(count);
    float sum = 0;
    for (int k = 0; k < inner; ++k)
        sum += a[k * rows + i / columns] * b[k * columns + i % columns];
    c[i] += sum;
}

__global__ void
softmax(float *scores, int count)
{
    THREAD_OF(count);
    float *row = scores + i * LENGTH, most = -1e30F, sum = 0;
    for (int k = 0; k <= i; ++k)
        most = fmaxf(most, row[k] / sqrtf(HEAD));
    for (int k = 0; k <= i; ++k)
        sum += row[k] = expf(row[k] / sqrtf(HEAD) - most);
    for (int k = 0; k < LENGTH; ++k)
        row[k] = k <= i ? row[k] / sum : 0;
}

__global__ void
softmax_back(const float *p, float *dp, int count)
{
    THREAD_OF(count);
    float sum = 0;
    for (int k = 0; k <= i; ++k)
        sum += p[i * LENGTH + k] * dp[i * LENGTH + k];
    for (int k = 0; k < LENGTH; ++k)
        dp[i * LENGTH + k] = p[i * LENGTH + k] * (dp[i * LENGTH + k] - sum) / sqrtf(HEAD);
}

__global__ void
normalise(const float *x, float *y, float *scale, int count)
{
    THREAD_OF(count);
    float sum = 0;
    for (int k = 0; k < DIM; ++k)
        sum += x[i * DIM + k] * x[i * DIM + k];
    scale[i] = 1 / sqrtf(sum / DIM + 1e-5F);
    for (int k = 0; k < DIM; ++k)
        y[i * DIM + k] = x[i * DIM + k] * scale[i];
}

__global__ void
normalise_back(const float *y, const float *scale, const float *dy, float *dx, int count)
{
    THREAD_OF(count);
    float sum = 0;
    for (int k = 0; k < DIM; ++k)
        sum += y[i * DIM + k] * dy[i * DIM + k];
    for (int k = 0; k < DIM; ++k)
        dx[i * DIM + k] += scale[i] * (dy[i * DIM + k] - y[i * DIM + k] * sum / DIM);
}

__global__ void
add(const float *a, float *to, int count)
{
    THREAD_OF(count);
    to[i] += a[i];
}

__global__ void
add_to_new(const float *a, const float *b, float *to, int count)
{
    THREAD_OF(count);
    to[i] = a[i] + b[i];
}

__global__ void
leaky(const float *x, float *y, int count)
{
    THREAD_OF(count);
    y[i] = x[i] > 0 ? x[i] : 0.1F * x[i];
}

__global__ void
leaky_back(const float *x, float *d, int count)
{
    THREAD_OF(count);
    d[i] = x[i] > 0 ? d[i] : 0.1F * d[i];
}

__global__ void
cross_entropy(const float *logits, const int *targets, float *d, float *losses, float share, int count)
{
    THREAD_OF(count);
    const float *row = logits + i * WORDS;
    float most = -1e30F, sum = 0;
    for (int k = 0; k < WORDS; ++k)
        most = fmaxf(most, row[k]);
    for (int k = 0; k < WORDS; ++k)
        sum += expf(row[k] - most);
    for (int k = 0; k < WORDS; ++k)
        d[i * WORDS + k] = (expf(row[k] - most) / sum - (k == targets[i] ? 1 : 0)) * share;
    losses[i] = logf(sum) + most - row[targets[i]];
}

__global__ void
momentum(float *weight, const float *gradient, float *velocity, int count)
{
    THREAD_OF(count);
    velocity[i] = 0.9F * velocity[i] + gradient[i];
    weight[i] -= 0.05F * velocity[i];
}

struct weight {
    float *value, *gradient, *velocity;
    int rows, columns;
};

static std::vector<weight> weights;

static weight
make_weight(int rows, int columns)
{
    size_t count = (size_t)rows * columns;
    weight made = {get(count), get(count), get(count), rows, columns};
    std::vector<float> host(count);
    for (float &it : host)
        it = ((float)rand() / (float)RAND_MAX - 0.5F) * 2 / sqrtf((float)rows);
    cudaMemcpy(made.value, host.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    weights.push_back(made);
    return made;
}

static void
forward(const weight &w, const float *x, float *y)
{
    LAUNCH(multiply, LENGTH * w.columns, x, w.rows, w.value, w.columns, y, w.columns, w.rows, w.columns);
}

/* dx: by the weight; NULL: not needed. */
static void
backward(const weight &w, const float *x, const float *dy, float *dx)
{
    LAUNCH(add_gradient, w.rows * w.columns, x, dy, w.gradient, LENGTH, w.rows, w.columns);
    LAUNCH(multiply_turned, LENGTH * w.rows, dy, w.columns, w.value, w.columns, dx, w.rows, w.columns, w.rows);
}

struct layer {
    weight q, k, v, o, up, down;
    float *in, *normal, *scale, *queries, *keys, *values, *p[HEADS], *mixed, *projected, *middle, *normal2, *scale2,
        *wide, *active, *narrow;
};

static float *d_queries, *d_keys, *d_values, *d_mixed, *d_p, *d_wide, *d_normal;

static void
make_layer(layer &it)
{
    enum { X = LENGTH * DIM };
    for (weight *w : {&it.q, &it.k, &it.v, &it.o})
        *w = make_weight(DIM, DIM);
    it.up = make_weight(DIM, WIDE);
    it.down = make_weight(WIDE, DIM);
    for (float **x : {&it.in, &it.normal, &it.queries, &it.keys, &it.values, &it.mixed, &it.projected, &it.middle,
                      &it.normal2, &it.narrow})
        *x = get(X);
    for (float **x : {&it.scale, &it.scale2})
        *x = get(LENGTH);
    for (float *&p : it.p)
        p = get(LENGTH * LENGTH);
    it.wide = get(LENGTH * WIDE);
    it.active = get(LENGTH * WIDE);
}

static void
layer_forward(const layer &it, float *out)
{
    LAUNCH(normalise, LENGTH, it.in, it.normal, it.scale);
    forward(it.q, it.normal, it.queries);
    forward(it.k, it.normal, it.keys);
    forward(it.v, it.normal, it.values);
    for (int h = 0; h < HEADS; ++h) {
        int at = h * HEAD;
        LAUNCH(multiply_turned, LENGTH * LENGTH, it.queries + at, DIM, it.keys + at, DIM, it.p[h], LENGTH, HEAD,
               LENGTH);
        LAUNCH(softmax, LENGTH, it.p[h]);
        LAUNCH(multiply, LENGTH * HEAD, it.p[h], LENGTH, it.values + at, DIM, it.mixed + at, DIM, LENGTH, HEAD);
    }
    forward(it.o, it.mixed, it.projected);
    LAUNCH(add_to_new, LENGTH * DIM, it.in, it.projected, it.middle);
    LAUNCH(normalise, LENGTH, it.middle, it.normal2, it.scale2);
    forward(it.up, it.normal2, it.wide);
    LAUNCH(leaky, LENGTH * WIDE, it.wide, it.active);
    forward(it.down, it.active, it.narrow);
    LAUNCH(add_to_new, LENGTH * DIM, it.middle, it.narrow, out);
}

/* d: of the layer's result; becomes that of what it got. */
static void
layer_backward(const layer &it, float *d)
{
    backward(it.down, it.active, d, d_wide);
    LAUNCH(leaky_back, LENGTH * WIDE, it.wide, d_wide);
    backward(it.up, it.normal2, d_wide, d_normal);
    LAUNCH(normalise_back, LENGTH, it.normal2, it.scale2, d_normal, d);
    backward(it.o, it.mixed, d, d_mixed);
    for (int h = 0; h < HEADS; ++h) {
        int at = h * HEAD;
        LAUNCH(multiply_turned, LENGTH * LENGTH, d_mixed + at, DIM, it.values + at, DIM, d_p, LENGTH, HEAD, LENGTH);
        LAUNCH(turned_multiply, LENGTH * HEAD, it.p[h], LENGTH, d_mixed + at, DIM, d_values + at, DIM, LENGTH, HEAD);
        LAUNCH(softmax_back, LENGTH, it.p[h], d_p);
        LAUNCH(multiply, LENGTH * HEAD, d_p, LENGTH, it.keys + at, DIM, d_queries + at, DIM, LENGTH, HEAD);
        LAUNCH(turned_multiply, LENGTH * HEAD, d_p, LENGTH, it.queries + at, DIM, d_keys + at, DIM, LENGTH, HEAD);
    }
    const struct {
        const weight *of;
        const float *d;
    } all[] = {{&it.q, d_queries}, {&it.k, d_keys}, {&it.v, d_values}};
    for (auto &one : all) {
        backward(*one.of, it.normal, one.d, d_normal);
        LAUNCH(normalise_back, LENGTH, it.normal, it.scale, d_normal, d);
    }
}

int
main(int argc, char **argv)
{
    where = argc > 1 ? argv[1] : "apart";
    int steps = argc > 2 ? atoi(argv[2]) : 48;
    sequences = argc > 3 ? atoi(argv[3]) : 4;
    srand(3);
    weight table = make_weight(WORDS, DIM), places = make_weight(LENGTH, DIM);
    layer layers[LAYERS];
    for (layer &it : layers)
        make_layer(it);
    weight head = make_weight(DIM, WORDS);
    for (float **x : {&d_queries, &d_keys, &d_values, &d_mixed, &d_normal})
        *x = get(LENGTH * DIM);
    d_p = get(LENGTH * LENGTH);
    d_wide = get(LENGTH * WIDE);
    float *last = get(LENGTH * DIM), *normal = get(LENGTH * DIM), *scale = get(LENGTH), *logits = get(LENGTH * WORDS),
          *d_logits = get(LENGTH * WORDS), *losses = get(LENGTH), *d = get(LENGTH * DIM);
    int *words = reinterpret_cast<int *>(get(LENGTH)), *targets = reinterpret_cast<int *>(get(LENGTH));
    for (int step = 0; step < steps; ++step) {
        float loss = 0;
        for (weight &w : weights)
            cudaMemset(w.gradient, 0, (size_t)w.rows * w.columns * sizeof(float));
        for (int b = 0; b < sequences; ++b) {
            int text[LENGTH + 1];
            float host[LENGTH];
            text[0] = rand() % WORDS;
            for (int t = 0; t < LENGTH; ++t)
                text[t + 1] = (text[t] * 3 + 1 + rand() % 3) % WORDS;
            cudaMemcpy(words, text, LENGTH * sizeof(int), cudaMemcpyHostToDevice);
            cudaMemcpy(targets, text + 1, LENGTH * sizeof(int), cudaMemcpyHostToDevice);
            LAUNCH(embed, LENGTH * DIM, words, table.value, places.value, layers[0].in);
            for (int l = 0; l < LAYERS; ++l)
                layer_forward(layers[l], l + 1 < LAYERS ? layers[l + 1].in : last);
            LAUNCH(normalise, LENGTH, last, normal, scale);
            forward(head, normal, logits);
            LAUNCH(cross_entropy, LENGTH, logits, targets, d_logits, losses, 1.0F / (LENGTH * sequences));
            cudaMemset(d, 0, LENGTH * DIM * sizeof(float));
            backward(head, normal, d_logits, d_normal);
            LAUNCH(normalise_back, LENGTH, normal, scale, d_normal, d);
            for (int l = LAYERS; l-- > 0;)
                layer_backward(layers[l], d);
            LAUNCH(embed_back, DIM, words, d, table.gradient, places.gradient);
            cudaMemcpy(host, losses, sizeof(host), cudaMemcpyDeviceToHost);
            for (float it : host)
                loss += it / (float)(LENGTH * sequences);
        }
        for (weight &w : weights)
            LAUNCH(momentum, w.rows * w.columns, w.value, w.gradient, w.velocity);
        printf("step %d loss %.4f\n", step, loss);
    }
    size_t trained = 0;
    for (weight &w : weights)
        trained += 2 * sizeof(float) * w.rows * w.columns;
    printf("an update writes %zu bytes\n", trained);
    return 0;
}
