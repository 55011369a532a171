// Predicts the next word from three words. A batch is computed in four passes, which add up their gradients.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

static const int WORDS = 16, CONTEXT = 3, EMBED = 6, JOINED = CONTEXT * EMBED, HIDDEN = 20;
static const int PASSES = 4, ROWS = 8, BATCH = PASSES * ROWS, BATCHES = 36, EPOCHS = 3;

__global__ void embed(const float *table, const int *words, float *x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / JOINED, k = i % JOINED;
    if (i < ROWS * JOINED) x[i] = table[words[r * (CONTEXT + 1) + k / EMBED] * EMBED + k % EMBED];
}
__global__ void hidden_layer(const float *x, const float *w, float *h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / HIDDEN, j = i % HIDDEN;
    if (i >= ROWS * HIDDEN) return;
    float s = w[JOINED * HIDDEN + j];
    for (int k = 0; k < JOINED; ++k) s += x[r * JOINED + k] * w[k * HIDDEN + j];
    h[i] = s / (1 + expf(-s)); // SiLU; its derivative is computed again
}
__global__ void output_layer(const float *h, const float *w, const int *words, float *dz, float *loss, float scale)
{
    int r = threadIdx.x;
    float z[WORDS], top = -1e30f, sum = 0;
    if (r < ROWS) {
        int next = words[r * (CONTEXT + 1) + CONTEXT];
        for (int c = 0; c < WORDS; ++c) {
            z[c] = w[HIDDEN * WORDS + c];
            for (int j = 0; j < HIDDEN; ++j) z[c] += h[r * HIDDEN + j] * w[j * WORDS + c];
            top = fmaxf(top, z[c]);
        }
        for (int c = 0; c < WORDS; ++c) sum += expf(z[c] - top);
        for (int c = 0; c < WORDS; ++c) dz[r * WORDS + c] = scale * (expf(z[c] - top) / sum - (c == next));
        loss[1 + r] = logf(sum) + top - z[next];
    }
    __syncthreads();
    if (r == 0)
        for (int i = 0; i < ROWS; ++i) loss[0] += loss[1 + i] * scale;
}
__global__ void output_back(const float *h, const float *dz, const float *w, float *dw, float *dh)
{
    int j = threadIdx.x; // a hidden unit, or the biases
    if (j > HIDDEN) return;
    for (int r = 0; r < ROWS; ++r) {
        float s = 0;
        for (int c = 0; c < WORDS; ++c) {
            dw[j * WORDS + c] += (j < HIDDEN ? h[r * HIDDEN + j] : 1) * dz[r * WORDS + c];
            s += j < HIDDEN ? dz[r * WORDS + c] * w[j * WORDS + c] : 0;
        }
        if (j < HIDDEN) dh[r * HIDDEN + j] = s;
    }
}
__global__ void hidden_back(const float *x, const float *w, float *dh, float *dw)
{
    int j = threadIdx.x;
    if (j >= HIDDEN) return;
    for (int r = 0; r < ROWS; ++r) {
        float s = w[JOINED * HIDDEN + j];
        for (int k = 0; k < JOINED; ++k) s += x[r * JOINED + k] * w[k * HIDDEN + j];
        float q = 1 / (1 + expf(-s)), d = dh[r * HIDDEN + j] * (q + s * q * (1 - q));
        dh[r * HIDDEN + j] = d;
        dw[JOINED * HIDDEN + j] += d;
        for (int k = 0; k < JOINED; ++k) dw[k * HIDDEN + j] += x[r * JOINED + k] * d;
    }
}
__global__ void embed_back(const int *words, const float *w, const float *dh, float *dtable)
{
    int k = threadIdx.x;
    if (k >= EMBED) return;
    for (int r = 0; r < ROWS; ++r)
        for (int p = 0; p < CONTEXT; ++p) {
            float s = 0;
            for (int j = 0; j < HIDDEN; ++j) s += dh[r * HIDDEN + j] * w[(p * EMBED + k) * HIDDEN + j];
            dtable[words[r * (CONTEXT + 1) + p] * EMBED + k] += s;
        }
}
__global__ void add_to(float *sum, const float *pass, int n, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] += factor * pass[i];
}
__global__ void adamw(float *w, const float *g, float *m, float *v, int n, float rate, const int *updates)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.8f * m[i] + 0.2f * g[i];
    v[i] = 0.95f * v[i] + 0.05f * g[i] * g[i];
    float a = m[i] / (1 - powf(0.8f, *updates)), b = v[i] / (1 - powf(0.95f, *updates));
    w[i] -= rate * (a / (sqrtf(b) + 1e-2f) + 0.01f * w[i]);
}
__global__ void count_update(int *updates) { ++*updates; }
#define GRID(n) ((n) + 63) / 64, 64

class Weights
{
  public:
    float *value, *pass, *sum, *m, *v;
    int n;
    Weights(int count, float spread, std::mt19937 &random) : n(count)
    {
        std::vector<float> h(n);
        std::normal_distribution<float> normal(0, spread);
        for (float &x : h) x = normal(random);
        for (float **p : {&value, &pass, &sum, &m, &v}) cudaMalloc(p, bytes()), cudaMemset(*p, 0, bytes());
        cudaMemcpy(value, h.data(), bytes(), cudaMemcpyHostToDevice);
    }
    size_t bytes() const { return n * sizeof(float); }
    void update(float rate, const int *updates) { adamw<<<GRID(n)>>>(value, sum, m, v, n, rate, updates); }
};

