// std::unique_ptr with a deleter of device memory.
#include <memory>
struct CudaFree {
    void operator()(void *p) const
    {
        cudaFree(p);
    }
};
template <class T> using cuda_ptr = std::unique_ptr<T[], CudaFree>;
template <class T>
cuda_ptr<T>
make_cuda(size_t n)
{
    T *p = nullptr;
    cudaMallocManaged(&p, n * sizeof(T));
    return cuda_ptr<T>(p);
}
__global__ void
iota(int *p)
{
    p[threadIdx.x] = threadIdx.x;
}

int
main()
{
    auto p = make_cuda<int>(33);
    iota<<<1, 33>>>(p.get());
    cudaDeviceSynchronize();
    return p[32] == 32 ? 0 : 1;
}
