// Control flow: goto, do-while, switch with fall through, ranges over arrays, early return, nested conditions, comma.
__device__ int
collatz(int n)
{
    int steps = 0;
again:
    if (n == 1)
        return steps;
    n = n % 2 ? 3 * n + 1 : n / 2;
    ++steps;
    goto again;
}
__global__ void
k(int *out, int n)
{
    int i = threadIdx.x, s = 0, primes[] = {2, 3, 5, 7};
    if (i >= n)
        return;
    switch (i % 4) {
    case 0:
        s += 1; /* and the next */
    case 1:
        s += 10;
        break;
    case 2: {
        int j = 0;
        do {
            if (j == 3)
                continue;
            s += j;
        } while (++j < 6);
        break;
    }
    default:
        for (const auto p : primes)
            s += p;
    }
    for (int a = 0, b = 10; a < b; ++a, --b)
        s += 100;
    out[i] = s + 1000 * collatz(i + 1);
}
int
main()
{
    int *out = managed(32);
    k<<<1, 8>>>(out, 7);
    cudaDeviceSynchronize();
    return out[0] == 511 && out[1] == 1510 && out[2] == 7512 && out[3] == 2517 && out[7] == 0 ? 0 : 1;
}
