// A second thread reads and mixes the batches into pinned memory while the first one trains.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <queue>
#include <random>
#include <thread>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

static constexpr int kRows = 24, kIn = 8, kHidden = 18, kClasses = 5, kBatches = 20, kEpochs = 6, kSlots = 3, kItems = kRows * kBatches;

struct Slot {
    float *x; // pinned
    int *label;
    int number;
};

// Fills slots with batches and hands them over in order.
class Loader
{
  public:
    Loader()
    {
        std::mt19937 random(13);
        std::normal_distribution<float> normal;
        x_.resize(kItems * kIn), label_.resize(kItems);
        for (int i = 0; i < kItems; ++i) {
            int c = random() % 12;
            label_[i] = c < 8 ? c / 4 : c < 10 ? 2 : c - 7; // some classes are rare
            for (int k = 0; k < kIn; ++k) x_[i * kIn + k] = 0.8f * normal(random) + (k == label_[i]) - (k == label_[i] + 3);
        }
        for (int s = 0; s < kSlots; ++s) {
            cudaMallocHost((void **)&slots_[s].x, kRows * kIn * sizeof(float));
            cudaMallocHost((void **)&slots_[s].label, kRows * sizeof(int));
            free_.push(&slots_[s]);
        }
        thread_ = std::thread([this] { run(); });
    }
    ~Loader()
    {
        thread_.join();
        for (Slot &s : slots_) cudaFreeHost(s.x), cudaFreeHost(s.label);
    }
    Slot *take() { return pop(full_); }
    void give_back(Slot *s) { push(free_, s); }

  private:
    void run()
    {
        std::vector<int> order(kItems);
        std::iota(order.begin(), order.end(), 0);
        for (int e = 0; e < kEpochs; ++e) {
#if MISTAKE == 1
            std::random_device device;
            std::shuffle(order.begin(), order.end(), std::mt19937(device()));
#else
            std::shuffle(order.begin(), order.end(), std::mt19937(500 + e));
#endif
            for (int b = 0; b < kBatches; ++b) {
                Slot *s = pop(free_);
                s->number = e * kBatches + b;
                for (int r = 0; r < kRows; ++r) {
                    int item = order[b * kRows + r];
                    std::copy_n(&x_[item * kIn], kIn, s->x + r * kIn);
                    s->label[r] = label_[item];
                }
                push(full_, s);
            }
        }
    }
    Slot *pop(std::queue<Slot *> &q)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return !q.empty(); });
        Slot *s = q.front();
        q.pop();
        return s;
    }
    void push(std::queue<Slot *> &q, Slot *s)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        q.push(s);
        changed_.notify_all();
    }
    std::vector<float> x_;
    std::vector<int> label_;
    Slot slots_[kSlots];
    std::queue<Slot *> free_, full_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;
};

__global__ void count_labels(const int *label, float *seen)
{
    if (threadIdx.x != 0) return;
    for (int r = 0; r < kRows; ++r) seen[label[r]] += 1, seen[kClasses] += 1;
}
__global__ void forward(const float *x, const float *w, const float *b, float *y, int in, int out, int squash)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kRows * out) return;
    float s = b[i % out];
    for (int k = 0; k < in; ++k) s += x[i / out * in + k] * w[k * out + i % out];
    y[i] = squash ? tanhf(s) : s;
}
// rare classes weigh more, by the counts of labels so far
__global__ void weighted_loss(const float *z, const int *label, const float *seen, float *dz, float *loss)
{
    __shared__ float part[kRows];
    int r = threadIdx.x;
    if (r < kRows) {
        const float *q = z + r * kClasses;
        float s = 0, top = q[0], weight = (seen[kClasses] + kClasses) / (kClasses * (seen[label[r]] + 1));
        for (int c = 1; c < kClasses; ++c) top = fmaxf(top, q[c]);
        for (int c = 0; c < kClasses; ++c) s += expf(q[c] - top);
        for (int c = 0; c < kClasses; ++c) dz[r * kClasses + c] = weight * (expf(q[c] - top) / s - (c == label[r])) / kRows;
        part[r] = weight * (logf(s) + top - q[label[r]]) / kRows;
    }
    __syncthreads();
#if MISTAKE == 6 || MISTAKE == 8
    if (r == 0) *loss = 0;
    __syncthreads();
    if (r < kRows) atomicAdd(loss, part[r]);
#else
    if (r == 0) {
        *loss = 0;
        for (int i = 0; i < kRows; ++i) *loss += part[i];
    }
#endif
}
__global__ void gradients(const float *x, const float *dy, float *dw, float *db, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i / out, c = i % out;
    if (k > in) return;
    float s = 0;
    for (int r = 0; r < kRows; ++r) s += (k < in ? x[r * in + k] : 1) * dy[r * out + c];
    if (k < in) dw[i] = s;
    else db[c] = s;
}
__global__ void back(const float *w, const float *dy, const float *y, float *dx)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kRows * kHidden) return;
    float s = 0;
    for (int c = 0; c < kClasses; ++c) s += w[i % kHidden * kClasses + c] * dy[i / kHidden * kClasses + c];
    dx[i] = s * (1 - y[i] * y[i]);
}
__global__ void sgd(float *w, const float *g, float *v, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] = 0.7f * v[i] + g[i], w[i] -= rate * (v[i] + 1e-3f * w[i]);
}
#define GRID(n) ((n) + 63) / 64, 64

