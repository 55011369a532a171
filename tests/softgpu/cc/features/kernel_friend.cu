// Kernels as friends of a class, declared in it or before, one of them a template.
template <typename T> class Grid;
template <typename T> __global__ void touch(Grid<T> g);
template <typename T> class Grid
{
    T *cells;
    int n;

  public:
    Grid(T *c, int count) : cells(c), n(count)
    {
    }
    friend __global__ void touch<T>(Grid<T> g);
    friend __device__ T *cell(Grid &g, int i)
    {
        return g.cells + i;
    }
    void run();
};
template <typename T>
__global__ void
touch(Grid<T> g)
{
    int i = threadIdx.x;
    if (i < g.n)
        *cell(g, i) += T(i);
}
template <typename T>
void
Grid<T>::run()
{
    touch<T><<<1, 32>>>(*this);
}

int
main()
{
    long *cells = managed(8 * sizeof(long));
    cells[6] = 1;
    Grid<long>(cells, 8).run();
    cudaDeviceSynchronize();
    return cells[6] == 7 ? 0 : 1;
}
