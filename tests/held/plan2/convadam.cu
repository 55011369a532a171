// A small convolution net (4 filters 3x3, ReLU, 2x2 max pooling, linear) trained with Adam to
// tell bars from crosses in noisy 8x8 images of bytes. Written for clarity, not for speed.
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE    8
#define FILTERS 4
#define CONV    6                       /* SIDE - 3 + 1 */
#define POOL    3
#define FLAT    (FILTERS * POOL * POOL)
#define CLASSES 3
#define IMAGES  160
#define BATCH   8
#define STEPS   80

struct Net {
    float filter[FILTERS][9];
    float filter_bias[FILTERS];
    float linear[CLASSES][FLAT];
    float linear_bias[CLASSES];
};
static const int COUNT = sizeof(Net) / sizeof(float);

struct Scratch {
    float image[BATCH][SIDE][SIDE];
    float pooled[BATCH][FLAT], dpooled[BATCH][FLAT];
    int   winner[BATCH][FLAT];          /* position of each maximum, or -1 where ReLU is shut */
    float dz[BATCH][CLASSES];
    float loss;
    int   correct;
};

struct Adam {
    float m[COUNT], v[COUNT];
    int   t;
};

__global__ void normalise(const uint8_t *bytes, Scratch *s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    (&s->image[0][0][0])[i] = bytes[i] / 127.5f - 1.0f;
    if (i == 0) s->loss = s->correct = 0;
}

__global__ void convolve_and_pool(const Net *net, Scratch *s)
{
    int b = blockIdx.x, f = threadIdx.x / (POOL * POOL), cell = threadIdx.x % (POOL * POOL);
    float best = 0;
    int where = -1;
    for (int k = 0; k < 4; ++k) {
        int y = cell / POOL * 2 + k / 2, x = cell % POOL * 2 + k % 2;
        float a = net->filter_bias[f];
        for (int j = 0; j < 9; ++j)
            a += net->filter[f][j] * s->image[b][y + j / 3][x + j % 3];
        if (a > best) {
            best = a;
            where = y * CONV + x;
        }
    }
    s->pooled[b][threadIdx.x] = best;
    s->winner[b][threadIdx.x] = where;
}

__global__ void classify(const Net *net, Scratch *s, const uint8_t *label)
{
    int b = threadIdx.x;
    float z[CLASSES], sum = 0;
    int guess = 0;
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = net->linear_bias[c];
        for (int k = 0; k < FLAT; ++k) z[c] += net->linear[c][k] * s->pooled[b][k];
        if (z[c] > z[guess]) guess = c;
    }
    for (int c = 0; c < CLASSES; ++c) sum += expf(z[c] - z[guess]);
    for (int c = 0; c < CLASSES; ++c)
        s->dz[b][c] = (expf(z[c] - z[guess]) / sum - (c == label[b] ? 1.0f : 0.0f)) / BATCH;
    atomicAdd(&s->loss, (z[guess] + logf(sum) - z[label[b]]) / BATCH);
    atomicAdd(&s->correct, guess == label[b]);
    for (int k = 0; k < FLAT; ++k) {
        float d = 0;
        for (int c = 0; c < CLASSES; ++c) d += s->dz[b][c] * net->linear[c][k];
        s->dpooled[b][k] = d;
    }
}

__global__ void linear_gradient(const Scratch *s, Net *g)
{
    int c = blockIdx.x, k = threadIdx.x;
    float sum = 0;
    for (int b = 0; b < BATCH; ++b)
        sum += s->dz[b][c] * (k < FLAT ? s->pooled[b][k] : 1.0f);
    *(k < FLAT ? &g->linear[c][k] : &g->linear_bias[c]) = sum;
}

__global__ void filter_gradient(const Scratch *s, Net *g)
{
    int f = blockIdx.x, j = threadIdx.x;      /* j = 9: the bias */
    float sum = 0;
    for (int b = 0; b < BATCH; ++b)
        for (int cell = 0; cell < POOL * POOL; ++cell) {
            int at = s->winner[b][f * POOL * POOL + cell];
            if (at >= 0)
                sum += s->dpooled[b][f * POOL * POOL + cell] *
                       (j < 9 ? s->image[b][at / CONV + j / 3][at % CONV + j % 3] : 1.0f);
        }
    *(j < 9 ? &g->filter[f][j] : &g->filter_bias[f]) = sum;
}

__global__ void tick(Adam *a) { a->t += 1; }

