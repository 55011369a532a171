/*
 * host_memory.cu KIND MODE - a trainer whose gradients, parameters, buffer and state are in memory that the host
 * reaches, and reads and writes as its own. KIND is device (for comparison), managed, pinned (cudaMallocHost), pageable
 * (malloc), registered (cudaHostRegister, for as long as a step), or mixed: each layer's in another kind.
 *
 * In step s the gradient of rank r holds (2 s + 1)(r + 1) + i % 7 in element i. The host knows what each mean is, and
 * reads it right after DDP_STEP, where its memory is the host's: the program's exit code is 0 only if all of them are
 * right. Modes:
 *   plain
 *   accumulate: by two passes
 *   no-sync: the first of them is marked
 *   ready: DDP_GRADIENT_READY stands after backward, before the host writes as in host-writes
 *   groups: odd layers are a group of their own
 *   weight: the last rank has twice as many items
 *   host-writes: after backward and before DDP_STEP the host adds 1 to what it reaches
 *   graph: the step is captured
 *   parameters: backward writes the parameters themselves, and DDP_STEP_PARAMETERS averages them
 *   freed-at-end: memory of the host is given back before the program ends
 *   forgotten-at-end: the same after DDP_FORGET
 * and, wrong, of the first layer's gradient:
 *   not-there: its memory cannot be read
 *   in-file: it is in a file that processes may share
 *   unmapped: its memory goes in step 5
 *   protected: it can only be read from step 5 on
 *   other-buffer: another one is annotated
 *   kinds-differ: it is in device memory on rank 1
 */
#include "common.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LAYERS = 6,
    COUNT = 1500,
    BYTES = COUNT * sizeof(float),
    THREADS = 50,
    BLOCKS = COUNT / THREADS,
    STEPS = 12,
    WRONG_FROM = 4
};

enum kind { KIND_DEVICE, KIND_MANAGED, KIND_PINNED, KIND_PAGEABLE, KIND_REGISTERED, KINDS };
static const char *const kind_names[KINDS] = {"device", "managed", "pinned", "pageable", "registered"};

static const char *kind_option;
static cudaStream_t stream;
static float *gradients[LAYERS], *parameters[LAYERS], *buffer, *computed[LAYERS];
static int *counter; /* optimizer state */

/* ---- memory ---- */

static enum kind
kind_of(int layer)
{
    if (strcmp(kind_option, "mixed") == 0)
        return (enum kind)(layer % KINDS);
    for (int k = 0; k < KINDS; ++k) {
        if (strcmp(kind_option, kind_names[k]) == 0)
            return (enum kind)k;
    }
    fprintf(stderr, "host_memory: no kind of memory is called %s\n", kind_option);
    exit(2);
}

static void *
allocate(enum kind kind, size_t bytes)
{
    void *memory = NULL;
    if (kind == KIND_DEVICE)
        CHECK(cudaMalloc(&memory, bytes));
    else if (kind == KIND_MANAGED)
        CHECK(cudaMallocManaged(&memory, bytes));
    else if (kind == KIND_PINNED)
        CHECK(cudaMallocHost(&memory, bytes));
    else
        memory = malloc(bytes);
    REQUIRE(memory != NULL);
    return memory;
}

static bool
has_pages_of_its_own(void)
{
    return is_one_of({"not-there", "in-file", "unmapped", "protected"});
}

static float *
map_pages(void)
{
    int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char path[] = "/tmp/host_memory-XXXXXX";
    if (is_mode("in-file")) {
        fd = mkstemp(path);
        REQUIRE(fd >= 0 && unlink(path) == 0 && ftruncate(fd, BYTES) == 0);
        flags = MAP_SHARED;
    }
    void *pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    REQUIRE(pages != MAP_FAILED);
    if (is_mode("not-there")) /* not munmap: another mapping could take its place */
        CHECK(mprotect(pages, BYTES, PROT_NONE));
    return (float *)pages;
}

/* Between memory of any kind and the host's; the device has done all before. */
static void
copy(void *to, const void *from, size_t bytes, enum kind kind)
{
    if (kind == KIND_DEVICE)
        CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    else
        memcpy(to, from, bytes);
}

static void
store_all(float *to, float value, enum kind kind)
{
    static float values[COUNT];
    for (int i = 0; i < COUNT; ++i)
        values[i] = value;
    copy(to, values, BYTES, kind);
}

