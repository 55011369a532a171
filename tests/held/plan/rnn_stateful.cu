// Character-level Elman RNN, truncated backprop.  The text is read from left to right;
// the hidden state at the end of one chunk is the start of the next.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <string>
#include <vector>
#include <random>
#ifdef ORACLE
#include "oracle.h"
#endif

constexpr int HID = 32, CHUNK = 10, LANES = 8, ALPHA = 16;

// one thread for each hidden unit, one block for each lane
__global__ void chunk_forward(const int* text, int pos, int lane_len, const float* Wx, const float* Wh, const float* bh,
                              const float* h0, float* hs) {
    __shared__ float h[HID];
    int lane = blockIdx.x, j = threadIdx.x;
    h[j] = h0[lane * HID + j];
    __syncthreads();
    for (int t = 0; t < CHUNK; ++t) {
        int c = text[lane * lane_len + pos + t];
        float s = Wx[c * HID + j] + bh[j];
        for (int i = 0; i < HID; ++i) s += h[i] * Wh[i * HID + j];
        __syncthreads();
        h[j] = tanhf(s);
        hs[(t * LANES + lane) * HID + j] = h[j];
        __syncthreads();
    }
}
__global__ void outputs(const int* text, int pos, int lane_len, const float* hs, const float* Wy, const float* by, float* dy, float* loss) {
    int lane = blockIdx.x, t = threadIdx.x, r = t * LANES + lane;
    float z[ALPHA], m = -1e30f, s = 0;
    for (int k = 0; k < ALPHA; ++k) {
        z[k] = by[k];
        for (int i = 0; i < HID; ++i) z[k] += hs[r * HID + i] * Wy[i * ALPHA + k];
        m = fmaxf(m, z[k]);
    }
    int y = text[lane * lane_len + pos + t + 1];
    for (int k = 0; k < ALPHA; ++k) s += expf(z[k] - m);
    loss[r] = logf(s) + m - z[y];
    for (int k = 0; k < ALPHA; ++k) dy[r * ALPHA + k] = (expf(z[k] - m) / s - (k == y)) / (LANES * CHUNK);
}
__global__ void chunk_backward(const float* hs, const float* Wh, const float* Wy, const float* dy, float* da) {
    __shared__ float d[HID];
    int lane = blockIdx.x, j = threadIdx.x;
    float carry = 0;
    for (int t = CHUNK - 1; t >= 0; --t) {
        int r = t * LANES + lane;
        float g = carry;
        for (int k = 0; k < ALPHA; ++k) g += dy[r * ALPHA + k] * Wy[j * ALPHA + k];
        float h = hs[r * HID + j];
        d[j] = g * (1 - h * h);
        da[r * HID + j] = d[j];
        __syncthreads();
        carry = 0;
        for (int i = 0; i < HID; ++i) carry += d[i] * Wh[j * HID + i];
        __syncthreads();
    }
}
__global__ void gradients(const int* text, int pos, int lane_len, const float* h0, const float* hs, const float* da, const float* dy,
                          float* gWx, float* gWh, float* gbh, float* gWy, float* gby) {
    int i = blockIdx.x, j = threadIdx.x;              // i < HID: rows of Wh and Wy; j < HID
    float s = 0, w = 0, b = 0, by = 0;
    for (int t = 0; t < CHUNK; ++t)
        for (int l = 0; l < LANES; ++l) {
            int r = t * LANES + l;
            float hp = t ? hs[(r - LANES) * HID + i] : h0[l * HID + i];
            s += hp * da[r * HID + j];
            if (i < ALPHA && text[l * lane_len + pos + t] == i) w += da[r * HID + j];
            b += da[r * HID + j];
            if (j < ALPHA) by += dy[r * ALPHA + j];
        }
    gWh[i * HID + j] = s;
    if (i < ALPHA) gWx[i * HID + j] = w;
    if (i == 0) gbh[j] = b;
    if (j < ALPHA) {
        float y = 0;
        for (int r = 0; r < CHUNK * LANES; ++r) y += hs[r * HID + i] * dy[r * ALPHA + j];
        gWy[i * ALPHA + j] = y;
        if (i == 0) gby[j] = by;
    }
}
__global__ void adagrad(float* w, const float* g, float* m, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float c = fminf(fmaxf(g[i], -1.f), 1.f);
    m[i] += c * c;
    w[i] -= lr * c / sqrtf(m[i] + 1e-8f);
}

