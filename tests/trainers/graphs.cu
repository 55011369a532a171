/*
 * graphs.cu - a trainer that captures: whole steps, several in one graph, halves of steps, again and again, by fork and
 * join, and in ways that cannot be followed. Each is a mode.
 *
 * As exact.h, but that rank r adds (1 + r) * factor; factor is another one in each step, and lies in device memory.
 */
#include "graphs_steps.h"

#include <thread>

#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#endif

/* ---- modes that train ---- */

MODE("recapture", recapture, int step)
{
    if (step % 4 == 0)
        drop(0);
    launch(0, whole_step);
}

MODE("exec-update", exec_update, int step)
{
    if (step > 4 && step % 4 == 0) {
        cudaGraphExecUpdateResultInfo info;
        CHECK(cudaGraphExecUpdate(execs[0], capture(whole_step), &info));
    }
    launch(0, whole_step);
}

MODE("clone", cloned, int)
{
    if (execs[0] == NULL) {
        cudaGraph_t clone;
        CHECK(cudaGraphClone(&clone, capture(whole_step)));
        CHECK(cudaGraphInstantiate(&execs[0], clone, 0));
        CHECK(cudaGraphDestroy(clone));
    }
    launch(0, whole_step);
}

static void
by_halves(void)
{
    if (is_mode("by-hand") && execs[0] == NULL)
        build_backward();
    if (is_mode("child") && execs[0] == NULL)
        build_parent();
    if (is_mode("update-only") || is_mode("step-and-update"))
        backward();
    else
        launch(0, backward);
    if (!is_mode("step-and-update"))
        average();
    if (is_mode("step-and-update"))
        launch(0, step_and_update);
    else if (is_mode("update-only") || is_mode("halves"))
        launch(1, update_only);
    else
        optimize(0.5f);
}

/* A graph of one step, of two passes or of three steps. */
static int
launch_one_of(int which)
{
    launch(which, which == 0 ? whole_step : which == 1 ? two_passes : three_steps);
    return which == 2 ? 3 : 1;
}

/* Two captures in progress at the same time. None is while a graph is instantiated: that may allocate. */
static void
capture_groups(const cudaStream_t on[2])
{
    cudaGraph_t graphs[2];
    for (int g = 0; g < 2; ++g)
        CHECK(cudaStreamBeginCapture(on[g], cudaStreamCaptureModeGlobal));
    for (int g = 0; g < 2; ++g)
        group_on(g, on[g]);
    for (int g = 0; g < 2; ++g)
        CHECK(cudaStreamEndCapture(on[g], &graphs[g]));
    for (int g = 0; g < 2; ++g) {
        CHECK(cudaGraphInstantiate(&execs[g], graphs[g], 0));
        CHECK(cudaGraphDestroy(graphs[g]));
    }
}

/* Their graphs on two streams. */
MODE("at-once", at_once, int)
{
    cudaStream_t on[2] = {stream, side};
    if (execs[0] == NULL)
        capture_groups(on);
    order(stream, side, 4);
    for (int g = 0; g < 2; ++g)
        CHECK(cudaGraphLaunch(execs[g], on[g]));
    order(side, stream, 5);
}

/* A capture that the program itself breaks, on all ranks: the program continues without a graph. */
static void
break_capture(void)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    whole_step();
    if (!is_mode("one-rank-fails") || DDP_RANK() == 0)
        (void)cudaStreamSynchronize(stream);
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && is_mode("capture-fails"))
        exit(3);
    (void)cudaGetLastError();
}

/* In another thread, which captures nothing of interest in the strictest mode for as long as main() trains. */
static volatile int capture_goes_on, training_is_over;

static void
capture_elsewhere(void)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(third, cudaStreamCaptureModeGlobal));
    look<<<1, 1, 0, third>>>(weights[0], scratch);
    capture_goes_on = 1;
    while (!training_is_over)
        std::this_thread::yield();
    look<<<1, 1, 0, third>>>(weights[1], scratch);
    CHECK(cudaStreamEndCapture(third, &graph));
    CHECK(cudaGraphDestroy(graph));
}

MODE("thread", capture_in_thread, int)
{
    if (execs[0] == NULL)
        std::thread([] { CHECK(cudaGraphInstantiate(&execs[0], capture(whole_step), 0)); }).join();
    launch(0, whole_step);
}

/* ---- modes that end the job ---- */

static void
wrong_stream(void)
{
    backward();
    DDP_STEP(side);
    optimize(0.5f);
}

static void
node_inside(void)
{
    cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    unsigned long long id;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, NULL, NULL, NULL));
    add_node(graph);
    whole_step();
}

static void
free_and_annotate(void)
{
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(gradients[2]));
    gradients[2] = device_floats(COUNT);
    DDP_GRADIENT(gradients[2], COUNT, DDP_FLOAT32);
}

static void
free_weight(void)
{
    float *other = device_floats(COUNT);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(other, weights[2], BYTES, cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(weights[2]));
    weights[2] = other;
    drop(0); /* what is captured now updates the new one */
}

static void
nest(void)
{
    cudaGraph_t outer;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&node, outer, NULL, 0, kept));
}