/* Whether element i is `value`, and i % 7 more where `ramp` is 1. */
static void
require_all(const char *what, int layer, const float *memory, float value, int ramp, enum kind kind)
{
    static float values[COUNT];
    copy(values, memory, BYTES, kind);
    for (int i = 0; i < COUNT; ++i) {
        float expected = value + (float)(ramp * (i % 7));
        float largest = is_mode("weight") ? 1e-5f * expected : 0.0f; /* else all numbers are exact */
        if (fabsf(values[i] - expected) <= largest)
            continue;
        fprintf(stderr, "rank %d: %s of layer %d (%s) has %g in element %d, not %g\n", DDP_RANK(), what, layer,
                kind_names[kind], (double)values[i], i, (double)expected);
        exit(1);
    }
}

/* ---- a step ---- */

ELEMENTWISE_OF_ALL(set, (float *gradient, float value, int adds),
                   gradient[i] = (adds ? gradient[i] : (float)(i % 7)) + value)
ELEMENTWISE_OF_ALL(update, (float *parameter, const float *gradient), parameter[i] -= gradient[i] / 8.0f)

static bool
is_on_host(enum kind kind)
{
    return kind != KIND_DEVICE && kind != KIND_MANAGED;
}

/* Gradients of the host are computed on the device, and copied. */
static void
backward(float value, int adds)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        float *gradient = is_on_host(kind_of(l)) ? computed[l] : gradients[l];
        set<<<BLOCKS, THREADS, 0, stream>>>(gradient, value, adds);
        if (gradient != gradients[l])
            CHECK(cudaMemcpyAsync(gradients[l], gradient, BYTES, cudaMemcpyDeviceToHost, stream));
    }
}

static void
work_through(float value)
{
    bool twice = is_mode("accumulate") || is_mode("no-sync");
    if (is_mode("no-sync"))
        DDP_NO_SYNC_BEGIN();
    if (twice)
        backward(value - 1.0f, 0);
    if (is_mode("no-sync"))
        DDP_NO_SYNC_END();
    backward(twice ? 1.0f : value, twice);
    for (int l = 0; l < LAYERS && is_mode("ready"); ++l)
        DDP_GRADIENT_READY(gradients[l], stream);
    if (!is_mode("host-writes") && !is_mode("ready"))
        return;
    CHECK(cudaStreamSynchronize(stream));
    for (int l = 0; l < LAYERS; ++l) {
        for (int i = 0; i < COUNT && kind_of(l) != KIND_DEVICE; ++i)
            gradients[l][i] += 1.0f;
    }
}

/* What the host adds to the gradient of the layer. */
static float
written_by_host(int layer)
{
    return (is_mode("host-writes") || is_mode("ready")) && kind_of(layer) != KIND_DEVICE ? 1.0f : 0.0f;
}

/* The mean over ranks of rank + 1; in mode weight over items, of which the last rank has two. */
static float
mean_of_ranks(void)
{
    int world = DDP_WORLD_SIZE(), sum = world * (world + 1) / 2;
    return is_mode("weight") ? (float)(sum + world) / (float)(world + 1) : (float)sum / (float)world;
}

static void
step_all(void)
{
    if (is_mode("parameters"))
        DDP_STEP_PARAMETERS(stream);
    else
        DDP_STEP(stream);
    if (is_mode("groups"))
        DDP_STEP_GROUP(1, stream);
    if (DDP_WORLD_SIZE() == 1 && !is_mode("graph")) /* nothing is averaged, and nothing is waited for */
        CHECK(cudaStreamSynchronize(stream));
}

static void
optimize(void)
{
    for (int l = 0; l < LAYERS && !is_mode("parameters"); ++l) {
        if (kind_of(l) == KIND_DEVICE || is_mode("graph"))
            update<<<BLOCKS, THREADS, 0, stream>>>(parameters[l], gradients[l]);
        for (int i = 0; i < COUNT && kind_of(l) != KIND_DEVICE && !is_mode("graph"); ++i)
            parameters[l][i] -= gradients[l][i] / 8.0f;
    }
}

static void
check_means(float mean)
{
    if (is_mode("other-buffer"))
        return;
    for (int l = 0; l < LAYERS; ++l)
        require_all("the mean", l, gradients[l], mean + written_by_host(l), 1, kind_of(l));
    require_all("the buffer", 0, buffer, mean, 0, kind_of(1));
}