__global__ void adam(float *w, const float *g, Adam *a, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= COUNT) return;
    a->m[i] = 0.9f * a->m[i] + 0.1f * g[i];
    a->v[i] = 0.99f * a->v[i] + 0.01f * g[i] * g[i];
    float m = a->m[i] / (1 - powf(0.9f, a->t)), v = a->v[i] / (1 - powf(0.99f, a->t));
    w[i] -= rate * m / (sqrtf(v) + 1e-5f);
}

__global__ void oracle_add(float *sum, const float *g) { if (threadIdx.x < COUNT) sum[threadIdx.x] += g[threadIdx.x]; }
__global__ void oracle_mean(float *g, const float *sum, int r) { if (threadIdx.x < COUNT) g[threadIdx.x] = sum[threadIdx.x] / r; }

static void draw_image(uint8_t *image, int kind)
{
    int row = 1 + rand() % 6, column = 1 + rand() % 6;
    for (int y = 0; y < SIDE; ++y)
        for (int x = 0; x < SIDE; ++x) {
            int ink = (kind != 1 && y == row) || (kind != 0 && x == column);
            image[y * SIDE + x] = ink ? 150 + rand() % 106 : rand() % 90;
        }
}

int main(int argc, char **argv)
{
    const char *save = NULL;
    int oracle = 0, waiting = 0;
    for (int i = 1; i + 1 < argc; ++i) {
        if (!strcmp(argv[i], "--save")) save = argv[++i];
        else if (!strcmp(argv[i], "--oracle")) oracle = atoi(argv[++i]);
    }
    srand(1234);
    static uint8_t images[IMAGES][SIDE * SIDE], labels[IMAGES];
    for (int i = 0; i < IMAGES; ++i)
        draw_image(images[i], labels[i] = rand() % CLASSES);
    Net start;
    memset(&start, 0, sizeof start);
    for (int i = 0; i < FILTERS * 9; ++i) start.filter[i / 9][i % 9] = (rand() % 1001 - 500) / 1000.0f;
    for (int i = 0; i < CLASSES * FLAT; ++i) start.linear[i / FLAT][i % FLAT] = (rand() % 1001 - 500) / 2000.0f;

    Net *net, *grad, *sum = NULL;
    Scratch *s;
    Adam *state;
    uint8_t *bytes, *label;
    cudaMalloc(&net, sizeof *net);
    cudaMalloc(&grad, sizeof *grad);
    cudaMalloc(&s, sizeof *s);
    cudaMalloc(&state, sizeof *state);
    cudaMalloc(&bytes, BATCH * SIDE * SIDE);
    cudaMalloc(&label, BATCH);
    cudaMemcpy(net, &start, sizeof start, cudaMemcpyHostToDevice);
    cudaMemset(state, 0, sizeof *state);
    if (oracle > 0) {
        cudaMalloc(&sum, sizeof *sum);
        cudaMemset(sum, 0, sizeof *sum);
    }
    for (int step = 0; step < STEPS; ++step) {
        int first = step * BATCH % IMAGES;
        cudaMemcpy(bytes, images[first], BATCH * SIDE * SIDE, cudaMemcpyHostToDevice);
        cudaMemcpy(label, labels + first, BATCH, cudaMemcpyHostToDevice);
        normalise<<<BATCH, SIDE * SIDE>>>(bytes, s);
        convolve_and_pool<<<BATCH, FLAT>>>(net, s);
        classify<<<1, BATCH>>>(net, s, label);
        linear_gradient<<<CLASSES, FLAT + 1>>>(s, grad);
        filter_gradient<<<FILTERS, 10>>>(s, grad);
        if (step % 10 == 9) {
            Scratch seen;
            cudaMemcpy(&seen, s, sizeof seen, cudaMemcpyDeviceToHost);
            printf("step %d: loss %.3f, %d of %d right\n", step + 1, seen.loss, seen.correct, BATCH);
        }
        if (oracle > 0) {
            oracle_add<<<1, 192>>>((float *)sum, (float *)grad);
            if (++waiting < oracle) continue;
            waiting = 0;
            oracle_mean<<<1, 192>>>((float *)grad, (float *)sum, oracle);
            cudaMemset(sum, 0, sizeof *sum);
        }
        tick<<<1, 1>>>(state);
        adam<<<3, 64>>>((float *)net, (float *)grad, state, 0.02f);
    }
    cudaMemcpy(&start, net, sizeof start, cudaMemcpyDeviceToHost);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    FILE *f = save ? fopen(save, "w") : NULL;
    for (int i = 0; f && i < COUNT; ++i) fprintf(f, "%.9g\n", ((float *)&start)[i]);
    if (f) fclose(f);
    return 0;
}
