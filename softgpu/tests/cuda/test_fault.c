/*
 * test_fault.c - mistakes with memory: each ends with a line that names the kernel or call and the allocation. A kernel
 * that faults loses its context, as on a GPU, and the process continues; a host access to device memory is caught in
 * strict and in unruly mode; faults that are the program's own reach its own handler.
 */
#include "kernels.h"
#include "scenes.h"

#include "softgpu/private_calls.h"

#include "tests/lib/test.h"

#include <setjmp.h>

enum { BYTES = 4000 };

/* ---- kernels ---- */

/* poke(char *): adds one to a byte. */
static void
poke(const struct softgpu_launch *launch)
{
    for (uint64_t i = launch->block_begin; i < launch->block_end; ++i)
        ++**(volatile char *const *)launch->args[0];
}

/* As every kernel built without sanitizers. */
__attribute__((no_sanitize("undefined"))) static void
divide(const struct softgpu_launch *launch)
{
    volatile int zero = (int)(launch->block_begin * 0), one = 1;
    **(volatile int *const *)launch->args[0] = one / zero;
}

static void
give_up(const struct softgpu_launch *launch)
{
    (void)launch;
    softgpuLaunchAbandon(CUDA_ERROR_ASSERT, "this test's kernel cannot continue");
}

/* Blocks in the stream's own thread fault; those in other threads take their time. */
static atomic_int begun, ended;

static void
part(const struct softgpu_launch *launch)
{
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    bool faults = strcmp(name, "softgpu-stream") == 0;
    atomic_fetch_add(&begun, 1);
    if (faults) {
        while (atomic_load(&begun) < 2) /* another block runs */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        ++**(volatile char *const *)launch->args[0];
    }
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_fetch_add(&ended, 1);
}

static const struct softgpu_param pointer_params[] = {{0, 8}};
#define IMAGE(name, flags)                             \
    static const struct softgpu_image name##_image = { \
        SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, flags, #name, name, 1, pointer_params, 0, 1024}
IMAGE(poke, 0);
IMAGE(divide, 0);
IMAGE(part, 0);
IMAGE(give_up, 0);

/* Its name is that of an instance of a template: longer than a line. */
#define SIXTEEN_LETTERS    "instance_of_many"
#define SIXTY_FOUR_LETTERS SIXTEEN_LETTERS SIXTEEN_LETTERS SIXTEEN_LETTERS SIXTEEN_LETTERS
#define MANY_LETTERS       SIXTY_FOUR_LETTERS SIXTY_FOUR_LETTERS SIXTY_FOUR_LETTERS SIXTY_FOUR_LETTERS SIXTY_FOUR_LETTERS
static const struct softgpu_image long_name_image = {SOFTGPU_IMAGE_MAGIC,
                                                     SOFTGPU_IMAGE_VERSION,
                                                     0,
                                                     "poke<" MANY_LETTERS MANY_LETTERS MANY_LETTERS MANY_LETTERS ">",
                                                     poke,
                                                     1,
                                                     pointer_params,
                                                     0,
                                                     1024};

/* ---- scenes ---- */

static CUdeviceptr
start(size_t bytes)
{
    CUdeviceptr memory = 0;
    use_device();
    (void)!cuMemAlloc(&memory, bytes);
    return memory;
}

/* Runs a kernel that must fail with `expected`, and fail so again and again. */
static int
expect_failure(const struct softgpu_image *image, CUdeviceptr pointer, CUresult expected)
{
    CUstream stream, other;
    CUdeviceptr more;
    (void)!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    (void)!cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    launch_one(load_function(image), stream, (void *)pointer);
    if (cuStreamSynchronize(stream) != expected)
        return 2;
    if (cuStreamSynchronize(other) != expected || cuCtxSynchronize() != expected || cuMemAlloc(&more, 1) != expected)
        return 3;
    return 0;
}

#define FAILING_KERNEL(name, image, pointer, error)    \
    SCENE(name)                                        \
    {                                                  \
        return expect_failure(&image, pointer, error); \
    }
FAILING_KERNEL(past_the_end, poke_image, start(BYTES) + BYTES + 96, CUDA_ERROR_ILLEGAL_ADDRESS)
FAILING_KERNEL(before_the_begin, poke_image, start(4096) - 8, CUDA_ERROR_ILLEGAL_ADDRESS)
FAILING_KERNEL(null, poke_image, (start(1), 16), CUDA_ERROR_ILLEGAL_ADDRESS)
FAILING_KERNEL(long_name, long_name_image, start(BYTES) + BYTES + 96, CUDA_ERROR_ILLEGAL_ADDRESS)
FAILING_KERNEL(divide, divide_image, start(4), CUDA_ERROR_LAUNCH_FAILED)
FAILING_KERNEL(give_up, give_up_image, start(4), CUDA_ERROR_ASSERT)

SCENE(use_after_free)
{
    CUdeviceptr memory = start(BYTES), other;
    if (cuMemFree(memory) != CUDA_SUCCESS)
        return 4;
    for (int i = 0; i < 100; ++i) { /* its addresses are not given to others */
        if (cuMemAlloc(&other, BYTES) != CUDA_SUCCESS || other == memory || cuMemFree(other) != CUDA_SUCCESS)
            return 5;
    }
    return expect_failure(&poke_image, memory + 40, CUDA_ERROR_ILLEGAL_ADDRESS);
}

