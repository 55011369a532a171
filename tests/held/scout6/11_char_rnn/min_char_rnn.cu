// min-char-rnn on the GPU, with several streams of text at once.
// After Andrej Karpathy's min-char-rnn.py: vanilla RNN, truncated backprop, clipping, Adagrad.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>

static const char *corpus =
    "the quick brown fox jumps over the lazy dog. a stitch in time saves nine. the early bird catches the worm. "
    "all that glitters is not gold. a watched pot never boils. the pen is mightier than the sword. "
    "when in rome do as the romans do. fortune favours the bold. birds of a feather flock together. "
    "there is no place like home. better late than never. two wrongs do not make a right. ";

const int hidden_size = 48;
const int seq_length = 12;
const int batch = 32;
const int iterations = 90;
const float learning_rate = 0.1f;

int vocab_size;

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        exit(code);
    }
}

// model parameters, their gradients and the memory of Adagrad
float *Wxh, *Whh, *Why, *bh, *by;
float *dWxh, *dWhh, *dWhy, *dbh, *dby;
float *mWxh, *mWhh, *mWhy, *mbh, *mby;

float *hs;        // (seq_length + 1) x batch x hidden, [0] is the state before the sequence
float *ps;        // seq_length x batch x vocab
float *dh, *dhnext;
float *losses;    // seq_length x batch
int *inputs, *targets;   // seq_length x batch

// h_t = tanh(Wxh[x] + Whh h_{t-1} + bh); a block for each stream
__global__ void step_hidden(const int *x, const float *Wxh, const float *Whh, const float *bh, const float *hprev, float *h)
{
    extern __shared__ float prev[];
    int b = blockIdx.x, i = threadIdx.x, H = blockDim.x;
    prev[i] = hprev[b * H + i];
    __syncthreads();
    float s = bh[i] + Wxh[x[b] * H + i];
    for (int j = 0; j < H; j++)
        s += Whh[i * H + j] * prev[j];
    h[b * H + i] = tanhf(s);
}

__global__ void step_output(const float *h, const float *Why, const float *by, const int *target, float *p, float *loss,
                            int H, int V)
{
    extern __shared__ float y[];
    int b = blockIdx.x, v = threadIdx.x;
    float s = by[v];
    for (int j = 0; j < H; j++)
        s += Why[v * H + j] * h[b * H + j];
    y[v] = s;
    __syncthreads();
    float m = y[0], sum = 0;
    for (int k = 1; k < V; k++)
        m = fmaxf(m, y[k]);
    for (int k = 0; k < V; k++)
        sum += expf(y[k] - m);
    float q = expf(s - m) / sum;
    if (v == target[b]) {
        loss[b] = -logf(q);
        q -= 1.0f;
    }
    p[b * V + v] = q / gridDim.x;     // already dlogits, averaged over the streams
}

__global__ void back_output(const float *dy, const float *h, float *dWhy, float *dby, int B, int H)
{
    int v = blockIdx.x, V = gridDim.x, j = threadIdx.x;
    float s = 0, sb = 0;
    for (int b = 0; b < B; b++) {
        s += dy[b * V + v] * h[b * H + j];
        sb += dy[b * V + v];
    }
    dWhy[v * H + j] += s;
    if (j == 0)
        dby[v] += sb;
}

// dh = (Why^T dy + dhnext) * (1 - h^2)
__global__ void back_hidden(const float *dy, const float *Why, const float *h, const float *dhnext, float *dh, int V)
{
    int b = blockIdx.x, i = threadIdx.x, H = blockDim.x;
    float s = dhnext[b * H + i];
    for (int v = 0; v < V; v++)
        s += Why[v * H + i] * dy[b * V + v];
    float a = h[b * H + i];
    dh[b * H + i] = s * (1 - a * a);
}

__global__ void back_recurrent(const int *x, const float *dh, const float *hprev, float *dWxh, float *dWhh, float *dbh, int B)
{
    int i = blockIdx.x, H = gridDim.x, j = threadIdx.x;
    float s = 0;
    for (int b = 0; b < B; b++)
        s += dh[b * H + i] * hprev[b * H + j];
    dWhh[i * H + j] += s;
    if (j == 0)
        for (int b = 0; b < B; b++) {
            dWxh[x[b] * H + i] += dh[b * H + i];
            dbh[i] += dh[b * H + i];
        }
}

__global__ void back_next(const float *Whh, const float *dh, float *dhnext)
{
    int b = blockIdx.x, j = threadIdx.x, H = blockDim.x;
    float s = 0;
    for (int i = 0; i < H; i++)
        s += Whh[i * H + j] * dh[b * H + i];
    dhnext[b * H + j] = s;
}

__global__ void clip(float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        g[i] = fminf(5.0f, fmaxf(-5.0f, g[i]));
}

__global__ void adagrad(float *w, const float *g, float *mem, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        mem[i] += g[i] * g[i];
        w[i] -= lr * g[i] / sqrtf(mem[i] + 1e-8f);
    }
}

