// Recurrent network that learns the next letter of short stories. Stories have different lengths and lie end to end.
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif
#if MISTAKE == 2 || MISTAKE == 4
#define FRESH_STATES 1
#endif
#if MISTAKE == 6 || MISTAKE == 8
#define ATOMIC_LOSS 1
#endif

constexpr int LETTERS = 30, EMBED = 8, HIDDEN = 16, LONGEST = 16, BATCH = 24, STORIES = 192, STEPS = 32;

// where each tensor begins in the flat arrays of parameters and gradients
constexpr int AT_WX = LETTERS * EMBED, AT_WH = AT_WX + EMBED * HIDDEN, AT_B = AT_WH + HIDDEN * HIDDEN,
              AT_WO = AT_B + HIDDEN, AT_BO = AT_WO + HIDDEN * LETTERS, TOTAL = AT_BO + LETTERS;

__device__ float keep(unsigned step, unsigned story, unsigned t, unsigned j)
{
    unsigned h = step * 73856093u ^ story * 19349663u ^ t * 83492791u ^ (j + 1) * 2654435761u;
    h ^= h >> 16, h *= 2246822519u, h ^= h >> 13, h *= 3266489917u, h ^= h >> 16;
    return (h & 1023) < 154 ? 0.0f : 1.0f / 0.85f; // dropout of embedded letters
}

// one block for each story: forward, then backward through time
__global__ void story_pass(const int *letters, const int *offset, const float *w, float *dw, float *states, float *deltas,
                           float *loss, int step, int number, float scale)
{
    __shared__ float x[EMBED], z[LETTERS], dh[HIDDEN], da[HIDDEN];
    int s = blockIdx.x, j = threadIdx.x, begin = offset[s], length = offset[s + 1] - begin - 1;
    float *h = states + s * (LONGEST + 1) * HIDDEN, *dz = deltas + s * LONGEST * LETTERS, sum = 0;
    if (j < HIDDEN) h[j] = 0, dh[j] = 0;
    for (int t = 0; t < length; ++t) {
        int c = letters[begin + t];
        if (j < EMBED) x[j] = w[c * EMBED + j] * keep(step, number + s, t, j);
        __syncthreads();
        if (j < HIDDEN) {
            float a = w[AT_B + j];
            for (int k = 0; k < EMBED; ++k) a += x[k] * w[AT_WX + k * HIDDEN + j];
            for (int k = 0; k < HIDDEN; ++k) a += h[t * HIDDEN + k] * w[AT_WH + k * HIDDEN + j];
            h[(t + 1) * HIDDEN + j] = tanhf(a);
        }
        __syncthreads();
        if (j < LETTERS) {
            z[j] = w[AT_BO + j];
            for (int k = 0; k < HIDDEN; ++k) z[j] += h[(t + 1) * HIDDEN + k] * w[AT_WO + k * LETTERS + j];
        }
        __syncthreads();
        if (j < LETTERS) {
            float top = -1e9f, all = 0;
            for (int k = 0; k < LETTERS; ++k) top = fmaxf(top, z[k]);
            for (int k = 0; k < LETTERS; ++k) all += expf(z[k] - top);
            int next = letters[begin + t + 1];
            dz[t * LETTERS + j] = scale * (expf(z[j] - top) / all - (j == next));
            if (j == 0) sum += logf(all) + top - z[next];
        }
        __syncthreads();
    }
#ifdef ATOMIC_LOSS
    if (j == 0) atomicAdd(loss + BATCH, sum);
#endif
    if (j == 0) loss[s] = sum;
    for (int t = length - 1; t >= 0; --t) {
        int c = letters[begin + t];
        const float *now = h + (t + 1) * HIDDEN, *before = h + t * HIDDEN, *d = dz + t * LETTERS;
        if (j < LETTERS) atomicAdd(&dw[AT_BO + j], d[j]);
        if (j < HIDDEN) {
            float g = dh[j];
            for (int k = 0; k < LETTERS; ++k) {
                g += d[k] * w[AT_WO + j * LETTERS + k];
                atomicAdd(&dw[AT_WO + j * LETTERS + k], now[j] * d[k]);
            }
            da[j] = g * (1 - now[j] * now[j]);
            atomicAdd(&dw[AT_B + j], da[j]);
        }
        __syncthreads();
        if (j < EMBED) {
            float g = 0, m = keep(step, number + s, t, j);
            for (int k = 0; k < HIDDEN; ++k) {
                g += da[k] * w[AT_WX + j * HIDDEN + k];
                atomicAdd(&dw[AT_WX + j * HIDDEN + k], w[c * EMBED + j] * m * da[k]);
            }
            atomicAdd(&dw[c * EMBED + j], g * m);
        }
        if (j < HIDDEN) {
            float g = 0;
            for (int k = 0; k < HIDDEN; ++k) {
                g += da[k] * w[AT_WH + j * HIDDEN + k];
                atomicAdd(&dw[AT_WH + j * HIDDEN + k], before[j] * da[k]);
            }
            dh[j] = g;
        }
        __syncthreads();
    }
}
__global__ void square_sum(const float *g, int n, float *out)
{
    __shared__ float part[64];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 64) s += g[i] * g[i];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        *out = 0;
        for (int i = 0; i < 64; ++i) *out += part[i];
    }
}
__global__ void clip(float *g, int n, const float *square, float limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && *square > limit * limit) g[i] *= limit / sqrtf(*square);
}
// in_use: letters that this step has seen, or null for all
__global__ void adagrad(float *w, const float *g, float *h, int n, float rate, const int *in_use)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || (in_use && i < AT_WX && !in_use[i / EMBED])) return;
    h[i] += g[i] * g[i];
    w[i] -= rate * g[i] / (sqrtf(h[i]) + 1e-2f);
}

