// Contrastive learning with a memory queue of old keys as negatives.
// Positive: the key of the same item seen with other noise.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>
#define CK(e) do { cudaError_t r = (e); if (r != cudaSuccess) { fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(r)); exit(1); } } while (0)

const int DIM = 10, EMB = 6, BATCH = 16, QUEUE = 64, DATA = 256;

__global__ void encode(const float *in, const float *w, float *emb, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * EMB) return;
    float s = 0.f;
    for (int d = 0; d < DIM; d++) s += in[i / EMB * DIM + d] * w[d * EMB + i % EMB];
    emb[i] = tanhf(s);
}

__global__ void info_nce(const float *q, const float *k, const float *queue, float *dq, float *loss, int n) {
    int r = threadIdx.x;
    if (r >= n) return;
    float score[QUEUE + 1], z = 0.f;
    for (int j = 0; j <= QUEUE; j++) {
        const float *v = j == 0 ? k + r * EMB : queue + (j - 1) * EMB;
        float s = 0.f;
        for (int e = 0; e < EMB; e++) s += q[r * EMB + e] * v[e];
        score[j] = expf(s);
        z += score[j];
    }
    loss[r] = -logf(score[0] / z);
    for (int e = 0; e < EMB; e++) {
        float g = -k[r * EMB + e];
        for (int j = 0; j <= QUEUE; j++)
            g += score[j] / z * (j == 0 ? k[r * EMB + e] : queue[(j - 1) * EMB + e]);
        float y = q[r * EMB + e];
        dq[r * EMB + e] = g * (1 - y * y) / n;
    }
}

__global__ void enqueue_keys(float *queue, const float *keys, int head, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * EMB) queue[(head * EMB + i) % (QUEUE * EMB)] = keys[i];
}

__global__ void encoder_grad(const float *in, const float *dq, float *dw, int n) {
    int i = threadIdx.x;
    float s = 0.f;
    for (int r = 0; r < n; r++) s += in[r * DIM + i / EMB] * dq[r * EMB + i % EMB];
    dw[i] = s;
}

__global__ void update(float *w, float *key_w, float *mom, const float *dw) {
    int i = threadIdx.x;
    mom[i] = 0.9f * mom[i] + dw[i];
    w[i] -= 0.05f * mom[i];
    key_w[i] = 0.9f * key_w[i] + 0.1f * w[i];
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 rng(99);
    std::normal_distribution<float> normal(0.f, 1.f);
    std::vector<float> view1(DATA * DIM), view2(DATA * DIM), w0(DIM * EMB), q0(QUEUE * EMB);
    for (int i = 0; i < DATA * DIM; i++) {
        float v = normal(rng);
        view1[i] = v + 0.2f * normal(rng);
        view2[i] = v + 0.2f * normal(rng);
    }
    for (float &v : w0) v = 0.2f * normal(rng);
    for (float &v : q0) v = 0.5f * normal(rng);
    float *a, *b, *w, *key_w, *mom, *dw, *q, *k, *dq, *queue, *loss;
    const size_t WB = DIM * EMB * sizeof(float);
    CK(cudaMalloc(&a, DATA * DIM * 4)); CK(cudaMalloc(&b, DATA * DIM * 4));
    CK(cudaMalloc(&w, WB)); CK(cudaMalloc(&key_w, WB)); CK(cudaMalloc(&mom, WB)); CK(cudaMalloc(&dw, WB));
    CK(cudaMalloc(&q, BATCH * EMB * 4)); CK(cudaMalloc(&k, BATCH * EMB * 4)); CK(cudaMalloc(&dq, BATCH * EMB * 4));
    CK(cudaMalloc(&queue, QUEUE * EMB * 4)); CK(cudaMalloc(&loss, BATCH * 4));
    CK(cudaMemcpy(a, view1.data(), DATA * DIM * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(b, view2.data(), DATA * DIM * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(w, w0.data(), WB, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(key_w, w0.data(), WB, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(queue, q0.data(), QUEUE * EMB * 4, cudaMemcpyHostToDevice));
    CK(cudaMemset(mom, 0, WB));
    DDP_PARAMETER(w, DIM * EMB, DDP_FLOAT32);
    DDP_STATE(key_w, DIM * EMB, DDP_FLOAT32);
    DDP_STATE(mom, DIM * EMB, DDP_FLOAT32);
    DDP_GRADIENT(dw, DIM * EMB, DDP_FLOAT32);
    int head = 0;
    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = count, at = (s * BATCH % DATA + first) * DIM;
        encode<<<2, 64>>>(a + at, w, q, n);
        encode<<<2, 64>>>(b + at, key_w, k, n);
        info_nce<<<1, BATCH>>>(q, k, queue, dq, loss, n);
        encoder_grad<<<1, DIM * EMB>>>(a + at, dq, dw, n);
        enqueue_keys<<<2, 64>>>(queue, k, head, n);
        head = (head + n) % QUEUE;
        DDP_STEP(0);
        update<<<1, DIM * EMB>>>(w, key_w, mom, dw);
        CK(cudaGetLastError());
        if (s % 15 == 0 || s + 1 == steps) {
            float l[BATCH], m = 0.f;
            CK(cudaMemcpy(l, loss, n * 4, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; i++) m += l[i] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("step %3d  nce %.4f\n", s, m);
        }
    }
}
