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
use_arrays()
{
    volume[1][threadIdx.x][2] = second_row(matrix);
    square[1][1] = 2;
    row[threadIdx.x] = 7;
}
__managed__ float matrix[3][4] = {{1, 2}, {3}};
__managed__ double volume[2][3][4], square[2][2];
__managed__ int row[5];

FEATURE(managed_arrays_are_declared_before_they_are_defined)
{
    float(*rows)[4] = matrix;
    rows[1][0] += 1;
    use_arrays<<<1, 3>>>();
    EXPECT(done() && volume[1][2][2] == 4 && square[1][1] == 2 && row[2] == 7 && row[3] == 0 && rows[0][1] == 2);
}
