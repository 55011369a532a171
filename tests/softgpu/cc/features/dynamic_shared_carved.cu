// One dynamic array cut into pieces of several types; more than 48 KiB after cudaFuncSetAttribute.
struct alignas(16) Params {
    int rows, cols;
};
template <typename T>
__global__ void
carve(T *out, Params p)
{
    extern __shared__ __align__(16) unsigned char smem[];
    T *row = reinterpret_cast<T *>(smem);
    int *index = (int *)(smem + p.cols * sizeof(T));
    bool *flags = (bool *)&index[p.cols];
    for (int c = threadIdx.x; c < p.cols; c += blockDim.x)
        row[c] = T(c), index[c] = p.cols - 1 - c, flags[c] = c % 2 == 0;
    __syncthreads();
    for (int c = threadIdx.x; c < p.cols; c += blockDim.x)
        out[c] = flags[c] ? row[index[c]] : T(-1);
}

int
main()
{
    const Params p{1, 5000};
    const int bytes = p.cols * (sizeof(double) + sizeof(int) + sizeof(bool));
    double *out = managed(p.cols * sizeof(double));
    if (cudaFuncSetAttribute(carve<double>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
        return 1;
    carve<double><<<1, 256, bytes>>>(out, p);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 2;
    return out[10] == 4989 && out[11] == -1 ? 0 : 3;
}
