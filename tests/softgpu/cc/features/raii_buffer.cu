// A move-only owner of device memory, filled from a std::vector.
#include <stdexcept>
#include <utility>
#include <vector>
template <typename T> class DeviceArray
{
  public:
    explicit DeviceArray(size_t n) : size_(n)
    {
        if (cudaMalloc(reinterpret_cast<void **>(&data_), n * sizeof(T)) != cudaSuccess)
            throw std::runtime_error("no memory");
    }
    DeviceArray(const std::vector<T> &v) : DeviceArray(v.size())
    {
        cudaMemcpy(data_, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    }
    DeviceArray(DeviceArray &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0))
    {
    }
    DeviceArray(const DeviceArray &) = delete;
    ~DeviceArray()
    {
        cudaFree(data_);
    }
    T *get() const
    {
        return data_;
    }
    std::vector<T> host() const
    {
        std::vector<T> v(size_);
        cudaMemcpy(v.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost);
        return v;
    }

  private:
    T *data_ = nullptr;
    size_t size_ = 0;
};
template <typename T>
__global__ void
add_one(T *p, size_t n)
{
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        p[i] += T(1);
}

int
main()
{
    DeviceArray<double> a(std::vector<double>{1, 2, 3}), b(std::move(a));
    add_one<<<1, 2>>>(b.get(), size_t(3));
    return a.get() == nullptr && b.host() == std::vector<double>{2, 3, 4} ? 0 : 1;
}
