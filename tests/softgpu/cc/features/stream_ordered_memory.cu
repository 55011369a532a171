// cudaMallocAsync, host functions, pinned memory, 2D copies, cudaMemset2D, a default stream per launch.
#include <cstring>
__global__ void
scale(float *p, size_t pitch, int width, int height)
{
    for (int y = threadIdx.y; y < height; y += blockDim.y) {
        float *row = (float *)((char *)p + y * pitch);
        for (int x = threadIdx.x; x < width; x += blockDim.x)
            row[x] *= 2;
    }
}
int
main()
{
    float *host, *d, *p;
    size_t pitch;
    int called = 0;
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaHostAlloc((void **)&host, 30 * 4, cudaHostAllocDefault);
    for (int i = 0; i < 30; ++i)
        host[i] = i;
    cudaMallocPitch((void **)&p, &pitch, 6 * 4, 5);
    cudaMemcpy2DAsync(p, pitch, host, 24, 24, 5, cudaMemcpyHostToDevice, s);
    scale<<<1, dim3(4, 2), 0, s>>>(p, pitch, 6, 5);
    cudaMemcpy2DAsync(host, 24, p, pitch, 24, 5, cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(
        s, [](void *flag) { *(int *)flag = 1; }, &called);
    cudaMallocAsync((void **)&d, 1024, s);
    cudaMemsetAsync(d, 0, 1024, s);
    cudaFreeAsync(d, s);
    cudaStreamSynchronize(s);
    return called == 1 && host[29] == 58 && pitch >= 24 ? 0 : 1;
}
