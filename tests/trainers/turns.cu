/*
 * turns.cu - trainers that take turns, one MODE for each habit, and what one process makes of the same turns.
 *
 *     turns MODE [--batches N] [--play RANKS] [--save FILE]
 *
 * With --play the program plays the turns of RANKS ranks by its own code, in one process: it adds up the gradients of a
 * round's batches on the host, and makes the update once a round. Started by ddprun, without --play, the same program
 * has to save the same bits on each rank. The model is a net of two layers on numbers that each batch's number decides;
 * all sums are taken in a fixed order. turns_refused.cu has what ddprun must refuse.
 */
#include "turns.h"

/* ---- trainers ---- */

MODE("plain", train_plain, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (step())
            update_all();
    }
}

/* Each rank waits for its device, and then for the others. */
MODE("waits", train_waiting, int batches)
{
    float loss = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        CHECK(cudaDeviceSynchronize());
        if (step())
            update_all();
        DDP_TURN_END();
        DDP_MEAN(&loss);
    }
}

/* The region ends before its block. */
MODE("end", train_ended, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (step())
            update_all();
        DDP_TURN_END();
        touch_loss();
    }
}

static void
open_batch(int batch)
{
    load(batch, x, target);
    DDP_TURN_OPEN();
}

static void
close_batch(void)
{
    if (step())
        update_all();
    DDP_TURN_END();
}

MODE("functions", train_functions, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        open_batch(batch);
        forward_and_backward(0);
        close_batch();
    }
}

/* Momentum is made where the batch completes no round, on 2 to 4 ranks. */
MODE("late", train_late, int batches)
{
    float *made[TENSORS] = {NULL};
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        bool updates = step();
        for (int t = 0; t < TENSORS && batch == LATE; ++t) {
            CHECK(cudaMalloc(&made[t], tensors[t].count * sizeof(float)));
            fill<<<blocks_for(tensors[t].count), THREADS, 0, stream>>>(made[t], 0.25f, tensors[t].count);
        }
        for (int t = 0; t < TENSORS && batch == LATE; ++t)
            CHECK(cudaMemsetAsync(made[t], 0, sizeof(float), stream));
        for (int t = 0; t < TENSORS && updates; ++t) {
            if (made[t] != NULL)
                sgd<<<blocks_for(tensors[t].count), THREADS, 0, stream>>>(tensors[t].weight, made[t],
                                                                          tensors[t].gradient, tensors[t].count, RATE);
            else
                update_one(&tensors[t]);
        }
    }
}

MODE("accumulate", train_accumulating, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        DDP_TURN_BEGIN();
        clear_gradients();
        for (int pass = 0; pass < 2; ++pass) {
            load(2 * batch + pass, x, target);
            forward_and_backward(1);
        }
        if (step())
            update_all();
    }
}

/* A region for each pass. */
MODE("passes", train_by_passes, int batches)
{
    for (int pass = 0; pass < 2 * batches; ++pass) {
        load(pass, x, target);
        DDP_TURN_BEGIN();
        if (pass % 2 == 0)
            clear_gradients();
        forward_and_backward(1);
        if (pass % 2 == 0)
            continue;
        if (step())
            update_all();
    }
}

MODE("cleared", train_cleared_before, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        clear_gradients();
        DDP_TURN_BEGIN();
        forward_and_backward(1);
        if (step())
            update_all();
    }
}

/* The last layer's gradient has a stream of its own, which DDP_STEP does not name: it is made, used and cleared there.
 */
MODE("side", train_beside, int batches)
{
    const cudaStream_t side = stream_create();
    const cudaEvent_t event = event_create();
    const tensor *last = &tensors[1];
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward();
        stream_follow(stream, side, event);
        weight_gradient<<<blocks_for(last->count), THREADS, 0, side>>>(last->gradient, delta, hidden, HIDDEN, OUTPUTS,
                                                                       ITEMS, 1, 1);
        backward_below(0);
        if (played > 0)
            stream_follow(side, stream, event);
        if (step()) {
            update_one(&tensors[0]);
            descend<<<blocks_for(last->count), THREADS, 0, side>>>(last->weight, last->gradient, last->count, RATE);
        }
        DDP_TURN_END();
        CHECK(cudaMemsetAsync(last->gradient, 0, last->count * sizeof(float), side));
        stream_follow(side, stream, event);
    }
}

MODE("after", train_cleared_after, int batches)
{
    clear_gradients();
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        play_batch();
        DDP_TURN_BEGIN();
        forward_and_backward(1);
        if (!step())
            continue;
        update_all();
        clear_gradients();
    }
}

