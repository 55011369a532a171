// Two-tower recommender: a user tower and an item tower, score = dot product,
// logistic loss on clicks. Batches are staged in two pinned buffers and copied
// on their own stream while the previous batch is being trained.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK_CUDA(expr)                                                                   \
    do {                                                                                   \
        cudaError_t status_ = (expr);                                                      \
        if (status_ != cudaSuccess) {                                                      \
            std::fprintf(stderr, "%s failed: %s\n", #expr, cudaGetErrorString(status_));   \
            std::exit(EXIT_FAILURE);                                                       \
        }                                                                                  \
    } while (0)

constexpr int kBatch = 48, kUserDim = 12, kItemDim = 10, kHidden = 16, kEmbed = 8;
constexpr int kRow = kUserDim + kItemDim + 1;  // features of both sides, then the label

// Layout of one tower: w1[in][hidden] b1[hidden] w2[hidden][embed] b2[embed]
__host__ __device__ constexpr int towerSize(int in) { return in * kHidden + kHidden + kHidden * kEmbed + kEmbed; }

struct TowerView {
    int in, column;  // number of inputs and their first column in a row
    float *w, *g;
    float *hidden, *out, *dOut, *dHidden;
};

__global__ void towerForward(TowerView t, const float *batch) {
    __shared__ float h[kHidden];
    int n = blockIdx.x, j = threadIdx.x;
    const float *x = batch + n * kRow + t.column;
    const float *b1 = t.w + t.in * kHidden, *w2 = b1 + kHidden, *b2 = w2 + kHidden * kEmbed;
    float s = b1[j];
    for (int i = 0; i < t.in; ++i) s += x[i] * t.w[i * kHidden + j];
    h[j] = s > 0.f ? s : expm1f(s);  // ELU
    t.hidden[n * kHidden + j] = h[j];
    __syncthreads();
    if (j < kEmbed) {
        float e = b2[j];
        for (int k = 0; k < kHidden; ++k) e += h[k] * w2[k * kEmbed + j];
        t.out[n * kEmbed + j] = e;
    }
}

__global__ void scoreLoss(TowerView u, TowerView v, const float *batch, float *lossSum) {
    __shared__ float part[kBatch];
    int n = threadIdx.x;
    float z = 0.f, y = batch[n * kRow + kRow - 1];
    for (int k = 0; k < kEmbed; ++k) z += u.out[n * kEmbed + k] * v.out[n * kEmbed + k];
    float d = (1.f / (1.f + expf(-z)) - y) / kBatch;
    for (int k = 0; k < kEmbed; ++k) {
        u.dOut[n * kEmbed + k] = d * v.out[n * kEmbed + k];
        v.dOut[n * kEmbed + k] = d * u.out[n * kEmbed + k];
    }
    part[n] = fmaxf(z, 0.f) - z * y + log1pf(expf(-fabsf(z)));
    __syncthreads();
    if (n == 0) {
        float s = 0.f;
        for (int i = 0; i < kBatch; ++i) s += part[i];
        *lossSum += s / kBatch;
    }
}

__global__ void towerDelta(TowerView t) {
    int n = blockIdx.x, j = threadIdx.x;
    const float *w2 = t.w + t.in * kHidden + kHidden;
    float s = 0.f, h = t.hidden[n * kHidden + j];
    for (int k = 0; k < kEmbed; ++k) s += t.dOut[n * kEmbed + k] * w2[j * kEmbed + k];
    t.dHidden[n * kHidden + j] = h > 0.f ? s : s * (h + 1.f);
}

__global__ void towerGrad(TowerView t, const float *batch) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= towerSize(t.in)) return;
    int b1 = t.in * kHidden, w2 = b1 + kHidden, b2 = w2 + kHidden * kEmbed;
    float s = 0.f;
    for (int n = 0; n < kBatch; ++n) {
        if (p < b1) s += batch[n * kRow + t.column + p / kHidden] * t.dHidden[n * kHidden + p % kHidden];
        else if (p < w2) s += t.dHidden[n * kHidden + p - b1];
        else if (p < b2) s += t.hidden[n * kHidden + (p - w2) / kEmbed] * t.dOut[n * kEmbed + (p - w2) % kEmbed];
        else s += t.dOut[n * kEmbed + p - b2];
    }
    t.g[p] = s;
}

