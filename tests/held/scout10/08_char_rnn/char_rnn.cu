// Character-level vanilla RNN after min-char-rnn.py, many streams of text at once, on the GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>
#include <cuda_runtime.h>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}

// hyperparameters
static const int hidden_size = 40;
static const int seq_length = 12;
static const int num_streams = 32;
static const int iterations = 120;
static const float learning_rate = 0.1f;

// h_t = tanh(Wxh[x] + Whh h_{t-1} + bh)
__global__ void rnn_step(const int *x, int t, const float *Wxh, const float *Whh, const float *bh,
                         const float *hprev, float *h, int S, int H)
{
    int s = blockIdx.x, j = threadIdx.x;
    int c = x[t * S + s];
    float a = bh[j] + Wxh[c * H + j];
    for (int k = 0; k < H; k++)
        a += Whh[j * H + k] * hprev[s * H + k];
    h[s * H + j] = tanhf(a);
}

__global__ void output_step(const int *targets, int t, const float *Why, const float *by, const float *h,
                            float *p, float *loss, int S, int H, int V)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= S) return;
    float m = -1e20f, sum = 0.f;
    float *ps = p + s * V;
    for (int v = 0; v < V; v++) {
        float y = by[v];
        for (int k = 0; k < H; k++)
            y += Why[v * H + k] * h[s * H + k];
        ps[v] = y;
        m = fmaxf(m, y);
    }
    for (int v = 0; v < V; v++) {
        ps[v] = expf(ps[v] - m);
        sum += ps[v];
    }
    for (int v = 0; v < V; v++)
        ps[v] /= sum;
    int y = targets[t * S + s];
    loss[s] += -logf(ps[y]);
    ps[y] -= 1.f; // dy
}

// dh of this step, through the output and from the step after
__global__ void back_hidden(const float *dy, const float *Why, const float *dhnext, const float *h, float *dhraw,
                            int H, int V)
{
    int s = blockIdx.x, j = threadIdx.x;
    float d = dhnext[s * H + j];
    for (int v = 0; v < V; v++)
        d += Why[v * H + j] * dy[s * V + v];
    dhraw[s * H + j] = d * (1.f - h[s * H + j] * h[s * H + j]);
}

__global__ void back_next(const float *dhraw, const float *Whh, float *dhnext, int H)
{
    int s = blockIdx.x, k = threadIdx.x;
    float d = 0.f;
    for (int j = 0; j < H; j++)
        d += Whh[j * H + k] * dhraw[s * H + j];
    dhnext[s * H + k] = d;
}

__global__ void grad_out(const float *dy, const float *h, float *dWhy, float *dby, int S, int H)
{
    int v = blockIdx.x, k = threadIdx.x;
    int V = gridDim.x;
    for (int s = 0; s < S; s++) {
        dWhy[v * H + k] += dy[s * V + v] * h[s * H + k];
        if (k == 0) dby[v] += dy[s * V + v];
    }
}

__global__ void grad_rec(const int *x, int t, const float *dhraw, const float *hprev, float *dWxh, float *dWhh,
                         float *dbh, int S, int H)
{
    int j = blockIdx.x, k = threadIdx.x;
    for (int s = 0; s < S; s++) {
        dWhh[j * H + k] += dhraw[s * H + j] * hprev[s * H + k];
        if (k == 0) {
            dbh[j] += dhraw[s * H + j];
            dWxh[x[t * S + s] * H + j] += dhraw[s * H + j];
        }
    }
}

__global__ void clip(float *g, int n, float c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) g[i] = fminf(fmaxf(g[i], -c), c);
}

__global__ void adagrad_update(float *param, const float *dparam, float *mem, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        mem[i] += dparam[i] * dparam[i];
        param[i] -= lr * dparam[i] / sqrtf(mem[i] + 1e-8f);
    }
}

