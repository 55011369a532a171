// A captured stream of kernels as a graph that is launched several times; a macro for the body.
__global__ void
add(float *x, float v)
{
    x[threadIdx.x] += v;
}
int
main()
{
    float *x;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaMalloc(&x, 128);
    cudaMemset(x, 0, 128);
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int i = 1; i <= 3; ++i)
        add<<<1, 32, 0, stream>>>(x, (float)i);
    cudaStreamEndCapture(stream, &graph);
    if (cudaGraphInstantiate(&exec, graph, NULL, NULL, 0) != cudaSuccess)
        return 1;
    for (int i = 0; i < 5; ++i)
        cudaGraphLaunch(exec, stream);
    float host[32];
    cudaMemcpyAsync(host, x, 128, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    return host[31] == 30 ? 0 : 2;
}
