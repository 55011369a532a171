/*
 * test_model.c - streams and events against a model: random programs of 200 operations, which three host threads issue
 * at the same time into the same six streams and through the same events. The order that is observed must be one that
 * CUDA allows: order_model.h has the rules with their sources, order_model.c derives from them what must be.
 *
 * Besides, in every program: work of one stream never overlaps, work of the legacy stream overlaps with none of a
 * blocking stream, and all of it runs. Each piece of work also counts in memory of its stream, without atomics or
 * locks: with ThreadSanitizer this proves that the driver's ordering is one of memory too.
 *
 * 300 programs; 10,000 if TESTS_SOAK is set. Run with and without SOFTGPU_CHAOS.
 */
#include "kernels.h"
#include "order_model.h"

#include "tests/lib/test.h"

enum {
    PROGRAMS = 300,
    SOAK_PROGRAMS = 10000,
    PROGRAM_DEADLINE_S = 120,
};

/* Relaxed: the clock must not bring the order about that it is to observe. */
static atomic_ulong now = 1;

static unsigned long
tick(void)
{
    return atomic_fetch_add_explicit(&now, 1, memory_order_relaxed);
}

/* For code that runs in several threads, which ck_assert does not know. */
static void must(bool condition, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
must(bool condition, const char *format, ...)
{
    if (condition)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(": failed\n", stderr);
    abort();
}

static void
call(CUresult result, int number)
{
    must(result == CUDA_SUCCESS, "operation %d: error %d", number, (int)result);
}

/* ---- what runs in the streams ---- */

static void
do_work(struct operation *operation)
{
    struct program *program = operation->program;
    atomic_store_explicit(&operation->begin, tick(), memory_order_relaxed);
    ++program->cells[operation->stream];
    if (operation->stream == LEGACY_STREAM) {
        unsigned long sum = 0;
        for (int i = 0; i < STREAMS; ++i)
            sum += blocking(i) ? program->cells[i] : 0;
        must(sum != 0, "the legacy stream's own count is lost");
    }
    long nap_ns = (long)(operation->call * 7919 % 40000);
    if (nap_ns > 20000) /* half of them take a while, so that others can come too early */
        nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
    atomic_store_explicit(&operation->end, tick(), memory_order_relaxed);
}

static void
run_work(const struct softgpu_launch *launch)
{
    do_work(*(struct operation *const *)launch->args[0]);
}

static void
run_host_function(void *operation)
{
    do_work(operation);
}

static const struct softgpu_param work_params[] = {{0, 8}};
static const struct softgpu_image work_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, "work", run_work, 1, work_params, 0, 1024};

/* ---- issuing ---- */

static CUstream
handle_of(const struct program *program, int stream)
{
    return stream < CREATED          ? program->created[stream]
           : stream == LEGACY_STREAM ? CU_STREAM_LEGACY
                                     : CU_STREAM_PER_THREAD;
}

static void
issue_query(struct program *program, struct operation *operation, int number, unsigned choice)
{
    CUresult result;
    if (choice % 2 == 0) {
        operation->kind = SYNC_EVENT;
        result = cuEventQuery(program->events[operation->event]);
    } else {
        operation->kind = SYNC_STREAM;
        result = cuStreamQuery(handle_of(program, operation->stream));
    }
    if (result == CUDA_ERROR_NOT_READY)
        operation->kind = NOTHING;
    else
        call(result, number);
}

static void
issue_host_wait(struct program *program, struct operation *operation, int number, unsigned choice)
{
    unsigned char byte;
    switch (choice % 4) {
    case 0:
        operation->kind = SYNC_STREAM;
        call(cuStreamSynchronize(handle_of(program, operation->stream)), number);
        break;
    case 1:
        operation->kind = SYNC_EVENT;
        call(cuEventSynchronize(program->events[operation->event]), number);
        break;
    case 2:
        operation->kind = COPY;
        operation->stream = LEGACY_STREAM;
        call(cuMemcpyDtoH(&byte, program->memory, 1), number);
        break;
    default:
        operation->kind = SYNC_CONTEXT;
        call(cuCtxSynchronize(), number);
    }
}

/* One operation by chance: mostly work, records and waits; the host waits rarely, which would leave nothing to run. */
static void
issue(struct program *program, int thread, int number, unsigned *seed)
{
    struct operation *operation = &program->operations[number];
    int handle = rand_r(seed) % HANDLES;
    operation->program = program;
    operation->stream = handle <= LEGACY_STREAM ? handle : FIRST_PER_THREAD + thread;
    operation->event = rand_r(seed) % EVENTS;
    CUstream stream = handle_of(program, operation->stream);
    CUevent event = program->events[operation->event];
    int dice = rand_r(seed) % 100;
    operation->call = tick();
    if (dice < 45) {
        operation->kind = KERNEL;
        launch_one(program->work, stream, operation);
    } else if (dice < 50) {
        operation->kind = HOST_FUNCTION;
        call(cuLaunchHostFunc(stream, run_host_function, operation), number);
    } else if (dice < 55) {
        operation->kind = FILL;
        call(cuMemsetD8Async(program->memory + (CUdeviceptr)operation->stream, 1, 1, stream), number);
    } else if (dice < 72) {
        operation->kind = RECORD;
        call(cuEventRecord(event, stream), number);
    } else if (dice < 90) {
        operation->kind = WAIT_EVENT;
        call(cuStreamWaitEvent(stream, event, 0), number);
    } else if (dice < 96) {
        issue_query(program, operation, number, (unsigned)rand_r(seed));
    } else {
        issue_host_wait(program, operation, number, (unsigned)rand_r(seed));
    }
    operation->back = tick();
}