SCENE(double_free)
{
    CUdeviceptr memory = start(BYTES), other;
    char byte;
    if (cuMemFree(memory) != CUDA_SUCCESS || cuMemFree(memory) != CUDA_ERROR_INVALID_VALUE)
        return 1;
    if (cuMemAlloc(&other, 100) != CUDA_SUCCESS || cuMemFree(other + 4) != CUDA_ERROR_INVALID_VALUE)
        return 2;
    if (cuMemFreeAsync(other, NULL) != CUDA_SUCCESS || cuMemFreeAsync(other, NULL) != CUDA_ERROR_INVALID_VALUE)
        return 3;
    if (cuMemcpy((CUdeviceptr)&byte, memory + 7, 1) != CUDA_ERROR_INVALID_VALUE)
        return 4;
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 5;
}

/* A reset makes the device usable again, in the same streams' threads too. With helpers: some of them have faulted. */
SCENE(reset)
{
    for (int round = 0; round < 5; ++round) {
        CUdeviceptr memory = start(BYTES);
        CUfunction function = load_function(&poke_image);
        CUdeviceptr bad = memory + BYTES + 96;
        void *args[] = {&bad};
        if (cuLaunchKernel(function, 1000, 1, 1, 1, 1, 1, 0, NULL, args, NULL) != CUDA_SUCCESS ||
            cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS ||
            cuDevicePrimaryCtxReset(0) != CUDA_ERROR_ILLEGAL_ADDRESS)
            return 1;
        char count = 0;
        CUdeviceptr good = start(BYTES);
        void *good_args[] = {&good};
        if (cuMemsetD8(good, 0, BYTES) != CUDA_SUCCESS ||
            cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, good_args, NULL) != CUDA_SUCCESS ||
            cuMemcpyDtoH(&count, good, 1) != CUDA_SUCCESS || count != 1)
            return 2;
    }
    return 0;
}

/* Once a launch that failed counts as over, none of its blocks runs any more. */
SCENE(others_end)
{
    CUdeviceptr bad = start(BYTES) + BYTES + 96;
    void *args[] = {&bad};
    if (cuLaunchKernel(load_function(&part_image), 100, 1, 1, 1, 1, 1, 0, NULL, args, NULL) != CUDA_SUCCESS ||
        cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS)
        return 1;
    return atomic_load(&begun) > 1 && atomic_load(&ended) == atomic_load(&begun) - 1 ? 0 : 2;
}

/* Between the end and the closed pages. */
SCENE(just_past_the_end)
{
    CUdeviceptr memory = start(BYTES);
    launch_one(load_function(&poke_image), NULL, (void *)(memory + BYTES + 4));
    if (cuCtxSynchronize() != (getenv("SOFTGPU_STRICT") != NULL ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS))
        return 1;
    (void)!cuMemFree(memory);
    return 0;
}

static int
host_read(CUdeviceptr memory)
{
    char sum = 0;
    if (cuMemsetD8(memory, 3, BYTES) != CUDA_SUCCESS || cuCtxSynchronize() != CUDA_SUCCESS)
        return 1;
    sum = (char)(sum + ((volatile char *)memory)[16]);
    return sum == 3 ? 0 : 2;
}

SCENE(host_read)
{
    return host_read(start(BYTES));
}

SCENE(host_read_pool)
{
    CUdeviceptr memory;
    use_device();
    return cuMemAllocAsync(&memory, BYTES, NULL) == CUDA_SUCCESS ? host_read(memory) : 1;
}

SCENE(host_read_map)
{
    enum { UNIT = 2 << 20 };
    const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device};
    const CUmemAccessDesc access = {.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle chunk;
    CUdeviceptr range;
    use_device();
    if (cuMemCreate(&chunk, UNIT, &properties, 0) != CUDA_SUCCESS ||
        cuMemAddressReserve(&range, UNIT, 0, 0, 0) != CUDA_SUCCESS ||
        cuMemMap(range, UNIT, 0, chunk, 0) != CUDA_SUCCESS || cuMemSetAccess(range, UNIT, &access, 1) != CUDA_SUCCESS)
        return 1;
    return host_read(range);
}

static void
write_device_memory(void *memory)
{
    *(volatile char *)memory = 1;
}

SCENE(host_function_writes)
{
    CUdeviceptr memory = start(BYTES);
    (void)!cuMemsetD8Async(memory, 3, BYTES, NULL); /* the stream's thread can use the memory, but not for long */
    (void)!cuLaunchHostFunc(NULL, write_device_memory, (void *)memory);
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
}

/* Managed and page-locked memory are the host's too. */
SCENE(host_reads_its_own)
{
    CUdeviceptr managed;
    void *pinned;
    start(BYTES);
    if (cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS ||
        cuMemHostAlloc(&pinned, BYTES, 0) != CUDA_SUCCESS)
        return 1;
    launch_one(load_function(&poke_image), NULL, (void *)managed);
    launch_one(load_function(&poke_image), NULL, pinned);
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        return 2;
    return *(char *)managed == 1 && *(char *)pinned == 1 ? 0 : 3;
}