__global__ void adam(float *w, const float *g, float2 *state, int n, float lr, float c1, float c2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 s = state[i];
    s.x = 0.9f * s.x + 0.1f * g[i];
    s.y = 0.999f * s.y + 0.001f * g[i] * g[i];
    state[i] = s;
    w[i] -= lr * (s.x / c1) / (sqrtf(s.y / c2) + 1e-8f);
}

class Loader {
public:
    Loader(const std::vector<float> &rows, cudaStream_t stream) : rows_(rows), stream_(stream) {
        for (int s = 0; s < 2; ++s) {
            CHECK_CUDA(cudaMallocHost((void **)&pinned_[s], kBytes));
            CHECK_CUDA(cudaMalloc((void **)&device_[s], kBytes));
            CHECK_CUDA(cudaEventCreateWithFlags(&uploaded_[s], cudaEventDisableTiming));
            CHECK_CUDA(cudaEventCreateWithFlags(&consumed_[s], cudaEventDisableTiming));
        }
    }
    ~Loader() {
        for (int s = 0; s < 2; ++s) {
            cudaFreeHost(pinned_[s]);
            cudaFree(device_[s]);
            cudaEventDestroy(uploaded_[s]);
            cudaEventDestroy(consumed_[s]);
        }
    }
    Loader(const Loader &) = delete;
    Loader &operator=(const Loader &) = delete;
    int batches() const { return static_cast<int>(rows_.size()) / (kBatch * kRow); }
    // Fills the slot of batch number `step` and starts its upload.
    void prefetch(int step) {
        int s = step % 2;
        CHECK_CUDA(cudaEventSynchronize(uploaded_[s]));
        const float *src = rows_.data() + static_cast<size_t>(step % batches()) * kBatch * kRow;
        for (int i = 0; i < kBatch * kRow; ++i) pinned_[s][i] = src[i];
        CHECK_CUDA(cudaStreamWaitEvent(stream_, consumed_[s], 0));
        CHECK_CUDA(cudaMemcpyAsync(device_[s], pinned_[s], kBytes, cudaMemcpyHostToDevice, stream_));
        CHECK_CUDA(cudaEventRecord(uploaded_[s], stream_));
    }
    const float *acquire(int step, cudaStream_t user) {
        CHECK_CUDA(cudaStreamWaitEvent(user, uploaded_[step % 2], 0));
        return device_[step % 2];
    }
    void release(int step, cudaStream_t user) { CHECK_CUDA(cudaEventRecord(consumed_[step % 2], user)); }

private:
    static constexpr size_t kBytes = kBatch * kRow * sizeof(float);
    const std::vector<float> &rows_;
    cudaStream_t stream_;
    float *pinned_[2], *device_[2];
    cudaEvent_t uploaded_[2], consumed_[2];
};

