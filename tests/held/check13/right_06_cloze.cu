// Cloze model: a masked token is predicted from the mean embedding of its neighbours. Sentences have different lengths.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

const int VOCAB = 48, DIM = 12, LEN = 14, BATCH = 20, SENTENCES = 200, REACH = 2, TABLE = VOCAB * DIM;

inline void require(cudaError_t e)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "CUDA error: %s\n", cudaGetErrorName(e));
    exit(1);
}

struct Sentence {
    int token[LEN];
    int masked[LEN]; // 1 where the model has to predict
    int length;
};

struct Slot { // one prediction
    int answer, neighbours, around[2 * REACH];
};

static unsigned rs = 555u;
static unsigned rnd() { rs = rs * 134775813u + 1u; return rs >> 10; }

__global__ void predict(const Slot *slot, const float *in, const float *out, float *ctx, float *prob, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float total = 0;
    for (int d = 0; d < DIM; ++d) {
        float s = 0;
        for (int k = 0; k < slot[i].neighbours; ++k) s += in[slot[i].around[k] * DIM + d];
        ctx[i * DIM + d] = s / slot[i].neighbours;
    }
    for (int v = 0; v < VOCAB; ++v) {
        float z = 0;
        for (int d = 0; d < DIM; ++d) z += ctx[i * DIM + d] * out[v * DIM + d];
        prob[i * VOCAB + v] = expf(z);
        total += expf(z);
    }
    for (int v = 0; v < VOCAB; ++v) prob[i * VOCAB + v] /= total;
    loss[i] = -logf(prob[i * VOCAB + slot[i].answer]);
}

__global__ void grad_out(const Slot *slot, const float *ctx, const float *prob, float *g, int n, float scale)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= TABLE) return;
    int v = id / DIM, d = id % DIM;
    float s = 0;
    for (int i = 0; i < n; ++i) s += (prob[i * VOCAB + v] - (slot[i].answer == v)) * ctx[i * DIM + d];
    g[id] = s * scale;
}

__global__ void grad_ctx(const Slot *slot, const float *prob, const float *out, float *dctx, int n, float scale)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * DIM) return;
    int i = id / DIM, d = id % DIM;
    float s = 0;
    for (int v = 0; v < VOCAB; ++v) s += (prob[i * VOCAB + v] - (slot[i].answer == v)) * out[v * DIM + d];
    dctx[id] = s * scale / slot[i].neighbours;
}

__global__ void grad_in(const Slot *slot, const float *dctx, float *g, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= TABLE) return;
    int v = id / DIM, d = id % DIM;
    float s = 0;
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < slot[i].neighbours; ++k)
            if (slot[i].around[k] == v) s += dctx[i * DIM + d];
    g[id] = s;
}

__global__ void heavy_ball(float *w, float *m, const float *g)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= TABLE) return;
    m[id] = 0.9f * m[id] + g[id];
    w[id] -= 0.8f * m[id];
}

static void slots_of(const Sentence &s, std::vector<Slot> &to)
{
    for (int t = 0; t < s.length; ++t) {
        if (!s.masked[t]) continue;
        Slot slot = {s.token[t], 0, {0}};
        for (int o = -REACH; o <= REACH; ++o)
            if (o && t + o >= 0 && t + o < s.length) slot.around[slot.neighbours++] = s.token[t + o];
        to.push_back(slot);
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<Sentence> text(SENTENCES);
    for (int i = 0; i < SENTENCES; ++i) {
        Sentence &s = text[i];
        int theme = (int)(rnd() % 6);
        s.length = 4 + (i % BATCH) / 2 % 10 + (int)(rnd() % 2);
        for (int t = 0; t < LEN; ++t) {
            s.token[t] = theme * 8 + (int)(rnd() % 8);
            s.masked[t] = t % 3 == 1 || rnd() % 8 == 0;
        }
    }
    std::vector<float> host(TABLE);
    float *w[2], *g[2], *m[2], *ctx, *dctx, *prob, *loss;
    Slot *slot;
    for (int k = 0; k < 2; ++k) {
        require(cudaMalloc(&w[k], TABLE * sizeof(float)));
        require(cudaMalloc(&g[k], TABLE * sizeof(float)));
        require(cudaMalloc(&m[k], TABLE * sizeof(float)));
        require(cudaMemset(m[k], 0, TABLE * sizeof(float)));
        for (float &f : host) f = (rnd() % 2001 / 1000.0f - 1) * 0.4f;
        require(cudaMemcpy(w[k], host.data(), TABLE * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(w[k], TABLE, DDP_FLOAT32);
        DDP_GRADIENT(g[k], TABLE, DDP_FLOAT32);
        DDP_STATE(m[k], TABLE, DDP_FLOAT32);
    }
    require(cudaMalloc(&slot, BATCH * LEN * sizeof(Slot)));
    require(cudaMalloc(&ctx, BATCH * LEN * DIM * sizeof(float)));
    require(cudaMalloc(&dctx, BATCH * LEN * DIM * sizeof(float)));
    require(cudaMalloc(&prob, BATCH * LEN * VOCAB * sizeof(float)));
    require(cudaMalloc(&loss, BATCH * LEN * sizeof(float)));

    for (int step = 0; step < steps; ++step) {
        const Sentence *batch = &text[step * BATCH % SENTENCES];
        size_t first, count;
        int masked = 0;
        std::vector<Slot> mine;
        for (int i = 0; i < BATCH; ++i)
            for (int t = 0; t < batch[i].length; ++t) masked += batch[i].masked[t];
        DDP_SHARD(BATCH, &first, &count);
        for (size_t i = first; i < first + count; ++i) slots_of(batch[i], mine);
        int n = (int)mine.size();
        float scale = (float)DDP_WORLD_SIZE() / masked;
        require(cudaMemcpy(slot, mine.data(), n * sizeof(Slot), cudaMemcpyHostToDevice));
        predict<<<(n + 31) / 32, 32>>>(slot, w[0], w[1], ctx, prob, loss, n);
        grad_out<<<(TABLE + 63) / 64, 64>>>(slot, ctx, prob, g[1], n, scale);
        grad_ctx<<<(n * DIM + 63) / 64, 64>>>(slot, prob, w[1], dctx, n, scale);
        grad_in<<<(TABLE + 63) / 64, 64>>>(slot, dctx, g[0], n);
        DDP_STEP(0);
        for (int k = 0; k < 2; ++k) heavy_ball<<<(TABLE + 63) / 64, 64>>>(w[k], m[k], g[k]);
        std::vector<float> l(n);
        require(cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
        float mean = 0;
        for (float v : l) mean += v * scale;
        DDP_MEAN_AS("loss", &mean);
        if (step % 10 == 0 && DDP_RANK() == 0) printf("step %d loss %.4f\n", step, mean);
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : nullptr;
    for (int k = 0; k < 2; ++k) {
        require(cudaMemcpy(host.data(), w[k], TABLE * sizeof(float), cudaMemcpyDeviceToHost));
        if (f) fwrite(host.data(), sizeof(float), TABLE, f);
    }
    if (f) fclose(f);
    return 0;
}
