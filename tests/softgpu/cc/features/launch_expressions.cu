// Launch configurations as expressions: calls, casts, conditions, shifts, commas in brackets and template arguments.
#include <algorithm>
#include <utility>
template <int A, int B> struct Shape {
    static constexpr int value = A * B;
};
template <class P>
__global__ void
k(int *p, P)
{
    atomicAdd(p, 1);
}
template <int X, int Y>
int
pick()
{
    return X > Y ? X : Y;
}

int
main()
{
    int *p, n = 100, sizes[] = {3, 4};
    bool big = n > 50;
    cudaStream_t stream = 0;
    cudaMallocManaged(&p, 4);
    k<<<(n + 31) / 32, 32>>>(p, 1);
    k<<<std::min(n, 2), std::max<int>(1, 4), 0>>>(p, 1);
    k<std::pair<int, Shape<1, 2>>><<<Shape<2, 3>::value, sizes[1], n / 4, stream>>>(p, {});
    k<<<big ? 1 : 2, dim3{2, 2}, big * 16, 0>>>(p, 'c');
    k<<<pick<1, 2>(), (unsigned)sizes[0]>>>(p, 2.0);
    k<<<1 << 2, n & 7>>>(p, 1);
    if (n > 1)
        k<<<1, 1>>>(p, 1);
    else
        k<<<2, 1>>>(p, 1);
    for (int i = 0; i < 3; i++)
        k<<<1, i + 1>>>(p, i);
    cudaDeviceSynchronize();
    return *p == 128 + 8 + 24 + 4 + 6 + 16 + 1 + 6 ? 0 : *p;
}
