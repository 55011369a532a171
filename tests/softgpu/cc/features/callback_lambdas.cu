// Host functions and callbacks as lambdas without captures, with an object behind the pointer, in stream order.
#include <vector>
struct Log {
    std::vector<int> seen;
    const int *value;
    cudaError_t status = cudaErrorUnknown;
};
__global__ void
increment(int *p)
{
    ++*p;
}

int
main()
{
    int *p = managed(4);
    *p = 0;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    Log log;
    log.value = p;
    const cudaHostFn_t note = [](void *data) {
        Log *l = static_cast<Log *>(data);
        l->seen.push_back(*l->value);
    };
    for (int i = 0; i < 3; ++i) {
        increment<<<1, 1, 0, stream>>>(p);
        cudaLaunchHostFunc(stream, note, &log);
    }
    cudaStreamAddCallback(
        stream,
        [](cudaStream_t, cudaError_t status, void *data) {
            Log *l = static_cast<Log *>(data);
            l->status = status;
            l->seen.push_back(-1);
        },
        &log, 0);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return log.seen == std::vector<int>{1, 2, 3, -1} && log.status == cudaSuccess ? 0 : 1;
}
