/*
 * graph.cu - a captured step: the first step runs plainly, the second is captured into a CUDA graph, forward, backward,
 * boundary and optimizer, and this graph is launched from then on. Items come into one fixed buffer before each launch.
 */
#include "perceptron.h"

static cudaStream_t stream;
static float *input, *target; /* what the graph reads: [batch][WIDTH] */

#ifdef MATRIX_DRIVER

static cudaGraphExec_t
capture(void (*body)(void *), void *argument)
{
    CUgraph graph;
    CUgraphExec launchable;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    body(argument);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&launchable, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return launchable;
}

static void
graph_launch(cudaGraphExec_t graph)
{
    CHECK(cuGraphLaunch(graph, stream));
}

#else

static cudaGraphExec_t
capture(void (*body)(void *), void *argument)
{
    cudaGraph_t graph;
    cudaGraphExec_t launchable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    body(argument);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&launchable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return launchable;
}

static void
graph_launch(cudaGraphExec_t graph)
{
    CHECK(cudaGraphLaunch(graph, stream));
}

#endif

struct step {
    struct perceptron net;
    int count;
};

/* What one step enqueues. */
static void
step_enqueue(void *argument)
{
    struct step *step = (struct step *)argument;
    struct perceptron *net = &step->net;
    const struct dense *last = &net->layers[LAYERS - 1];
    for (int l = 0; l < LAYERS; ++l)
        dense_run_forward(&net->layers[l], l > 0 ? net->layers[l - 1].output : input, step->count, stream);
    LAUNCH(loss_delta, (size_t)(WIDTH * step->count), stream)(last->delta, last->output, target, WIDTH, step->count);
    for (int l = LAYERS - 1; l >= 0; --l) {
        dense_run_gradients(&net->layers[l], l > 0 ? net->layers[l - 1].output : input, step->count, 0.0f, 1.0f,
                            stream);
        if (l > 0)
            dense_run_delta(&net->layers[l], &net->layers[l - 1], step->count, stream);
    }
    DDP_STEP(stream);
    perceptron_update(net, 0.2f, stream);
}

int
main(int argc, char **argv)
{
    static struct step step_of_graph;
    struct perceptron *net = &step_of_graph.net;
    options_parse(argc, argv);
    device_open();
    stream = stream_create();
    input = device_floats((size_t)(options.batch * WIDTH));
    target = device_floats((size_t)(options.batch * WIDTH));
    perceptron_create(net, 0, 1, true);
    perceptron_annotate_gradients(net);

    size_t first, count;
    cudaGraphExec_t graph = NULL;
    DDP_SHARD(options.batch, &first, &count);
    step_of_graph.count = (int)count;
    for (int step = 0; step < options.steps; ++step) {
        size_t first_item = item_of(step, 0, 1, first), bytes = count * WIDTH * sizeof(float);
        items_load(&net->items, first_item, count, stream);
        device_copy(input, net->items.device_inputs + first_item * WIDTH, bytes, stream);
        device_copy(target, net->items.device_targets + first_item * WIDTH, bytes, stream);
        if (step == 1)
            graph = capture(step_enqueue, &step_of_graph);
        if (step == 0)
            step_enqueue(&step_of_graph);
        else
            graph_launch(graph);
        record_step(step, stream);
    }
    record_save();
    return 0;
}
