// A header of kernels, included twice, with what it defines used from both places.
#include "guarded_header.cuh"
static void
fill_floats(float *p)
{
    fill_from_header(p, 0.5f, 8);
}
#include "guarded_header.cuh"

int
main()
{
    float *p = managed(32);
    int *q = managed(32);
    fill_floats(p);
    header_fill<int><<<1, 8>>>(q, 1);
    cudaDeviceSynchronize();
    int counter = 0;
    cudaMemcpyFromSymbol(&counter, header_counter, sizeof(counter));
    return p[7] == 15.5f && q[0] == 16 && counter == 15 ? 0 : 1;
}