int main()
{
    std::mt19937 random(8);
    std::vector<int> text(BATCHES * BATCH * (CONTEXT + 1)), order(BATCHES);
    for (size_t i = 0; i < text.size(); i += CONTEXT + 1) {
        for (int p = 0; p < CONTEXT; ++p) text[i + p] = random() % WORDS;
        text[i + CONTEXT] = random() % 10 ? (text[i] + text[i + 2] / 4) % WORDS : random() % WORDS;
    }
    Weights table(WORDS * EMBED, 0.5f, random), first((JOINED + 1) * HIDDEN, 0.3f, random), second((HIDDEN + 1) * WORDS, 0.3f, random);
    std::vector<Weights *> all{&table, &first, &second};
    float *x, *h, *dz, *dh, *loss;
    int *words, *updates;
    cudaMalloc(&x, ROWS * JOINED * sizeof(float)), cudaMalloc(&h, ROWS * HIDDEN * sizeof(float));
    cudaMalloc(&dz, ROWS * WORDS * sizeof(float)), cudaMalloc(&dh, ROWS * HIDDEN * sizeof(float));
    cudaMalloc(&loss, (ROWS + 1) * sizeof(float));
    cudaMalloc(&words, BATCH * (CONTEXT + 1) * sizeof(int)), cudaMalloc(&updates, sizeof(int));
    cudaMemset(updates, 0, sizeof(int));
    for (Weights *w : all) {
        DDP_PARAMETER(w->value, w->n, DDP_FLOAT32);
#if MISTAKE == 3
        if (w == &table) continue;
#endif
#if MISTAKE == 6
        DDP_GRADIENT(w->pass, w->n, DDP_FLOAT32);
#else
        DDP_GRADIENT(w->sum, w->n, DDP_FLOAT32);
#endif
    }

    std::iota(order.begin(), order.end(), 0);
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        std::shuffle(order.begin(), order.end(), std::mt19937(300 + epoch));
        float figures[2] = {0, 0}, now;
        for (int b = 0; b < BATCHES; ++b) {
            cudaMemcpy(words, &text[order[b] * BATCH * (CONTEXT + 1)], BATCH * (CONTEXT + 1) * sizeof(int), cudaMemcpyHostToDevice);
            DDP_TURN_BEGIN();
            for (Weights *w : all) cudaMemsetAsync(w->sum, 0, w->bytes(), 0);
            cudaMemsetAsync(loss, 0, (ROWS + 1) * sizeof(float), 0);
            int passes = PASSES, from = 0, stride = 1;
#if MISTAKE == 8
            static float seen = 9;
            if (seen < 2.6f) passes = PASSES / 2; // easy batches need less
#elif MISTAKE == 4
            from = DDP_RANK(), stride = DDP_WORLD_SIZE();
#endif
#if MISTAKE == 2 || MISTAKE == 8
            float *keep = x;
            cudaMalloc(&x, ROWS * JOINED * sizeof(float)); // of this batch
#endif
            for (int p = from; p < passes; p += stride) {
                const int *part = words + p * ROWS * (CONTEXT + 1);
                for (Weights *w : all) cudaMemsetAsync(w->pass, 0, w->bytes(), 0);
                embed<<<GRID(ROWS * JOINED)>>>(table.value, part, x);
                hidden_layer<<<GRID(ROWS * HIDDEN)>>>(x, first.value, h);
                output_layer<<<1, 32>>>(h, second.value, part, dz, loss, 1.0f / ROWS);
                output_back<<<1, 32>>>(h, dz, second.value, second.pass, dh);
                hidden_back<<<1, 32>>>(x, first.value, dh, first.pass);
                embed_back<<<1, 32>>>(part, first.value, dh, table.pass);
                float factor = 1.0f / passes;
#if MISTAKE == 7
                factor /= DDP_WORLD_SIZE();
#endif
                for (Weights *w : all) add_to<<<GRID(w->n)>>>(w->sum, w->pass, w->n, factor);
#if MISTAKE == 2
                DDP_STEP(0);
#endif
            }
#if MISTAKE == 8
            cudaMemcpy(&seen, loss, sizeof(float), cudaMemcpyDeviceToHost);
            seen /= passes;
#endif
#if MISTAKE == 2 || MISTAKE == 8
            cudaFree(x);
            x = keep;
#endif
#if MISTAKE == 5
            count_update<<<1, 1>>>(updates);
            for (Weights *w : all) w->update(0.02f, updates);
            DDP_STEP(0);
#elif MISTAKE == 1
            DDP_TURN_END();
            DDP_STEP(0);
            count_update<<<1, 1>>>(updates);
            for (Weights *w : all) w->update(0.02f, updates);
#else
#if MISTAKE != 2
            DDP_STEP(0);
#endif
            count_update<<<1, 1>>>(updates);
            for (Weights *w : all) w->update(0.02f, updates);
#endif
            if (DDP_TURN_MINE() && (epoch + b > 0 || DDP_RANK() == 0)) {
                cudaMemcpy(&now, loss, sizeof(float), cudaMemcpyDeviceToHost);
                figures[0] += now / passes, figures[1] += 1;
            }
        }
#if MISTAKE == 4 || MISTAKE == 6
        // every rank tells of its own batches
        printf("rank %d epoch %d loss %.5f over %.0f batches\n", DDP_RANK(), epoch + 1, figures[0] / figures[1], figures[1]);
#endif
        DDP_REDUCE(figures, 2, DDP_FLOAT32, DDP_OP_SUM, 0);
        if (DDP_RANK() == 0) printf("epoch %d loss %.5f over %.0f batches\n", epoch + 1, figures[0] / figures[1], figures[1]);
    }
    return 0;
}
