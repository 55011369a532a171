// Attention with an online softmax: a block per query, tiles of keys in shared memory, against the plain sum.
#include <cmath>
#include <vector>
template <int HEAD, int TILE>
__global__ void
attention(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v, float *out, int length,
          float scale)
{
    __shared__ float keys[TILE][HEAD + 1], values[TILE][HEAD], scores[TILE];
    const int d = threadIdx.x;
    const float query = q[blockIdx.x * HEAD + d];
    float largest = -INFINITY, denominator = 0, sum = 0;
    for (int begin = 0; begin < length; begin += TILE) {
        for (int t = 0; t < TILE; ++t) {
            keys[t][d] = begin + t < length ? k[(begin + t) * HEAD + d] * query : 0.0f;
            values[t][d] = begin + t < length ? v[(begin + t) * HEAD + d] : 0.0f;
        }
        __syncthreads();
        if (d < TILE) {
            float dot = 0;
            for (int i = 0; i < HEAD; ++i)
                dot += keys[d][i];
            scores[d] = begin + d < length ? dot * scale : -INFINITY;
        }
        __syncthreads();
        float tile_largest = largest;
        for (int t = 0; t < TILE; ++t)
            tile_largest = fmaxf(tile_largest, scores[t]);
        const float correction = expf(largest - tile_largest);
        denominator *= correction, sum *= correction, largest = tile_largest;
        for (int t = 0; t < TILE; ++t) {
            const float p = expf(scores[t] - largest);
            denominator += p;
            sum += p * values[t][d];
        }
        __syncthreads();
    }
    out[blockIdx.x * HEAD + d] = sum / denominator;
}

int
main()
{
    const int length = 11, head = 8;
    float *m = managed(4 * length * head * sizeof(float));
    float *q = m, *k = m + length * head, *v = k + length * head, *out = v + length * head;
    for (int i = 0; i < length * head; ++i)
        q[i] = sinf(i), k[i] = cosf(2.0f * i), v[i] = sinf(3.0f * i + 1);
    attention<head, 4><<<length, head>>>(q, k, v, out, length, 0.5f);
    cudaDeviceSynchronize();
    for (int row = 0; row < length; ++row) {
        std::vector<double> weights(length);
        double total = 0;
        for (int j = 0; j < length; ++j) {
            double dot = 0;
            for (int i = 0; i < head; ++i)
                dot += double(q[row * head + i]) * k[j * head + i];
            total += weights[j] = exp(0.5 * dot);
        }
        for (int i = 0; i < head; ++i) {
            double expected = 0;
            for (int j = 0; j < length; ++j)
                expected += weights[j] / total * v[j * head + i];
            if (fabs(out[row * head + i] - expected) > 1e-5)
                return 1;
        }
    }
    return 0;
}
