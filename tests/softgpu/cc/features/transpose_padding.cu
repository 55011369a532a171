// Tiles with padding, rows per thread, macros with arithmetic, const unsigned indices, two kernels by one macro.
#define TILE_DIM   16
#define BLOCK_ROWS 4
#define DEFINE_TRANSPOSE(NAME, PAD)                                                           \
    __global__ void NAME(float *odata, const float *idata, int width, int height)             \
    {                                                                                         \
        __shared__ float tile[TILE_DIM][TILE_DIM + PAD];                                      \
        int x = blockIdx.x * TILE_DIM + threadIdx.x, y = blockIdx.y * TILE_DIM + threadIdx.y; \
        for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)                                        \
            tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];                  \
        __syncthreads();                                                                      \
        x = blockIdx.y * TILE_DIM + threadIdx.x;                                              \
        y = blockIdx.x * TILE_DIM + threadIdx.y;                                              \
        for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)                                        \
            odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];                 \
    }
DEFINE_TRANSPOSE(transpose_plain, 0)
DEFINE_TRANSPOSE(transpose_padded, 1)
int
main()
{
    float *m = managed(3 * 32 * 48 * 4);
    float *in = m, *a = m + 32 * 48, *b = a + 32 * 48;
    for (int i = 0; i < 32 * 48; ++i)
        in[i] = i;
    const dim3 grid(48 / TILE_DIM, 32 / TILE_DIM, 1), block(TILE_DIM, BLOCK_ROWS, 1);
    transpose_plain<<<grid, block>>>(a, in, 48, 32);
    transpose_padded<<<grid, block>>>(b, in, 48, 32);
    cudaDeviceSynchronize();
    for (int r = 0; r < 32; ++r)
        for (int c = 0; c < 48; ++c)
            if (a[c * 32 + r] != in[r * 48 + c] || b[c * 32 + r] != in[r * 48 + c])
                return 1;
    return 0;
}
