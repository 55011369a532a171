// An object with member functions in constant memory, a pointer to constant memory, copies of symbols in a stream.
struct Camera {
    float position[3];
    float scale;
    __host__ __device__ float project(float v, int axis) const
    {
        return (v - position[axis]) * scale;
    }
};
__constant__ Camera camera;
__constant__ int primes[] = {2, 3, 5, 7, 11};
__device__ const int *
table()
{
    return primes;
}
__global__ void
view(float *out)
{
    const Camera &c = camera;
    out[threadIdx.x] = c.project(10, threadIdx.x) + *(table() + threadIdx.x);
}

int
main()
{
    float *out = managed(12);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    const Camera host = {{1, 2, 3}, 2}, *unused = &host;
    size_t bytes = 0;
    if (cudaGetSymbolSize(&bytes, camera) != cudaSuccess || bytes != sizeof(*unused))
        return 1;
    cudaMemcpyToSymbolAsync(camera, &host, sizeof(host), 0, cudaMemcpyHostToDevice, stream);
    view<<<1, 3, 0, stream>>>(out);
    Camera back;
    cudaMemcpyFromSymbolAsync(&back, camera, sizeof(back), 0, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return out[0] == 20 && out[1] == 19 && out[2] == 19 && back.scale == 2 ? 0 : 2;
}
