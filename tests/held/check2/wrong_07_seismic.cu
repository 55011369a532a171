// A perceptron with one hidden layer predicts a magnitude from 16 channels. The whole data set lies on the device; a
// batch is a window of it. Row-major matrices, handed to cuBLAS as their transposes.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#define TRY(expr) \
    do { auto rc_ = (expr); if (rc_ != decltype(rc_)(0)) { std::fprintf(stderr, "%s: %d\n", #expr, (int)rc_); std::exit(1); } } while (0)

struct Free { void operator()(float *p) const { cudaFree(p); } };
using Buffer = std::unique_ptr<float[], Free>;

Buffer buffer(size_t n, const float *from = nullptr)
{
    float *p;
    TRY(cudaMalloc(&p, n * sizeof(float)));
    if (from) TRY(cudaMemcpy(p, from, n * sizeof(float), cudaMemcpyHostToDevice));
    else TRY(cudaMemset(p, 0, n * sizeof(float)));
    return Buffer(p);
}

// Which rows of the data set a step works on: `size` rows from `start` on, of which this process does [first, first + count).
struct Window { size_t start, size, first, count; };

__global__ void squash(float *h, const float *bias, int rows, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * width)
        h[i] = tanhf(h[i] + bias[i % width]);
}

__global__ void mse(const float *out, const float *target, float *dout, float *sq, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        float e = out[i] - target[i];
        sq[i] = e * e;
        dout[i] = 2.0f * e / rows;
    }
}

__global__ void unsquash(float *dh, const float *h, const float *dout, const float *w2, int rows, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * width)
        dh[i] = dout[i / width] * w2[i % width] * (1.0f - h[i] * h[i]);
}

struct Net {
    static constexpr int in = 16, hidden = 20;
    cublasHandle_t blas;
    Buffer w1, b1, w2, dw1, db1, dw2, h, dh, out, dout, sq, ones;

    Net(size_t rows, const std::vector<float> &r)
        : w1(buffer(in * hidden, r.data())), b1(buffer(hidden)), w2(buffer(hidden, r.data() + in * hidden)),
          dw1(buffer(in * hidden)), db1(buffer(hidden)), dw2(buffer(hidden)), h(buffer(rows * hidden)),
          dh(buffer(rows * hidden)), out(buffer(rows)), dout(buffer(rows)), sq(buffer(rows)),
          ones(buffer(rows, std::vector<float>(rows, 1.0f).data()))
    {
        TRY(cublasCreate(&blas));
    }

    template <class F> void each(F f) { f(w1, dw1, in * hidden); f(b1, db1, hidden); f(w2, dw2, hidden); }

    // c[m][n] = a[m][k] b[k][n], or with a transposed: a[k][m].
    void multiply(bool a_transposed, const float *a, const float *b, float *c, int m, int n, int k)
    {
        const float one = 1.0f, zero = 0.0f;
        TRY(cublasSgemm(blas, CUBLAS_OP_N, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, n, a,
                        a_transposed ? m : k, &zero, c, n));
    }

    float pass(const float *x, const float *y, const Window &win)
    {
        const int n = int(win.count), grid = (n * hidden + 63) / 64;
        const float *features = x + win.start * in, *target = y + win.start + win.first;
        multiply(false, features + win.first * in, w1.get(), h.get(), n, hidden, in);
        squash<<<grid, 64>>>(h.get(), b1.get(), n, hidden);
        multiply(false, h.get(), w2.get(), out.get(), n, 1, hidden);
        mse<<<1, 64>>>(out.get(), target, dout.get(), sq.get(), n);
        multiply(true, h.get(), dout.get(), dw2.get(), hidden, 1, n);
        unsquash<<<grid, 64>>>(dh.get(), h.get(), dout.get(), w2.get(), n, hidden);
        multiply(true, features, dh.get(), dw1.get(), in, hidden, n);
        multiply(true, ones.get(), dh.get(), db1.get(), 1, hidden, n);
        float sum;
        TRY(cublasSasum(blas, n, sq.get(), 1, &sum));
        return sum / n;
    }
};

int main()
{
    const size_t total = 200, batch = 40, steps = 20;
    std::vector<float> x(total * Net::in), y(total), r(Net::in * Net::hidden + Net::hidden);
    unsigned long long s = 31;
    auto noise = [&s] { s = s * 2862933555777941757ull + 3037000493ull; return float(s >> 40) / 8388608.0f - 1.0f; };
    for (size_t i = 0; i < total; ++i) {
        for (int c = 0; c < Net::in; ++c)
            x[i * Net::in + c] = noise();
        y[i] = std::sin(2.0f * x[i * Net::in]) + 0.7f * x[i * Net::in + 1] - 0.5f * x[i * Net::in + 2];
    }
    for (float &v : r) v = 0.35f * noise();

    Net net(batch, r);
    Buffer dx = buffer(x.size(), x.data()), dy = buffer(y.size(), y.data());
    net.each([](Buffer &w, Buffer &, int n) { DDP_PARAMETER(w.get(), n, DDP_FLOAT32); });
    net.each([](Buffer &, Buffer &g, int n) { DDP_GRADIENT(g.get(), n, DDP_FLOAT32); });

    Window win{0, batch, 0, 0};
    for (size_t step = 0; step < steps; ++step) {
        win.start = step * batch % total;
        DDP_SHARD(win.size, &win.first, &win.count);
        float loss = net.pass(dx.get(), dy.get(), win);
        DDP_STEP(0);
        const float alpha = -0.15f;
        net.each([&](Buffer &w, Buffer &g, int n) { TRY(cublasSaxpy(net.blas, n, &alpha, g.get(), 1, w.get(), 1)); });
        DDP_MEAN(&loss);
        if (DDP_RANK() == 0)
            std::printf("step %zu mse %.5f\n", step, loss);
    }
    TRY(cublasDestroy(net.blas));
    return 0;
}