void lossFun()
{
    const int B = batch, H = hidden_size, V = vocab_size;
    for (int t = 0; t < seq_length; t++) {
        step_hidden<<<B, H, H * sizeof(float)>>>(inputs + t * B, Wxh, Whh, bh, hs + t * B * H, hs + (t + 1) * B * H);
        step_output<<<B, V, V * sizeof(float)>>>(hs + (t + 1) * B * H, Why, by, targets + t * B, ps + t * B * V,
                                                 losses + t * B, H, V);
    }
    gpuErrchk(cudaMemset(dWxh, 0, V * H * sizeof(float)));
    gpuErrchk(cudaMemset(dWhh, 0, H * H * sizeof(float)));
    gpuErrchk(cudaMemset(dWhy, 0, V * H * sizeof(float)));
    gpuErrchk(cudaMemset(dbh, 0, H * sizeof(float)));
    gpuErrchk(cudaMemset(dby, 0, V * sizeof(float)));
    gpuErrchk(cudaMemset(dhnext, 0, B * H * sizeof(float)));
    for (int t = seq_length - 1; t >= 0; t--) {
        const float *h = hs + (t + 1) * B * H;
        back_output<<<V, H>>>(ps + t * B * V, h, dWhy, dby, B, H);
        back_hidden<<<B, H>>>(ps + t * B * V, Why, h, dhnext, dh, V);
        back_recurrent<<<H, H>>>(inputs + t * B, dh, hs + t * B * H, dWxh, dWhh, dbh, B);
        back_next<<<B, H>>>(Whh, dh, dhnext);
    }
}

float *alloc(int n, float scale, std::mt19937 *gen)
{
    float *p;
    gpuErrchk(cudaMalloc(&p, n * sizeof(float)));
    gpuErrchk(cudaMemset(p, 0, n * sizeof(float)));
    if (gen) {
        std::normal_distribution<float> d(0, scale);
        std::vector<float> h(n);
        for (auto &x : h)
            x = d(*gen);
        gpuErrchk(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    }
    return p;
}

int main()
{
    std::string data;
    for (int i = 0; i < 8; i++)
        data += corpus;
    std::map<char, int> char_to_ix;
    for (char c : data)
        char_to_ix.emplace(c, 0);
    for (auto &e : char_to_ix)
        e.second = vocab_size++;
    printf("data has %zu characters, %d unique.\n", data.size(), vocab_size);

    const int H = hidden_size, V = vocab_size, B = batch;
    std::mt19937 gen(1);
    Wxh = alloc(V * H, 0.1f, &gen), Whh = alloc(H * H, 0.1f, &gen), Why = alloc(V * H, 0.1f, &gen);
    bh = alloc(H, 0, nullptr), by = alloc(V, 0, nullptr);
    dWxh = alloc(V * H, 0, nullptr), dWhh = alloc(H * H, 0, nullptr), dWhy = alloc(V * H, 0, nullptr);
    dbh = alloc(H, 0, nullptr), dby = alloc(V, 0, nullptr);
    mWxh = alloc(V * H, 0, nullptr), mWhh = alloc(H * H, 0, nullptr), mWhy = alloc(V * H, 0, nullptr);
    mbh = alloc(H, 0, nullptr), mby = alloc(V, 0, nullptr);
    hs = alloc((seq_length + 1) * B * H, 0, nullptr);
    ps = alloc(seq_length * B * V, 0, nullptr);
    dh = alloc(B * H, 0, nullptr), dhnext = alloc(B * H, 0, nullptr), losses = alloc(seq_length * B, 0, nullptr);
    gpuErrchk(cudaMalloc(&inputs, seq_length * B * sizeof(int)));
    gpuErrchk(cudaMalloc(&targets, seq_length * B * sizeof(int)));

    std::vector<int> x(seq_length * B), y(seq_length * B);
    std::vector<float> l(seq_length * B);
    const size_t stride = data.size() / B;
    size_t p = 0;
    float smooth_loss = -logf(1.0f / V) * seq_length;
    for (int n = 0; n < iterations; n++) {
        if (p + seq_length + 1 >= stride || n == 0) {
            gpuErrchk(cudaMemset(hs, 0, B * H * sizeof(float)));   // reset RNN memory
            p = 0;
        }
        for (int t = 0; t < seq_length; t++)
            for (int b = 0; b < B; b++) {
                x[t * B + b] = char_to_ix[data[b * stride + p + t]];
                y[t * B + b] = char_to_ix[data[b * stride + p + t + 1]];
            }
        gpuErrchk(cudaMemcpy(inputs, x.data(), x.size() * sizeof(int), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemcpy(targets, y.data(), y.size() * sizeof(int), cudaMemcpyHostToDevice));

        lossFun();
        gpuErrchk(cudaMemcpy(hs, hs + seq_length * B * H, B * H * sizeof(float), cudaMemcpyDeviceToDevice));

        float *params[] = {Wxh, Whh, Why, bh, by};
        float *grads[] = {dWxh, dWhh, dWhy, dbh, dby};
        float *mems[] = {mWxh, mWhh, mWhy, mbh, mby};
        int sizes[] = {V * H, H * H, V * H, H, V};
        for (int i = 0; i < 5; i++) {
            clip<<<(sizes[i] + 127) / 128, 128>>>(grads[i], sizes[i]);
            adagrad<<<(sizes[i] + 127) / 128, 128>>>(params[i], grads[i], mems[i], learning_rate, sizes[i]);
        }

        gpuErrchk(cudaMemcpy(l.data(), losses, l.size() * sizeof(float), cudaMemcpyDeviceToHost));
        float loss = 0;
        for (float e : l)
            loss += e;
        loss /= B;
        smooth_loss = smooth_loss * 0.95f + loss * 0.05f;
        if (n % 10 == 0 || n == iterations - 1)
            printf("iter %d, loss: %f\n", n, smooth_loss);
        p += seq_length;
    }
    return 0;
}
