#include "blob.h"

#include <cstdio>
#include <cstdlib>

static void must(cudaError_t e)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "blob: %s\n", cudaGetErrorString(e));
        std::abort();
    }
}

Blob::Blob(int n, int c, int h, int w) : num(n), channels(c), height(h), width(w)
{
    must(cudaMalloc(&data_, count() * sizeof(float)));
    must(cudaMalloc(&diff_, count() * sizeof(float)));
    must(cudaMemset(data_, 0, count() * sizeof(float)));
    must(cudaMemset(diff_, 0, count() * sizeof(float)));
}

Blob::~Blob()
{
    cudaFree(data_);
    cudaFree(diff_);
}

void Blob::fill(const std::vector<float> &host)
{
    must(cudaMemcpy(data_, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
}
