// Objects with virtual functions, made, called and deleted by kernels.
struct shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~shape()
    {
    }
};
struct square : shape {
    float side;
    __device__ explicit square(float s) : side(s)
    {
    }
    __device__ float area() const override
    {
        return side * side;
    }
};
struct disc : shape {
    float radius;
    __device__ explicit disc(float r) : radius(r)
    {
    }
    __device__ float area() const final
    {
        return 3 * radius * radius;
    }
};
__global__ void
make(shape **all)
{
    int i = threadIdx.x;
    if (i % 2)
        all[i] = new square(i);
    else
        all[i] = new disc(i);
}
__global__ void
measure(shape **all, float *out)
{
    out[threadIdx.x] = all[threadIdx.x]->area();
}
__global__ void
destroy(shape **all)
{
    delete all[threadIdx.x];
}

int
main()
{
    shape **all = managed(8 * sizeof(shape *));
    float *out = managed(32), sum = 0;
    make<<<1, 8>>>(all), measure<<<1, 8>>>(all, out), destroy<<<1, 8>>>(all);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    for (int i = 0; i < 8; ++i)
        sum += out[i];
    return sum != 1 + 9 + 25 + 49 + 3 * (4 + 16 + 36);
}
