/* Bags of words, summed embeddings, a logistic output. Adagrad is lazy: it visits the rows of words in the batch only. */
#include <ddprun.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS   120
#define WIDTH   6
#define BAG     5
#define BATCH   24
#define RECORDS 480
#define STEPS   160

struct record {
    int word[BAG];
    float label;
};

struct model {
    float *table, *table_gradient, *table_squares; /* WORDS x WIDTH */
    float *output, *output_gradient;               /* WIDTH + 1 */
    float *touched;                                /* WORDS; 1 or 0 */
};

__global__ void
forward(const struct record *r, struct model m, float *sum, float *delta, float *loss, float inverse)
{
    int n = blockIdx.x;
    float s = m.output[WIDTH], p;
    for (int j = 0; j < WIDTH; ++j) {
        float a = 0;
        for (int b = 0; b < BAG; ++b)
            a += m.table[r[n].word[b] * WIDTH + j];
        sum[n * WIDTH + j] = a;
        s += a * m.output[j];
    }
    p = 1 / (1 + expf(-s));
    delta[n] = (p - r[n].label) * inverse;
    loss[n] = -logf(r[n].label > 0 ? p : 1 - p);
}

__global__ void
backward_table(const struct record *r, struct model m, const float *delta, int count)
{
    int w = blockIdx.x, j = threadIdx.x, seen = 0;
    float s = 0;
    for (int n = 0; n < count; ++n)
        for (int b = 0; b < BAG; ++b)
            if (r[n].word[b] == w) {
                s += delta[n] * m.output[j];
                seen = 1;
            }
    m.table_gradient[w * WIDTH + j] = s;
    if (j == 0)
        m.touched[w] = seen;
}

__global__ void
backward_output(struct model m, const float *sum, const float *delta, int count)
{
    int j = threadIdx.x;
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += delta[n] * (j < WIDTH ? sum[n * WIDTH + j] : 1);
    m.output_gradient[j] = s;
}

__global__ void
lazy_adagrad(struct model m, float rate, float decay)
{
    int w = blockIdx.x, i = w * WIDTH + threadIdx.x;
    if (m.touched[w] == 0)
        return;
    float g = m.table_gradient[i] + decay * m.table[i];
    m.table_squares[i] += g * g;
    m.table[i] -= rate * g / (sqrtf(m.table_squares[i]) + 1e-3f);
}

__global__ void
sgd(float *w, const float *g, float rate)
{
    w[threadIdx.x] -= rate * g[threadIdx.x];
}

static void *
device_copy(const void *host, size_t bytes)
{
    void *p;
    cudaMalloc(&p, bytes);
    if (host != NULL)
        cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice);
    else
        cudaMemset(p, 0, bytes);
    return p;
}

int
main(void)
{
    static struct record records[RECORDS];
    static float table[WORDS * WIDTH], output[WIDTH + 1], losses[BATCH], mood[WORDS];
    srand(8);
    for (int w = 0; w < WORDS; ++w)
        mood[w] = (float)rand() / RAND_MAX - 0.5f;
    for (int n = 0; n < RECORDS; ++n) {
        float s = 0;
        for (int b = 0; b < BAG; ++b)
            s += mood[records[n].word[b] = rand() % WORDS];
        records[n].label = s > 0;
    }
    for (int i = 0; i < WORDS * WIDTH; ++i)
        table[i] = 0.3f * ((float)rand() / RAND_MAX - 0.5f);
    for (int i = 0; i < WIDTH; ++i)
        output[i] = (float)rand() / RAND_MAX - 0.5f;
    struct model m;
    m.table = (float *)device_copy(table, sizeof table);
    m.table_gradient = (float *)device_copy(NULL, sizeof table);
    m.table_squares = (float *)device_copy(NULL, sizeof table);
    m.output = (float *)device_copy(output, sizeof output);
    m.output_gradient = (float *)device_copy(NULL, sizeof output);
    m.touched = (float *)device_copy(NULL, WORDS * sizeof(float));
    struct record *r = (struct record *)device_copy(records, sizeof records);
    float *sum = (float *)device_copy(NULL, BATCH * WIDTH * sizeof(float));
    float *delta = (float *)device_copy(NULL, BATCH * sizeof(float));
    float *loss = (float *)device_copy(NULL, BATCH * sizeof(float));
    DDP_PARAMETER(m.table, WORDS * WIDTH, DDP_FLOAT32);
    DDP_PARAMETER(m.output, WIDTH + 1, DDP_FLOAT32);
    DDP_GRADIENT(m.table_gradient, WORDS * WIDTH, DDP_FLOAT32);
    DDP_GRADIENT(m.output_gradient, WIDTH + 1, DDP_FLOAT32);
    DDP_STATE(m.table_squares, WORDS * WIDTH, DDP_FLOAT32);
    DDP_BUFFER(m.touched, WORDS, DDP_FLOAT32); /* all ranks visit the same rows */
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const struct record *share = r + step % (RECORDS / BATCH) * BATCH + first;
        forward<<<count, 1>>>(share, m, sum, delta, loss, 1.0f / count);
        backward_table<<<WORDS, WIDTH>>>(share, m, delta, (int)count);
        backward_output<<<1, WIDTH + 1>>>(m, sum, delta, (int)count);
        DDP_STEP(0);
        lazy_adagrad<<<WORDS, WIDTH>>>(m, 0.1f, 1e-3f);
        sgd<<<1, WIDTH + 1>>>(m.output, m.output_gradient, 0.1f);
        if (step % 20 == 0 || step == STEPS - 1) {
            float mean = 0;
            cudaMemcpy(losses, loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i)
                mean += losses[i] / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %d loss %.7g\n", step, mean);
        }
    }
    return 0;
}
