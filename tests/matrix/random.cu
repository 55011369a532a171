/*
 * random.cu - a random training program: --seed decides how many layers there are, how large, which calls write their
 * gradients, on which streams and from which threads, in which order, how many backward passes a step has and whether
 * that changes, which layers a step leaves out, when gradients move in memory, who looks at them in between, how
 * they are zeroed, clipped and used, and which annotations say more about them than they must. The program is the same
 * on all ranks, but for a rank that alone writes a log.
 *
 * Without ddprun it is the serial program that the ranks are held against. MATRIX_DESCRIBE=1 prints what the seed made;
 * MATRIX_WITHOUT="streams threads ..." leaves features out, to find the one that a failure needs. MATRIX_CAPTURE=K: of
 * the steps after the first few every Kth is captured into a CUDA graph of its own, which is launched once.
 * MATRIX_TURNS=1: ranks take turns at whole batches.
 */
#include "random_rare.h"

#include <pthread.h>

/* ---- one step ---- */

struct jobs {
    struct job items[JOBS_AT_MOST];
    int count;
};

static void *
run_in_thread(void *argument)
{
    struct jobs *jobs = (struct jobs *)argument;
    device_enter();
    for (int j = 0; j < jobs->count; ++j)
        job_run(&jobs->items[j], thread_event);
    return NULL;
}

/* Jobs of the second thread and of this one, at the same time. */
static void
jobs_run(struct jobs *jobs, int step)
{
    static struct jobs theirs, mine;
    int order[JOBS_AT_MOST];
    for (int j = 0; j < jobs->count; ++j)
        order[j] = j;
    if (program.shuffled) {
        random_state = options.seed + (unsigned)step / 3 * 77u + 1u;
        shuffle(order, jobs->count);
    }
    theirs.count = mine.count = 0;
    for (int j = 0; j < jobs->count; ++j) {
        struct jobs *to = jobs->items[order[j]].layer->in_thread ? &theirs : &mine;
        to->items[to->count++] = jobs->items[order[j]];
    }
    pthread_t thread;
    bool started = theirs.count > 0;
    if (started)
        CHECK(pthread_create(&thread, NULL, run_in_thread, &theirs));
    for (int j = 0; j < mine.count; ++j)
        job_run(&mine.items[j], event);
    if (started)
        pthread_join(thread, NULL);
}

/* The layer below that takes part in this step; NULL: the items are below. */
static struct layer *
below(int l, int step)
{
    while (--l >= 0) {
        if (!is_left_out(&layers[l], step))
            return &layers[l];
    }
    return NULL;
}

/* What the program knows about its gradients after the last pass. */
static void
declare_ready(int step)
{
    for (int l = 0; l < program.layers; ++l) {
        if (!layers[l].declared || is_left_out(&layers[l], step))
            continue;
        DDP_GRADIENT_READY(layers[l].dense.weight_gradient, streams[layers[l].stream]);
        DDP_GRADIENT_READY(layers[l].dense.bias_gradient, streams[layers[l].stream]);
    }
}

static void
pass_run(int step, int pass, int passes, size_t first, int count)
{
    size_t first_item = (size_t)((step * PASSES_AT_MOST + pass) * options.batch) + first;
    const float *input = items.device_inputs + first_item * (size_t)items.inputs;
    const float *target = items.device_targets + first_item * (size_t)items.outputs;
    const struct dense *last = &layers[program.layers - 1].dense;
    items_load(&items, first_item, (size_t)count, streams[0]);
    for (int l = 0; l < program.layers; ++l) {
        struct layer *lower = below(l, step);
        if (!is_left_out(&layers[l], step))
            dense_run_forward(&layers[l].dense, lower != NULL ? lower->dense.output : input, count, streams[0]);
    }
    LAUNCH(loss_delta, (size_t)(last->outputs * count), streams[0])
    (last->delta, last->output, target, last->outputs, count);

    struct jobs jobs;
    jobs.count = 0;
    for (int l = program.layers - 1; l >= 0; --l) {
        struct layer *layer = &layers[l], *lower = below(l, step);
        if (is_left_out(layer, step))
            continue;
        float keep = pass > 0 || layer->zeroed_first || layer->keeps_momentum ? 1.0f : 0.0f;
        struct job job = {layer, lower != NULL ? lower->dense.output : input, count, keep, 1.0f / (float)passes};
        if (program.deferred)
            jobs.items[jobs.count++] = job;
        else
            job_run(&job, event);
        if (lower != NULL)
            dense_run_delta(&layer->dense, &lower->dense, count, streams[0]);
        if (l == program.layers / 2)
            rare_call(step, true);
    }
    jobs_run(&jobs, step);
    if (pass == passes - 1)
        declare_ready(step);
    for (int s = 1; s <= program.streams; ++s)
        stream_follow(streams[s], streams[0], event);
}

static void *
boundary(void *group)
{
    device_enter();
    DDP_STEP_GROUP(*(int *)group, update_stream);
    return group;
}

