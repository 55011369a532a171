// flags: -rdc=true
// Managed arrays of one to three dimensions, declared extern before they are defined.
extern __managed__ float matrix[3][4];
extern __device__ __managed__ double volume[][3][4], square[2][2];
extern __managed__ int row[5];
__device__ float
second_row(float (*rows)[4])
{
    return rows[1][0];
}
__global__ void
k()
{
    volume[1][threadIdx.x][2] = second_row(matrix);
    square[1][1] = 2;
    row[threadIdx.x] = 7;
}
__managed__ float matrix[3][4] = {{1, 2}, {3}};
__managed__ double volume[2][3][4], square[2][2];
__managed__ int row[5];

int
main()
{
    float(*rows)[4] = matrix;
    rows[1][0] += 1;
    k<<<1, 3>>>();
    cudaDeviceSynchronize();
    return volume[1][2][2] != 4 || square[1][1] != 2 || row[2] != 7 || row[3] != 0 || rows[0][1] != 2;
}