struct issuer {
    pthread_t thread;
    struct program *program;
    int number;
};

static void *
run_issuer(void *argument)
{
    struct issuer *issuer = argument;
    struct program *program = issuer->program;
    unsigned seed = program->seed * THREADS + (unsigned)issuer->number;
    use_device();
    for (int i = issuer->number; i < OPERATIONS; i += THREADS) {
        if (program->take_turns)
            pthread_mutex_lock(&program->turn);
        issue(program, issuer->number, i, &seed);
        if (program->take_turns)
            pthread_mutex_unlock(&program->turn);
    }
    return NULL;
}

/* ---- the check ---- */

/* Of work: when it began. Of a host wait: when it returned. */
static unsigned long
moment_of(const struct operation *operation)
{
    return is_work(operation) ? atomic_load(&operation->begin) : operation->back;
}

/* Returns how many promises there were: a model that promises nothing would let everything pass. */
static int
check_promises(const struct program *program)
{
    int promises = 0;
    for (int later = 0; later < OPERATIONS; ++later) {
        const struct operation *operation = &program->operations[later];
        for (int earlier = 0; (is_work(operation) || host_waited(operation)) && earlier < OPERATIONS; ++earlier) {
            if (!set_contains(&operation->before, earlier))
                continue;
            unsigned long end = atomic_load(&program->operations[earlier].end);
            must(end != 0 && end < moment_of(operation),
                 "program %u: operation %d (kind %d, stream %d) continued at %lu, before %d (stream %d) ended at %lu",
                 program->seed, later, operation->kind, operation->stream, moment_of(operation), earlier,
                 program->operations[earlier].stream, end);
            ++promises;
        }
    }
    return promises;
}

static void
check_exclusion(const struct program *program)
{
    for (int i = 0; i < OPERATIONS; ++i) {
        const struct operation *a = &program->operations[i];
        for (int k = i + 1; is_work(a) && k < OPERATIONS; ++k) {
            const struct operation *b = &program->operations[k];
            bool exclude =
                is_work(b) && (a->stream == b->stream || (a->stream == LEGACY_STREAM && blocking(b->stream)) ||
                               (b->stream == LEGACY_STREAM && blocking(a->stream)));
            must(!exclude || atomic_load(&a->end) < atomic_load(&b->begin) ||
                     atomic_load(&b->end) < atomic_load(&a->begin),
                 "program %u: operations %d (stream %d) and %d (stream %d) ran at the same time", program->seed, i,
                 a->stream, k, b->stream);
        }
    }
}

static void
check_counts(const struct program *program)
{
    unsigned long counts[STREAMS] = {0};
    for (int i = 0; i < OPERATIONS; ++i) {
        const struct operation *operation = &program->operations[i];
        if (!is_work(operation))
            continue;
        ++counts[operation->stream];
        must(atomic_load(&operation->end) != 0, "program %u: operation %d never ran", program->seed, i);
    }
    for (int i = 0; i < STREAMS; ++i)
        must(program->cells[i] == counts[i], "program %u: stream %d counted %lu of %lu", program->seed, i,
             program->cells[i], counts[i]);
}

/* ---- running ---- */

static void
make_program(struct program *program, unsigned seed)
{
    program->seed = seed;
    program->take_turns = seed % 2 == 0;
    pthread_mutex_init(&program->turn, NULL);
    for (int i = 0; i < CREATED; ++i)
        call(cuStreamCreateWithPriority(&program->created[i], blocking(i) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING,
                                        -i),
             -1);
    for (int i = 0; i < EVENTS; ++i)
        call(cuEventCreate(&program->events[i], i % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT), -1);
    call(cuMemAlloc(&program->memory, STREAMS), -1);
    program->work = load_function(&work_image);
}

static int
run_program(unsigned seed)
{
    struct program *program = calloc(1, sizeof *program);
    must(program != NULL, "memory");
    make_program(program, seed);
    struct issuer issuers[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        issuers[i] = (struct issuer){.program = program, .number = i};
        must(pthread_create(&issuers[i].thread, NULL, run_issuer, &issuers[i]) == 0, "a thread");
    }
    for (int i = 0; i < THREADS; ++i)
        pthread_join(issuers[i].thread, NULL);
    /* Destroyed with work in flight: it completes. */
    for (int i = 0; i < CREATED; ++i)
        call(cuStreamDestroy(program->created[i]), -1);
    call(cuCtxSynchronize(), -1);
    model_program(program);
    check_counts(program);
    check_exclusion(program);
    int promises = check_promises(program);
    for (int i = 0; i < EVENTS; ++i) {
        call(cuEventQuery(program->events[i]), -1);
        call(cuEventDestroy(program->events[i]), -1);
    }
    call(cuMemFree(program->memory), -1);
    pthread_mutex_destroy(&program->turn);
    free(program);
    return promises;
}

TEST_GROUP(all, .timeout_s = 3000);

TEST(the_observed_order_is_one_that_cuda_allows)
{
    int programs = getenv("TESTS_SOAK") != NULL ? SOAK_PROGRAMS : PROGRAMS;
    int64_t promises = 0;
    use_device();
    for (int i = 0; i < programs; ++i) {
        alarm(PROGRAM_DEADLINE_S); /* a program that hangs ends the test here */
        promises += run_program((unsigned)i);
    }
    alarm(0);
    printf("%d programs of %d operations: %lld promises held\n", programs, OPERATIONS, (long long)promises);
    ck_assert_int_gt(promises, (int64_t)programs * OPERATIONS * 10);
}
