// Vector-quantised autoencoder. The codebook follows the encoder's outputs by moving averages, without a gradient; a code
// that nobody uses is put on the encoding of a row of the data set. The rate halves when the loss stops to fall.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ddprun.h"

namespace vq {

const int IN = 16, CODE = 5, CODES = 16, BATCH = 64, ROWS = 512, STEPS = 60;

void die(const char *what)
{
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

struct Vec {
    float *d = nullptr;
    int n = 0;
    Vec() {}
    explicit Vec(const std::vector<float> &h) : n((int)h.size())
    {
        if (cudaMalloc(&d, n * sizeof(float)) || cudaMemcpy(d, h.data(), n * sizeof(float), cudaMemcpyHostToDevice))
            die("no memory");
    }
    explicit Vec(int count) : Vec(std::vector<float>(count, 0.0f)) {}
    std::vector<float> host() const
    {
        std::vector<float> h(n);
        if (cudaMemcpy(h.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost)) die("no copy");
        return h;
    }
};

__global__ void nearest(const float *z, const float *book, int *pick, float *q, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float best = 1e30f;
    int at = 0;
    for (int c = 0; c < CODES; ++c) {
        float d = 0.0f;
        for (int k = 0; k < CODE; ++k) d += (z[r * CODE + k] - book[c * CODE + k]) * (z[r * CODE + k] - book[c * CODE + k]);
        if (d < best) {
            best = d;
            at = c;
        }
    }
    pick[r] = at;
    for (int k = 0; k < CODE; ++k) q[r * CODE + k] = book[at * CODE + k];
}

// tally[c]: number of rows with code c; behind it the sum of their encodings
__global__ void count_codes(const float *z, const int *pick, float *tally, int rows)
{
    int c = threadIdx.x;
    if (c >= CODES) return;
    float n = 0.0f, s[CODE] = {0.0f};
    for (int r = 0; r < rows; ++r)
        if (pick[r] == c) {
            n += 1.0f;
            for (int k = 0; k < CODE; ++k) s[k] += z[r * CODE + k];
        }
    tally[c] = n;
    for (int k = 0; k < CODE; ++k) tally[CODES + c * CODE + k] = s[k];
}

__global__ void follow(float *book, float *usage, float *total, const float *tally, const float *spare, float keep)
{
    int c = threadIdx.x;
    if (c >= CODES) return;
    usage[c] = keep * usage[c] + (1.0f - keep) * tally[c];
    bool dead = usage[c] < 0.4f;
    if (dead) usage[c] = 1.0f;
    for (int k = 0; k < CODE; ++k) {
        float *t = total + c * CODE + k;
        *t = dead ? spare[k] : keep * *t + (1.0f - keep) * tally[CODES + c * CODE + k];
        book[c * CODE + k] = *t / usage[c];
    }
}

__global__ void output_delta(float *y, const float *b, const float *x, float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f;
    for (int k = 0; k < IN; ++k) {
        float e = y[r * IN + k] + b[k] - x[r * IN + k];
        s += 0.5f * e * e;
        y[r * IN + k] = e / rows;
    }
    loss[r] = s;
}

// Straight through: the decoder's input gradient goes to the encoder, with the pull towards the code.
__global__ void straight_through(float *dz, const float *z, const float *q, float commitment, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * CODE) dz[i] += commitment * (z[i] - q[i]) / rows;
}

__global__ void column_sum(const float *m, float *out, int rows, int cols)
{
    int c = threadIdx.x;
    if (c >= cols) return;
    float s = 0.0f;
    for (int r = 0; r < rows; ++r) s += m[r * cols + c];
    out[c] = s;
}

struct Weight {
    Vec w, g;
    explicit Weight(const std::vector<float> &init) : w(init), g((int)init.size())
    {
        DDP_PARAMETER(w.d, w.n, DDP_FLOAT32);
        DDP_GRADIENT(g.d, g.n, DDP_FLOAT32);
    }
};

class Machine {
    cublasHandle_t blas_;

