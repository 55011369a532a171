// Bag-of-words text classifier: mean of word embeddings -> linear -> softmax.
// AdaGrad.  The embedding gradient is a dense table that is cleared every batch.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

template <typename T>
struct CudaFree { void operator()(T* p) const { cudaFree(p); } };
template <typename T>
using dptr = std::unique_ptr<T[], CudaFree<T>>;
template <typename T>
dptr<T> make_device(size_t n) {
    T* p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) { std::cerr << "cudaMalloc\n"; std::exit(1); }
    cudaMemset(p, 0, n * sizeof(T));
    return dptr<T>(p);
}
template <typename T>
void to_device(const dptr<T>& d, const std::vector<T>& h) { cudaMemcpy(d.get(), h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice); }

constexpr int V = 200, E = 16, K = 5, BATCH = 32;

// offsets[b] .. offsets[b+1] are the words of document b
__global__ void bag_mean(const float* emb, const int* words, const int* offsets, float* out) {
    int b = blockIdx.x, e = threadIdx.x;
    int from = offsets[b], to = offsets[b + 1];
    float s = 0;
    for (int i = from; i < to; ++i) s += emb[words[i] * E + e];
    out[b * E + e] = s / (to - from);
}
__global__ void classify(const float* bag, const float* w, const float* bias, const int* label, float* dlogit, float* loss) {
    int b = threadIdx.x;
    float z[K], mx = -1e30f, sum = 0;
    for (int k = 0; k < K; ++k) {
        z[k] = bias[k];
        for (int e = 0; e < E; ++e) z[k] += bag[b * E + e] * w[k * E + e];
        mx = fmaxf(mx, z[k]);
    }
    for (int k = 0; k < K; ++k) sum += (z[k] = expf(z[k] - mx));
    for (int k = 0; k < K; ++k) dlogit[b * K + k] = (z[k] / sum - (k == label[b])) / BATCH;
    // block-wide sum of the loss
    atomicAdd(loss, -logf(z[label[b]] / sum) / BATCH);
}
__global__ void head_grad(const float* bag, const float* dlogit, float* gw, float* gb) {
    int k = blockIdx.x, e = threadIdx.x;
    float s = 0, t = 0;
    for (int b = 0; b < BATCH; ++b) { s += dlogit[b * K + k] * bag[b * E + e]; t += dlogit[b * K + k]; }
    gw[k * E + e] = s;
    if (e == 0) gb[k] = t;
}
__global__ void emb_grad(const float* dlogit, const float* w, const int* words, const int* offsets, float* gemb) {
    int b = blockIdx.x, e = threadIdx.x;
    int from = offsets[b], to = offsets[b + 1];
    float d = 0;
    for (int k = 0; k < K; ++k) d += dlogit[b * K + k] * w[k * E + e];
    d /= (to - from);
    for (int i = from; i < to; ++i) atomicAdd(&gemb[words[i] * E + e], d);
}
__global__ void adagrad(float* w, const float* g, float* h, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = g[i];
    if (gi == 0.f) return;
    h[i] += gi * gi;
    w[i] -= lr * gi * rsqrtf(h[i] + 1e-8f);
}

struct Doc { std::vector<int> words; int label; };

int main(int argc, char** argv) {
    std::mt19937 rng(31337);
    std::vector<Doc> docs(640);
    for (auto& d : docs) {
        d.label = rng() % K;
        int n = 5 + rng() % 15;
        for (int i = 0; i < n; ++i) d.words.push_back(rng() % 10 < 4 ? d.label * (V / K) + rng() % (V / K) : rng() % V);
    }
    std::normal_distribution<float> nd(0, 0.1f);
    std::vector<float> hemb(V * E), hw(K * E);
    for (auto& x : hemb) x = nd(rng);
    for (auto& x : hw) x = nd(rng);
    auto emb = make_device<float>(V * E), gemb = make_device<float>(V * E), semb = make_device<float>(V * E);
    auto w = make_device<float>(K * E), gw = make_device<float>(K * E), sw = make_device<float>(K * E);
    auto bias = make_device<float>(K), gb = make_device<float>(K), sb = make_device<float>(K);
    auto bag = make_device<float>(BATCH * E), dlogit = make_device<float>(BATCH * K), loss = make_device<float>(1);
    auto words = make_device<int>(BATCH * 20), offsets = make_device<int>(BATCH + 1), labels = make_device<int>(BATCH);
    to_device(emb, hemb); to_device(w, hw);
#ifdef ORACLE
    oracle::state(emb.get(), V * E); oracle::state(semb.get(), V * E); oracle::grad(gemb.get(), V * E);
    oracle::state(w.get(), K * E); oracle::state(sw.get(), K * E); oracle::grad(gw.get(), K * E);
    oracle::state(bias.get(), K); oracle::state(sb.get(), K); oracle::grad(gb.get(), K);
#endif
    const float lr = 0.08f;
    for (int epoch = 1; epoch <= 6; ++epoch) {
        std::shuffle(docs.begin(), docs.end(), rng);
        float epoch_loss = 0;
        int batches = 0;
        for (size_t at = 0; at + BATCH <= docs.size(); at += BATCH, ++batches) {
            std::vector<int> hwords, hoff{0}, hlab;
            for (int b = 0; b < BATCH; ++b) {
                const Doc& d = docs[at + b];
                hwords.insert(hwords.end(), d.words.begin(), d.words.end());
                hoff.push_back((int)hwords.size());
                hlab.push_back(d.label);
            }
            to_device(words, hwords); to_device(offsets, hoff); to_device(labels, hlab);
            cudaMemset(loss.get(), 0, sizeof(float));
            cudaMemset(gemb.get(), 0, V * E * sizeof(float));
#ifdef ORACLE
            oracle::begin();
#endif
            bag_mean<<<BATCH, E>>>(emb.get(), words.get(), offsets.get(), bag.get());
            classify<<<1, BATCH>>>(bag.get(), w.get(), bias.get(), labels.get(), dlogit.get(), loss.get());
            head_grad<<<K, E>>>(bag.get(), dlogit.get(), gw.get(), gb.get());
            emb_grad<<<BATCH, E>>>(dlogit.get(), w.get(), words.get(), offsets.get(), gemb.get());
#ifdef ORACLE
            if (oracle::ready())
#endif
            {
                adagrad<<<(V * E + 255) / 256, 256>>>(emb.get(), gemb.get(), semb.get(), V * E, lr);
                adagrad<<<(K * E + 255) / 256, 256>>>(w.get(), gw.get(), sw.get(), K * E, lr);
                adagrad<<<1, 32>>>(bias.get(), gb.get(), sb.get(), K, lr);
            }
#ifdef ORACLE
            oracle::end();
#endif
            float l = 0;
            cudaMemcpy(&l, loss.get(), sizeof l, cudaMemcpyDeviceToHost);
            epoch_loss += l;
            if (batches % 5 == 0) std::cout << "epoch " << epoch << " batch " << batches << " loss " << l << '\n';
        }
        std::cout << "epoch " << epoch << " average loss " << epoch_loss / batches << std::endl;
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    std::ofstream out(argc > 1 ? argv[1] : "model.bin", std::ios::binary);
    auto dump = [&](const dptr<float>& d, int n) {
        std::vector<float> h(n);
        cudaMemcpy(h.data(), d.get(), n * sizeof(float), cudaMemcpyDeviceToHost);
        out.write(reinterpret_cast<const char*>(h.data()), n * sizeof(float));
    };
    dump(emb, V * E); dump(w, K * E); dump(bias, K);
    return out ? 0 : 1;
}
