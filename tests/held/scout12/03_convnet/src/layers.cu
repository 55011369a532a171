#include "layers.h"
#include <cmath>
#include <random>

static const int T = 128;
static inline int blocks(int n) { return (n + T - 1) / T; }

static float *alloc(int n)
{
    float *p;
    cudaMalloc((void **)&p, n * sizeof(float));
    return p;
}

static void make(Param &p, int size, float scale)
{
    static std::mt19937 rng(42);
    std::normal_distribution<float> d(0.f, 1.f);
    std::vector<float> h(size);
    for (auto &x : h) x = scale * d(rng);
    p.size = size;
    p.value = alloc(size);
    p.grad = alloc(size);
    p.m = alloc(size);
    p.v = alloc(size);
    cudaMemcpy(p.value, h.data(), size * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(p.grad, 0, size * sizeof(float));
    cudaMemset(p.m, 0, size * sizeof(float));
    cudaMemset(p.v, 0, size * sizeof(float));
}

static void release(Param &p)
{
    cudaFree(p.value); cudaFree(p.grad); cudaFree(p.m); cudaFree(p.v);
}

// ---- conv
__global__ void conv_fwd(const float *in, const float *w, const float *b, float *out, int n, int ci, int co, int s, int o)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * co * o * o) return;
    int x = i % o, y = i / o % o, c = i / (o * o) % co, k = i / (o * o * co);
    float a = b[c];
    for (int d = 0; d < ci; d++)
        for (int u = 0; u < 3; u++)
            for (int v = 0; v < 3; v++)
                a += in[((k * ci + d) * s + y + u) * s + x + v] * w[((c * ci + d) * 3 + u) * 3 + v];
    out[i] = a;
}
__global__ void conv_bwd_w(const float *in, const float *dout, float *dw, float *db, int n, int ci, int co, int s, int o)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= co * ci * 9) return;
    int v = i % 3, u = i / 3 % 3, d = i / 9 % ci, c = i / (9 * ci);
    float a = 0, e = 0;
    for (int k = 0; k < n; k++)
        for (int y = 0; y < o; y++)
            for (int x = 0; x < o; x++) {
                float g = dout[((k * co + c) * o + y) * o + x];
                a += g * in[((k * ci + d) * s + y + u) * s + x + v];
                e += g;
            }
    dw[i] = a;
    if (i % (9 * ci) == 0) db[c] = e;
}
__global__ void conv_bwd_x(const float *dout, const float *w, float *din, int n, int ci, int co, int s, int o)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * ci * s * s) return;
    int x = i % s, y = i / s % s, d = i / (s * s) % ci, k = i / (s * s * ci);
    float a = 0;
    for (int c = 0; c < co; c++)
        for (int u = 0; u < 3; u++)
            for (int v = 0; v < 3; v++) {
                int yy = y - u, xx = x - v;
                if (yy >= 0 && yy < o && xx >= 0 && xx < o)
                    a += dout[((k * co + c) * o + yy) * o + xx] * w[((c * ci + d) * 3 + u) * 3 + v];
            }
    din[i] = a;
}
Conv::Conv(int ci, int co, int s, int mb) : cin(ci), cout(co), size(s), osize(s - 2)
{
    make(w, co * ci * 9, sqrtf(2.f / (ci * 9)));
    make(b, co, 0.f);
    out = alloc(mb * co * osize * osize);
    din = alloc(mb * ci * s * s);
}
Conv::~Conv() { release(w); release(b); cudaFree(out); cudaFree(din); }
float *Conv::forward(float *x, int n)
{
    in = x;
    conv_fwd<<<blocks(n * cout * osize * osize), T>>>(in, w.value, b.value, out, n, cin, cout, size, osize);
    return out;
}
float *Conv::backward(float *dout, int n)
{
    conv_bwd_w<<<blocks(cout * cin * 9), T>>>(in, dout, w.grad, b.grad, n, cin, cout, size, osize);
    conv_bwd_x<<<blocks(n * cin * size * size), T>>>(dout, w.value, din, n, cin, cout, size, osize);
    return din;
}

// ---- pool
__global__ void pool_fwd(const float *in, float *out, int *arg, int total, int s, int o)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int x = i % o, y = i / o % o, p = i / (o * o);
    int best = (p * s + 2 * y) * s + 2 * x;
    for (int u = 0; u < 2; u++)
        for (int v = 0; v < 2; v++) {
            int j = (p * s + 2 * y + u) * s + 2 * x + v;
            if (in[j] > in[best]) best = j;
        }
    out[i] = in[best];
    arg[i] = best;
}
__global__ void pool_bwd(const float *dout, const int *arg, float *din, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) din[arg[i]] = dout[i];
}
MaxPool::MaxPool(int c, int s, int mb) : c(c), size(s), osize(s / 2)
{
    out = alloc(mb * c * osize * osize);
    din = alloc(mb * c * s * s);
    cudaMalloc(&arg, mb * c * osize * osize * sizeof(int));
}
MaxPool::~MaxPool() { cudaFree(out); cudaFree(din); cudaFree(arg); }
float *MaxPool::forward(float *in, int n)
{
    int total = n * c * osize * osize;
    pool_fwd<<<blocks(total), T>>>(in, out, arg, total, size, osize);
    return out;
}
float *MaxPool::backward(float *dout, int n)
{
    cudaMemset(din, 0, n * c * size * size * sizeof(float));
    pool_bwd<<<blocks(n * c * osize * osize), T>>>(dout, arg, din, n * c * osize * osize);
    return din;
}

