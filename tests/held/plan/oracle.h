// oracle.h -- averaging for the ORACLE builds only (never included by a plain build).
//
//   ORACLE_N    number of successive batches that make one update (default 1)
//   ORACLE_WAY  gradients | state (default gradients)
//   ORACLE_STEP update | program (default update): the step number t that a program
//               feeds to its optimizer (Adam bias correction).  "update" counts
//               updates made; "program" is the program's own batch counter.
//
// state()    what stays and is learnt or is optimizer state
// carried()  what stays and is moved by the batch itself, not by the update
//            (running statistics); averaged like state in both ways
// grad()     gradient buffers; `phase` tells apart programs with several updates a batch
#pragma once
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
namespace oracle {
enum Kind { F32, F16, HOSTF32 };
struct Buf { void* p; size_t n; Kind k; std::vector<double> snap, sum; };
struct Box {
    int n = 1, step_program = 0; bool state_way = false; long seen = 0;
    std::vector<Buf> st, car, gr[4]; long cnt[4] = {0, 0, 0, 0};
    Box() {
        if (getenv("ORACLE_N")) n = atoi(getenv("ORACLE_N"));
        if (n < 1) n = 1;
        const char* w = getenv("ORACLE_WAY"); state_way = w && !strcmp(w, "state");
        const char* s = getenv("ORACLE_STEP"); step_program = s && !strcmp(s, "program");
    }
};
inline Box& box() { static Box b; return b; }
inline std::vector<double> get(const Buf& b) {
    std::vector<double> r(b.n);
    cudaDeviceSynchronize();
    if (b.k == F16) {
        std::vector<__half> t(b.n);
        cudaMemcpy(t.data(), b.p, b.n * sizeof(__half), cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < b.n; ++i) r[i] = __half2float(t[i]);
    } else {
        std::vector<float> t(b.n);
        if (b.k == HOSTF32) memcpy(t.data(), b.p, b.n * 4);
        else cudaMemcpy(t.data(), b.p, b.n * 4, cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < b.n; ++i) r[i] = t[i];
    }
    return r;
}
inline void put(const Buf& b, const std::vector<double>& r) {
    cudaDeviceSynchronize();
    if (b.k == F16) {
        std::vector<__half> t(b.n);
        for (size_t i = 0; i < b.n; ++i) t[i] = __float2half((float)r[i]);
        cudaMemcpy(b.p, t.data(), b.n * sizeof(__half), cudaMemcpyHostToDevice);
    } else {
        std::vector<float> t(b.n);
        for (size_t i = 0; i < b.n; ++i) t[i] = (float)r[i];
        if (b.k == HOSTF32) memcpy(b.p, t.data(), b.n * 4);
        else cudaMemcpy(b.p, t.data(), b.n * 4, cudaMemcpyHostToDevice);
    }
    cudaDeviceSynchronize();
}
inline void add(Buf& b, bool first) {
    std::vector<double> v = get(b);
    if (first) b.sum.assign(b.n, 0.0);
    for (size_t i = 0; i < b.n; ++i) b.sum[i] += v[i];
}
inline void mean(Buf& b) {
    std::vector<double> v(b.n);
    for (size_t i = 0; i < b.n; ++i) v[i] = b.sum[i] / box().n;
    put(b, v);
}
inline int N() { return box().n; }
inline bool by_state() { return box().state_way; }
// programs without a gradient buffer whose update is linear in the gradient:
// the mean of the results is the result of the mean, one rule serves both ways
inline void fused() { box().state_way = true; }
inline void state(void* p, size_t n, Kind k = F32) { box().st.push_back(Buf{p, n, k, {}, {}}); }
inline void carried(void* p, size_t n, Kind k = F32) { box().car.push_back(Buf{p, n, k, {}, {}}); }
inline void grad(void* p, size_t n, int phase = 0, Kind k = F32) { box().gr[phase].push_back(Buf{p, n, k, {}, {}}); }
inline int step(int program_t) { return box().step_program ? program_t : (int)(box().seen / box().n) + 1; }
// before a batch
inline void begin() {
    Box& o = box(); bool first = o.seen % o.n == 0;
    for (std::vector<Buf>* v : {&o.st, &o.car}) {
        if (v == &o.st && !o.state_way) continue;
        for (Buf& b : *v) if (first) b.snap = get(b); else put(b, b.snap);
    }
}
// after the gradients of a batch, before its update: true when the update is to be made
inline bool ready(int phase = 0) {
    Box& o = box();
    if (o.state_way) return true;
    long i = o.cnt[phase]++ % o.n;
    for (Buf& b : o.gr[phase]) { add(b, i == 0); if (i == o.n - 1) mean(b); }
    return i == o.n - 1;
}
// after a batch
inline void end() {
    Box& o = box(); long i = o.seen++ % o.n;
    for (std::vector<Buf>* v : {&o.st, &o.car}) {
        if (v == &o.st && !o.state_way) continue;
        for (Buf& b : *v) { add(b, i == 0); if (i == o.n - 1) mean(b); }
    }
}
// before anything reads the model between batches (validation, saving):
// an unfinished group is not in the result
inline void boundary() {
    Box& o = box();
    if (o.seen % o.n == 0) return;
    for (std::vector<Buf>* v : {&o.st, &o.car}) {
        if (v == &o.st && !o.state_way) continue;
        for (Buf& b : *v) put(b, b.snap);
    }
}
}