static void
boundary_pass(int group)
{
    pthread_t thread;
    if (!program.step_in_thread) {
        DDP_STEP_GROUP(group, update_stream);
        return;
    }
    CHECK(pthread_create(&thread, NULL, boundary, &group));
    pthread_join(thread, NULL);
}

/* Layers take turns. */
static int
group_of(int l)
{
    return l % program.groups;
}

static void
clip(void)
{
    int adds = 0;
    for (int l = 0; l < program.layers; ++l)
        for (const tensor &t : tensors_of(&layers[l].dense))
            LAUNCH(square_sum, 1, update_stream)(norms, t.gradient, t.count, adds++);
    LAUNCH(clip_factor, 1, update_stream)(factor, norms, 1, 0.05f);
}

/* Both gradients of the layer, by a number and by one on the device, or NULL. */
static void
scale_gradients(const struct layer *layer, float by, const float *factor)
{
    for (const tensor &t : tensors_of(&layer->dense))
        LAUNCH(scale_in_place, (size_t)t.count, update_stream)(t.gradient, t.count, by, factor);
}

static void
update(const struct layer *layer)
{
    if (program.clipped)
        scale_gradients(layer, 1.0f, factor);
    if (program.buffered)
        scale_gradients(layer, 1.0f, rate_scale);
    dense_update(&layer->dense, 0.05f, update_stream);
    if (layer->keeps_momentum)
        scale_gradients(layer, 0.5f, NULL);
}

/* The host takes a copy of a gradient, for a log that is never read. */
static void
look(const struct dense *d)
{
    float *host = (float *)malloc((size_t)(d->inputs * d->outputs) * sizeof(float));
    device_wait();
    device_download(host, d->weight_gradient, (size_t)(d->inputs * d->outputs) * sizeof(float));
    free(host);
}

static void
step_run(int step, size_t first, int count)
{
    if (block_floats > 0)
        device_zero(block, block_floats, streams[0]);
    for (int l = 0; l < program.layers; ++l) {
        if (layers[l].zeroed_first && !layers[l].in_block)
            for (const tensor &t : tensors_of(&layers[l].dense))
                device_zero(t.gradient, (size_t)t.count, streams[0]);
    }
    int passes = passes_of(step);
    for (int pass = 0; pass < passes; ++pass) {
        if (program.no_sync && passes > 1 && pass == 0)
            DDP_NO_SYNC_BEGIN();
        if (program.no_sync && passes > 1 && pass == passes - 1)
            DDP_NO_SYNC_END();
        pass_run(step, pass, passes, first, count);
        if (program.look_every > 0 && step % program.look_every == 1 && pass == 0)
            look(&layers[program.log_layer].dense);
    }
    if (program.log_every > 0 && step % program.log_every == 0 && (!program.log_on_one || DDP_RANK() == 0)) {
        const struct dense *d = &layers[program.log_layer].dense;
        LAUNCH(square_sum, 1, streams[0])(norms + 1, d->weight_gradient, d->inputs * d->outputs, 0);
    }
    rare_write(step);
    rare_call(step, false);
    if (rare.is_on && rare.frees)
        device_free(device_allocate(10000));
    if (rare_leaves_step_out(step)) {
        record_step(step, streams[0]);
        return;
    }
    if (update_stream != streams[0])
        stream_follow(streams[0], update_stream, event);
    if (program.buffered) /* DDP_STEP makes it right */
        LAUNCH(set_value, 1, update_stream)(rate_scale, DDP_RANK() == 0 ? 1.0f / (float)(1 + step % 3) : 7.0f);
    int first_group = program.second_first ? program.groups - 1 : 0, last_group = program.groups - 1 - first_group;
    boundary_pass(first_group);
    if (program.clipped) { /* by the norm of all */
        if (program.groups == 2)
            boundary_pass(last_group);
        clip();
    }
    for (int l = 0; l < program.layers; ++l) {
        if (group_of(program.order[l]) == first_group)
            update(&layers[program.order[l]]);
    }
    if (program.groups == 2 && !program.clipped)
        boundary_pass(last_group);
    for (int l = 0; l < program.layers && program.groups == 2; ++l) {
        if (group_of(program.order[l]) == last_group)
            update(&layers[program.order[l]]);
    }
    record_step(step, update_stream);
    if (update_stream != streams[0])
        stream_follow(update_stream, streams[0], event);
}

/* ---- steps in graphs ---- */

/* What was captured on the main stream, launched there. */
static void
graph_run(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t launchable;
    EITHER(cuStreamEndCapture(streams[0], &graph), cudaStreamEndCapture(streams[0], &graph));
    EITHER(cuGraphInstantiate(&launchable, graph, 0), cudaGraphInstantiate(&launchable, graph, 0));
    EITHER(cuGraphLaunch(launchable, streams[0]), cudaGraphLaunch(launchable, streams[0]));
    EITHER(cuGraphDestroy(graph), cudaGraphDestroy(graph));
    EITHER(cuGraphExecDestroy(launchable), cudaGraphExecDestroy(launchable));
}

