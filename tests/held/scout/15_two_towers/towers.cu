// Two-tower retrieval. Users and items go through one linear layer each; within
// a batch every other row's item serves as a negative example (softmax over the
// batch). The pairs stay on the device, an index list picks the rows. Adam.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define N_PAIRS 1024
#define UDIM 12
#define IDIM 10
#define EMB 16
#define B 32

static void must(cudaError_t e) { if (e != cudaSuccess) { fputs(cudaGetErrorString(e), stderr); exit(1); } }

struct Tower {
    int in;
    float *w, *dw, *m, *v;  // in x EMB
    float *out, *dout;      // B x EMB
};

__global__ void embed(const float *table, const int *index, int first, const float *w, float *out, int in)
{
    int r = blockIdx.x, d = threadIdx.x;
    const float *row = table + index[first + r] * in;
    float s = 0;
    for (int i = 0; i < in; i++) s += row[i] * w[i * EMB + d];
    out[r * EMB + d] = s;
}

// s[r][c] = <user r, item c>, softmax over c, target c == r
__global__ void in_batch_softmax(const float *u, const float *it, float *g, float *loss)
{
    __shared__ float z[B];
    int r = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int d = 0; d < EMB; d++) s += u[r * EMB + d] * it[c * EMB + d];
    z[c] = s;
    __syncthreads();
    float mx = -1e30f, sum = 0;
    for (int k = 0; k < B; k++) mx = fmaxf(mx, z[k]);
    for (int k = 0; k < B; k++) sum += expf(z[k] - mx);
    g[r * B + c] = (expf(s - mx) / sum - (r == c)) / B;
    if (r == c) loss[r] = mx + logf(sum) - s;
}

__global__ void tower_outputs_grad(const float *g, const float *u, const float *it, float *du, float *dit)
{
    int r = blockIdx.x, d = threadIdx.x;
    float a = 0, b = 0;
    for (int k = 0; k < B; k++) {
        a += g[r * B + k] * it[k * EMB + d];
        b += g[k * B + r] * u[k * EMB + d];
    }
    du[r * EMB + d] = a;
    dit[r * EMB + d] = b;
}

__global__ void tower_weight_grad(const float *table, const int *index, int first, const float *dout, float *dw, int in)
{
    int i = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int r = 0; r < B; r++) s += table[index[first + r] * in + i] * dout[r * EMB + d];
    dw[i * EMB + d] = s;
}

__global__ void adam_step(Tower t, float lr, float bc1, float bc2)
{
    int i = blockIdx.x * EMB + threadIdx.x;
    float g = t.dw[i];
    t.m[i] = 0.9f * t.m[i] + 0.1f * g;
    t.v[i] = 0.999f * t.v[i] + 0.001f * g * g;
    t.w[i] -= lr * (t.m[i] / bc1) / (sqrtf(t.v[i] / bc2) + 1e-8f);
}

static Tower make_tower(int in, std::mt19937 &gen)
{
    Tower t;
    t.in = in;
    size_t bytes = in * EMB * sizeof(float);
    float **state[4] = {&t.w, &t.dw, &t.m, &t.v};
    for (auto p : state) {
        must(cudaMalloc((void **)p, bytes));
        must(cudaMemset(*p, 0, bytes));
    }
    must(cudaMalloc((void **)&t.out, B * EMB * sizeof(float)));
    must(cudaMalloc((void **)&t.dout, B * EMB * sizeof(float)));
    std::vector<float> h(in * EMB);
    std::normal_distribution<float> nd(0, 0.2f);
    for (auto &x : h) x = nd(gen);
    must(cudaMemcpy(t.w, h.data(), bytes, cudaMemcpyHostToDevice));
    return t;
}

static float *upload(const std::vector<float> &h)
{
    float *d;
    must(cudaMalloc((void **)&d, h.size() * sizeof(float)));
    must(cudaMemcpy(d, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    return d;
}

int main()
{
    std::mt19937 gen(77);
    std::normal_distribution<float> nd(0, 1);
    // a shared hidden taste of 5 numbers drives both sides
    float mu[5][UDIM], mi[5][IDIM];
    for (int k = 0; k < 5; k++) {
        for (float &x : mu[k]) x = nd(gen);
        for (float &x : mi[k]) x = nd(gen);
    }
    std::vector<float> users(N_PAIRS * UDIM), items(N_PAIRS * IDIM);
    for (int n = 0; n < N_PAIRS; n++) {
        float z[5];
        for (float &x : z) x = nd(gen);
        for (int i = 0; i < UDIM; i++) {
            users[n * UDIM + i] = 0.2f * nd(gen);
            for (int k = 0; k < 5; k++) users[n * UDIM + i] += 0.5f * z[k] * mu[k][i];
        }
        for (int i = 0; i < IDIM; i++) {
            items[n * IDIM + i] = 0.2f * nd(gen);
            for (int k = 0; k < 5; k++) items[n * IDIM + i] += 0.5f * z[k] * mi[k][i];
        }
    }
    float *d_users = upload(users), *d_items = upload(items), *d_g, *d_loss;
    int *d_index;
    must(cudaMalloc((void **)&d_g, B * B * sizeof(float)));
    must(cudaMalloc((void **)&d_loss, B * sizeof(float)));
    must(cudaMalloc((void **)&d_index, N_PAIRS * sizeof(int)));

    Tower user = make_tower(UDIM, gen), item = make_tower(IDIM, gen);
    std::vector<int> index(N_PAIRS);
    for (int i = 0; i < N_PAIRS; i++) index[i] = i;

    float losses[B];
    int t = 0;
    for (int epoch = 0; epoch < 10; epoch++) {
        std::shuffle(index.begin(), index.end(), gen);
        must(cudaMemcpy(d_index, index.data(), N_PAIRS * sizeof(int), cudaMemcpyHostToDevice));
        float sum = 0;
        for (int first = 0; first < N_PAIRS; first += B) {
            embed<<<B, EMB>>>(d_users, d_index, first, user.w, user.out, UDIM);
            embed<<<B, EMB>>>(d_items, d_index, first, item.w, item.out, IDIM);
            in_batch_softmax<<<B, B>>>(user.out, item.out, d_g, d_loss);
            tower_outputs_grad<<<B, EMB>>>(d_g, user.out, item.out, user.dout, item.dout);
            tower_weight_grad<<<UDIM, EMB>>>(d_users, d_index, first, user.dout, user.dw, UDIM);
            tower_weight_grad<<<IDIM, EMB>>>(d_items, d_index, first, item.dout, item.dw, IDIM);
            ++t;
            float bc1 = 1 - powf(0.9f, t), bc2 = 1 - powf(0.999f, t);
            adam_step<<<UDIM, EMB>>>(user, 0.01f, bc1, bc2);
            adam_step<<<IDIM, EMB>>>(item, 0.01f, bc1, bc2);
            must(cudaMemcpy(losses, d_loss, sizeof losses, cudaMemcpyDeviceToHost));
            for (float l : losses) sum += l;
        }
        printf("epoch %d: in-batch softmax loss %.4f\n", epoch + 1, sum / N_PAIRS);
    }
    return 0;
}
