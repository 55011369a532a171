// A graph of nodes: a memset, two kernels, a copy, dependencies, a parameter that is changed after instantiation.
__global__ void
add(int *p, int v)
{
    p[threadIdx.x] += v;
}

int
main()
{
    int *p, host[8], v = 3, w = 10;
    cudaMalloc(&p, sizeof(host));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t fill, first, second, copy;
    cudaGraphCreate(&graph, 0);
    cudaMemsetParams set = {};
    set.dst = p, set.value = 0, set.elementSize = 4, set.width = 8, set.height = 1;
    cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &set);
    void *args[] = {&p, &v}, *other[] = {&p, &w};
    cudaKernelNodeParams node = {};
    node.func = reinterpret_cast<void *>(add);
    node.gridDim = dim3(1), node.blockDim = dim3(8), node.kernelParams = args;
    cudaGraphAddKernelNode(&first, graph, &fill, 1, &node);
    node.kernelParams = other;
    cudaGraphAddKernelNode(&second, graph, &first, 1, &node);
    cudaGraphAddMemcpyNode1D(&copy, graph, &second, 1, host, p, sizeof(host), cudaMemcpyDeviceToHost);
    size_t count = 0;
    if (cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess || count != 4)
        return 1;
    if (cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
        return 2;
    cudaGraphLaunch(exec, 0);
    cudaStreamSynchronize(0);
    const bool ok = host[0] == 13 && host[7] == 13;
    w = 20;
    cudaGraphExecKernelNodeSetParams(exec, second, &node);
    cudaGraphLaunch(exec, 0);
    cudaStreamSynchronize(0);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaFree(p);
    return ok && host[3] == 23 ? 0 : 3;
}
