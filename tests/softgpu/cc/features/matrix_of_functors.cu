// A class that owns device memory, moves, and launches its own kernels with functors that hold views of it.
#include <utility>
template <class T> class matrix
{
  public:
    struct view {
        T *data;
        int columns;
        __host__ __device__ T &operator()(int i, int j) const
        {
            return data[i * columns + j];
        }
    };
    matrix(int rows, int columns) : rows_(rows), columns_(columns)
    {
        cudaMallocManaged(&data_, sizeof(T) * rows * columns);
    }
    matrix(matrix &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), rows_(other.rows_), columns_(other.columns_)
    {
    }
    ~matrix()
    {
        cudaFree(data_);
    }
    view see() const
    {
        return {data_, columns_};
    }
    template <class F> matrix &&map(F f) &&;
    T *data_ = nullptr;
    int rows_, columns_;
};
template <class V, class F>
__global__ void
map_kernel(V view, int rows, F f)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < rows && j < view.columns)
        view(i, j) = f(i, j, view);
}
template <class T>
template <class F>
matrix<T> &&
matrix<T>::map(F f) &&
{
    const dim3 block(8, 4), grid((columns_ + 7) / 8, (rows_ + 3) / 4);
    map_kernel<<<grid, block>>>(see(), rows_, f);
    return std::move(*this);
}
struct numbered {
    template <class V> __device__ float operator()(int i, int j, const V &) const
    {
        return static_cast<float>(10 * i + j);
    }
};
struct scaled {
    float by;
    template <class V> __device__ float operator()(int i, int j, const V &v) const
    {
        return v(i, j) * by;
    }
};

int
main()
{
    const matrix<float> m = matrix<float>(5, 11).map(numbered()).map(scaled{0.5f});
    cudaDeviceSynchronize();
    return m.see()(4, 10) != 25 || m.see()(0, 1) != 0.5f;
}
