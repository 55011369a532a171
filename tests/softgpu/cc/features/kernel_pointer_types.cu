// Kernels by pointer: typedef, using, arrays, members, parameters of functions and templates.
typedef void (*kernel_t)(float *, int);
using kernel_u = void (*)(float *, int);
__global__ void
one(float *p, int n)
{
    p[0] += n;
}
template <int K>
__global__ void
times(float *p, int n)
{
    p[0] += K * n;
}
struct Stage {
    kernel_t kernel;
    int n;
};
void
run(kernel_u kernel, float *p, int n)
{
    kernel<<<1, 1>>>(p, n);
}
template <void (*Kernel)(float *, int)>
void
run_static(float *p)
{
    Kernel<<<1, 1>>>(p, 1);
}

int
main()
{
    float *p = managed(4);
    kernel_t table[] = {one, times<10>, &times<100>};
    Stage stages[] = {{one, 1}, {times<1000>, 2}};
    for (auto k : table)
        (*k)<<<1, 1>>>(p, 1);
    for (const auto &s : stages)
        s.kernel<<<1, 1>>>(p, s.n);
    run(table[1], p, 3);
    run_static<times<7>>(p);
    cudaDeviceSynchronize();
    return *p == 111 + 1 + 2000 + 30 + 7 ? 0 : 1;
}
