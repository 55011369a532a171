// Rows with a pitch: cudaMallocPitch, copies of a window between pitches, cudaMemset2DAsync, row pointers in a kernel.
__global__ void
add_row_number(char *base, size_t pitch, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int *row = (int *)(base + y * pitch);
    row[x] += y * 100 + x;
}

int
main()
{
    constexpr int kWidth = 37, kHeight = 5;
    int host[kHeight][kWidth] = {}, window[2][3];
    char *a, *b;
    size_t pitch_a = 0, pitch_b = 0;
    cudaMallocPitch(&a, &pitch_a, kWidth * sizeof(int), kHeight);
    cudaMallocPitch((void **)&b, &pitch_b, 64 * sizeof(int), kHeight);
    if (pitch_a < kWidth * sizeof(int) || pitch_a % 32 != 0)
        return 1;
    cudaMemset2DAsync(a, pitch_a, 0, kWidth * sizeof(int), kHeight, nullptr);
    add_row_number<<<dim3(5, 2), dim3(8, 4)>>>(a, pitch_a, kWidth, kHeight);
    cudaMemcpy2DAsync(b, pitch_b, a, pitch_a, kWidth * sizeof(int), kHeight, cudaMemcpyDeviceToDevice, nullptr);
    cudaMemcpy2D(host, sizeof(host[0]), b, pitch_b, sizeof(host[0]), kHeight, cudaMemcpyDeviceToHost);
    cudaMemcpy2D(window, sizeof(window[0]), b + 3 * pitch_b + 10 * sizeof(int), pitch_b, sizeof(window[0]), 2,
                 cudaMemcpyDefault);
    cudaFree(a);
    cudaFree(b);
    return host[4][36] == 436 && host[0][7] == 7 && window[0][0] == 310 && window[1][2] == 412 ? 0 : 2;
}
