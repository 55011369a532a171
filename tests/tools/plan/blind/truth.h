// Ground truth of "by turns": TRUTHN batches make one update from the mean of their gradients. DUMP names a file for
// the final weights.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <utility>
#include <vector>
static int truth_n = getenv("TRUTHN") ? atoi(getenv("TRUTHN")) : 0;
#define TRUTHN truth_n
typedef std::vector<std::pair<void *, size_t>> truth_list;
static bool truth_half = false; // what truth_step and truth_dump see is half
static inline void
truth_get(std::vector<float> &h, const std::pair<void *, size_t> &p)
{
    h.resize(p.second);
    if (truth_half) {
        std::vector<__half> x(p.second);
        cudaMemcpy(x.data(), p.first, p.second * 2, cudaMemcpyDefault);
        for (size_t i = 0; i < p.second; ++i)
            h[i] = __half2float(x[i]);
    } else
        cudaMemcpy(h.data(), p.first, p.second * 4, cudaMemcpyDefault);
}
static inline void
truth_put(const std::vector<float> &h, const std::pair<void *, size_t> &p)
{
    if (truth_half) {
        std::vector<__half> x(p.second);
        for (size_t i = 0; i < p.second; ++i)
            x[i] = __float2half(h[i]);
        cudaMemcpy(p.first, x.data(), p.second * 2, cudaMemcpyDefault);
    } else
        cudaMemcpy(p.first, h.data(), p.second * 4, cudaMemcpyDefault);
}
static int truth_k = 0;
static std::vector<std::vector<float>> truth_acc;
static inline bool
truth_step(const truth_list &l)
{
    if (!TRUTHN)
        return true;
    static int off = getenv("TOFF") ? atoi(getenv("TOFF")) : 0;
    if (off > 0) {
        --off;
        return true;
    } // TOFF: so many updates as in one process, before the first round
    std::vector<std::vector<float>> &acc = truth_acc;
    cudaDeviceSynchronize();
    if (truth_k % TRUTHN == 0) {
        acc.clear();
        for (auto &p : l)
            acc.push_back(std::vector<float>(p.second, 0.f));
    }
    for (size_t i = 0; i < l.size(); ++i) {
        std::vector<float> h;
        truth_get(h, l[i]);
        for (size_t j = 0; j < h.size(); ++j)
            acc[i][j] += h[j];
    }
    if (++truth_k % TRUTHN)
        return false;
    for (size_t i = 0; i < l.size(); ++i) {
        for (auto &v : acc[i])
            v *= 1.0f / TRUTHN;
        truth_put(acc[i], l[i]);
    }
    return true;
}
// by state a round ends early in front of a validation: mean of the steps it had (only with TFLUSH=1). true: make the
// update
static inline bool
truth_flush(const truth_list &l)
{
    if (!TRUTHN)
        return false;
    if (!getenv("TFLUSH") || truth_k % TRUTHN == 0)
        return false;
    cudaDeviceSynchronize();
    int n = truth_k % TRUTHN;
    for (size_t i = 0; i < l.size(); ++i) {
        for (auto &v : truth_acc[i])
            v *= 1.0f / n;
        cudaMemcpy(l[i].first, truth_acc[i].data(), truth_acc[i].size() * 4, cudaMemcpyHostToDevice);
    }
    truth_k = 0;
    return true;
}
static inline void
truth_dump(const truth_list &l, const char *mode = "wb")
{
    const char *f = getenv("DUMP");
    if (!f)
        return;
    cudaDeviceSynchronize();
    FILE *o = fopen(f, mode);
    for (auto &p : l) {
        std::vector<float> h;
        truth_get(h, p);
        fwrite(h.data(), 4, h.size(), o);
    }
    fclose(o);
}

// Truth by state: from the round's start each of TRUTHN steps is made completely; then start + mean of the changes.
// Call behind each update.
static bool truth_double = false; // what truth_by_state and truth_dump_double see is double
struct truth_by_state {
    std::vector<std::vector<double>> base, sum;
    int k = 0;
    truth_list l;
    static void get(const truth_list &l, std::vector<std::vector<double>> &v)
    {
        cudaDeviceSynchronize();
        v.clear();
        for (auto &p : l) {
            std::vector<double> x(p.second);
            if (truth_double)
                cudaMemcpy(x.data(), p.first, x.size() * 8, cudaMemcpyDefault);
            else {
                std::vector<float> h(p.second);
                cudaMemcpy(h.data(), p.first, h.size() * 4, cudaMemcpyDefault);
                for (size_t i = 0; i < h.size(); ++i)
                    x[i] = h[i];
            }
            v.push_back(x);
        }
    }
    void put(const std::vector<std::vector<double>> &v)
    {
        for (size_t i = 0; i < l.size(); ++i) {
            if (truth_double)
                cudaMemcpy(l[i].first, v[i].data(), v[i].size() * 8, cudaMemcpyDefault);
            else {
                std::vector<float> h(v[i].begin(), v[i].end());
                cudaMemcpy(l[i].first, h.data(), h.size() * 4, cudaMemcpyDefault);
            }
        }
        cudaDeviceSynchronize();
    }
    int off =
        getenv("TOFF") ? atoi(getenv("TOFF")) : 0; // TOFF: so many steps as in one process, before the first round
    void begin(const truth_list &list)
    {
        if (TRUTHN == 0 || off > 0)
            return;
        if (k == 0) {
            l = list;
            get(l, base);
            sum.clear();
            for (auto &b : base)
                sum.push_back(std::vector<double>(b.size(), 0.0));
        } else
            put(base);
    }
    void end()
    {
        if (TRUTHN == 0)
            return;
        if (off > 0) {
            --off;
            return;
        }
        std::vector<std::vector<double>> c;
        get(l, c);
        for (size_t i = 0; i < c.size(); ++i)
            for (size_t j = 0; j < c[i].size(); ++j)
                sum[i][j] += c[i][j] - base[i][j];
        if (++k < (TRUTHN ? TRUTHN : 1)) {
            return;
        }
        close();
    }
    void close()
    {
        if (TRUTHN == 0 || k == 0)
            return;
        for (size_t i = 0; i < base.size(); ++i)
            for (size_t j = 0; j < base[i].size(); ++j)
                base[i][j] = base[i][j] + sum[i][j] / k;
        put(base);
        k = 0;
    }
};
static inline void
truth_dump_double(const truth_list &l)
{
    const char *f = getenv("DUMP");
    if (!f)
        return;
    std::vector<std::vector<double>> v;
    truth_double = true;
    truth_by_state::get(l, v);
    FILE *o = fopen(f, "wb");
    for (auto &x : v) {
        std::vector<float> h(x.begin(), x.end());
        fwrite(h.data(), 4, h.size(), o);
    }
    fclose(o);
}
