/*
 * corners.cu - a trainer in the corners where what ddprun follows meets: gradients and buffers that kernels reach
 * through a table in memory, streams that come and go, default streams of other threads, parameters that are forgotten,
 * gradients that are annotated when they have been written, files of one name. Each is a mode.
 *
 * As exact.h. What must be waited for is slow.
 */
enum { LAYERS = 4, COUNT = 1024, SLOW = 1000000 };
#include "exact.h"
#include "graph_nodes.h"

#include <fcntl.h>
#include <fstream>
#include <pthread.h>
#include <sched.h>
#include <softgpu/stub.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct table {
    float *weights[LAYERS], *gradients[LAYERS];
    float *statistics;
};

static struct table *table; /* on the device, filled in some modes */
static float *extra, *seen, *statistics;
static cudaGraphExec_t graph;

/* The same value, late. */
__device__ static float
slowly(float value)
{
    float x = value;
    for (int i = 0; i < SLOW; ++i)
        x = x * 0.5f + 0.5f * value;
    return x;
}

__global__ void
nothing(void)
{
}

__global__ void
add_all_slowly(float *values, float summand)
{
    summand = slowly(summand);
    for (int i = 0; i < COUNT; ++i)
        values[i] += summand;
}

ELEMENTWISE_OF_ALL(add_through, (const struct table *through, int layer, float summand),
                   through->gradients[layer][i] += summand)

__global__ void
add_all_slowly_through(const struct table *through, int layer, float summand)
{
    summand = slowly(summand);
    for (int i = 0; i < COUNT; ++i)
        through->gradients[layer][i] += summand;
}

ELEMENTWISE_OF_ALL(update_and_zero_through, (const struct table *through, int layer),
                   through->weights[layer][i] -= 0.5f * through->gradients[layer][i];
                   through->gradients[layer][i] = 0.0f)

__global__ void
set_slowly_through(const struct table *through, float to)
{
    *through->statistics = slowly(to);
}

__global__ void
look_through(const struct table *through, float *out)
{
    *out = *through->statistics;
}

/* Takes the layer's share again that statistics other than rank 0's would bring. */
ELEMENTWISE_OF_ALL(subtract_difference, (float *weight, const float *statistics, float expected),
                   weight[i] -= *statistics - expected)

static void
create(void)
{
    layers_create();
    extra = device_floats(COUNT);
    seen = device_floats(1);
    statistics = device_floats(1);
    CHECK(cudaMalloc(&table, sizeof(*table)));
}

static void
annotate(void)
{
    if (is_mode("forget-parameter"))
        DDP_PARAMETER(extra, COUNT, DDP_FLOAT32);
    for (int l = 0; l < LAYERS; ++l) {
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
    }
    if (is_mode("buffer") || is_mode("wrong-memory"))
        DDP_BUFFER(statistics, 1, DDP_FLOAT32);
    if (is_one_of({"empty", "empty-on-one"})) {
        size_t count = is_mode("empty-on-one") && DDP_RANK() == 1 ? COUNT : 0;
        DDP_PARAMETER(NULL, 0, DDP_FLOAT32);
        DDP_GRADIENT(extra, count, DDP_FLOAT32);
        DDP_STATE(seen, 0, DDP_FLOAT32);
        DDP_BUFFER(statistics, 0, DDP_FLOAT32);
    }
    if (is_mode("whole-of-host"))
        DDP_GRADIENT(malloc(COUNT * sizeof(float)), DDP_WHOLE, DDP_FLOAT32);
    if (is_mode("pointer"))
        DDP_GRADIENT((void *)&statistics, 1, DDP_FLOAT32);
}

/* ---- modes ---- */

/* A parameter is forgotten in the middle of training; the others continue. */
MODE("forget-parameter", forget_parameter, int step)
{
    layers_backward(0, stream);
    DDP_STEP(stream);
    layers_update();
    if (step == steps / 2)
        DDP_FORGET(extra);
}

/* A new stream with the handle of one that is gone: drivers give it again, soon; the stand-in does. */
static cudaStream_t
stream_with_handle(cudaStream_t wanted)
{
    enum { AT_ONCE = 8, TRIES = 10000 };
    cudaStream_t made[AT_ONCE], found = NULL;
    for (int i = 0; i < TRIES && found == NULL; ++i) {
        for (int k = 0; k < AT_ONCE; ++k)
            CHECK(cudaStreamCreateWithFlags(&made[k], cudaStreamNonBlocking));
        for (int k = 0; k < AT_ONCE; ++k) {
            if (made[k] == wanted || (i == TRIES - 1 && k == 0))
                found = made[k];
            else
                CHECK(cudaStreamDestroy(made[k]));
        }
        sched_yield();
    }
    return found;
}

