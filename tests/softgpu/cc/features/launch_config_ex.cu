// cudaLaunchKernelEx with a configuration: template kernels, conversions of arguments, an attribute, its C form.
template <typename T>
__global__ void
axpy(T *y, const T *x, T a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

int
main()
{
    int n = 100;
    float *x = managed(400);
    float *y = managed(400);
    for (int i = 0; i < n; ++i)
        x[i] = i, y[i] = 1;
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4);
    config.blockDim = 32;
    config.stream = stream;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributePriority;
    attribute[0].val.priority = 0;
    config.attrs = attribute;
    config.numAttrs = 1;
    if (cudaLaunchKernelEx(&config, axpy<float>, y, x, 2, n) != cudaSuccess)
        return 1;
    config.numAttrs = 0;
    const float *from = x;
    float a = 3;
    void *args[] = {&y, &from, &a, &n};
    if (cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(&axpy<float>), args) != cudaSuccess)
        return 2;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return y[0] == 1 && y[99] == 496 ? 0 : 3;
}
