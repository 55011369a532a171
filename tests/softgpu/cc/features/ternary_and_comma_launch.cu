// Launches as expressions: in a conditional operator, behind a comma, as the whole of an if, in a for.
__global__ void
a(int *p)
{
    *p += 1;
}
__global__ void
b(int *p)
{
    *p += 10;
}
int
main()
{
    int *p, n = 0;
    cudaMallocManaged(&p, 4);
    n > 0 ? a<<<1, 1>>>(p) : b<<<1, 1>>>(p);
    ++n, a<<<1, 1>>>(p);
    if (n)
        a<<<1, 1>>>(p);
    for (int i = 0; i < 2; ++i, b<<<1, 1>>>(p))
        ;
    do
        a<<<1, 1>>>(p);
    while (++n < 3);
    (n == 3 ? a : b)<<<1, 1>>>(p);
    [=] { b<<<1, 1>>>(p); }();
    cudaDeviceSynchronize();
    return *p == 10 + 1 + 1 + 20 + 2 + 1 + 10 ? 0 : 1;
}
