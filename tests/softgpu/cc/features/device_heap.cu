// Memory from the heap inside of kernels: malloc and free, new and delete, placement new in shared memory, memcpy,
// memset.
#include <new>
struct Node {
    int value;
    Node *next;
    __device__ Node(int v, Node *n) : value(v), next(n)
    {
    }
};
struct Counter {
    int n;
    int *ends;
    __device__ Counter(int start, int *where) : n(start), ends(where)
    {
    }
    __device__ ~Counter()
    {
        --*ends;
    }
};
__global__ void
lists(int *out)
{
    Node *head = nullptr;
    for (int i = 0; i <= static_cast<int>(threadIdx.x); ++i)
        head = new Node(i, head);
    int sum = 0;
    while (head != nullptr) {
        Node *next = head->next;
        sum += head->value;
        delete head;
        head = next;
    }
    int *copy = static_cast<int *>(malloc(8 * sizeof(int)));
    memset(copy, 0, 8 * sizeof(int));
    memcpy(copy + 2, &sum, sizeof(sum));
    out[threadIdx.x] = copy[1] + copy[2];
    free(copy);
}
__global__ void
placed(int *out)
{
    __shared__ alignas(Counter) unsigned char room[sizeof(Counter)];
    Counter *counter = reinterpret_cast<Counter *>(room);
    if (threadIdx.x == 0)
        new (room) Counter(100, out);
    __syncthreads();
    atomicAdd(&counter->n, 1);
    __syncthreads();
    out[threadIdx.x] = counter->n;
    __syncthreads();
    if (threadIdx.x == 0)
        counter->~Counter();
}

int
main()
{
    int *a = managed(64);
    int *b = managed(64);
    lists<<<1, 16>>>(a);
    placed<<<1, 16>>>(b);
    cudaDeviceSynchronize();
    return a[0] == 0 && a[15] == 120 && b[15] == 116 && b[0] == 115 ? 0 : 1;
}