/* The next batch is copied in this one's region, by calls that do not say where from. */
MODE("prefetch", train_prefetching, int batches)
{
    float *inputs[2], *targets[2];
    for (int i = 0; i < 2; ++i) {
        inputs[i] = device_floats(ITEMS * INPUTS);
        targets[i] = device_floats(ITEMS * OUTPUTS);
    }
    load(0, inputs[0], targets[0]);
    for (int batch = 0; batch < batches; ++batch) {
        x = inputs[batch % 2];
        target = targets[batch % 2];
        DDP_TURN_BEGIN();
        make_batch(batch + 1);
        CHECK(cudaMemcpyAsync(inputs[(batch + 1) % 2], host_x, sizeof(host_x), cudaMemcpyDefault, stream));
        CHECK(cudaMemcpy2DAsync(targets[(batch + 1) % 2], OUTPUTS * sizeof(float), host_target, OUTPUTS * sizeof(float),
                                OUTPUTS * sizeof(float), ITEMS, cudaMemcpyHostToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        forward_and_backward(0);
        if (step())
            update_all();
    }
}

/* The next batch comes from managed memory, which the host writes. */
MODE("managed", train_managed, int batches)
{
    float *shared, *inputs[2];
    CHECK(cudaMallocManaged(&shared, sizeof(host_x)));
    for (int i = 0; i < 2; ++i)
        inputs[i] = device_floats(ITEMS * INPUTS);
    load(0, inputs[0], target);
    for (int batch = 0; batch < batches; ++batch) {
        x = inputs[batch % 2];
        CHECK(cudaStreamSynchronize(stream));
        make_batch(batch + 1);
        memcpy(shared, host_x, sizeof(host_x));
        DDP_TURN_BEGIN();
        CHECK(cudaMemcpyAsync(inputs[(batch + 1) % 2], shared, sizeof(host_x), cudaMemcpyDefault, stream));
        forward_and_backward(0);
        if (step())
            update_all();
    }
}

/* Gradients in managed memory, which are cleared by the host before the region. */
MODE("shared", train_shared, int batches)
{
    for (tensor &one : tensors) {
        CHECK(cudaMallocManaged(&one.gradient, one.count * sizeof(float)));
        DDP_GRADIENT(one.gradient, one.count, DDP_FLOAT32);
    }
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        CHECK(cudaStreamSynchronize(stream));
        for (const tensor &one : tensors)
            memset(one.gradient, 0, one.count * sizeof(float));
        DDP_TURN_BEGIN();
        forward_and_backward(1);
        if (step())
            update_all();
    }
}

/* Activations, and gradients, have other memory in each batch. */
MODE("each", train_allocating, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        CHECK(cudaMalloc(&hidden, ITEMS * HIDDEN * sizeof(float)));
        for (tensor &one : tensors) {
            CHECK(cudaMalloc(&one.gradient, one.count * sizeof(float)));
            DDP_GRADIENT(one.gradient, one.count, DDP_FLOAT32);
        }
        forward_and_backward(0);
        if (step())
            update_all();
        CHECK(cudaFree(hidden));
        for (tensor &one : tensors)
            CHECK(cudaFree(one.gradient));
    }
}

/* The optimizer is the host's. */
MODE("host", train_on_host, int batches)
{
    static float weights[INPUTS * HIDDEN], gradient[INPUTS * HIDDEN];
    int updates_made = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (!step() || !DDP_TURN_UPDATES())
            continue;
        ++updates_made;
        for (tensor &one : tensors) {
            CHECK(cudaMemcpyAsync(weights, one.weight, one.count * sizeof(float), cudaMemcpyDeviceToHost, stream));
            CHECK(cudaMemcpyAsync(gradient, one.gradient, one.count * sizeof(float), cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamSynchronize(stream));
            for (int i = 0; i < one.count; ++i)
                weights[i] -= RATE / (float)updates_made * gradient[i];
            CHECK(cudaMemcpyAsync(one.weight, weights, one.count * sizeof(float), cudaMemcpyHostToDevice, stream));
            CHECK(cudaStreamSynchronize(stream));
        }
    }
    const bool is_known = played > 0 || DDP_WORLD_SIZE() > 1; /* in ddprun check one process has rounds, too */
    REQUIRE(!is_known || updates_made == rounds_of(batches));
}

/* Parameters are updated in backward, and averaged. */
MODE("hogwild", train_hogwild, int batches)
{
    of_parameters = true;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        play_batch();
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        update_all();
        step();
    }
}

/* Two nets, as in a GAN: the second one's backward pass adds to the first one's gradients, which wait. */
MODE("gan", train_pair, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        {
            DDP_TURN_BEGIN();
            clear_group(0);
            forward_and_backward(1);
            if (step_group(0))
                update_group(0);
        }
        DDP_TURN_BEGIN();
        clear_group(1);
        forward_and_backward(1);
        if (step_group(1))
            update_group(1);
    }
}

/* Forward and backward are a graph, which is captured in the first batch, or in each. */
static void
train_by_graphs(int batches, bool in_each)
{
    cudaGraphExec_t made = NULL;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        if (made == NULL || in_each)
            made = graph_make(stream, []() { forward_and_backward(0); });
        CHECK(cudaGraphLaunch(made, stream));
        if (step())
            update_all();
    }
}
MODE("graph", train_by_graph, int batches)
{
    train_by_graphs(batches, false);
}
MODE("graphs", train_by_many_graphs, int batches)
{
    train_by_graphs(batches, true);
}

/* The products are cuBLAS's. */
MODE("blas", train_by_library, int batches)
{
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward();
        blas_weight_gradient(blas, tensors[1].gradient, delta, hidden, HIDDEN, OUTPUTS, ITEMS, 0, 1);
        blas_input_delta(blas, delta_hidden, tensors[1].weight, delta, HIDDEN, OUTPUTS, ITEMS);
        through_tanh<<<blocks_for(ITEMS * HIDDEN), THREADS, 0, stream>>>(delta_hidden, hidden, ITEMS * HIDDEN);
        blas_weight_gradient(blas, tensors[0].gradient, delta_hidden, x, INPUTS, HIDDEN, ITEMS, 0, 1);
        if (step())
            update_all();
    }
}

int
main(int argc, char **argv)
{
    return turns_main(argc, argv);
}
