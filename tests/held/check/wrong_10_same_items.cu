// Character-like next-symbol model: bigram table trained with cross entropy.
// Each batch is copied to the device from the host text.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#define V 24
#define BATCH 64

__global__ void lm_kernel(const unsigned char *text, const float *table, float *probs, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const float *row = table + text[r] * V;
    float z = 0;
    for (int c = 0; c < V; c++) z += expf(row[c]);
    for (int c = 0; c < V; c++) probs[r * V + c] = expf(row[c]) / z;
    loss[r] = -logf(probs[r * V + text[r + 1]]);
}

__global__ void lm_grad(const unsigned char *text, const float *probs, float *grad, int n)
{
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < n; r++)
        if (text[r] == i) s += probs[r * V + c] - (text[r + 1] == c);
    grad[i * V + c] = s / n;
}

__global__ void rmsprop(float *w, float *sq, const float *g)
{
    int i = blockIdx.x * V + threadIdx.x;
    sq[i] = 0.9f * sq[i] + 0.1f * g[i] * g[i];
    w[i] -= 0.05f * g[i] / (sqrtf(sq[i]) + 1e-4f);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::vector<unsigned char> text(BATCH * 40 + 1);
    unsigned s = 5;
    text[0] = 0;
    for (size_t i = 1; i < text.size(); i++) {
        s = s * 1103515245u + 12345u;
        unsigned r = s >> 16;
        text[i] = r % 4 ? (text[i - 1] * 5 + 3) % V : r / 4 % V; // mostly a rule, sometimes noise
    }
    unsigned char *d_text;
    float *table, *grad, *sq, *probs, *loss;
    cudaMalloc(&d_text, BATCH + 1);
    cudaMalloc(&table, V * V * 4); cudaMalloc(&grad, V * V * 4); cudaMalloc(&sq, V * V * 4);
    cudaMalloc(&probs, BATCH * V * 4); cudaMalloc(&loss, BATCH * 4);
    cudaMemset(table, 0, V * V * 4);
    cudaMemset(sq, 0, V * V * 4);
    DDP_PARAMETER(table, V * V, DDP_FLOAT32);
    DDP_STATE(sq, V * V, DDP_FLOAT32);
    DDP_GRADIENT(grad, V * V, DDP_FLOAT32);
    for (int step = 0; step < steps; step++) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        cudaMemcpy(d_text, &text[step % 40 * BATCH], count + 1, cudaMemcpyHostToDevice);
        lm_kernel<<<1, BATCH>>>(d_text, table, probs, loss, (int)count);
        lm_grad<<<V, V>>>(d_text, probs, grad, (int)count);
        DDP_STEP(0);
        rmsprop<<<V, V>>>(table, sq, grad);
        if (step % 10 == 0 || step == steps - 1) {
            float l[BATCH], m = 0;
            cudaMemcpy(l, loss, count * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; i++) m += l[i] / count;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("step %d nll %.4f\n", step, m);
        }
    }
    return 0;
}
