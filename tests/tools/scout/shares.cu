/*
 * shares.cu HABIT - trainers without annotations that find their records in several ways. lines.sh adds their lines.
 *
 *   labels   batches from the host, whose labels are the same ones in each step
 *   header   the header of the loop copies a batch
 *   offset   the data lies on the device, and a step gets a pointer to its batch; right answers are counted
 *   list     the same, by a list of indices
 *   managed  the same, in memory that the host fills
 *   mixed    the same, of the data alone: labels are copied
 *   packed   batches from the host, whose data and labels one copy brings
 *   whole    the data lies on the device, and each step takes all of it
 *   number   the data lies on the device, and a kernel takes a batch by its number
 *   picks    the data lies on the device, and a batch is a list of numbers, by which one kernel makes all gradients
 *   object   the same, but the batch is a struct of two lists
 *   losses   batches from the host; one kernel makes all gradients, and a loss for each record
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

enum { INPUTS = 12, CLASSES = 4, BATCH = 24, SAMPLES = 240, STEPS = 30 };

__global__ void
scores(float *y, const float *x, const float *w, const float *b)
{
    int i = blockIdx.x, k = threadIdx.x;
    float sum = b[k];
    for (int j = 0; j < INPUTS; ++j)
        sum += x[i * INPUTS + j] * w[j * CLASSES + k];
    y[i * CLASSES + k] = sum;
}

__global__ void
gather(float *to, int *label, const float *x, const int *labels, const int *list)
{
    for (int j = 0; j < INPUTS; ++j)
        to[threadIdx.x * INPUTS + j] = x[list[threadIdx.x] * INPUTS + j];
    label[threadIdx.x] = labels[list[threadIdx.x]];
}

__global__ void
take(float *to, int *label, const float *x, const int *labels, int number)
{
    for (int j = 0; j < INPUTS; ++j)
        to[threadIdx.x * INPUTS + j] = x[(number * BATCH + threadIdx.x) * INPUTS + j];
    label[threadIdx.x] = labels[number * BATCH + threadIdx.x];
}

__global__ void
errors(float *delta, int *hit, float *loss, const float *y, const int *label)
{
    int i = threadIdx.x, best = 0;
    float sum = 0;
    for (int k = 0; k < CLASSES; ++k) {
        sum += expf(y[i * CLASSES + k]);
        best = y[i * CLASSES + k] > y[i * CLASSES + best] ? k : best;
    }
    for (int k = 0; k < CLASSES; ++k)
        delta[i * CLASSES + k] = expf(y[i * CLASSES + k]) / sum - (k == label[i]);
    loss[i] = logf(sum) - y[i * CLASSES + label[i]];
    atomicAdd(hit, best == label[i]);
}

__global__ void
gradients(float *gw, float *gb, const float *x, const float *delta, int rows)
{
    int j = blockIdx.x, k = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < rows; ++i)
        sum += delta[i * CLASSES + k] * (j < INPUTS ? x[i * INPUTS + j] : 1);
    (j < INPUTS ? gw[j * CLASSES + k] : gb[k]) = sum;
}

__global__ void
divide(float *gw, float *gb, float by)
{
    for (int k = 0; k < CLASSES; ++k)
        (threadIdx.x < INPUTS ? gw[threadIdx.x * CLASSES + k] : gb[k]) /= by;
}

__global__ void
descend(float *w, const float *g, float rate, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        w[i] -= rate * g[i];
}

static float host_x[SAMPLES * INPUTS], *w, *b, *gw, *gb, *y, *delta, *loss, *x, *data;
static int host_labels[SAMPLES], *labels, *data_labels, *hit, *list;

/* Its last launch is a jump, at -O2. */
__attribute__((noinline)) static void
backward(const float *batch, int rows)
{
    gradients<<<INPUTS + 1, CLASSES>>>(gw, gb, batch, delta, rows);
    divide<<<1, INPUTS + 1>>>(gw, gb, rows);
}

static void
train_on(const float *batch, const int *batch_labels, int rows)
{
    scores<<<rows, CLASSES>>>(y, batch, w, b);
    errors<<<1, rows>>>(delta, hit, loss, y, batch_labels);
    backward(batch, rows);
    descend<<<1, INPUTS * CLASSES>>>(w, gw, 0.3f, INPUTS * CLASSES);
    descend<<<1, CLASSES>>>(b, gb, 0.3f, CLASSES);
}

static void
put(void *to, const void *from, size_t bytes)
{
    if (cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice) != cudaSuccess)
        abort();
}

static void
put_on_device(void)
{
    cudaMalloc(&data, sizeof(host_x));
    cudaMalloc(&data_labels, sizeof(host_labels));
    put(data, host_x, sizeof(host_x));
    put(data_labels, host_labels, sizeof(host_labels));
}

