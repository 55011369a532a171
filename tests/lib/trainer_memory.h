/*
 * trainer_memory.h - memory, streams and events of trainers that call the runtime, and the file that their parameters
 * go to. For the trainers of all tests; includes nothing of the product.
 */
#ifndef DDPRUN_TESTS_TRAINER_MEMORY_H
#define DDPRUN_TESTS_TRAINER_MEMORY_H

#include "trainer.h"
#include "trainer_draws.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

/* Zeros; they are there when it returns: no stream has to follow the default stream. */
static inline float *
device_floats(size_t count)
{
    float *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(float)));
    CHECK(cudaMemset(memory, 0, count * sizeof(float)));
    CHECK(cudaStreamSynchronize(0));
    return memory;
}

/* The same with the host's values. */
template <typename T>
static inline T *
device_copy(const T *from, size_t count)
{
    T *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemcpy(memory, from, count * sizeof(T), cudaMemcpyHostToDevice));
    CHECK(cudaStreamSynchronize(0)); /* a copy from pageable memory may return before it is done */
    return memory;
}

/* Memory of the device with the next random numbers, of this spread around zero. */
static inline float *
device_drawn(int count, float spread)
{
    std::vector<float> values((size_t)count);
    for (float &value : values)
        value = spread * (random_number() - 0.5f);
    return device_copy(values.data(), values.size());
}

/* One that does not follow the default stream. */
static inline cudaStream_t
stream_create(void)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline cudaEvent_t
event_create(void)
{
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* What `first` has got so far comes before what `second` gets from now on. */
static inline void
stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
}

/* What `body` enqueues on the stream, as a graph. */
static inline cudaGraph_t
graph_capture(cudaStream_t stream, cudaStreamCaptureMode kind, void (*body)(void))
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, kind));
    body();
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

/* The same, for launches. */
static inline cudaGraphExec_t
graph_make(cudaStream_t stream, void (*body)(void))
{
    cudaGraphExec_t made;
    cudaGraph_t graph = graph_capture(stream, cudaStreamCaptureModeGlobal, body);
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return made;
}

#endif
