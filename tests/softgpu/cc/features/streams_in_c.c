/* C: streams, events, host functions in order, waits between streams, time between events. */
#include <cuda_runtime_api.h>

static int calls;

static void CUDART_CB
count(void *data)
{
    calls = calls * 10 + *(const int *)data;
}

int
main(void)
{
    static const int one = 1, two = 2, three = 3;
    cudaStream_t a, b;
    cudaEvent_t begin, end;
    float milliseconds = -1;
    if (cudaStreamCreate(&a) != cudaSuccess || cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreate(&begin) != cudaSuccess || cudaEventCreateWithFlags(&end, cudaEventDefault) != cudaSuccess)
        return 1;
    cudaEventRecord(begin, a);
    cudaLaunchHostFunc(a, count, (void *)&one);
    cudaLaunchHostFunc(a, count, (void *)&two);
    cudaEventRecord(end, a);
    cudaStreamWaitEvent(b, end, 0);
    cudaLaunchHostFunc(b, count, (void *)&three);
    if (cudaStreamSynchronize(b) != cudaSuccess || cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess)
        return 2;
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    return calls == 123 && milliseconds >= 0 && cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