int main()
{
    std::ifstream in("input.txt");
    if (!in) { std::cerr << "input.txt is missing\n"; return 1; }
    std::stringstream ss;
    ss << in.rdbuf();
    std::string data = ss.str();
    std::map<char, int> char_to_ix;
    for (char c : data) char_to_ix[c] = 0;
    int V = 0;
    for (auto &kv : char_to_ix) kv.second = V++;
    printf("data has %d characters, %d unique.\n", (int)data.size(), V);

    const int S = num_streams, H = hidden_size, T = seq_length;
    int sizes[5] = {V * H, H * H, V * H, H, V}; // Wxh Whh Why bh by
    float *params[5], *dparams[5], *mem[5];
    srand(1);
    for (int i = 0; i < 5; i++) {
        gpuErrchk(cudaMalloc(&params[i], sizes[i] * sizeof(float)));
        gpuErrchk(cudaMalloc(&dparams[i], sizes[i] * sizeof(float)));
        gpuErrchk(cudaMalloc(&mem[i], sizes[i] * sizeof(float)));
        std::vector<float> init(sizes[i], 0.f);
        if (i < 3)
            for (auto &w : init) w = 0.2f * (rand() / (float)RAND_MAX - 0.5f);
        gpuErrchk(cudaMemcpy(params[i], init.data(), sizes[i] * sizeof(float), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemset(mem[i], 0, sizes[i] * sizeof(float)));
    }

    int *d_inputs, *d_targets;
    float *hs, *dy, *dhraw, *dhnext, *d_loss;
    gpuErrchk(cudaMalloc(&d_inputs, T * S * sizeof(int)));
    gpuErrchk(cudaMalloc(&d_targets, T * S * sizeof(int)));
    gpuErrchk(cudaMalloc(&hs, (T + 1) * S * H * sizeof(float))); // hs[0] is the state from the last iteration
    gpuErrchk(cudaMalloc(&dy, T * S * V * sizeof(float)));
    gpuErrchk(cudaMalloc(&dhraw, S * H * sizeof(float)));
    gpuErrchk(cudaMalloc(&dhnext, S * H * sizeof(float)));
    gpuErrchk(cudaMalloc(&d_loss, S * sizeof(float)));
    gpuErrchk(cudaMemset(hs, 0, S * H * sizeof(float)));

    // every stream reads its own part of the text
    int part = (int)data.size() / S;
    int p = 0;
    std::vector<int> inputs(T * S), targets(T * S);
    std::vector<float> loss(S);
    double smooth_loss = -1;
    for (int n = 0; n < iterations; n++) {
        if (p + T + 1 >= part) {
            gpuErrchk(cudaMemset(hs, 0, S * H * sizeof(float)));
            p = 0;
        }
        for (int t = 0; t < T; t++)
            for (int s = 0; s < S; s++) {
                inputs[t * S + s] = char_to_ix[data[s * part + p + t]];
                targets[t * S + s] = char_to_ix[data[s * part + p + t + 1]];
            }
        gpuErrchk(cudaMemcpy(d_inputs, inputs.data(), inputs.size() * sizeof(int), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemcpy(d_targets, targets.data(), targets.size() * sizeof(int), cudaMemcpyHostToDevice));

        gpuErrchk(cudaMemset(d_loss, 0, S * sizeof(float)));
        for (int t = 0; t < T; t++) {
            rnn_step<<<S, H>>>(d_inputs, t, params[0], params[1], params[3], hs + t * S * H, hs + (t + 1) * S * H, S, H);
            output_step<<<(S + 31) / 32, 32>>>(d_targets, t, params[2], params[4], hs + (t + 1) * S * H, dy + t * S * V,
                                               d_loss, S, H, V);
        }
        for (int i = 0; i < 5; i++)
            gpuErrchk(cudaMemset(dparams[i], 0, sizes[i] * sizeof(float)));
        gpuErrchk(cudaMemset(dhnext, 0, S * H * sizeof(float)));
        for (int t = T - 1; t >= 0; t--) {
            const float *h = hs + (t + 1) * S * H, *hprev = hs + t * S * H;
            grad_out<<<V, H>>>(dy + t * S * V, h, dparams[2], dparams[4], S, H);
            back_hidden<<<S, H>>>(dy + t * S * V, params[2], dhnext, h, dhraw, H, V);
            grad_rec<<<H, H>>>(d_inputs, t, dhraw, hprev, dparams[0], dparams[1], dparams[3], S, H);
            back_next<<<S, H>>>(dhraw, params[1], dhnext, H);
        }
        for (int i = 0; i < 5; i++) // clip to mitigate exploding gradients
            clip<<<(sizes[i] + 127) / 128, 128>>>(dparams[i], sizes[i], 5.f);
        for (int i = 0; i < 5; i++)
            adagrad_update<<<(sizes[i] + 127) / 128, 128>>>(params[i], dparams[i], mem[i], learning_rate, sizes[i]);
        gpuErrchk(cudaMemcpy(hs, hs + T * S * H, S * H * sizeof(float), cudaMemcpyDeviceToDevice));

        gpuErrchk(cudaMemcpy(loss.data(), d_loss, S * sizeof(float), cudaMemcpyDeviceToHost));
        double l = 0;
        for (float v : loss) l += v;
        l /= S * T;
        smooth_loss = smooth_loss < 0 ? l : smooth_loss * 0.95 + l * 0.05;
        if (n % 20 == 0 || n == iterations - 1)
            printf("iter %d, loss: %f\n", n, smooth_loss);
        p += T;
    }
    gpuErrchk(cudaDeviceSynchronize());
    return 0;
}
