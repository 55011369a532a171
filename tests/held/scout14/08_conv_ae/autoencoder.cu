// Convolutional autoencoder for 12x12 grey pictures, kept on the device as bytes.
// Encoder: two convolutions of stride 2. Decoder: two convolutions on an enlarged picture (nearest neighbour).
#include "device.h"

#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <random>

template <typename Real> struct ConvLayer {
    struct Shape {
        int in, out;       // channels
        int side;          // of the input
        int stride, grow;  // the input is enlarged by `grow` first
        bool relu;
        __host__ __device__ int outSide() const { return side * grow / stride; }
        __host__ __device__ int inSize() const { return in * side * side; }
        __host__ __device__ int outSize() const { return out * outSide() * outSide(); }
    } s;
    DeviceArray<Real> weight, bias, dweight, dbias, sweight, sbias, out, dout;

    ConvLayer(Shape shape, int batch, std::mt19937 &rng) : s(shape)
    {
        std::normal_distribution<Real> normal(0, std::sqrt(Real(2) / (9 * s.in)));
        std::vector<Real> w(s.out * s.in * 9);
        for (auto &x : w)
            x = normal(rng);
        weight = DeviceArray<Real>(w);
        dweight = DeviceArray<Real>(w.size());
        sweight = DeviceArray<Real>(w.size());
        bias = DeviceArray<Real>(s.out);
        dbias = DeviceArray<Real>(s.out);
        sbias = DeviceArray<Real>(s.out);
        out = DeviceArray<Real>(batch * s.outSize());
        dout = DeviceArray<Real>(batch * s.outSize());
    }
};

template <typename Real> using Shape = typename ConvLayer<Real>::Shape;

template <typename Real>
__global__ void conv(const Real *x, const Real *w, const Real *b, Real *y, Shape<Real> s, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * s.outSize())
        return;
    const int os = s.outSide(), ox = i % os, oy = i / os % os, o = i / (os * os) % s.out, k = i / s.outSize();
    Real sum = b[o];
    for (int c = 0; c < s.in; c++)
        for (int f = 0; f < 9; f++) {
            int yy = oy * s.stride + f / 3 - 1, xx = ox * s.stride + f % 3 - 1;
            if (yy >= 0 && xx >= 0 && yy < s.side * s.grow && xx < s.side * s.grow)
                sum += x[k * s.inSize() + (c * s.side + yy / s.grow) * s.side + xx / s.grow] * w[(o * s.in + c) * 9 + f];
        }
    y[i] = s.relu && sum < 0 ? 0 : sum;
}

template <typename Real>
__global__ void convBackward(const Real *x, const Real *w, const Real *dy, Real *dx, Real *dw, Real *db, Shape<Real> s, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * s.outSize())
        return;
    const int os = s.outSide(), ox = i % os, oy = i / os % os, o = i / (os * os) % s.out, k = i / s.outSize();
    const Real d = dy[i];
    if (d == 0)
        return;
    atomicAdd(&db[o], d);
    for (int c = 0; c < s.in; c++)
        for (int f = 0; f < 9; f++) {
            int yy = oy * s.stride + f / 3 - 1, xx = ox * s.stride + f % 3 - 1;
            if (yy >= 0 && xx >= 0 && yy < s.side * s.grow && xx < s.side * s.grow) {
                int at = k * s.inSize() + (c * s.side + yy / s.grow) * s.side + xx / s.grow;
                atomicAdd(&dw[(o * s.in + c) * 9 + f], d * x[at]);
                if (dx)
                    atomicAdd(&dx[at], d * w[(o * s.in + c) * 9 + f]);
            }
        }
}

template <typename Real> __global__ void reluMask(const Real *y, Real *dy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0)
        dy[i] = 0;
}

template <typename Real> __global__ void fromBytes(const uint8_t *bytes, Real *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = bytes[i] / Real(255);
}

