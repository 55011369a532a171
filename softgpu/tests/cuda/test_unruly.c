/*
 * test_unruly.c - SOFTGPU_UNRULY in the driver: freed memory is given out again at once, kernels are loaded late, the
 * device lags while the host gets far ahead.
 */
#include "kernels.h"

#include "tests/lib/test.h"

#include <sys/resource.h>

static bool unruly;

static void
start(void)
{
    const char *setting = getenv("SOFTGPU_UNRULY");
    unruly = setting != NULL && *setting != '\0';
    use_device();
}

TEST_GROUP(unruly, .start = start, .timeout_s = 60);

TEST(freed_memory_is_given_out_again)
{
    CUdeviceptr first = device_memory(5000), other = device_memory(5000);
    OK(cuMemFree(first));
    CUdeviceptr larger = device_memory(50000), again = device_memory(5000);
    ck_assert_int_eq(again == first, unruly);
    ck_assert(larger != first && again != other);
    OK(cuMemsetD8(again, 1, 5000));
}

static CUfunction
function_of(const struct softgpu_image *image)
{
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, image->name));
    OK(cuKernelGetFunction(&function, kernel));
    return function;
}

static bool
is_loaded(CUfunction function)
{
    CUfunctionLoadingState state;
    OK(cuFuncIsLoaded(&state, function));
    return state == CU_FUNCTION_LOADING_STATE_LOADED;
}

static atomic_int open_gate;

static void *
open_later(void *launched)
{
    for (int i = 0; i < 1000 && atomic_load((atomic_int *)launched) == 0; ++i)
        sched_yield();
    atomic_store(&open_gate, 1);
    return NULL;
}

TEST(a_first_launch_waits_for_what_runs)
{
    CUfunction gate = load_function(&gate_image), late = function_of(&span_image);
    static struct span span;
    static atomic_int launched;
    pthread_t thread;
    ck_assert_int_eq(is_loaded(late), !unruly);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    launch_one(gate, NULL, &open_gate);
    pthread_create(&thread, NULL, open_later, &launched); /* without the switch once the launch is made */
    launch_one(late, stream, &span);
    ck_assert(!unruly || atomic_load(&open_gate) == 1);
    atomic_store(&launched, 1);
    pthread_join(thread, NULL);
    ck_assert(is_loaded(late));
    OK(cuCtxSynchronize());
    OK(cuFuncLoad(function_of(&add_image)));
    OK(cuStreamDestroy(stream));
}

static atomic_int ended, may_run;

static void
hold(void *unused)
{
    (void)unused;
    (void)wait_for(&may_run);
}

/* How often the stream's thread has waited for anything until now. */
static void
note(void *waits)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    *(long *)waits = usage.ru_nvcsw;
    atomic_fetch_add(&ended, 1);
}

TEST(the_device_lags)
{
    enum { CALLS = 1000 };
    static long waits[CALLS];
    OK(cuLaunchHostFunc(NULL, hold, NULL));
    for (int i = 0; i < CALLS; ++i)
        OK(cuLaunchHostFunc(NULL, note, &waits[i]));
    ck_assert_int_eq(atomic_load(&ended), 0);
    atomic_store(&may_run, 1);
    OK(cuCtxSynchronize());
    ck_assert_int_eq(atomic_load(&ended), CALLS);
    ck_assert(!unruly || waits[CALLS - 1] - waits[0] >= 5); /* of 1000 commands, one in 64 has to wait */
}
