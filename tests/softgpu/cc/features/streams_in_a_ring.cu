// Streams that wait for events of others, priorities, flags, queries, the per-thread and the legacy stream.
__global__ void
multiply_add(long *p, long factor, long summand)
{
    *p = *p * factor + summand;
}

int
main()
{
    int least = -1, greatest = 1;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (least < greatest)
        return 1;
    long *p = managed(sizeof(*p));
    *p = 1;
    cudaStream_t streams[3];
    cudaEvent_t done[3];
    for (int i = 0; i < 3; ++i) {
        cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking, i == 0 ? greatest : least);
        cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming | cudaEventBlockingSync);
    }
    int priority = 7;
    unsigned flags = 0;
    cudaStreamGetPriority(streams[0], &priority);
    cudaStreamGetFlags(streams[0], &flags);
    if (priority != greatest || flags != cudaStreamNonBlocking)
        return 2;
    for (int round = 0; round < 12; ++round) {
        const int here = round % 3, before = (round + 2) % 3;
        if (round > 0)
            cudaStreamWaitEvent(streams[here], done[before], cudaEventWaitDefault);
        multiply_add<<<1, 1, 0, streams[here]>>>(p, 3, round);
        cudaEventRecord(done[here], streams[here]);
    }
    cudaEventSynchronize(done[2]);
    if (cudaEventQuery(done[2]) != cudaSuccess || cudaStreamQuery(streams[2]) != cudaSuccess)
        return 3;
    multiply_add<<<1, 1, 0, cudaStreamPerThread>>>(p, 1, 1);
    cudaStreamSynchronize(cudaStreamPerThread);
    multiply_add<<<1, 1, 0, cudaStreamLegacy>>>(p, 1, 1);
    cudaStreamSynchronize(cudaStreamLegacy);
    long expected = 1;
    for (int round = 0; round < 12; ++round)
        expected = expected * 3 + round;
    for (int i = 0; i < 3; ++i) {
        cudaEventDestroy(done[i]);
        cudaStreamDestroy(streams[i]);
    }
    return *p == expected + 2 ? 0 : 4;
}