static void
train_header(void)
{
    for (int step = 0, at = 0;
         cudaMemcpy(x, host_x + at * INPUTS, BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess &&
         step < STEPS;
         ++step, at = step * BATCH % SAMPLES) {
        cudaMemcpy(labels, host_labels + at, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        train_on(x, labels, BATCH);
    }
}

static void
train_labels(void)
{
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % SAMPLES;
        cudaMemcpy(x, host_x + at * INPUTS, BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(labels, host_labels + at, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        train_on(x, labels, BATCH);
    }
}

static void
train_offset(void)
{
    put_on_device();
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % SAMPLES, hits = 0;
        cudaMemset(hit, 0, sizeof(int));
        train_on(data + at * INPUTS, data_labels + at, BATCH);
        cudaMemcpy(&hits, hit, sizeof(int), cudaMemcpyDeviceToHost);
    }
}

static void
train_managed(void)
{
    cudaMallocManaged(&data, sizeof(host_x));
    cudaMallocManaged(&data_labels, sizeof(host_labels));
    memcpy(data, host_x, sizeof(host_x));
    memcpy(data_labels, host_labels, sizeof(host_labels));
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % SAMPLES;
        train_on(data + at * INPUTS, data_labels + at, BATCH);
        cudaDeviceSynchronize();
    }
}

static void
train_mixed(void)
{
    cudaMallocManaged(&data, sizeof(host_x));
    memcpy(data, host_x, sizeof(host_x));
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % SAMPLES;
        cudaMemcpy(labels, host_labels + at, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        train_on(data + at * INPUTS, labels, BATCH);
    }
}

static void
train_list(void)
{
    std::vector<int> order(SAMPLES);
    for (int i = 0; i < SAMPLES; ++i)
        order[i] = i * 7 % SAMPLES;
    put_on_device();
    cudaMalloc(&list, SAMPLES * sizeof(int));
    cudaMemcpy(list, order.data(), SAMPLES * sizeof(int), cudaMemcpyHostToDevice);
    for (int step = 0; step < STEPS; ++step) {
        gather<<<1, BATCH>>>(x, labels, data, data_labels, list + step * BATCH % SAMPLES);
        train_on(x, labels, BATCH);
    }
}

/* One block for each record: all that it computes is what it adds to the gradients, and its loss. */
__device__ static void
add_record(float *gw, float *gb, const float *record, int label, const float *w, const float *b, float *losses)
{
    __shared__ float z[CLASSES], total;
    int k = threadIdx.x;
    float sum = b[k];
    for (int j = 0; j < INPUTS; ++j)
        sum += record[j] * w[j * CLASSES + k];
    z[k] = expf(sum);
    __syncthreads();
    if (k == 0) {
        total = 0;
        for (int c = 0; c < CLASSES; ++c)
            total += z[c];
    }
    __syncthreads();
    float delta = (z[k] / total - (k == label)) / BATCH;
    if (losses != NULL && k == label)
        losses[blockIdx.x] = logf(total / z[k]);
    atomicAdd(&gb[k], delta);
    for (int j = 0; j < INPUTS; ++j)
        atomicAdd(&gw[j * CLASSES + k], record[j] * delta);
}

__global__ void
add_picked(float *gw, float *gb, const float *all, const int *all_labels, const int *picks, const float *w,
           const float *b, float *losses)
{
    int i = picks[blockIdx.x];
    add_record(gw, gb, all + i * INPUTS, all_labels[i], w, b, losses);
}

struct drawn {
    int picks[BATCH], labels[BATCH];
};

__global__ void
add_drawn(float *gw, float *gb, const float *all, const struct drawn *drawn, const float *w, const float *b)
{
    add_record(gw, gb, all + drawn->picks[blockIdx.x] * INPUTS, drawn->labels[blockIdx.x], w, b, NULL);
}

static void
add_picks(const float *all, const int *all_labels, const int *picks, float *losses)
{
    cudaMemset(gw, 0, INPUTS * CLASSES * sizeof(float));
    cudaMemset(gb, 0, CLASSES * sizeof(float));
    add_picked<<<BATCH, CLASSES>>>(gw, gb, all, all_labels, picks, w, b, losses);
    descend<<<1, INPUTS * CLASSES>>>(w, gw, 0.3f, INPUTS * CLASSES);
    descend<<<1, CLASSES>>>(b, gb, 0.3f, CLASSES);
}

static void
train_picks(void)
{
    int *picks, host_picks[BATCH];
    cudaMalloc(&data, SAMPLES * INPUTS * sizeof(float));
    cudaMalloc(&data_labels, SAMPLES * sizeof(int));
    cudaMalloc(&picks, BATCH * sizeof(int));
    cudaMemcpy(data, host_x, SAMPLES * INPUTS * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(data_labels, host_labels, SAMPLES * sizeof(int), cudaMemcpyHostToDevice);
    for (int step = 0; step < STEPS; ++step) {
        for (int &pick : host_picks)
            pick = rand() % SAMPLES;
        cudaMemcpy(picks, host_picks, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        add_picks(data, data_labels, picks, NULL);
    }
}

static void
train_object(void)
{
    struct drawn drawn, *on_device;
    cudaMalloc(&data, SAMPLES * INPUTS * sizeof(float));
    cudaMalloc(&on_device, sizeof(struct drawn));
    cudaMemcpy(data, host_x, SAMPLES * INPUTS * sizeof(float), cudaMemcpyHostToDevice);
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < BATCH; ++i) {
            drawn.picks[i] = rand() % SAMPLES;
            drawn.labels[i] = host_labels[drawn.picks[i]];
        }
        cudaMemcpy(on_device, &drawn, sizeof(struct drawn), cudaMemcpyHostToDevice);
        cudaMemset(gw, 0, INPUTS * CLASSES * sizeof(float));
        cudaMemset(gb, 0, CLASSES * sizeof(float));
        add_drawn<<<BATCH, CLASSES>>>(gw, gb, data, on_device, w, b);
        descend<<<1, INPUTS * CLASSES>>>(w, gw, 0.3f, INPUTS * CLASSES);
        descend<<<1, CLASSES>>>(b, gb, 0.3f, CLASSES);
    }
}

static void
train_losses(void)
{
    int *each, numbers[BATCH];
    for (int i = 0; i < BATCH; ++i)
        numbers[i] = i;
    cudaMalloc(&each, sizeof(numbers));
    cudaMemcpy(each, numbers, sizeof(numbers), cudaMemcpyHostToDevice);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % SAMPLES;
        cudaMemcpy(x, host_x + at * INPUTS, BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(labels, host_labels + at, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        add_picks(x, labels, each, loss);
    }
}

static void
train_packed(void)
{
    enum { NUMBERS = BATCH * INPUTS };
    std::vector<float> both(NUMBERS + BATCH);
    cudaMalloc(&data, both.size() * sizeof(float));
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % SAMPLES;
        memcpy(&both[0], host_x + at * INPUTS, NUMBERS * sizeof(float));
        memcpy(&both[NUMBERS], host_labels + at, BATCH * sizeof(int));
        cudaMemcpy(data, both.data(), both.size() * sizeof(float), cudaMemcpyHostToDevice);
        train_on(data, (int *)(data + NUMBERS), BATCH);
    }
}

static void
train_whole(void)
{
    put_on_device();
    for (int step = 0; step < STEPS; ++step)
        train_on(data, data_labels, SAMPLES);
}

static void
train_number(void)
{
    put_on_device();
    for (int step = 0; step < STEPS; ++step) {
        take<<<1, BATCH>>>(x, labels, data, data_labels, step % (SAMPLES / BATCH));
        train_on(x, labels, BATCH);
    }
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*train)(void);
    } habits[] = {{"header", train_header}, {"labels", train_labels},   {"offset", train_offset},
                  {"list", train_list},     {"managed", train_managed}, {"mixed", train_mixed},
                  {"whole", train_whole},   {"number", train_number},   {"picks", train_picks},
                  {"losses", train_losses}, {"packed", train_packed},   {"object", train_object}};
    std::vector<float> start(INPUTS * CLASSES);
    const char *habit = argc > 1 ? argv[1] : "";
    srand(5);
    for (int i = 0; i < SAMPLES * INPUTS; ++i)
        host_x[i] = rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < SAMPLES; ++i)
        host_labels[i] = strcmp(habit, "labels") == 0 ? i % CLASSES : rand() % CLASSES;
    for (float &v : start)
        v = rand() / (float)RAND_MAX - 0.5f;
    cudaMalloc(&w, INPUTS * CLASSES * sizeof(float));
    cudaMalloc(&b, sizeof(float) + (CLASSES - 1) * sizeof(float));
    cudaMalloc(&gw, INPUTS * CLASSES * sizeof(float));
    cudaMalloc(&gb, CLASSES * sizeof(float));
    cudaMalloc(&y, SAMPLES * CLASSES * sizeof(float));
    cudaMalloc(&delta, SAMPLES * CLASSES * sizeof(float));
    cudaMalloc(&loss, SAMPLES * sizeof(float));
    cudaMalloc(&x, BATCH * INPUTS * sizeof(float));
    cudaMalloc(&labels, BATCH * sizeof(int));
    cudaMalloc(&hit, sizeof(int));
    cudaMemcpy(w, start.data(), INPUTS * CLASSES * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(b, 0, CLASSES * sizeof(float));
    for (const auto &it : habits)
        if (strcmp(it.name, habit) == 0)
            it.train();
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
