/*
 * test_order.c - what may run before what, one rule of streams, events and the default streams after the other; random
 * programs against a model of all of them are in test_model.c. Run with and without SOFTGPU_CHAOS.
 *
 * Never too early: a kernel that must come later has not run while the kernel before it waits at a gate.
 *
 * Never needlessly late: work that CUDA allows to overlap does: a kernel that waits for another stream's kernel ends.
 */
#include "kernels.h"

#include "tests/lib/test.h"

/* ---- what may overlap, does ---- */

/* A kernel of `first` waits for one of `second` that is submitted later. */
static void
check_overlap(CUstream first, CUstream second)
{
    static atomic_int open;
    static struct span span;
    CUfunction gate = load_function(&gate_image), mark = load_function(&span_image);
    atomic_store(&open, 0);
    atomic_store(&span.end, 0);
    launch_one(gate, first, &open);
    launch_one(mark, second, &span);
    OK(cuStreamSynchronize(second));
    ck_assert_uint_ne(atomic_load(&span.end), 0);
    ck_assert_int_eq(cuStreamQuery(first), CUDA_ERROR_NOT_READY);
    atomic_store(&open, 1);
    OK(cuCtxSynchronize());
    ck_assert_int_eq(atomic_load(&gate_gave_up), 0);
}

TEST_GROUP(rules, .timeout_s = 100, .setup = use_device);

TEST(streams_run_at_the_same_time)
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_stream = new_stream(CU_STREAM_NON_BLOCKING);
    check_overlap(blocking, new_stream(CU_STREAM_DEFAULT));
    check_overlap(blocking, free_stream);
    check_overlap(CU_STREAM_LEGACY, free_stream);
    check_overlap(CU_STREAM_PER_THREAD, blocking);
    check_overlap(free_stream, CU_STREAM_LEGACY); /* a non-blocking stream takes no part in the barrier */
}

/* ---- single rules, each by a kernel that cannot have run yet ---- */

static atomic_int gate_open;
static struct span late;

static void
close_gate(CUstream stream)
{
    atomic_store(&gate_open, 0);
    atomic_store(&late.end, 0);
    launch_one(load_function(&gate_image), stream, &gate_open);
}

static void
open_gate(void)
{
    ck_assert_uint_eq(atomic_load(&late.end), 0);
    atomic_store(&gate_open, 1);
    OK(cuCtxSynchronize());
    ck_assert_uint_ne(atomic_load(&late.end), 0);
    ck_assert_int_eq(atomic_load(&gate_gave_up), 0); /* nothing else has opened it */
}

