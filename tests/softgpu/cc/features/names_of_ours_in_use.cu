// Names that a compiler driver might use itself: locals, parameters, a type, a macro.
#define turn(x) ((x) + 1)
struct stub {
    int args;
};
__global__ void
name(int launch, stub image, int *grid, const int params, int frame, int shared, int thread, int self)
{
    int block = turn(launch), where = image.args, numbers = params, layout = frame, mode = shared;
    grid[threadIdx.x] = block + where + numbers + layout + mode + thread + self;
}

int
main()
{
    int *grid = managed(16);
    name<<<1, 2>>>(1, {2}, grid, 3, 4, 5, 6, 7);
    cudaDeviceSynchronize();
    return grid[1] == 29 ? 0 : 1;
}