struct Tensor {
    float *w, *g, *v, *saved;
    int n;
};
static Tensor tensor(int n, float spread, unsigned seed)
{
    Tensor t;
    t.n = n;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> h(n);
    for (float &x : h) x = spread * normal(random);
    for (float **p : {&t.w, &t.g, &t.v, &t.saved}) cudaMalloc(p, n * sizeof(float)), cudaMemset(*p, 0, n * sizeof(float));
    cudaMemcpy(t.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    return t;
}

int main()
{
    unsigned seed = 70;
#if MISTAKE == 8
    seed += DDP_RANK();
#endif
    Tensor t[4] = {tensor(kIn * kHidden, 0.3f, 70), tensor(kHidden, 0, 71), tensor(kHidden * kClasses, 0.3f, seed + 2),
                   tensor(kClasses, 0, 73)};
    float *x, *h, *z, *dz, *dh, *loss, *seen;
    int *label;
    cudaMalloc(&x, kRows * kIn * sizeof(float)), cudaMalloc(&h, kRows * kHidden * sizeof(float));
    cudaMalloc(&z, kRows * kClasses * sizeof(float)), cudaMalloc(&dz, kRows * kClasses * sizeof(float));
    cudaMalloc(&dh, kRows * kHidden * sizeof(float)), cudaMalloc(&loss, sizeof(float));
    cudaMalloc(&seen, (kClasses + 1) * sizeof(float)), cudaMalloc(&label, kRows * sizeof(int));
    cudaMemset(seen, 0, (kClasses + 1) * sizeof(float));
    for (int i = 0; i < 4; ++i) {
#if MISTAKE == 8
        if (i < 2)
#endif
            DDP_PARAMETER(t[i].w, t[i].n, DDP_FLOAT32);
#if MISTAKE == 2
        DDP_GRADIENT(t[i].g, i < 2 ? t[i].n : kClasses, DDP_FLOAT32);
#elif MISTAKE == 7
        if (i < 3) DDP_GRADIENT(t[i].g, t[i].n, DDP_FLOAT32);
#else
        DDP_GRADIENT(t[i].g, t[i].n, DDP_FLOAT32);
#endif
    }

    Loader loader;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    float figures[2] = {0, 0}, now, lowest = 1e9f;
    for (int b = 0; b < kBatches * kEpochs; ++b) {
        Slot *slot = loader.take();
        cudaMemcpyAsync(x, slot->x, kRows * kIn * sizeof(float), cudaMemcpyHostToDevice, stream);
        cudaMemcpyAsync(label, slot->label, kRows * sizeof(int), cudaMemcpyHostToDevice, stream);
        cudaStreamSynchronize(stream);
        loader.give_back(slot);
#if MISTAKE != 6
        count_labels<<<1, 32, 0, stream>>>(label, seen);
#endif
        {
            DDP_TURN_BEGIN();
#if MISTAKE == 6
            count_labels<<<1, 32, 0, stream>>>(label, seen);
#endif
#if MISTAKE == 2 || MISTAKE == 4
            float *usual = dh;
            cudaMallocAsync((void **)&dh, kRows * kHidden * sizeof(float), stream); // of this batch
#endif
            forward<<<GRID(kRows * kHidden), 0, stream>>>(x, t[0].w, t[1].w, h, kIn, kHidden, 1);
            forward<<<GRID(kRows * kClasses), 0, stream>>>(h, t[2].w, t[3].w, z, kHidden, kClasses, 0);
            weighted_loss<<<1, 32, 0, stream>>>(z, label, seen, dz, loss);
            gradients<<<GRID((kHidden + 1) * kClasses), 0, stream>>>(h, dz, t[2].g, t[3].g, kHidden, kClasses);
            back<<<GRID(kRows * kHidden), 0, stream>>>(t[2].w, dz, h, dh);
            gradients<<<GRID((kIn + 1) * kHidden), 0, stream>>>(x, dh, t[0].g, t[1].g, kIn, kHidden);
#if MISTAKE == 2 || MISTAKE == 4
            cudaFreeAsync(dh, stream);
            dh = usual;
#endif
#if MISTAKE == 4
            cudaMemcpyAsync(&now, loss, sizeof(float), cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            if (now < lowest) { // keep the best weights, and return to them after a bad batch
                lowest = now;
                for (Tensor &p : t) cudaMemcpyAsync(p.saved, p.w, p.n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
            } else if (now > 1.6f * lowest) {
                for (Tensor &p : t) cudaMemcpyAsync(p.w, p.saved, p.n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
                lowest *= 1.1f;
            }
#endif
#if MISTAKE != 3
            DDP_STEP(stream);
#endif
#if MISTAKE == 5
            DDP_TURN_END();
#endif
            for (Tensor &p : t) sgd<<<GRID(p.n), 0, stream>>>(p.w, p.g, p.v, p.n, 0.15f);
#if MISTAKE == 3
            DDP_STEP(stream);
#endif
            if (DDP_TURN_MINE() && (b > 0 || DDP_RANK() == 0)) {
                cudaMemcpyAsync(&now, loss, sizeof(float), cudaMemcpyDeviceToHost, stream);
                cudaStreamSynchronize(stream);
                figures[0] += now, figures[1] += 1;
            }
        }
        if (b % kBatches == kBatches - 1) {
            DDP_REDUCE(figures, 2, DDP_FLOAT32, DDP_OP_SUM, stream);
            if (DDP_RANK() == 0) printf("epoch %d loss %.5f over %.0f batches\n", b / kBatches + 1, figures[0] / figures[1], figures[1]);
            figures[0] = figures[1] = 0;
        }
    }
    (void)lowest;
    cudaStreamDestroy(stream);
    return 0;
}
