// cudaMalloc3D, cudaMemset3D, cudaMemcpy3D with a place inside the volume, extents and pitched pointers.
__global__ void
number(cudaPitchedPtr volume, cudaExtent extent)
{
    char *slice = static_cast<char *>(volume.ptr) + blockIdx.z * volume.pitch * extent.height;
    float *row = reinterpret_cast<float *>(slice + blockIdx.y * volume.pitch);
    for (int x = threadIdx.x; x < static_cast<int>(extent.width / sizeof(float)); x += blockDim.x)
        row[x] += blockIdx.z * 100 + blockIdx.y * 10 + x;
}

int
main()
{
    const int nx = 6, ny = 4, nz = 3;
    float host[nz][ny][nx], corner[2][2][2];
    const cudaExtent extent = make_cudaExtent(nx * sizeof(float), ny, nz);
    cudaPitchedPtr volume;
    if (cudaMalloc3D(&volume, extent) != cudaSuccess || volume.xsize != nx * sizeof(float) || volume.ysize != ny)
        return 1;
    cudaMemset3D(volume, 0, extent);
    number<<<dim3(1, ny, nz), 4>>>(volume, extent);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = volume;
    copy.dstPtr = make_cudaPitchedPtr(host, nx * sizeof(float), nx, ny);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    if (cudaMemcpy3D(&copy) != cudaSuccess)
        return 2;
    copy.srcPos = make_cudaPos(4 * sizeof(float), 1, 1);
    copy.dstPtr = make_cudaPitchedPtr(corner, 2 * sizeof(float), 2, 2);
    copy.extent = make_cudaExtent(2 * sizeof(float), 2, 2);
    if (cudaMemcpy3DAsync(&copy, cudaStreamPerThread) != cudaSuccess ||
        cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess)
        return 3;
    cudaFree(volume.ptr);
    return host[2][3][5] == 235 && host[0][0][1] == 1 && corner[0][0][0] == 114 && corner[1][1][1] == 225 ? 0 : 4;
}