/* A gradient's address among other numbers, from where no kernel reads it: a batch of images may hold such a number. */
static void
copy_number(void)
{
    enum { NUMBERS = 8192 };
    static unsigned long long numbers[NUMBERS];
    unsigned long long *images;
    numbers[NUMBERS / 3] = (unsigned long long)(uintptr_t)gradients[2];
    CHECK(cudaMalloc(&images, sizeof(numbers)));
    CHECK(cudaMemcpy(images, numbers, sizeof(numbers), cudaMemcpyHostToDevice));
}

/* Returns whether the mode is such a one, in its step. */
static bool
misuse(int step)
{
    bool one = is_last_rank();
    if (step == 10 && is_mode("one-rank-eager") && one) {
        whole_step();
        return true;
    }
    if (step == 10 && is_mode("one-rank-other-graph")) {
        launch(1, whole_step);
        launch(one ? 0 : 1, whole_step);
        return true;
    }
    if (is_mode("one-rank-captures") && !one) {
        whole_step();
        return true;
    }
    if (is_mode("one-rank-captures-more")) {
        launch(0, one ? three_steps : whole_step);
        return true;
    }
    if (is_mode("wrong-stream") || is_mode("node-inside")) {
        launch(0, is_mode("wrong-stream") ? wrong_stream : node_inside);
        return true;
    }
    if (step == 10 && is_mode("freed"))
        free_and_annotate();
    if (step == 10 && is_mode("freed-weight"))
        free_weight();
    if (step == 10 && is_mode("address-later"))
        CHECK(cudaMemcpy(table, gradients, sizeof(gradients), cudaMemcpyHostToDevice));
    if (step == 10 && is_mode("number-later") && one)
        copy_number();
    if (step == 10 && is_mode("nested"))
        nest();
    if (step == 10 && is_mode("node-later"))
        add_node(kept);
    if (step == 10 && is_mode("other-gradient"))
        change_update(0.5f, true);
    return false;
}

/* ---- all of it ---- */

static bool
is_eager(int step)
{
    if (is_one_of({"first", "halves", "backward-only", "update-only"}))
        return false;
    if (is_mode("mixed"))
        return step < 6 || step % 5 == 4 || step >= 20;
    if (is_mode("late"))
        return step < 12; /* buckets leave early by then */
    return step < 2;
}

static void
one_step(int step)
{
    double share = 0.5 * factor_of(step); /* of the mean, that an update takes */
    int count = 1;
    set<<<1, 1, 0, stream>>>(factors, factor_of(step));
    if (is_eager(step)) {
        if (is_mode("groups") || is_mode("at-once"))
            step_of_groups();
        else
            whole_step();
    } else if (is_one_of({"alternate", "irregular", "several"})) {
        count = launch_one_of(is_mode("several") ? 2 : is_mode("alternate") ? step % 2 : (step * step / 3) % 3);
    } else if (is_one_of({"halves", "backward-only", "update-only", "step-and-update", "by-hand", "child"})) {
        by_halves();
    } else if (is_one_of({"capture-fails", "one-rank-fails", "elsewhere", "forward-only"})) {
        if (is_mode("forward-only"))
            launch(0, forward);
        else if (step == 3 && !is_mode("elsewhere"))
            break_capture();
        whole_step();
    } else if (mode_of<void(int)>::given() != NULL) {
        mode_of<void(int)>::given()(step);
    } else if (!misuse(step)) {
        launch(0, is_mode("groups") ? step_of_groups : whole_step);
    }
    if (is_mode("set-rate") && step == 10)
        change_update(0.125f, false);
    if (is_mode("set-rate") && step > 10)
        share /= 4;
    expect(count * (share * mean_of_all() + (is_mode("buffer") ? 1.0 : 0.0)));
}

static void
create(void)
{
    int group = 0;
    layers_create();
    third = stream_create();
    for (cudaEvent_t &one : events)
        one = event_create();
    factors = device_floats(1);
    statistics = device_floats(2);
    scratch = device_floats(LAYERS);
    CHECK(cudaMalloc(&table, sizeof(gradients)));
    if (is_mode("hidden"))
        CHECK(cudaMemcpy(table, gradients, 2 * sizeof(gradients[0]), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    annotate_parameters();
    for (int l = 0; l < LAYERS; ++l) {
        if ((is_mode("groups") || is_mode("at-once")) && group != l % 2)
            DDP_GRADIENT_GROUP(group = l % 2);
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
    }
    if (is_mode("buffer"))
        DDP_BUFFER(statistics, 1, DDP_FLOAT32);
}

int
main(int argc, char **argv)
{
    steps = 24;
    take_mode(argc, argv, "whole");
    create();
    std::thread other;
    for (int step = 0; step < steps; ++step) {
        if (is_mode("elsewhere") && step == 2) {
            other = std::thread(capture_elsewhere);
            while (!capture_goes_on)
                std::this_thread::yield();
        }
        one_step(step);
    }
    training_is_over = 1;
    if (other.joinable())
        other.join();
    CHECK(cudaDeviceSynchronize());
    if (is_mode("whole") || is_mode("late"))
        look_at_overlap();
    for (int which = 0; which < GRAPHS; ++which)
        drop(which);
    if (kept != NULL)
        CHECK(cudaGraphDestroy(kept));
    return weights_are_right(1e-5) ? 0 : 1;
}