int main(int argc, char **argv) {
    const int samples = 576, epochs = 8, total = towerSize(kUserDim) + towerSize(kItemDim);
    std::mt19937 rng(8080);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<float> taste(kUserDim * 3), topic(kItemDim * 3), rows(samples * kRow), init(total);
    for (auto &v : taste) v = 0.5f * nd(rng);
    for (auto &v : topic) v = 0.5f * nd(rng);
    for (int n = 0; n < samples; ++n) {
        float *r = &rows[n * kRow], a[3] = {0.f, 0.f, 0.f}, b[3] = {0.f, 0.f, 0.f}, z = 0.f;
        for (int i = 0; i < kRow - 1; ++i) r[i] = nd(rng);
        for (int k = 0; k < 3; ++k) {
            for (int i = 0; i < kUserDim; ++i) a[k] += r[i] * taste[i * 3 + k];
            for (int i = 0; i < kItemDim; ++i) b[k] += r[kUserDim + i] * topic[i * 3 + k];
            z += a[k] * b[k];
        }
        r[kRow - 1] = z > 0.f ? 1.f : 0.f;
    }
    for (auto &v : init) v = 0.25f * nd(rng);

    float *w, *g, *acts, *lossSum, *hostLoss;
    float2 *state;
    const int perTower = kBatch * 2 * (kHidden + kEmbed);
    CHECK_CUDA(cudaMalloc((void **)&w, total * sizeof(float)));
    CHECK_CUDA(cudaMalloc((void **)&g, total * sizeof(float)));
    CHECK_CUDA(cudaMalloc((void **)&state, total * sizeof(float2)));
    CHECK_CUDA(cudaMalloc((void **)&acts, 2 * perTower * sizeof(float)));
    CHECK_CUDA(cudaMalloc((void **)&lossSum, sizeof(float)));
    CHECK_CUDA(cudaMallocHost((void **)&hostLoss, sizeof(float)));
    CHECK_CUDA(cudaMemset(state, 0, total * sizeof(float2)));
    CHECK_CUDA(cudaMemcpy(w, init.data(), total * sizeof(float), cudaMemcpyHostToDevice));
    auto view = [&](int in, int column, int offset, float *a) {
        return TowerView{in, column, w + offset, g + offset, a, a + kBatch * kHidden,
                         a + kBatch * (kHidden + kEmbed), a + kBatch * (kHidden + 2 * kEmbed)};
    };
    TowerView user = view(kUserDim, 0, 0, acts);
    TowerView item = view(kItemDim, kUserDim, towerSize(kUserDim), acts + perTower);

    cudaStream_t copy, compute;
    CHECK_CUDA(cudaStreamCreate(&copy));
    CHECK_CUDA(cudaStreamCreate(&compute));
    {
        Loader loader(rows, copy);
        const int perEpoch = loader.batches(), steps = epochs * perEpoch;
        loader.prefetch(0);
        for (int s = 0; s < steps; ++s) {
            if (s % perEpoch == 0) CHECK_CUDA(cudaMemsetAsync(lossSum, 0, sizeof(float), compute));
            if (s + 1 < steps) loader.prefetch(s + 1);
            const float *batch = loader.acquire(s, compute);
            for (const TowerView &t : {user, item}) towerForward<<<kBatch, kHidden, 0, compute>>>(t, batch);
            scoreLoss<<<1, kBatch, 0, compute>>>(user, item, batch, lossSum);
            for (const TowerView &t : {user, item}) {
                towerDelta<<<kBatch, kHidden, 0, compute>>>(t);
                towerGrad<<<(towerSize(t.in) + 63) / 64, 64, 0, compute>>>(t, batch);
            }
            loader.release(s, compute);
            adam<<<(total + 127) / 128, 128, 0, compute>>>(w, g, state, total, 0.01f, 1.f - std::pow(0.9f, s + 1),
                                                           1.f - std::pow(0.999f, s + 1));
            CHECK_CUDA(cudaGetLastError());
            if ((s + 1) % perEpoch == 0) {
                CHECK_CUDA(cudaMemcpyAsync(hostLoss, lossSum, sizeof(float), cudaMemcpyDeviceToHost, compute));
                CHECK_CUDA(cudaStreamSynchronize(compute));
                std::printf("epoch %d loss %.5f\n", (s + 1) / perEpoch, *hostLoss / perEpoch);
            }
        }
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    CHECK_CUDA(cudaMemcpy(init.data(), w, total * sizeof(float), cudaMemcpyDeviceToHost));
    std::FILE *f = std::fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
    if (!f) return 1;
    std::fwrite(init.data(), sizeof(float), init.size(), f);
    std::fclose(f);
    cudaFreeHost(hostLoss);
    for (void *p : {(void *)w, (void *)g, (void *)state, (void *)acts, (void *)lossSum}) cudaFree(p);
    cudaStreamDestroy(copy);
    cudaStreamDestroy(compute);
    return 0;
}
