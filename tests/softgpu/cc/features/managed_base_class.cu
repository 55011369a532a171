// Objects in managed memory by operator new of a base class; a deep copy, a member kernel's argument by reference.
#include <cstring>
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
class Text : public Managed
{
    char *data_ = nullptr;
    int length_;

  public:
    explicit Text(const char *s) : length_(static_cast<int>(strlen(s)))
    {
        cudaMallocManaged(&data_, length_ + 1);
        memcpy(data_, s, length_ + 1);
    }
    Text(const Text &other) : Text(other.data_)
    {
    }
    ~Text()
    {
        cudaFree(data_);
    }
    __host__ __device__ char &operator[](int i)
    {
        return data_[i];
    }
    __host__ __device__ int length() const
    {
        return length_;
    }
};
__global__ void
upper(Text &text)
{
    const int i = threadIdx.x;
    if (i < text.length() && text[i] >= 'a')
        text[i] -= 'a' - 'A';
}

int
main()
{
    Text *a = new Text("hello"), *b = new Text(*a);
    upper<<<1, 32>>>(*a);
    cudaDeviceSynchronize();
    const bool ok = strcmp(&(*a)[0], "HELLO") == 0 && strcmp(&(*b)[0], "hello") == 0;
    delete a;
    delete b;
    return ok ? 0 : 1;
}