static void
capture_begin(void)
{
    EITHER(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED),
           cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed));
    for (int s = 1; s <= program.streams; ++s)
        stream_follow(streams[0], streams[s], event);
}

/* Not where the host looks at the device within the step, nor on the default stream, which cannot be captured. */
static bool
is_captured(int step)
{
    const char *every = getenv("MATRIX_CAPTURE");
    bool looks = program.look_every > 0 && step % program.look_every == 1;
    return every != NULL && atoi(every) > 0 && step >= 4 && step % atoi(every) == 0 && !program.on_default && !looks;
}

/* ---- memory ---- */

static void
annotate(int l)
{
    DDP_GRADIENT_GROUP(group_of(l));
    dense_annotate_gradients(&layers[l].dense);
}

/* Gradients of one layer move: freed, and allocated after something else. Zeros. */
static void
gradients_move(struct layer *layer, size_t gap)
{
    struct dense *d = &layer->dense;
    device_free(d->weight_gradient);
    device_free(d->bias_gradient);
    (void)device_allocate(gap);
    d->weight_gradient = device_floats((size_t)(d->inputs * d->outputs));
    d->bias_gradient = device_floats((size_t)d->outputs);
}

static void
gradients_move_all(int step)
{
    bool moved[LAYERS_AT_MOST] = {false}, any = false;
    for (int l = 0; l < program.layers; ++l) {
        moved[l] = layers[l].moved_every > 0 && step % layers[l].moved_every == 0;
        any = any || moved[l];
    }
    if (!any)
        return;
    device_wait();
    for (int l = 0; l < program.layers; ++l) {
        if (moved[l])
            gradients_move(&layers[l], (size_t)(1 + step % 3) * 3000);
    }
    for (int l = 0; l < program.layers; ++l) {
        if (moved[program.order[l]])
            annotate(program.order[l]);
    }
}

/* Side streams end with work in flight, and others take their place. */
static void
streams_renew(void)
{
    for (int s = 1; s <= program.streams; ++s) {
        stream_destroy(streams[s]);
        streams[s] = stream_create();
    }
    for (int l = 0; l < program.layers; ++l)
        CHECK(cublasSetStream(layers[l].blas, streams[layers[l].stream]));
}

/* Gradients that stay where they are, one after the other, in the order of annotation. */
static void
block_create(void)
{
    for (int l = 0; l < program.layers; ++l) {
        layers[l].in_block = layers[l].zeroed_first && layers[l].moved_every == 0;
        if (layers[l].in_block)
            block_floats += (size_t)((program.widths[l] + 1) * program.widths[l + 1]);
    }
    if (block_floats == 0)
        return;
    block = device_floats(block_floats);
    float *at = block;
    for (int i = 0; i < program.layers; ++i) {
        struct dense *d = &layers[program.order[i]].dense;
        if (!layers[program.order[i]].in_block)
            continue;
        d->weight_gradient = at;
        d->bias_gradient = at + d->inputs * d->outputs;
        at = d->bias_gradient + d->outputs;
    }
}

static void
program_create(void)
{
    streams[0] = program.on_default ? NULL : stream_create();
    for (int s = 1; s <= program.streams; ++s)
        streams[s] = stream_create();
    update_stream = program.update_aside ? stream_create() : streams[0];
    event = event_create();
    thread_event = event_create();
    norms = device_floats(2);
    factor = device_floats(1);
    rate_scale = device_floats(1);
    if (program.buffered)
        DDP_BUFFER(rate_scale, 1, DDP_FLOAT32);
    items_create(&items, (size_t)(options.steps * PASSES_AT_MOST * options.batch), program.widths[0],
                 program.widths[program.layers]);
    for (int l = 0; l < program.layers; ++l) {
        dense_create(&layers[l].dense, l, program.widths[l], program.widths[l + 1], true);
        layers[l].scratch = device_floats((size_t)(program.widths[l] * program.widths[l + 1]));
        layers[l].blas = blas_create(streams[layers[l].stream]);
        tables_create(&layers[l]);
    }
    if (program.together)
        block_create();
    for (int l = 0; l < program.layers; ++l)
        annotate(program.order[l]);
}

int
main(int argc, char **argv)
{
    options_parse(argc, argv);
    program_decide();
    rare_decide();
    if (getenv("MATRIX_DESCRIBE") != NULL)
        program_describe();
    device_open();
    program_create();
    rare_create();

    size_t first = 0, count = options.batch;
    const bool turns = getenv("MATRIX_TURNS") != NULL;
    if (!turns)
        DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        bool captured = !turns && is_captured(step);
        if (captured)
            capture_begin();
        if (turns)
            DDP_TURN_OPEN();
        step_run(step, first, (int)count);
        if (turns)
            DDP_TURN_END();
        if (captured)
            graph_run();
        if (program.wait_every > 0 && step % program.wait_every == 0)
            device_wait();
        gradients_move_all(step + 1);
        if (program.renew_every > 0 && step % program.renew_every == 0)
            streams_renew();
    }
    rare_destroy();
    record_save();
    return 0;
}