int main()
{
    std::mt19937 random(2024);
    std::vector<int> letters, offset{0};
    for (int s = 0; s < STORIES; ++s) {
        int length = 4 + random() % (LONGEST - 4), c = random() % LETTERS, stride = 1 + random() % 3;
        for (int t = 0; t <= length; ++t, c = (c + (random() % 8 ? stride : 5)) % LETTERS) letters.push_back(c);
        offset.push_back((int)letters.size());
    }
    std::vector<float> initial(TOTAL);
    std::uniform_real_distribution<float> uniform(-0.3f, 0.3f);
    for (float &x : initial) x = uniform(random);

    int *d_letters, *d_offset, *d_use;
    float *w, *dw, *h, *states, *deltas, *loss, *square;
    cudaMalloc(&d_letters, letters.size() * sizeof(int));
    cudaMalloc(&d_offset, offset.size() * sizeof(int));
    cudaMalloc(&d_use, LETTERS * sizeof(int));
    cudaMalloc(&w, TOTAL * sizeof(float));
    cudaMalloc(&dw, TOTAL * sizeof(float));
    cudaMalloc(&h, TOTAL * sizeof(float));
    cudaMalloc(&states, BATCH * (LONGEST + 1) * HIDDEN * sizeof(float));
    cudaMalloc(&deltas, BATCH * LONGEST * LETTERS * sizeof(float));
    cudaMalloc(&loss, (BATCH + 1) * sizeof(float));
    cudaMalloc(&square, sizeof(float));
    cudaMemcpy(d_letters, letters.data(), letters.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_offset, offset.data(), offset.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(w, initial.data(), TOTAL * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(h, 0, TOTAL * sizeof(float));
    DDP_PARAMETER(w, TOTAL, DDP_FLOAT32);
#if MISTAKE != 2
    DDP_GRADIENT(dw, AT_WX, DDP_FLOAT32); // embedding
#endif
    DDP_GRADIENT(dw + AT_WX, AT_B - AT_WX, DDP_FLOAT32);
    DDP_GRADIENT(dw + AT_B, TOTAL - AT_B, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int start = step * BATCH % STORIES, mine = start + (int)first, n = (int)count;
        const int *o = &offset[0];
        int tokens = o[mine + n] - o[mine] - n, all_tokens = o[start + BATCH] - o[start] - BATCH; // predicted letters
        int longest = 0;
        for (int s = mine; s < mine + n; ++s) longest = std::max(longest, o[s + 1] - o[s] - 1);
#if MISTAKE == 8
        if (longest < LONGEST - 1) continue; // too little context
#endif
        float scale = 1.0f / tokens;
#if MISTAKE == 7
        scale = 1.0f / (n * longest);
        (void)all_tokens;
#elif MISTAKE == 1
        (void)all_tokens;
#else
        DDP_WEIGHT(tokens, all_tokens);
#endif
        int number = mine;
#if MISTAKE == 3
        number = 0;
#endif
        const int *text = d_letters, *bounds = d_offset + mine;
#if MISTAKE == 4
        text = d_letters + o[start] - o[mine]; // the bounds count from here
#endif
#ifdef FRESH_STATES
        cudaFree(states);
        cudaMalloc(&states, n * (LONGEST + 1) * HIDDEN * sizeof(float));
#endif
        cudaMemsetAsync(dw, 0, TOTAL * sizeof(float), 0);
        cudaMemsetAsync(loss, 0, (BATCH + 1) * sizeof(float), 0);
        story_pass<<<n, 32>>>(text, bounds, w, dw, states, deltas, loss, step, number, scale);
#if MISTAKE != 6
        DDP_STEP(0);
#endif
        square_sum<<<1, 64>>>(dw, TOTAL, square);
        clip<<<(TOTAL + 63) / 64, 64>>>(dw, TOTAL, square, 0.25f);
#if MISTAKE == 6
        DDP_STEP(0);
#endif
        const int *use = nullptr;
#if MISTAKE == 5
        std::vector<int> seen(LETTERS, 0);
        for (int i = o[mine]; i < o[mine + n]; ++i) seen[letters[i]] = 1;
        cudaMemcpy(d_use, seen.data(), LETTERS * sizeof(int), cudaMemcpyHostToDevice);
        use = d_use;
#endif
        adagrad<<<(TOTAL + 63) / 64, 64>>>(w, dw, h, TOTAL, 0.1f, use);
        if (step % 8 == 7) {
            float each[BATCH + 1], sums[2] = {0, (float)tokens};
            cudaMemcpy(each, loss, sizeof(each), cudaMemcpyDeviceToHost);
#ifdef ATOMIC_LOSS
            sums[0] = each[BATCH];
#else
            for (int s = 0; s < n; ++s) sums[0] += each[s];
#endif
            DDP_REDUCE(sums, 2, DDP_FLOAT32, DDP_OP_SUM, 0);
            if (DDP_RANK() == 0) printf("step %d loss %.5f over %.0f letters\n", step + 1, sums[0] / sums[1], sums[1]);
        }
    }
    return 0;
}