// ---- relu
__global__ void relu_fwd(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaxf(in[i], 0.f);
}
__global__ void relu_bwd(const float *out, const float *dout, float *din, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) din[i] = out[i] > 0.f ? dout[i] : 0.f;
}
Relu::Relu(int w, int mb) : width(w), out(alloc(w * mb)), din(alloc(w * mb)) {}
Relu::~Relu() { cudaFree(out); cudaFree(din); }
float *Relu::forward(float *in, int n) { relu_fwd<<<blocks(n * width), T>>>(in, out, n * width); return out; }
float *Relu::backward(float *d, int n) { relu_bwd<<<blocks(n * width), T>>>(out, d, din, n * width); return din; }

// ---- dense
__global__ void dense_fwd(const float *in, const float *w, const float *b, float *out, int n, int ni, int no)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * no) return;
    int r = i / no, c = i % no;
    float a = b[c];
    for (int k = 0; k < ni; k++) a += in[r * ni + k] * w[c * ni + k];
    out[i] = a;
}
__global__ void dense_bwd_w(const float *in, const float *dout, float *dw, float *db, int n, int ni, int no)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= ni * no) return;
    int c = i / ni, k = i % ni;
    float a = 0, e = 0;
    for (int r = 0; r < n; r++) { a += dout[r * no + c] * in[r * ni + k]; e += dout[r * no + c]; }
    dw[i] = a;
    if (k == 0) db[c] = e;
}
__global__ void dense_bwd_x(const float *dout, const float *w, float *din, int n, int ni, int no)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * ni) return;
    int r = i / ni, k = i % ni;
    float a = 0;
    for (int c = 0; c < no; c++) a += dout[r * no + c] * w[c * ni + k];
    din[i] = a;
}
Dense::Dense(int ni, int no, int mb) : nin(ni), nout(no)
{
    make(w, ni * no, sqrtf(2.f / ni));
    make(b, no, 0.f);
    out = alloc(mb * no);
    din = alloc(mb * ni);
}
Dense::~Dense() { release(w); release(b); cudaFree(out); cudaFree(din); }
float *Dense::forward(float *x, int n)
{
    in = x;
    dense_fwd<<<blocks(n * nout), T>>>(in, w.value, b.value, out, n, nin, nout);
    return out;
}
float *Dense::backward(float *dout, int n)
{
    dense_bwd_w<<<blocks(nin * nout), T>>>(in, dout, w.grad, b.grad, n, nin, nout);
    dense_bwd_x<<<blocks(n * nin), T>>>(dout, w.value, din, n, nin, nout);
    return din;
}

// ---- loss
__global__ void xent(const float *z, const int *label, float *dz, float *loss, int n, int c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m = -1e30f, s = 0;
    for (int j = 0; j < c; j++) m = fmaxf(m, z[i * c + j]);
    for (int j = 0; j < c; j++) s += expf(z[i * c + j] - m);
    for (int j = 0; j < c; j++) {
        float p = expf(z[i * c + j] - m) / s;
        dz[i * c + j] = (p - (label[i] == j ? 1.f : 0.f)) * (1.f / n);
    }
    loss[i] = m + logf(s) - z[i * c + label[i]];
}
SoftmaxLoss::SoftmaxLoss(int c, int mb) : classes(c), dlogits(alloc(c * mb)), loss(alloc(mb)) {}
SoftmaxLoss::~SoftmaxLoss() { cudaFree(dlogits); cudaFree(loss); }
float SoftmaxLoss::forward(const float *z, const int *label, int n)
{
    xent<<<blocks(n), T>>>(z, label, dlogits, loss, n, classes);
    std::vector<float> h(n);
    cudaMemcpy(h.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost);
    float s = 0;
    for (float x : h) s += x;
    return s / n;
}

// ---- adam
__global__ void adam_kernel(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}
void Adam::add(Param *p) { params.push_back(p); }
void Adam::step()
{
    t++;
    float c1 = 1.f - powf(0.9f, t), c2 = 1.f - powf(0.999f, t);
    for (Param *p : params)
        adam_kernel<<<blocks(p->size), T>>>(p->value, p->grad, p->m, p->v, p->size, lr, c1, c2);
}
