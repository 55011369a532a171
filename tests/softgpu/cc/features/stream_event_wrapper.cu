// Streams and events in classes, time between events, launches with four arguments.
class Stream
{
    cudaStream_t s;

  public:
    Stream()
    {
        cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    }
    ~Stream()
    {
        cudaStreamDestroy(s);
    }
    operator cudaStream_t() const
    {
        return s;
    }
};
__global__ void
set(int *p, int v)
{
    extern __shared__ int scratch[];
    scratch[threadIdx.x] = v;
    p[threadIdx.x] = scratch[threadIdx.x];
}

int
main()
{
    float ms = -1;
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    int *p = managed(64 * sizeof(int));
    Stream a, b;
    cudaEventRecord(start, a);
    set<<<1, 64, 64 * sizeof(int), a>>>(p, 5);
    cudaEventRecord(stop, a);
    cudaStreamWaitEvent(b, stop, 0);
    set<<<1, 32, 32 * sizeof(int), b>>>(p, 6);
    cudaStreamSynchronize(b);
    cudaEventElapsedTime(&ms, start, stop);
    return p[0] == 6 && p[63] == 5 && ms >= 0 ? 0 : 1;
}