static sigjmp_buf landing;
static void *volatile seen_address;

static void
on_own_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen_address = info->si_addr;
    siglongjmp(landing, number);
}

/* A program that catches its own faults, and had its handler in place before CUDA. */
SCENE(own_handler)
{
    struct sigaction action = {.sa_sigaction = on_own_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
    CUdeviceptr memory = start(BYTES);
    for (int i = 0; i < 3; ++i) {
        if (sigsetjmp(landing, 1) == 0) {
            *(volatile char *)(uintptr_t)(4096 + i) = 1;
            return 1;
        }
        if (seen_address != (void *)(uintptr_t)(4096 + i))
            return 2;
    }
    return expect_failure(&poke_image, memory - 70, CUDA_ERROR_ILLEGAL_ADDRESS);
}

SCENE(own_fault)
{
    start(BYTES);
    *(volatile char *)(uintptr_t)4096 = 1;
    return 1;
}

/* ---- tests ---- */

TEST_GROUP(all, .timeout_s = 300);

#define STRICT  "SOFTGPU_STRICT=1"
#define WORKERS "SOFTGPU_WORKERS=4"
#define UNRULY  "SOFTGPU_UNRULY=1:1"

static const struct scene_row rows[] = {
    {"past_the_end",
     {NULL},
     SAYS,
     {"softgpu: kernel poke: it ", "96 bytes past the end of allocation 1 (4000 bytes of device memory",
      "returns error 700"}},
    {"before_the_begin", {NULL}, SAYS, {"kernel poke: it ", "8 bytes before allocation 1 (4096 bytes"}},
    {"null", {NULL}, SAYS, {"kernel poke: it ", "address 0x10: a null pointer"}},
    {"long_name",
     {NULL},
     SAYS,
     {"kernel poke<instance_of_many", "96 bytes past the end of allocation 1 (4000 bytes", "returns error 700"}},
    {"divide", {NULL}, SAYS, {"kernel divide: an integer is divided by zero"}},
    {"give_up", {NULL}, SAYS, {"kernel give_up: this test's kernel cannot continue"}},
    {"use_after_free",
     {NULL},
     SAYS,
     {"kernel poke: it ", "40 bytes into allocation 1 (4000 bytes", "which has been freed"}},
    {"double_free",
     {NULL},
     SAYS,
     {"cuMemFree: allocation 1 (4000 bytes", "has been freed before", "4 bytes into allocation 2",
      "cuMemFreeAsync: allocation 2 (100 bytes", "a copy uses", "7 bytes into allocation 1"}},
    {"reset", {NULL}, SAYS, {"kernel poke"}},
    {"reset", {WORKERS}, SAYS, {"kernel poke"}},
    {"reset", {STRICT}, SAYS, {"kernel poke"}},
    {"others_end", {WORKERS}, SAYS, {"kernel part"}},
    {"others_end", {UNRULY, WORKERS}, SAYS, {"kernel part"}},
    {"just_past_the_end", {NULL}, SAYS, {"behind the end of allocation 1 (4000 bytes"}},
    {"just_past_the_end", {UNRULY}, SAYS, {"behind the end of allocation 1 (4000 bytes"}},
    {"just_past_the_end", {STRICT}, SAYS, {"poke wrote behind the end of allocation 1 (4000 bytes"}},
    {"past_the_end", {UNRULY, STRICT}, SAYS, {"96 bytes past the end of allocation 1"}},

    {"host_read", {STRICT}, DIES, {"16 bytes into allocation 1 (4000 bytes of device memory"}},
    {"host_function_writes", {STRICT}, DIES, {"0 bytes into allocation 1 (4000 bytes of device memory"}},
    {"host_reads_its_own", {STRICT}, FINE, {NULL}},
    {"host_reads_its_own", {UNRULY}, FINE, {NULL}},
    {"host_reads_its_own", {UNRULY, STRICT}, FINE, {NULL}},

    {"own_handler", {NULL}, SAYS, {"kernel poke: it ", "70 bytes before allocation 1"}},
    {"own_fault", {NULL}, DIES, {NULL}},
};

TABLE_TEST(mistakes_are_named, rows)
{
    expect_scene(&rows[_i]);
}

/* Unruly mode catches the host where the processor has protection keys. */
static const char *const of_the_host[] = {"host_read", "host_read_pool", "host_read_map", "host_function_writes"};

TABLE_TEST(unruly_mode_catches_the_host, of_the_host)
{
    expect_scene(&(struct scene_row){.scene = of_the_host[_i]});
    if (pkey_alloc(0, 0) >= 0)
        expect_scene(&(struct scene_row){of_the_host[_i], {UNRULY}, DIES, {"bytes into allocation 1 ("}});
    else
        printf("skipped: SOFTGPU_UNRULY and the host: the processor has no protection keys\n");
}

int
main(int argc, char **argv)
{
    if (argc > 1)
        return play_scene(argv[1]);
    return tests_run();
}
