#ifndef TENSOR_CUH
#define TENSOR_CUH
#include <cuda_runtime.h>
#include <memory>
#include <vector>

// a matrix on the device, shared by copies of the object
class Tensor {
public:
    Tensor() {}
    Tensor(int rows, int cols, float value = 0.f) : rows(rows), cols(cols)
    {
        float *p;
        cudaMalloc(&p, bytes());
        mem = std::shared_ptr<float>(p, [](float *q) { cudaFree(q); });
        std::vector<float> h(size(), value);
        set(h.data());
    }
    float *ptr() const { return mem.get(); }
    int size() const { return rows * cols; }
    size_t bytes() const { return sizeof(float) * rows * cols; }
    void set(const float *h) { cudaMemcpy(ptr(), h, bytes(), cudaMemcpyHostToDevice); }
    void zero() { cudaMemset(ptr(), 0, bytes()); }

    int rows = 0, cols = 0;

private:
    std::shared_ptr<float> mem;
};

struct Variable {
    Tensor value, grad;
    Variable() {}
    Variable(int r, int c, float v = 0.f) : value(r, c, v), grad(r, c) {}
};
#endif
