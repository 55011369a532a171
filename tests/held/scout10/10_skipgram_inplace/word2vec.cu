// Skip-gram with negative sampling. The vectors are updated in place.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <cuda_runtime.h>

typedef float real;

const int vocab_size = 400;
const int layer1_size = 20;
const int window = 3;
const int negative = 5;
const int batch_size = 200;
const int train_words = 8000;
const real starting_alpha = 0.1f;

unsigned long long next_random = 1;
inline unsigned next_rand()
{
    next_random = next_random * 25214903917ULL + 11;
    return (unsigned)(next_random >> 16) & 0x7fffffff;
}

// one thread a pair: pair k has target out[k * (negative + 1)] and then the negative samples
__global__ void pair_error(const real *syn0, const real *syn1neg, const int *in, const int *out, real *err, real *neu1e,
                           real *loss, int pairs)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= pairs) return;
    const real *v = syn0 + in[k] * layer1_size;
    real *e = neu1e + k * layer1_size;
    for (int c = 0; c < layer1_size; c++) e[c] = 0;
    real l = 0;
    for (int d = 0; d <= negative; d++) {
        const real *u = syn1neg + out[k * (negative + 1) + d] * layer1_size;
        real f = 0;
        for (int c = 0; c < layer1_size; c++) f += v[c] * u[c];
        real p = 1 / (1 + expf(-f));
        real g = (d == 0) - p;
        l -= logf((d == 0 ? p : 1 - p) + 1e-7f);
        err[k * (negative + 1) + d] = g;
        for (int c = 0; c < layer1_size; c++) e[c] += g * u[c];
    }
    loss[k] = l;
}

__global__ void learn_output(const real *syn0, real *syn1neg, const int *in, const int *out, const real *err, real alpha,
                             int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs * (negative + 1)) return;
    int k = i / (negative + 1);
    for (int c = 0; c < layer1_size; c++)
        atomicAdd(&syn1neg[out[i] * layer1_size + c], alpha * err[i] * syn0[in[k] * layer1_size + c]);
}

__global__ void learn_input(real *syn0, const int *in, const real *neu1e, real alpha, int pairs)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= pairs) return;
    for (int c = 0; c < layer1_size; c++)
        atomicAdd(&syn0[in[k] * layer1_size + c], alpha * neu1e[k * layer1_size + c]);
}

int main()
{
    // an artificial text: words of one topic stand together
    std::vector<int> text(train_words);
    for (int i = 0, topic = 0; i < train_words; i++) {
        if (i % 25 == 0) topic = next_rand() % 20;
        text[i] = topic * 20 + next_rand() % 20;
    }

    real *syn0, *syn1neg, *err, *neu1e, *d_loss;
    int *d_in, *d_out;
    cudaMalloc((void **)&syn0, vocab_size * layer1_size * sizeof(real));
    cudaMalloc((void **)&syn1neg, vocab_size * layer1_size * sizeof(real));
    cudaMalloc((void **)&err, batch_size * (negative + 1) * sizeof(real));
    cudaMalloc((void **)&neu1e, batch_size * layer1_size * sizeof(real));
    cudaMalloc((void **)&d_loss, batch_size * sizeof(real));
    cudaMalloc((void **)&d_in, batch_size * sizeof(int));
    cudaMalloc((void **)&d_out, batch_size * (negative + 1) * sizeof(int));
    std::vector<real> init(vocab_size * layer1_size);
    for (size_t a = 0; a < init.size(); a++) init[a] = (next_rand() % 65536 / (real)65536 - 0.5f) / 2;
    cudaMemcpy(syn0, init.data(), init.size() * sizeof(real), cudaMemcpyHostToDevice);
    cudaMemset(syn1neg, 0, vocab_size * layer1_size * sizeof(real));

    std::vector<int> in, out;
    std::vector<real> loss(batch_size);
    double sum = 0;
    long done = 0;
    int launches = 0;
    for (int i = 0; i < train_words && launches < 150; i++) {
        int b = next_rand() % window + 1;
        for (int a = -b; a <= b; a++) {
            if (a == 0 || i + a < 0 || i + a >= train_words) continue;
            in.push_back(text[i + a]);
            out.push_back(text[i]);
            for (int d = 0; d < negative; d++) out.push_back(next_rand() % vocab_size);
            if ((int)in.size() < batch_size) continue;

            real alpha = starting_alpha * (1 - launches / 300.0f);
            cudaMemcpy(d_in, in.data(), in.size() * sizeof(int), cudaMemcpyHostToDevice);
            cudaMemcpy(d_out, out.data(), out.size() * sizeof(int), cudaMemcpyHostToDevice);
            int pairs = (int)in.size();
            pair_error<<<(pairs + 63) / 64, 64>>>(syn0, syn1neg, d_in, d_out, err, neu1e, d_loss, pairs);
            learn_output<<<(pairs * (negative + 1) + 63) / 64, 64>>>(syn0, syn1neg, d_in, d_out, err, alpha, pairs);
            learn_input<<<(pairs + 63) / 64, 64>>>(syn0, d_in, neu1e, alpha, pairs);
            cudaMemcpy(loss.data(), d_loss, pairs * sizeof(real), cudaMemcpyDeviceToHost);
            for (int k = 0; k < pairs; k++) sum += loss[k];
            done += pairs;
            if (++launches % 15 == 0) {
                printf("alpha: %f  pairs: %d  loss: %f\n", alpha, launches * batch_size, sum / done);
                sum = 0;
                done = 0;
            }
            in.clear();
            out.clear();
        }
    }
    cudaDeviceSynchronize();
    cudaFree(syn0);
    cudaFree(syn1neg);
    return 0;
}