/* A layer without a bias: tensors of 0 elements are annotated, or an address of a pointer. */
static void
step_plainly(int)
{
    layers_backward(0, stream);
    DDP_STEP(stream);
    layers_update();
}
MODE("empty", empty, int step)
{
    step_plainly(step);
}
MODE("empty-on-one", empty_on_one, int step)
{
    step_plainly(step);
}
MODE("whole-of-host", whole_of_host, int step)
{
    step_plainly(step);
}
MODE("pointer", pointer, int step)
{
    step_plainly(step);
}

/* A stream goes, and another comes with its handle, whose kernel reaches a gradient unseen. */
MODE("stream-again", stream_again, int)
{
    cudaStream_t side = stream_create();
    nothing<<<1, 1, 0, side>>>();
    CHECK(cudaStreamSynchronize(side));
    CHECK(cudaStreamDestroy(side));
    side = stream_with_handle(side);
    stream_follow(stream, side, event);
    add_all_slowly_through<<<1, 1, 0, side>>>(table, 0, mine());
    layers_backward(1, stream);
    DDP_STEP(stream);
    stream_follow(side, stream, event);
    CHECK(cudaStreamDestroy(side));
    layers_update();
}

/* A graph that ddprun cannot look into, on the default stream of another thread than that of DDP_STEP. */
static void *
launch_graph(void *unused)
{
    CHECK(cudaStreamWaitEvent(cudaStreamPerThread, event, 0));
    CHECK(cudaGraphLaunch(graph, cudaStreamPerThread));
    CHECK(cudaEventRecord(event, cudaStreamPerThread));
    return unused;
}

MODE("graph-in-thread", graph_in_thread, int)
{
    pthread_t thread;
    CHECK(cudaEventRecord(event, stream));
    CHECK(pthread_create(&thread, NULL, launch_graph, NULL));
    CHECK(pthread_join(thread, NULL));
    layers_backward(1, stream);
    DDP_STEP(stream);
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    layers_update();
}

static void
make_graph(void)
{
    cudaGraph_t made;
    float summand = mine();
    void *arguments[] = {&gradients[0], &summand};
    CHECK(cudaGraphCreate(&made, 0));
    add_kernel(made, (void *)add_all_slowly, 1, 1, arguments);
    CHECK(cudaGraphInstantiate(&graph, made, 0));
    CHECK(cudaGraphDestroy(made));
}

/* No call at all names a gradient. The device is reset after the driver's own end. */
static const int resets =
    atexit([] { REQUIRE(!is_mode("all-hidden") || cudaDeviceReset() == cudaErrorCudartUnloading); });

MODE("all-hidden", all_hidden, int)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        add_through<<<BLOCKS, THREADS, 0, stream>>>(table, l, mine());
    DDP_STEP(stream);
    for (int l = 0; l < LAYERS; ++l)
        update_and_zero_through<<<BLOCKS, THREADS, 0, stream>>>(table, l);
}

/* Statistics that every rank writes and reads through the table, on a stream that DDP_STEP does not name. */
MODE("buffer", buffer, int)
{
    set_slowly_through<<<1, 1, 0, side>>>(table, mine());
    layers_backward(0, stream);
    DDP_STEP(stream);
    look_through<<<1, 1, 0, side>>>(table, seen);
    stream_follow(side, stream, event);
    layers_update();
    subtract_difference<<<BLOCKS, THREADS, 0, stream>>>(weights[0], seen, 1.0f);
    stream_follow(stream, side, event);
}

static void
write_file(const char *name, const char *how)
{
    FILE *file = fopen(name, how);
    REQUIRE(file != NULL && fclose(file) == 0);
}

/* Each step annotates a gradient only after it was written: in a step that overlaps, ddprun would come too late. */
MODE("annotate-last", annotate_last, int)
{
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(gradients[0]));
    gradients[0] = device_floats(COUNT);
    layers_backward(0, stream);
    DDP_GRADIENT(gradients[0], COUNT, DDP_FLOAT32);
    DDP_STEP(stream);
    layers_update();
}

/* A thread of rank 0 annotates while that rank waits in its first DDP_STEP for rank 1, which comes when the file
 * $CORNERS_ANNOTATED is there. */
static bool
waits_in_poll(pid_t thread)
{
    char name[64];
    int call = -1;
    snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", (int)thread);
    FILE *file = fopen(name, "r");
    REQUIRE(file != NULL);
    bool known = fscanf(file, "%d", &call) == 1;
    fclose(file);
#ifdef SYS_poll
    if (known && call == SYS_poll)
        return true;
#endif
    return known && call == SYS_ppoll;
}

static void *
annotate_when_it_waits(void *)
{
    while (!waits_in_poll(getpid()))
        sched_yield();
    DDP_BUFFER(extra, COUNT, DDP_FLOAT32);
    write_file(getenv("CORNERS_ANNOTATED"), "w");
    return NULL;
}