struct Tensor {
    float *w, *g, *m; int n;
    Tensor(int n_, float scale, std::mt19937& rng) : n(n_) {
        cudaMalloc(&w, n * 4); cudaMalloc(&g, n * 4); cudaMalloc(&m, n * 4);
        std::vector<float> h(n);
        std::normal_distribution<float> d(0, 1);
        for (float& v : h) v = scale * d(rng);
        cudaMemcpy(w, h.data(), n * 4, cudaMemcpyHostToDevice);
        cudaMemset(m, 0, n * 4);
#ifdef ORACLE
        oracle::state(w, n); oracle::state(m, n); oracle::grad(g, n);
#endif
    }
};

int main(int argc, char** argv) {
    std::mt19937 rng(6);
    // a text of a few "words", each lane its own stretch
    const std::vector<std::string> words = {"abcab ", "dealer ", "mango ", "kodak ", "gallon ", "memo "};
    const std::string letters = " abcdefgklmnor__";
    const int lane_len = CHUNK * 60 + 1;
    std::vector<int> text;
    while ((int)text.size() < LANES * lane_len)
        for (char c : words[rng() % words.size()]) text.push_back((int)letters.find(c));
    int* d_text;
    cudaMalloc(&d_text, text.size() * sizeof(int));
    cudaMemcpy(d_text, text.data(), text.size() * sizeof(int), cudaMemcpyHostToDevice);
    Tensor Wx(ALPHA * HID, 0.3f, rng), Wh(HID * HID, 0.15f, rng), bh(HID, 0, rng), Wy(HID * ALPHA, 0.15f, rng), by(ALPHA, 0, rng);
    float *h0, *hs, *da, *dy, *loss;
    cudaMalloc(&h0, LANES * HID * 4); cudaMalloc(&hs, CHUNK * LANES * HID * 4); cudaMalloc(&da, CHUNK * LANES * HID * 4);
    cudaMalloc(&dy, CHUNK * LANES * ALPHA * 4); cudaMalloc(&loss, CHUNK * LANES * 4);
    std::vector<float> hl(CHUNK * LANES);
    float smooth = 0; int it = 0;
    for (int epoch = 0; epoch < 3; ++epoch) {
        cudaMemset(h0, 0, LANES * HID * 4);                       // start of the text
        for (int pos = 0; pos + CHUNK < lane_len; pos += CHUNK, ++it) {
#ifdef ORACLE
            // h0 is not restored: chunk after chunk reads the state the chunk before left,
            // which with N chunks at once no device could have had
            oracle::begin();
#endif
            chunk_forward<<<LANES, HID>>>(d_text, pos, lane_len, Wx.w, Wh.w, bh.w, h0, hs);
            outputs<<<LANES, CHUNK>>>(d_text, pos, lane_len, hs, Wy.w, by.w, dy, loss);
            chunk_backward<<<LANES, HID>>>(hs, Wh.w, Wy.w, dy, da);
            gradients<<<HID, HID>>>(d_text, pos, lane_len, h0, hs, da, dy, Wx.g, Wh.g, bh.g, Wy.g, by.g);
            cudaMemcpy(h0, hs + (CHUNK - 1) * LANES * HID, LANES * HID * 4, cudaMemcpyDeviceToDevice);
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (Tensor* p : {&Wx, &Wh, &bh, &Wy, &by}) adagrad<<<(p->n + 127) / 128, 128>>>(p->w, p->g, p->m, p->n, 0.08f);
#ifdef ORACLE
            oracle::end();
#endif
            cudaMemcpy(hl.data(), loss, hl.size() * 4, cudaMemcpyDeviceToHost);
            float l = 0;
            for (float v : hl) l += v / hl.size();
            smooth = it ? 0.95f * smooth + 0.05f * l : l;
            if (it % 15 == 0) printf("iter %d, loss %.4f, smooth %.4f\n", it, l, smooth);
        }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE* f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    for (Tensor* p : {&Wx, &Wh, &bh, &Wy, &by}) {
        std::vector<float> v(p->n);
        cudaMemcpy(v.data(), p->w, p->n * 4, cudaMemcpyDeviceToHost);
        fwrite(v.data(), 4, p->n, f);
    }
    fclose(f);
    return 0;
}
