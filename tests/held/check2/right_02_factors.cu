// Matrix factorisation of ratings. The loss of a batch is its sum of squares over the size of the whole batch, on
// however many ranks, and the rate is multiplied by their number.
//
// Why that is one process's training: rank r has the gradient S_r / kBatch, where S_r sums over its ratings. DDP_STEP
// makes (S_0 + S_1 + ...) / (kBatch * ranks) of it; rate * ranks gives the rank count back, and the update (SGD with
// momentum, the decay outside of the multiplied rate) is linear in the gradient.
#include <cuda_runtime.h>
#include <ddprun.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kUsers = 24, kItems = 18, kRank = 3, kBatch = 48, kRatings = 240, kSteps = 20;

struct Rating {
    short user, item;
    float stars;
};

struct Factors { // of users first, then of items
    float user[kUsers][kRank];
    float item[kItems][kRank];
};
constexpr int kFactors = sizeof(Factors) / sizeof(float);

__global__ void predict(const Factors *f, const Rating *ratings, float *error, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float e = -ratings[i].stars;
    for (int k = 0; k < kRank; ++k)
        e += f->user[ratings[i].user][k] * f->item[ratings[i].item][k];
    error[i] = e;
}

// Block u < kUsers gathers the ratings of user u, the others those of an item; a thread for each factor.
__global__ void gather(Factors *d, const Factors *f, const Rating *ratings, const float *error, int n)
{
    int row = blockIdx.x, k = threadIdx.x;
    float s = 0.0f;
    for (int i = 0; i < n; ++i) {
        if (row < kUsers && ratings[i].user == row)
            s += error[i] * f->item[ratings[i].item][k];
        if (row >= kUsers && ratings[i].item == row - kUsers)
            s += error[i] * f->user[ratings[i].user][k];
    }
    (row < kUsers ? d->user[row] : d->item[row - kUsers])[k] = 2.0f * s / kBatch;
}

__global__ void momentum_step(float *w, float *v, const float *g, float rate, float shrink)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < kFactors) {
        v[i] = 0.7f * v[i] - rate * g[i];
        w[i] = (1.0f - shrink) * w[i] + v[i];
    }
}

class Ratings {
  public:
    Ratings()
    {
        float taste[kUsers], kind[kItems];
        for (float &t : taste) t = roll();
        for (float &t : kind) t = roll();
        for (int i = 0; i < kRatings; ++i) {
            short u = short(roll() * kUsers), m = short(roll() * kItems);
            list_.push_back({u, m, 1.0f + 2.0f * taste[u] * kind[m] + 0.2f * roll()});
        }
    }
    const Rating *from(size_t i) const { return &list_[i]; }

  private:
    float roll()
    {
        seed_ ^= seed_ << 7;
        seed_ ^= seed_ >> 9;
        return float(seed_ >> 40 & 0xffff) / 65536.0f;
    }
    unsigned long long seed_ = 0x123456789abcdefull;
    std::vector<Rating> list_;
};

#define CUDA(...) if (cudaError_t e = (__VA_ARGS__)) { std::fprintf(stderr, "factors: %s\n", cudaGetErrorName(e)); std::exit(1); }

int main()
{
    Ratings ratings;
    static Factors start;
    for (int i = 0; i < kFactors; ++i)
        (&start.user[0][0])[i] = 0.5f + 0.3f * std::sin(float(i * i));
    Factors *w, *dw, *v;
    Rating *batch;
    float *error, host[kBatch];
    CUDA(cudaMalloc(&w, sizeof *w));
    CUDA(cudaMalloc(&dw, sizeof *dw));
    CUDA(cudaMalloc(&v, sizeof *v));
    CUDA(cudaMalloc(&batch, kBatch * sizeof *batch));
    CUDA(cudaMalloc(&error, sizeof host));
    CUDA(cudaMemset(v, 0, sizeof *v));
    CUDA(cudaMemcpy(w, &start, sizeof start, cudaMemcpyHostToDevice));
    float *flat_w = reinterpret_cast<float *>(w), *flat_g = reinterpret_cast<float *>(dw), *flat_v = reinterpret_cast<float *>(v);
    DDP_PARAMETER(flat_w, kFactors, DDP_TYPE_OF(flat_w));
    DDP_STATE(flat_v, kFactors, DDP_TYPE_OF(flat_v));
    DDP_GRADIENT(flat_g, kFactors, DDP_TYPE_OF(flat_g));

    const float rate = 1.2f * float(DDP_WORLD_SIZE());
    for (int step = 0; step < kSteps; ++step) {
        size_t first, n;
        DDP_SHARD(kBatch, &first, &n);
        CUDA(cudaMemcpy(batch, ratings.from(size_t(step * kBatch % kRatings) + first), n * sizeof(Rating), cudaMemcpyHostToDevice));
        predict<<<2, 32>>>(w, batch, error, int(n));
        gather<<<kUsers + kItems, kRank>>>(dw, w, batch, error, int(n));
        DDP_STEP(0);
        momentum_step<<<(kFactors + 63) / 64, 64>>>(flat_w, flat_v, flat_g, rate, 1e-3f);

        CUDA(cudaMemcpy(host, error, n * sizeof(float), cudaMemcpyDeviceToHost));
        double loss = 0;
        for (size_t i = 0; i < n; ++i)
            loss += double(host[i]) * host[i] / kBatch;
        DDP_REDUCE(&loss, 1, DDP_FLOAT64, DDP_OP_SUM, 0);
        if (DDP_RANK() == 0)
            std::printf("step %d: %.5f\n", step, loss);
    }
    return 0;
}
