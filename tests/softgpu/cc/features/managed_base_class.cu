// Objects in managed memory by operator new of a base class; a kernel's argument by reference.
#include <new>
class Managed
{
  public:
    void *operator new(size_t bytes)
    {
        void *p = nullptr;
        if (cudaMallocManaged(&p, bytes) != cudaSuccess)
            throw std::bad_alloc();
        return p;
    }
    void operator delete(void *p)
    {
        cudaDeviceSynchronize();
        cudaFree(p);
    }
};
class Numbers : public Managed
{
    int numbers_[4] = {1, 2, 3, 4};

  public:
    __host__ __device__ int &operator[](int i)
    {
        return numbers_[i];
    }
};
__global__ void
twice(Numbers &numbers)
{
    numbers[threadIdx.x] *= 2;
}

int
main()
{
    Numbers *a = new Numbers, *b = new Numbers(*a);
    twice<<<1, 4>>>(*a);
    cudaDeviceSynchronize();
    const bool ok = (*a)[3] == 8 && (*b)[3] == 4;
    delete a;
    delete b;
    return ok ? 0 : 1;
}
