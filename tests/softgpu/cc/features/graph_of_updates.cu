// A captured step of several kernels with a copy, instantiated, launched again with new parameters.
__global__ void
gradient(const float *w, float *g, float target)
{
    g[threadIdx.x] = w[threadIdx.x] - target;
}
__global__ void
update(float *w, const float *g, float rate)
{
    w[threadIdx.x] -= rate * g[threadIdx.x];
}

int
main()
{
    float *w = managed(32), *g = managed(32), *kept = managed(32);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    gradient<<<1, 8, 0, stream>>>(w, g, 4.0f);
    update<<<1, 8, 0, stream>>>(w, g, 0.5f);
    cudaMemcpyAsync(kept, w, 32, cudaMemcpyDefault, stream);
    cudaStreamEndCapture(stream, &graph);
    if (cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
        return 1;
    for (int i = 0; i < 3; ++i)
        cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
    return kept[7] != 3.5f || w[0] != 3.5f;
}