  public:
    Machine() { if (cublasCreate(&blas_) != CUBLAS_STATUS_SUCCESS) die("no cuBLAS"); }
    ~Machine() { cublasDestroy(blas_); }
    // row-major c = op(a) op(b)
    void mul(const float *a, char ta, const float *b, char tb, float *c, int m, int n, int k)
    {
        float one = 1.0f, zero = 0.0f;
        cublasSgemm(blas_, tb == 't' ? CUBLAS_OP_T : CUBLAS_OP_N, ta == 't' ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b,
                    tb == 't' ? k : n, a, ta == 't' ? m : k, &zero, c, n);
    }
    void step(Weight &w, float rate)
    {
        float alpha = -rate;
        cublasSaxpy(blas_, w.w.n, &alpha, w.g.d, 1, w.w.d, 1);
    }
};

} // namespace vq

int main(int argc, char **argv)
{
    using namespace vq;
    unsigned long long s = 424242;
    auto u = [&s]() {
        s = s * 2862933555777941757ull + 3037000493ull;
        return (float)((s >> 40) / 16777216.0) - 0.5f;
    };
    std::vector<float> centre(12 * IN), x(ROWS * IN), enc(IN * CODE), dec(CODE * IN), book(CODES * CODE);
    for (float &v : centre) v = 2.5f * u();
    for (int r = 0; r < ROWS; ++r)
        for (int k = 0; k < IN; ++k) x[r * IN + k] = centre[(r * 5 + r / 7) % 12 * IN + k] + 0.3f * u();
    for (float &v : enc) v = 0.8f * u();
    for (float &v : dec) v = 0.8f * u();
    for (float &v : book) v = 1.5f * u();

    Weight we(enc), wd(dec), bd(std::vector<float>(IN, 0.0f));
    Vec data(x), codebook(book), usage(std::vector<float>(CODES, 1.0f)), total(book), tally(CODES * (1 + CODE));
    Vec z(BATCH * CODE), q(BATCH * CODE), dz(BATCH * CODE), y(BATCH * IN), loss(BATCH), spare(CODE);
    int *pick;
    if (cudaMalloc(&pick, BATCH * sizeof(int))) die("no memory");

    Machine m;
    float rate = 0.2f, best = 1e30f, recent = 0.0f;
    int halvings = 0;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        const float *xb = data.d + (step * BATCH % ROWS + first) * IN;

        m.mul(xb, 'n', we.w.d, 'n', z.d, n, CODE, IN);
        nearest<<<(n + 31) / 32, 32>>>(z.d, codebook.d, pick, q.d, n);
        m.mul(q.d, 'n', wd.w.d, 'n', y.d, n, IN, CODE);
        output_delta<<<(n + 31) / 32, 32>>>(y.d, bd.w.d, xb, loss.d, n);
        m.mul(q.d, 't', y.d, 'n', wd.g.d, CODE, IN, n);
        column_sum<<<1, 32>>>(y.d, bd.g.d, n, IN);
        m.mul(y.d, 'n', wd.w.d, 't', dz.d, n, CODE, IN);
        straight_through<<<(n * CODE + 63) / 64, 64>>>(dz.d, z.d, q.d, 0.5f, n);
        m.mul(xb, 't', dz.d, 'n', we.g.d, IN, CODE, n);
        count_codes<<<1, 32>>>(z.d, pick, tally.d, n);
        DDP_REDUCE(tally.d, tally.n, DDP_FLOAT32, DDP_OP_SUM, 0);
        int row = (step * 131 + 17) % ROWS;
        m.mul(data.d + row * IN, 'n', we.w.d, 'n', spare.d, 1, CODE, IN);
        follow<<<1, 32>>>(codebook.d, usage.d, total.d, tally.d, spare.d, 0.8f);
        DDP_STEP(0);
        for (Weight *w : {&we, &wd, &bd}) m.step(*w, rate);

        std::vector<float> l = loss.host();
        float mean = 0.0f;
        for (int r = 0; r < n; ++r) mean += l[r] / n;
        DDP_MEAN_AS("loss", &mean);
        recent += mean / 6;
        if (step % 6 == 5) {
            if (recent > 0.97f * best) {
                rate *= 0.5f;
                ++halvings;
            }
            best = std::fmin(best, recent);
            if (DDP_RANK() == 0) std::printf("step %2d loss %.4f, rate halved %d times\n", step + 1, recent, halvings);
            recent = 0.0f;
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Vec *v : {&we.w, &wd.w, &bd.w, &codebook}) {
            std::vector<float> h = v->host();
            std::fwrite(h.data(), sizeof(float), h.size(), f);
        }
        std::fclose(f);
    }
    return 0;
}