template <typename Real> __global__ void reconstruction(const Real *y, const Real *x, Real *dy, Real *error, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Real e = y[i] - x[i];
        dy[i] = 2 * e / n;
        error[i] = e * e;
    }
}

template <typename Real> __global__ void rmsprop(Real *w, const Real *g, Real *s, int n, Real rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        s[i] = Real(0.9) * s[i] + Real(0.1) * g[i] * g[i];
        w[i] -= rate * g[i] / (sqrt(s[i]) + Real(1e-5));
    }
}

static int grid(int n) { return (n + 95) / 96; }

template <typename Real> static void clear(DeviceArray<Real> &a) { cudaMemset(a.get(), 0, a.size() * sizeof(Real)); }

int main()
{
    const int side = 12, pixels = side * side, pictures = 240, batch = 20, epochs = 3;
    std::mt19937 rng(99);

    std::vector<uint8_t> bytes(pictures * pixels);
    for (int k = 0; k < pictures; k++) {
        float cx = 3 + rng() % 60 / 10.f, cy = 3 + rng() % 60 / 10.f, r = 1.5f + rng() % 20 / 10.f;
        for (int p = 0; p < pixels; p++)
            bytes[k * pixels + p] = std::lround(255 * std::exp(-(std::pow(p % side - cx, 2) + std::pow(p / side - cy, 2)) / (r * r)));
    }
    DeviceArray<uint8_t> data(bytes);

    std::vector<ConvLayer<float>> layers;
    layers.emplace_back(Shape<float>{1, 6, 12, 2, 1, true}, batch, rng);
    layers.emplace_back(Shape<float>{6, 8, 6, 2, 1, true}, batch, rng);
    layers.emplace_back(Shape<float>{8, 6, 3, 1, 2, true}, batch, rng);
    layers.emplace_back(Shape<float>{6, 1, 6, 1, 2, false}, batch, rng);
    DeviceArray<float> x(batch * pixels), error(batch * pixels);

    for (int epoch = 1; epoch <= epochs; epoch++) {
        double mse = 0;
        for (int start = 0; start < pictures; start += batch) {
            fromBytes<<<grid(batch * pixels), 96>>>(data.get() + start * pixels, x.get(), batch * pixels);

            const float *in = x.get();
            for (auto &l : layers) {
                conv<float><<<grid(batch * l.s.outSize()), 96>>>(in, l.weight.get(), l.bias.get(), l.out.get(), l.s, batch);
                in = l.out.get();
            }
            auto &last = layers.back();
            reconstruction<<<grid(batch * pixels), 96>>>(last.out.get(), x.get(), last.dout.get(), error.get(), batch * pixels);

            for (int k = (int)layers.size() - 1; k >= 0; k--) {
                auto &l = layers[k];
                if (l.s.relu)
                    reluMask<<<grid(batch * l.s.outSize()), 96>>>(l.out.get(), l.dout.get(), batch * l.s.outSize());
                clear(l.dweight);
                clear(l.dbias);
                if (k > 0)
                    clear(layers[k - 1].dout);
                convBackward<float><<<grid(batch * l.s.outSize()), 96>>>(k > 0 ? layers[k - 1].out.get() : x.get(), l.weight.get(), l.dout.get(),
                                                                  k > 0 ? layers[k - 1].dout.get() : nullptr, l.dweight.get(),
                                                                  l.dbias.get(), l.s, batch);
            }
            for (auto &l : layers) {
                rmsprop<<<grid(l.weight.size()), 96>>>(l.weight.get(), l.dweight.get(), l.sweight.get(), (int)l.weight.size(), 0.003f);
                rmsprop<<<grid(l.bias.size()), 96>>>(l.bias.get(), l.dbias.get(), l.sbias.get(), (int)l.bias.size(), 0.003f);
            }
            for (float e : error.host())
                mse += e;
        }
        std::cout << "epoch " << epoch << " mse " << std::setprecision(5) << mse / (pictures * pixels) << std::endl;
    }
    return 0;
}
