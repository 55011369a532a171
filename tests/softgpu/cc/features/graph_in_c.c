/* C: a stream is captured into a graph of a memset, copies and a host function; it is launched twice. */
#include <cuda_runtime.h>

static void CUDART_CB
add_all(void *data)
{
    int *numbers = data;
    for (int i = 0; i < 4; ++i)
        numbers[4] += numbers[i];
}

int
main(void)
{
    int *numbers, *device;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    size_t nodes = 0;
    cudaMallocHost((void **)&numbers, 5 * sizeof(int));
    cudaMalloc((void **)&device, 4 * sizeof(int));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    numbers[4] = 0;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess)
        return 1;
    cudaMemsetAsync(device, 1, 4 * sizeof(int), stream);
    cudaMemcpyAsync(numbers, device, 4 * sizeof(int), cudaMemcpyDeviceToHost, stream);
    cudaLaunchHostFunc(stream, add_all, numbers);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || numbers[4] != 0)
        return 2;
    if (cudaGraphGetNodes(graph, NULL, &nodes) != cudaSuccess || nodes != 3 ||
        cudaGraphInstantiateWithFlags(&exec, graph, 0) != cudaSuccess)
        return 3;
    cudaGraphLaunch(exec, stream);
    cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    const int sum = numbers[4];
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(device);
    cudaFreeHost(numbers);
    return sum == 2 * 4 * 0x01010101 ? 0 : 4;
}
