// Capture over two streams that fork and join by events; the graph is updated from a second capture.
__global__ void
set(float *p, float v)
{
    p[threadIdx.x] = v;
}
__global__ void
sum(const float *a, const float *b, float *out)
{
    out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}
struct Buffers {
    float *a, *b, *out;
};
static cudaGraph_t
capture(cudaStream_t s, cudaStream_t side, const Buffers &m, float v)
{
    cudaEvent_t fork, join;
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(fork, s);
    cudaStreamWaitEvent(side, fork, 0);
    set<<<1, 16, 0, s>>>(m.a, v);
    set<<<1, 16, 0, side>>>(m.b, 2 * v);
    cudaEventRecord(join, side);
    cudaStreamWaitEvent(s, join);
    sum<<<1, 16, 0, s>>>(m.a, m.b, m.out);
    cudaStreamEndCapture(s, &graph);
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    return graph;
}

int
main()
{
    Buffers m;
    cudaMallocManaged(&m.a, 64);
    cudaMallocManaged(&m.b, 64);
    cudaMallocManaged(&m.out, 64);
    cudaStream_t s, side;
    cudaStreamCreate(&s);
    cudaStreamCreate(&side);
    cudaGraph_t one = capture(s, side, m, 1), two = capture(s, side, m, 5);
    cudaGraphExec_t exec;
    if (cudaGraphInstantiateWithFlags(&exec, one, 0) != cudaSuccess)
        return 1;
    cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    const bool ok = m.out[15] == 3;
    cudaGraphExecUpdateResultInfo info;
    if (cudaGraphExecUpdate(exec, two, &info) != cudaSuccess)
        return 2;
    cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    cudaGraphExecDestroy(exec);
    return ok && m.out[0] == 15 ? 0 : 3;
}
