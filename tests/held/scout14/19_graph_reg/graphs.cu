// Regression on small graphs: two rounds of averaging over neighbours, then the mean over the nodes. One block runs one
// graph; thread j is unit j. Weights, gradients and Adam's moments are structs in managed memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

constexpr int NODES = 9, KINDS = 4, UNITS = 16, GRAPHS = 384, BATCH = 32, EPOCHS = 14;

struct Graph {
    int nodes;
    uint8_t kind[NODES];
    uint8_t edge[NODES][NODES]; // symmetric, with loops
    float target;
};

struct GraphNet {
    float w1[KINDS][UNITS], b1[UNITS];
    float w2[UNITS][UNITS], b2[UNITS];
    float v[UNITS], c;
};
constexpr int FLOATS = sizeof(GraphNet) / sizeof(float);

#define OK(x) do { if (cudaError_t e = (x)) { std::fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); std::exit(1); } } while (0)

__global__ void run_graphs(const Graph *graphs, const GraphNet *net, GraphNet *grad, float *loss, float share)
{
    __shared__ float mean[NODES][KINDS], h1[NODES][UNITS], a1[NODES][UNITS], d2[NODES][UNITS], pool[UNITS], degree[NODES], dout;
    const Graph &g = graphs[blockIdx.x];
    const int j = threadIdx.x, n = g.nodes;

    if (j < n) {
        degree[j] = 0;
        for (int k = 0; k < KINDS; ++k) mean[j][k] = 0;
        for (int m = 0; m < n; ++m) degree[j] += g.edge[j][m];
        for (int m = 0; m < n; ++m)
            if (g.edge[j][m]) mean[j][g.kind[m]] += 1 / degree[j];
    }
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        float s = net->b1[j];
        for (int k = 0; k < KINDS; ++k) s += mean[i][k] * net->w1[k][j];
        h1[i][j] = fmaxf(s, 0.f);
    }
    for (int i = 0; i < n; ++i) { // column j only: no barrier
        float s = 0;
        for (int m = 0; m < n; ++m)
            if (g.edge[i][m]) s += h1[m][j];
        a1[i][j] = s / degree[i];
    }
    __syncthreads();
    pool[j] = 0;
    for (int i = 0; i < n; ++i) {
        float s = net->b2[j];
        for (int k = 0; k < UNITS; ++k) s += a1[i][k] * net->w2[k][j];
        d2[i][j] = s > 0 ? 1.f : 0.f;
        pool[j] += fmaxf(s, 0.f) / n;
    }
    __syncthreads();
    if (j == 0) {
        float y = net->c;
        for (int k = 0; k < UNITS; ++k) y += net->v[k] * pool[k];
        loss[blockIdx.x] = (y - g.target) * (y - g.target);
        dout = 2 * (y - g.target) * share;
        atomicAdd(&grad->c, dout);
    }
    __syncthreads();

    atomicAdd(&grad->v[j], dout * pool[j]);
    float b2 = 0, w2[UNITS] = {};
    for (int i = 0; i < n; ++i) {
        d2[i][j] *= dout * net->v[j] / n;
        b2 += d2[i][j];
        for (int k = 0; k < UNITS; ++k) w2[k] += a1[i][k] * d2[i][j];
    }
    atomicAdd(&grad->b2[j], b2);
    for (int k = 0; k < UNITS; ++k) atomicAdd(&grad->w2[k][j], w2[k]);
    __syncthreads();

    float da[NODES], b1 = 0, w1[KINDS] = {};
    for (int i = 0; i < n; ++i) {
        da[i] = 0;
        for (int m = 0; m < UNITS; ++m) da[i] += d2[i][m] * net->w2[j][m];
        da[i] /= degree[i];
    }
    for (int i = 0; i < n; ++i) {
        float d = 0;
        for (int m = 0; m < n; ++m)
            if (g.edge[m][i]) d += da[m];
        if (h1[i][j] <= 0) d = 0;
        b1 += d;
        for (int k = 0; k < KINDS; ++k) w1[k] += mean[i][k] * d;
    }
    atomicAdd(&grad->b1[j], b1);
    for (int k = 0; k < KINDS; ++k) atomicAdd(&grad->w1[k][j], w1[k]);
}

__global__ void adam(float *w, const float *g, float *m, float *v, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= FLOATS) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-7f);
}

template <typename T> static T *managed(size_t n = 1)
{
    T *p;
    OK(cudaMallocManaged(&p, n * sizeof(T)));
    std::fill_n(reinterpret_cast<float *>(p), n * sizeof(T) / sizeof(float), 0.f);
    return p;
}

static std::vector<Graph> make_graphs(std::mt19937 &rng)
{
    std::vector<Graph> all(GRAPHS);
    const float worth[KINDS] = {0.5f, -0.4f, 1.0f, -0.8f};
    for (Graph &g : all) {
        g = Graph{};
        g.nodes = 5 + rng() % (NODES - 4);
        for (int i = 0; i < g.nodes; ++i) {
            g.kind[i] = rng() % KINDS;
            g.edge[i][i] = 1;
            for (int m = 0; m < i; ++m) g.edge[i][m] = g.edge[m][i] = rng() % 3 == 0;
        }
        for (int i = 0; i < g.nodes; ++i) { // a node counts by the best of its neighbours
            float best = -1.f;
            for (int m = 0; m < g.nodes; ++m)
                if (g.edge[i][m]) best = std::max(best, worth[g.kind[m]]);
            g.target += 2.f * best / g.nodes;
        }
    }
    return all;
}

int main()
{
    std::mt19937 rng(15);
    std::vector<Graph> graphs = make_graphs(rng);

    GraphNet *net = managed<GraphNet>(), *grad = managed<GraphNet>(), *m = managed<GraphNet>(), *v = managed<GraphNet>();
    std::normal_distribution<float> normal;
    for (auto &row : net->w1)
        for (float &x : row) x = 0.7f * normal(rng);
    for (auto &row : net->w2)
        for (float &x : row) x = 0.3f * normal(rng);
    for (float &x : net->v) x = 0.3f * normal(rng);
    float *loss = managed<float>(BATCH);
    Graph *batch;
    OK(cudaMalloc(&batch, BATCH * sizeof(Graph)));

    int t = 0;
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        std::shuffle(graphs.begin(), graphs.end(), rng);
        double sum = 0;
        for (int first = 0; first < GRAPHS; first += BATCH) {
            OK(cudaMemcpy(batch, graphs.data() + first, BATCH * sizeof(Graph), cudaMemcpyHostToDevice));
            OK(cudaMemset(grad, 0, sizeof(GraphNet)));
            run_graphs<<<BATCH, UNITS>>>(batch, net, grad, loss, 1.f / BATCH);
            ++t;
            adam<<<(FLOATS + 63) / 64, 64>>>(&net->w1[0][0], &grad->w1[0][0], &m->w1[0][0], &v->w1[0][0], epoch < 9 ? 0.02f : 0.005f,
                                             1 - std::pow(0.9f, t), 1 - std::pow(0.99f, t));
            OK(cudaDeviceSynchronize());
            for (int i = 0; i < BATCH; ++i) sum += loss[i];
        }
        std::printf("epoch %2d mse %.5f\n", epoch, sum / GRAPHS);
    }
    for (void *p : {(void *)net, (void *)grad, (void *)m, (void *)v, (void *)loss, (void *)batch}) cudaFree(p);
    return 0;
}
