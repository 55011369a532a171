#pragma once
#include <cstring>
#include <cuda_runtime.h>

// Two staging slots: while one is computed on, the next batch is on its way.
struct Slot {
    float *h_x, *h_y; // pinned
    float *d_x, *d_y;
    cudaEvent_t ready, done;
};

class Prefetcher {
public:
    Prefetcher(const float *x, const float *y, int rows, int dim, int batch) : x_(x), y_(y), rows_(rows), dim_(dim), batch_(batch)
    {
        cudaStreamCreate(&copy_);
        for (Slot &s : slots_) {
            cudaHostAlloc((void **)&s.h_x, batch * dim * sizeof(float), cudaHostAllocDefault);
            cudaHostAlloc((void **)&s.h_y, batch * sizeof(float), cudaHostAllocDefault);
            cudaMalloc((void **)&s.d_x, batch * dim * sizeof(float));
            cudaMalloc((void **)&s.d_y, batch * sizeof(float));
            cudaEventCreateWithFlags(&s.ready, cudaEventDisableTiming);
            cudaEventCreateWithFlags(&s.done, cudaEventDisableTiming);
        }
        fetch();
    }
    ~Prefetcher()
    {
        cudaStreamSynchronize(copy_);
        for (Slot &s : slots_) {
            cudaFreeHost(s.h_x);
            cudaFreeHost(s.h_y);
            cudaFree(s.d_x);
            cudaFree(s.d_y);
            cudaEventDestroy(s.ready);
            cudaEventDestroy(s.done);
        }
        cudaStreamDestroy(copy_);
    }

    // The batch to work on; starts the copy of the following one
    Slot &next(cudaStream_t compute)
    {
        Slot &now = slots_[head_ ^ 1];
        fetch();
        cudaStreamWaitEvent(compute, now.ready, 0);
        return now;
    }
    void release(Slot &s, cudaStream_t compute) { cudaEventRecord(s.done, compute); }

private:
    void fetch()
    {
        Slot &s = slots_[head_];
        cudaEventSynchronize(s.done);
        memcpy(s.h_x, x_ + (size_t)cursor_ * dim_, batch_ * dim_ * sizeof(float));
        memcpy(s.h_y, y_ + cursor_, batch_ * sizeof(float));
        cudaMemcpyAsync(s.d_x, s.h_x, batch_ * dim_ * sizeof(float), cudaMemcpyHostToDevice, copy_);
        cudaMemcpyAsync(s.d_y, s.h_y, batch_ * sizeof(float), cudaMemcpyHostToDevice, copy_);
        cudaEventRecord(s.ready, copy_);
        cursor_ = (cursor_ + batch_) % rows_;
        head_ ^= 1;
    }

    const float *x_, *y_;
    int rows_, dim_, batch_, cursor_ = 0, head_ = 0;
    cudaStream_t copy_;
    Slot slots_[2];
};
