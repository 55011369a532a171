/*
 * counted.cu - a trainer whose host counts updates for Adam, reads a loss, prints, stops early and saves, and whose
 * forward pass keeps a running mean. A second count is of batches. For lines.sh.
 */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                 \
    do {                                            \
        if ((call) != cudaSuccess) {                \
            fprintf(stderr, "failed: %s\n", #call); \
            exit(2);                                \
        }                                           \
    } while (0)

enum { IN = 12, OUT = 6, BATCH = 16, BATCHES = 41 };

struct adam {
    float *first, *second;
    int updates;
};

/* y = x w, and the running mean of each output */
__global__ void
forward(const float *x, const float *w, float *y, float *running)
{
    int j = threadIdx.x;
    float mean = 0;
    for (int r = 0; r < BATCH; ++r) {
        float s = 0;
        for (int i = 0; i < IN; ++i)
            s += x[r * IN + i] * w[i * OUT + j];
        y[r * OUT + j] = s;
        mean += s / BATCH;
    }
    running[j] = .9f * running[j] + .1f * mean;
}

__global__ void
differ(const float *x, const float *y, float *d, float *loss)
{
    float sum = 0;
    for (int k = 0; k < BATCH * OUT; ++k) {
        d[k] = (y[k] - .5f * x[k / OUT * IN + k % OUT]) / BATCH;
        sum += d[k] * d[k];
    }
    *loss = sum;
}

__global__ void
backward(const float *x, const float *d, float *g)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int r = 0; r < BATCH; ++r)
        s += x[r * IN + i] * d[r * OUT + j];
    g[i * OUT + j] = s;
}

__global__ void
step(float *w, const float *g, float *first, float *second, float rate)
{
    int i = threadIdx.x;
    first[i] = .9f * first[i] + .1f * g[i];
    second[i] = .99f * second[i] + .01f * g[i] * g[i];
    w[i] -= rate * first[i] / (sqrtf(second[i]) + 1e-4f);
}

static void
update(float *w, const float *g, struct adam *of)
{
    ++of->updates;
    float rate = .01f * sqrtf(1 - powf(.99f, of->updates)) / (1 - powf(.9f, of->updates));
    step<<<1, IN * OUT>>>(w, g, of->first, of->second, rate);
}

static void
save(const char *path, const float *w)
{
    float host[IN * OUT];
    CHECK(cudaMemcpy(host, w, sizeof(host), cudaMemcpyDeviceToHost));
    FILE *file = fopen(path, "wb");
    if (file != nullptr && fwrite(host, sizeof(host), 1, file) == 1)
        fclose(file);
}

/* Weights to begin with, if the file is there. */
static void
load(float start[IN * OUT])
{
    FILE *from = fopen("weights", "rb");
    if (from != nullptr && fread(start, sizeof(float), IN * OUT, from) == IN * OUT)
        fclose(from);
}

int
main(int count, char **words)
{
    struct adam adam = {};
    int seen = 0;
    float *w, *g, *x, *y, *d, *loss, *running, start[IN * OUT], value;
    const size_t weights = IN * OUT * sizeof(float);
    CHECK(cudaMalloc(&w, weights));
    CHECK(cudaMalloc(&g, weights));
    CHECK(cudaMalloc(&adam.first, weights));
    CHECK(cudaMalloc(&adam.second, weights));
    CHECK(cudaMalloc(&running, OUT * sizeof(float)));
    CHECK(cudaMalloc(&x, BATCH * IN * sizeof(float)));
    CHECK(cudaMalloc(&y, BATCH * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d, BATCH * OUT * sizeof(float)));
    CHECK(cudaMalloc(&loss, sizeof(float)));
    for (float &v : start)
        v = (rand() % 2001 - 1000) * 3e-4f;
    load(start);
    CHECK(cudaMemcpy(w, start, weights, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(adam.first, 0, weights));
    CHECK(cudaMemset(adam.second, 0, weights));
    CHECK(cudaMemset(running, 0, OUT * sizeof(float)));
    std::vector<float> host(BATCH * IN);
    for (int batch = 0; batch < BATCHES; ++batch) {
        for (float &v : host)
            v = (rand() % 2001 - 1000) * 1e-3f;
        CHECK(cudaMemcpy(x, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
        forward<<<1, OUT>>>(x, w, y, running);
        differ<<<1, 1>>>(x, y, d, loss);
        backward<<<IN, OUT>>>(x, d, g);
        seen++;
        update(w, g, &adam);
        CHECK(cudaMemcpy(&value, loss, sizeof(value), cudaMemcpyDeviceToHost));
        if (seen % 20 == 0)
            printf("after %d batches: %g\n", seen, value);
        if (value < 1e-9f)
            break;
    }
    if (count > 1)
        save(words[1], w);
    return 0;
}
