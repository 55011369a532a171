// Arrays in parameters: structs with arrays, pointers to rows, references to arrays in templates, arrays of structs by
// value.
template <typename T, int N> struct Array {
    T v[N];
    __host__ __device__ T &operator[](int i)
    {
        return v[i];
    }
    __host__ __device__ const T &operator[](int i) const
    {
        return v[i];
    }
};
struct TensorList {
    float *data[4];
    int sizes[4];
    Array<Array<int, 2>, 3> shape;
};
template <int N>
__device__ float
sum_of(const float (&values)[N])
{
    float s = 0;
    for (float v : values)
        s += v;
    return s;
}
__global__ void
fill(TensorList list)
{
    const int which = blockIdx.x;
    for (int i = threadIdx.x; i < list.sizes[which]; i += blockDim.x)
        list.data[which][i] = which * 10 + list.shape[which % 3][i % 2];
}
__global__ void
rows(float (*matrix)[4], const Array<float, 4> add, float *sums)
{
    float local[4];
    for (int i = 0; i < 4; ++i)
        local[i] = matrix[threadIdx.x][i] += add[i];
    sums[threadIdx.x] = sum_of(local);
}

int
main()
{
    TensorList list = {};
    for (int i = 0; i < 4; ++i) {
        cudaMallocManaged(&list.data[i], 64);
        list.sizes[i] = 4 * (i + 1);
    }
    for (int i = 0; i < 3; ++i)
        list.shape[i] = {{i, i + 1}};
    fill<<<4, 8>>>(list);
    float *sums = managed(16);
    rows<<<1, 4>>>(reinterpret_cast<float(*)[4]>(list.data[3]), {{1, 2, 3, 4}}, sums);
    cudaDeviceSynchronize();
    return list.data[2][11] == 23 && list.data[3][0] == 31 && sums[0] == 4 * 30 + 2 + 10 ? 0 : 1;
}