static void
train(void)
{
    for (int step = 0; step < STEPS; ++step) {
        float each = (float)(2 * step + 1), mean = each * mean_of_ranks();
        store_all(buffer, DDP_RANK() == 0 ? mean : -1.0f, kind_of(1));
        if (is_mode("weight"))
            DDP_WEIGHT(DDP_RANK() == DDP_WORLD_SIZE() - 1 ? 2 : 1, DDP_WORLD_SIZE() + 1);
        for (int l = 0; l < LAYERS; ++l) {
            if (kind_of(l) == KIND_REGISTERED)
                CHECK(cudaHostRegister(gradients[l], BYTES, 0));
        }
        work_through(each * (float)(DDP_RANK() + 1));
        if (step == WRONG_FROM && (is_mode("protected") || is_mode("unmapped"))) {
            CHECK(cudaStreamSynchronize(stream));
            CHECK(mprotect(gradients[0], BYTES, is_mode("unmapped") ? PROT_NONE : PROT_READ)); /* as for not-there */
        }
        step_all();
        for (int l = 0; l < LAYERS; ++l) {
            if (kind_of(l) == KIND_REGISTERED)
                CHECK(cudaHostUnregister(gradients[l]));
        }
        check_means(mean);
        optimize();
        CHECK(cudaStreamSynchronize(stream));
    }
}

/* What a graph does is fixed: every launch has the same gradients. */
static void
train_in_graph(void)
{
    cudaGraphExec_t launched = graph_make(stream, [] {
        work_through(mine());
        step_all();
        optimize();
    });
    for (int step = 0; step < STEPS; ++step) {
        store_all(buffer, DDP_RANK() == 0 ? mean_of_ranks() : -1.0f, kind_of(1));
        CHECK(cudaGraphLaunch(launched, stream));
        CHECK(cudaStreamSynchronize(stream));
        check_means(mean_of_ranks());
    }
}

/* ---- annotations ---- */

static void
annotate(void)
{
    int start = 100 + DDP_RANK();
    for (int l = 0; l < LAYERS; ++l) {
        gradients[l] = (float *)allocate(kind_of(l), BYTES);
        computed[l] = (float *)allocate(KIND_DEVICE, BYTES);
        if (l == 0 && has_pages_of_its_own())
            gradients[l] = map_pages();
        parameters[l] = (float *)allocate(kind_of(l), BYTES);
        store_all(parameters[l], (float)start, kind_of(l));
        DDP_PARAMETER(parameters[l], COUNT, DDP_FLOAT32);
        require_all("rank 0's value", l, parameters[l], 100.0f, 0, kind_of(l));
        if (is_mode("parameters")) {
            gradients[l] = parameters[l];
            continue;
        }
        DDP_GRADIENT_GROUP(is_mode("groups") ? l % 2 : 0);
        float *annotated = gradients[l];
        if (is_mode("other-buffer")) {
            annotated = (float *)allocate(kind_of(l), BYTES);
            store_all(annotated, 1.0f, kind_of(l));
        }
        if (l == 0 && is_mode("kinds-differ") && DDP_RANK() == 1)
            annotated = computed[l];
        DDP_GRADIENT(annotated, COUNT, DDP_FLOAT32);
    }
    buffer = (float *)allocate(kind_of(1), BYTES);
    DDP_BUFFER(buffer, COUNT, DDP_FLOAT32);
    counter = (int *)allocate(kind_of(1), sizeof(*counter));
    copy(counter, &start, sizeof(start), kind_of(1));
    DDP_STATE(counter, 1, DDP_INT32);
    copy(&start, counter, sizeof(start), kind_of(1));
    REQUIRE(start == 100);
}

static void
give_back(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        if (is_mode("forgotten-at-end")) {
            DDP_FORGET(parameters[l]);
            DDP_FORGET(gradients[l]);
        }
        free(parameters[l]);
        free(gradients[l]);
    }
}

int
main(int argc, char **argv)
{
    kind_option = argc > 1 ? argv[1] : "";
    mode = argc > 2 ? argv[2] : "";
    CHECK(cudaSetDevice(0));
    stream = stream_create();
    annotate();
    if (is_mode("graph"))
        train_in_graph();
    else
        train();
    if (is_mode("freed-at-end") || is_mode("forgotten-at-end"))
        give_back();
    return 0;
}