MODE("annotate-aside", annotate_aside, int step)
{
    pthread_t thread;
    layers_backward(0, stream);
    if (step == 0 && DDP_RANK() == 0)
        CHECK(pthread_create(&thread, NULL, annotate_when_it_waits, NULL));
    while (step == 0 && DDP_RANK() == 1 && access(getenv("CORNERS_ANNOTATED"), F_OK) != 0)
        sched_yield();
    DDP_STEP(stream);
    layers_update();
}

/* What is annotated is not what backward writes; kernels reach other memory through the table. */
MODE("wrong-memory", wrong_memory, int)
{
    static float *others[LAYERS];
    for (int l = 0; l < LAYERS; ++l) {
        if (others[l] == NULL)
            others[l] = device_floats(COUNT);
        add<<<BLOCKS, THREADS, 0, stream>>>(others[l], mine());
    }
    set_slowly_through<<<1, 1, 0, stream>>>(table, mine());
    DDP_STEP(stream);
}

/* A stream on which gradients were touched is captured while those of the next step are averaged. */
MODE("capture", capture, int step)
{
    cudaGraph_t made;
    stream_follow(stream, side, event);
    CHECK(cudaMemsetAsync(gradients[0], 0, BYTES, side));
    stream_follow(side, stream, event);
    if (step > 0)
        CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeRelaxed));
    nothing<<<1, 1, 0, side>>>();
    layers_backward(0, stream);
    DDP_STEP(stream);
    layers_update();
    if (step == 0)
        return;
    CHECK(cudaStreamEndCapture(side, &made));
    CHECK(cudaGraphDestroy(made));
}

/* A module goes while gradients are averaged. */
MODE("unload", unload, int)
{
    cudaLibrary_t library;
    CHECK(cudaLibraryLoadData(&library, softgpu_stub_image((const void *)nothing), NULL, NULL, 0, NULL, NULL, 0));
    layers_backward(0, stream);
    CHECK(cudaLibraryUnload(library));
    DDP_STEP(stream);
    layers_update();
}

/* The device is reset in the middle, and all memory is another afterwards. */
MODE("reset", reset, int step)
{
    if (step == steps / 2) {
        CHECK(cudaDeviceReset());
        create();
        annotate();
        DDP_FORGET(gradients[0]);
        DDP_GRADIENT(gradients[0], COUNT, DDP_FLOAT32);
        steps -= step;
    }
    layers_backward(0, stream);
    DDP_STEP(stream);
    layers_update();
}

/* In this folder: names that begin with "all" are to be reported, each once, and no other. */
MODE("files", files, int step)
{
    layers_backward(0, stream);
    DDP_STEP(stream);
    layers_update();
    if (step != 1)
        return;
    char own[64];
    snprintf(own, sizeof(own), "own-%d", DDP_RANK());
    REQUIRE(close(open("all-open", O_WRONLY | O_CREAT | O_TRUNC, 0600)) == 0);
    REQUIRE(close(openat(AT_FDCWD, "all-openat", O_RDWR | O_CREAT | O_TRUNC, 0600)) == 0);
    REQUIRE(close(creat("all-creat", 0600)) == 0);
    write_file("all-fopen", "w");
    write_file("./all-fopen", "wb"); /* by another name */
    std::ofstream("all-stream") << DDP_RANK();
    write_file(own, "w");
    REQUIRE(rename(own, "all-renamed") == 0);

    write_file(own, "w");
    write_file("log", "a");
    write_file("some.lock", "w");
    write_file("/dev/null", "w");
    REQUIRE(close(open("in-parts", O_RDWR | O_CREAT, 0600)) == 0);
    REQUIRE(mkfifo("pipe", 0600) == 0 || errno == EEXIST);
    REQUIRE(close(open("pipe", O_RDWR | O_TRUNC)) == 0);
    if (DDP_RANK() == 0)
        write_file("zero", "w");
    pid_t child = fork();
    if (child == 0) {
        write_file("child", "w");
        _exit(0);
    }
    REQUIRE(waitpid(child, NULL, 0) == child);
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "");
    create();
    void (*one_step)(int) = mode_of<void(int)>::given();
    if (one_step == NULL) {
        fprintf(stderr, "corners: %s is no mode\n", mode);
        return 2;
    }
    struct table shown = {};
    memcpy(shown.weights, weights, sizeof(weights));
    if (!is_mode("buffer") && !is_mode("wrong-memory"))
        memcpy(shown.gradients, gradients, sizeof(gradients));
    shown.statistics = statistics;
    if (is_one_of(
            {"stream-again", "all-hidden", "buffer", "wrong-memory"})) /* addresses lie in the table on the device */
        CHECK(cudaMemcpy(table, &shown, sizeof(shown), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize()); /* the copy may return before it is done, and `stream` follows no other */
    annotate();
    if (is_mode("graph-in-thread"))
        make_graph();
    for (int step = 0, all = steps; step < all; ++step)
        one_step(step);
    expect_steps(steps);
    return weights_are_right(0) ? 0 : 1;
}
