// A grid-stride loop as a range: begin and end with an iterator for device code, nested ranges, a step that is known.
class Range
{
    int begin_, end_, step_;

  public:
    class iterator
    {
        int at_, step_;

      public:
        __device__ iterator(int at, int step) : at_(at), step_(step)
        {
        }
        __device__ int operator*() const
        {
            return at_;
        }
        __device__ iterator &operator++()
        {
            at_ += step_;
            return *this;
        }
        __device__ bool operator!=(const iterator &end) const
        {
            return at_ < end.at_;
        }
    };
    __device__ Range(int begin, int end, int step) : begin_(begin), end_(end), step_(step)
    {
    }
    __device__ iterator begin() const
    {
        return {begin_, step_};
    }
    __device__ iterator end() const
    {
        return {end_, step_};
    }
};
__device__ Range
grid_range(int n)
{
    return {static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), n, static_cast<int>(gridDim.x * blockDim.x)};
}
__global__ void
triangles(int *out, int n)
{
    for (int i : grid_range(n)) {
        int sum = 0;
        for (auto j : Range(0, i + 1, 1))
            sum += j;
        out[i] = sum;
    }
}

int
main()
{
    int *out = managed(400);
    triangles<<<2, 8>>>(out, 100);
    cudaDeviceSynchronize();
    return out[0] == 0 && out[10] == 55 && out[99] == 4950 ? 0 : 1;
}
