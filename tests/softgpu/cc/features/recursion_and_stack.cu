// Recursive device functions with arrays of their own, mutual recursion, an explicit stack.
__device__ int odd(int n);
__device__ int
even(int n)
{
    return n == 0 ? 1 : odd(n - 1);
}
__device__ int
odd(int n)
{
    return n == 0 ? 0 : even(n - 1);
}
__device__ void
quicksort(int *a, int low, int high)
{
    if (low >= high)
        return;
    int pivot = a[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot)
            ++i;
        while (a[j] > pivot)
            --j;
        if (i <= j) {
            int t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
    }
    quicksort(a, low, j);
    quicksort(a, i, high);
}
__global__ void
sort_rows(int *a, int n)
{
    quicksort(a + threadIdx.x * n, 0, n - 1);
    if (even(n))
        a[threadIdx.x * n] += 100;
}

int
main()
{
    int *a = managed(4 * 20 * 4);
    for (int i = 0; i < 80; ++i)
        a[i] = i * 37 % 80;
    sort_rows<<<1, 4>>>(a, 20);
    cudaDeviceSynchronize();
    for (int i = 2; i < 20; ++i)
        if (a[60 + i] < a[60 + i - 1])
            return 1;
    return a[0] >= 100 ? 0 : 2;
}