TEST(null_stream_is_the_threads_own_for_per_thread_callers)
{
    CUfunction span = load_function(&span_image);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                       void **, void **);
    void *found;
    OK(cuGetProcAddress("cuLaunchKernel", &found, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    memcpy(&launch, &found, sizeof launch);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    static struct span other;
    struct span *pointer = &other;
    void *args[] = {&pointer};
    atomic_store(&other.end, 0);
    close_gate(blocking);
    OK(launch(span, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD)); /* not after the blocking stream */
    ck_assert_uint_ne(atomic_load(&other.end), 0);
    launch_one(span, NULL, &late); /* the legacy one is */
    open_gate();
}

/* In other modes a short copy runs at once, if its stream has no work. */
TEST(chaos_delays_short_copies_too)
{
    CUstream writer = new_stream(CU_STREAM_NON_BLOCKING), reader = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr value;
    unsigned late_copies = 0;
    if (getenv("SOFTGPU_CHAOS") == NULL)
        return;
    OK(cuMemAlloc(&value, sizeof(int)));
    for (int i = 1; i <= 200; ++i) {
        int seen;
        OK(cuMemcpyHtoDAsync(value, &i, sizeof i, writer));
        OK(cuMemcpyDtoHAsync(&seen, value, sizeof seen, reader)); /* waits for its own stream alone */
        late_copies += seen != i;
        OK(cuCtxSynchronize());
    }
    ck_assert_uint_ne(late_copies, 0);
    OK(cuMemFree(value));
}

TEST(a_wait_takes_the_record_of_its_time)
{
    CUfunction span = load_function(&span_image);
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    /* Never recorded: over, and no wait. */
    OK(cuEventQuery(event));
    OK(cuEventSynchronize(event));
    OK(cuStreamWaitEvent(second, event, 0));

    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
    close_gate(first);
    OK(cuEventRecord(event, first)); /* the wait above does not move with it */
    static struct span early;
    launch_one(span, second, &early);
    OK(cuStreamSynchronize(second));
    ck_assert_uint_ne(atomic_load(&early.end), 0);

    ck_assert_int_eq(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    OK(cuStreamWaitEvent(second, event, 0));
    OK(cuEventDestroy(event)); /* the wait stays */
    launch_one(span, second, &late);
    open_gate();
}

TEST(elapsed_time_needs_two_finished_timed_records)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent start, end, untimed;
    float milliseconds = -1;
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    ck_assert_int_eq(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(start, stream));
    OK(cuEventRecord(untimed, stream));
    close_gate(stream);
    OK(cuEventRecord(end, stream));
    ck_assert_int_eq(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
    atomic_store(&gate_open, 1);
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    ck_assert_float_ge(milliseconds, 0);
    ck_assert_int_eq(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
}

/* ---- host functions ---- */

struct note {
    atomic_int *order;
    int place;
    CUresult status;
};

static void
take_place(void *data)
{
    struct note *note = data;
    note->place = atomic_fetch_add(note->order, 1);
}

static void
take_status(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    struct note *note = data;
    note->status = status;
    take_place(note);
}

TEST(host_functions_run_in_order_and_hold_the_stream)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    atomic_int order = 1;
    struct note first = {&order, 0, CUDA_ERROR_UNKNOWN}, second = first;
    close_gate(stream);
    OK(cuLaunchHostFunc(stream, take_place, &first));
    OK(cuStreamAddCallback(stream, take_status, &second, 0));
    launch_one(load_function(&span_image), stream, &late);
    ck_assert_int_eq(atomic_load(&order), 1);
    open_gate();
    ck_assert_int_eq(first.place, 1);
    ck_assert_int_eq(second.place, 2);
    OK(second.status);
    ck_assert_int_eq(cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* As on a GPU: else a host function could wait for its own stream for ever. */
static void
call_driver(void *data)
{
    CUresult *result = data;
    result[0] = cuCtxSynchronize();
    result[1] = cuEventQuery(NULL);
}

TEST(host_functions_may_not_call_the_driver)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult results[2] = {CUDA_SUCCESS, CUDA_SUCCESS};
    OK(cuLaunchHostFunc(stream, call_driver, results));
    OK(cuStreamSynchronize(stream));
    ck_assert_int_eq(results[0], CUDA_ERROR_NOT_PERMITTED);
    ck_assert_int_eq(results[1], CUDA_ERROR_NOT_PERMITTED);
}

TEST(streams_know_their_properties)
{
    CUstream stream;
    unsigned flags;
    int priority, least, greatest;
    unsigned long long id, other_id;
    CUcontext context, current;
    CUstreamCaptureStatus capture;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    ck_assert_int_lt(greatest, least);
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 10));
    OK(cuStreamGetFlags(stream, &flags));
    ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetPriority(stream, &priority));
    ck_assert_int_eq(priority, greatest);
    OK(cuStreamGetId(stream, &id));
    OK(cuStreamGetId(NULL, &other_id));
    ck_assert_uint_ne(id, other_id);
    OK(cuStreamGetCtx(stream, &context));
    OK(cuCtxGetCurrent(&current));
    ck_assert_ptr_eq(context, current);
    OK(cuStreamIsCapturing(stream, &capture));
    ck_assert_int_eq(capture, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamDestroy(stream));
    ck_assert_int_eq(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(cuStreamCreate(&stream, 0x80), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_full_stream_makes_its_caller_wait_and_loses_nothing)
{
    CUfunction whole = load_function(&whole_image);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    atomic_int calls = 0;
    for (int i = 0; i < 5000; ++i)
        launch_one(whole, stream, &calls);
    OK(cuStreamSynchronize(stream));
    ck_assert_int_eq(atomic_load(&calls), 5000);
}
