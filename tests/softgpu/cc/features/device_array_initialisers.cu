// Device arrays with initialisers: nested braces, strings, designated by position, enumerators, addresses, omitted
// sizes.
enum Level { LOW = 1, HIGH = 10 };
struct Stage {
    const char *name;
    int width;
    Level level;
};
__device__ int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ const Stage stages[] = {{"load", 4, LOW}, {"compute", 8, HIGH}, {"store"}};
__device__ char text[] = "abc";
__device__ double scales[4] = {0.5, -1e3, 1 / 4.0};
__device__ int *corner = &matrix[1][2];
__device__ float3 origin = {1, 2, 3};
__device__ bool flags[2] = {true};
__global__ void
read(double *out)
{
    out[0] = matrix[1][0] + *corner;
    out[1] = stages[1].width + stages[1].level + stages[2].width + stages[1].name[0];
    out[2] = sizeof(stages) / sizeof(stages[0]) + sizeof(text);
    out[3] = scales[0] + scales[1] + scales[2] + scales[3];
    out[4] = origin.x + origin.y + origin.z + flags[0] + flags[1];
    matrix[0][0] += 1;
}

int
main()
{
    double *out = managed(40);
    read<<<1, 1>>>(out);
    int first[3];
    cudaMemcpyFromSymbol(first, matrix, sizeof(first));
    if (out[0] != 10 || out[1] != 18 + 'c' || out[2] != 7)
        return 1;
    return out[3] == 0.5 - 1000 + 0.25 && out[4] == 7 && first[0] == 2 && first[2] == 3 ? 0 : 2;
}
