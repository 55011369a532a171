/*
 * turns_carried.cu - trainers that take turns, and what their host or device carries from batch to batch, one MODE for
 * each habit, written as docs/annotations.md says.
 *
 *     turns_carried MODE [--batches N] [--play RANKS] [--save FILE]
 *
 * --play, --save: as of turns.cu.
 */
#include "turns.h"

#include <algorithm>
#include <curand_kernel.h>
#include <pthread.h>
#include <semaphore.h>

/* ---- what the host does ---- */

STATIC_ELEMENTWISE(adam,
                   (float *weight, const float *gradient, float *first, float *second, float by_first, float by_second,
                    int count),
                   count, first[i] = 0.9f * first[i] + 0.1f * gradient[i];
                   second[i] = 0.99f * second[i] + 0.01f * gradient[i] * gradient[i];
                   weight[i] -= 0.01f * first[i] * by_first / (sqrtf(second[i] * by_second) + 1e-8f))

/* The host counts the updates, for Adam's corrections. */
MODE("adam", train_by_adam, int batches)
{
    float *moments[TENSORS][2];
    int updates = 0;
    for (int t = 0; t < TENSORS; ++t) {
        moments[t][0] = device_floats(tensors[t].count);
        moments[t][1] = device_floats(tensors[t].count);
    }
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (!step())
            continue;
        updates += DDP_TURN_UPDATES();
        const float by_first = 1 / (1 - powf(0.9f, (float)updates)), by_second = 1 / (1 - powf(0.99f, (float)updates));
        for (int t = 0; t < TENSORS; ++t)
            adam<<<blocks_for(tensors[t].count), THREADS, 0, stream>>>(tensors[t].weight, tensors[t].gradient,
                                                                       moments[t][0], moments[t][1], by_first,
                                                                       by_second, tensors[t].count);
    }
    REQUIRE(updates == rounds_of(batches));
}

/* The host clips by a norm that cuBLAS returns to it. */
MODE("norm", train_clipped_by_host, int batches)
{
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (!step())
            continue;
        for (const tensor &one : tensors) {
            float norm = 0;
            CHECK(cublasSnrm2(blas, one.count, one.gradient, 1, &norm));
            const float by = norm > 0.05f ? 0.05f / norm : 1;
            descend<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.gradient, one.count, by * RATE);
        }
    }
}

/* The learning rate of a round of N batches, which is chosen before the first region. */
MODE("linear", train_at_rate, int batches)
{
    const float rate = RATE * (float)turns_of_round();
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (!step())
            continue;
        for (const tensor &one : tensors)
            descend<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.gradient, one.count, rate);
    }
}

/* A loss scaler: the host reads after the update whether it is to go on with its scale. */
MODE("scaler", train_scaled, int batches)
{
    float *squares = device_floats(1), scale = 1, found = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (!step())
            continue;
        square_sum<<<1, 1, 0, stream>>>(squares, tensors[1].gradient, tensors[1].count, 0);
        CHECK(cudaMemcpyAsync(&found, squares, sizeof(found), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (!DDP_TURN_UPDATES())
            continue;
        scale = found > 0.01f ? 0.5f * scale : 1.25f * scale;
        for (const tensor &one : tensors)
            descend<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.gradient, one.count, scale * RATE);
    }
}

/* Accuracy and loss by the host, of its own batches; the ranks' sums are those of all batches. */
MODE("metrics", train_measured, int batches)
{
    static float host_output[ITEMS * OUTPUTS];
    double *sums, host_sums[2] = {0, 0};
    CHECK(cudaMalloc((void **)&sums, sizeof(host_sums)));
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        CHECK(cudaMemcpyAsync(host_output, output, sizeof(host_output), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        const bool is_counted = batch > 0 || DDP_RANK() == 0; /* the first batch is that of all ranks */
        for (int i = 0; i < ITEMS * OUTPUTS && DDP_TURN_MINE() && is_counted; ++i) {
            host_sums[0] += (host_output[i] > 0) == (host_target[i] > 0);
            host_sums[1] += 1;
        }
        if (step())
            update_all();
    }
    CHECK(cudaMemcpy(sums, host_sums, sizeof(host_sums), cudaMemcpyHostToDevice));
    DDP_REDUCE(sums, 2, DDP_FLOAT64, DDP_OP_SUM, stream);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(host_sums, sums, sizeof(host_sums), cudaMemcpyDeviceToHost));
    REQUIRE(host_sums[1] == (double)batches * ITEMS * OUTPUTS);
    if (DDP_RANK() == 0)
        printf("right %.0f\n", host_sums[0]);
}

/* Stops early, by a loss that all ranks know, and then computes another batch. */
MODE("stop", train_until, int batches)
{
    float *squares = device_floats(1), loss = 1;
    for (int batch = 0; batch < batches && loss > 0.01f; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (!step())
            continue;
        square_sum<<<1, 1, 0, stream>>>(squares, tensors[1].gradient, tensors[1].count, 0);
        update_all();
        if (!DDP_TURN_UPDATES())
            continue;
        CHECK(cudaMemcpyAsync(&loss, squares, sizeof(loss), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (loss <= 0.01f)
            break;
    }
    forward_and_backward(0);
}

/* ---- what the device carries ---- */

STATIC_ELEMENTWISE(seed, (curandState * states, int count), count, curand_init(7, (unsigned long long)i, 0, &states[i]))
STATIC_ELEMENTWISE(draw, (float *mask, curandState *states, int count), count,
                   mask[i] = curand_uniform(&states[i]) < 0.8f ? 1.25f : 0.0f)
STATIC_ELEMENTWISE(multiply, (float *values, const float *by, int count), count, values[i] *= by[i])

/* Dropout, whose masks are drawn before the region. */
MODE("masks", train_masked, int batches)
{
    float *mask = device_floats(ITEMS * INPUTS);
    curandState *states;
    CHECK(cudaMalloc((void **)&states, ITEMS * INPUTS * sizeof(*states)));
    seed<<<blocks_for(ITEMS * INPUTS), THREADS, 0, stream>>>(states, ITEMS * INPUTS);
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        draw<<<blocks_for(ITEMS * INPUTS), THREADS, 0, stream>>>(mask, states, ITEMS * INPUTS);
        DDP_TURN_BEGIN();
        multiply<<<blocks_for(ITEMS * INPUTS), THREADS, 0, stream>>>(x, mask, ITEMS * INPUTS);
        forward_and_backward(0);
        if (step())
            update_all();
    }
}

STATIC_ELEMENTWISE(take_next, (float *to, const float *all, int *cursor, int count), count,
                   to[i] = all[*cursor % 5 * count + i])
STATIC_ELEMENTWISE(move_on, (int *cursor), 1, *cursor += 1)

/* A cursor on the device chooses the batch, and moves on before the region. */
MODE("cursor", train_by_cursor, int batches)
{
    float *all_x = device_floats(5 * ITEMS * INPUTS), *all_target = device_floats(5 * ITEMS * OUTPUTS);
    int *cursor = (int *)device_floats(1);
    for (int batch = 0; batch < 5; ++batch)
        load(batch, all_x + batch * ITEMS * INPUTS, all_target + batch * ITEMS * OUTPUTS);
    for (int batch = 0; batch < batches; ++batch) {
        move_on<<<1, 1, 0, stream>>>(cursor);
        DDP_TURN_BEGIN();
        take_next<<<blocks_for(ITEMS * INPUTS), THREADS, 0, stream>>>(x, all_x, cursor, ITEMS * INPUTS);
        take_next<<<blocks_for(ITEMS * OUTPUTS), THREADS, 0, stream>>>(target, all_target, cursor, ITEMS * OUTPUTS);
        forward_and_backward(0);
        if (step())
            update_all();
    }
}

STATIC_ELEMENTWISE(follow, (float *average, const float *weight, int count), count,
                   average[i] = 0.9f * average[i] + 0.1f * weight[i])

/* A moving average of the weights, in the region or after it; at the end it is what is saved. */
static void
train_averaged(int batches, bool after)
{
    float *averages[TENSORS];
    const auto follow_all = [&averages]() {
        for (int t = 0; t < TENSORS; ++t)
            follow<<<blocks_for(tensors[t].count), THREADS, 0, stream>>>(averages[t], tensors[t].weight,
                                                                         tensors[t].count);
    };
    for (int t = 0; t < TENSORS; ++t)
        averages[t] = device_floats(tensors[t].count);
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (!step())
            continue;
        update_all();
        const bool updates = DDP_TURN_UPDATES();
        if (!after)
            follow_all();
        DDP_TURN_END();
        if (after && updates)
            follow_all();
    }
    for (int t = 0; t < TENSORS; ++t)
        CHECK(cudaMemcpyAsync(tensors[t].weight, averages[t], tensors[t].count * sizeof(float),
                              cudaMemcpyDeviceToDevice, stream));
}

MODE("average", train_averaged_inside, int batches)
{
    train_averaged(batches, false);
}

MODE("average-after", train_averaged_after, int batches)
{
    train_averaged(batches, true);
}

/* Batch normalisation: the batch's own mean, and the running one for later. */
STATIC_ELEMENTWISE(batch_normalise, (float *x, float *running, int inputs), inputs, float mean = 0;
                   for (int item = 0; item < ITEMS; ++item) mean += x[item * inputs + i] / ITEMS;
                   running[i] = 0.9f * running[i] + 0.1f * mean;
                   for (int item = 0; item < ITEMS; ++item) x[item * inputs + i] -= mean)

/* Running statistics, of which each rank that is played has its own until the round is complete. */
struct statistics {
    float *running;
    std::vector<float> of_rank[RANKS_AT_MOST];
};

static void
begin_statistics(const statistics *all, int rank)
{
    if (played > 0 && !all->of_rank[rank].empty())
        CHECK(cudaMemcpyAsync(all->running, all->of_rank[rank].data(), INPUTS * sizeof(float), cudaMemcpyHostToDevice,
                              stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* At DDP_STEP: all ranks take rank 0's where it completes a round. */
static void
end_statistics(statistics *all, int rank, bool is_first, bool completes)
{
    std::vector<float> now(INPUTS);
    if (played == 0)
        return;
    CHECK(cudaMemcpyAsync(now.data(), all->running, INPUTS * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    all->of_rank[rank] = now;
    for (int other = 0; other < played && (is_first || completes); ++other)
        all->of_rank[other] = is_first ? now : all->of_rank[0];
    if (completes)
        begin_statistics(all, 0);
}

/* The statistics of the last complete round are saved with the weights. */
MODE("statistics", train_normalised, int batches)
{
    statistics all = {device_floats(INPUTS), {}};
    float *complete = device_floats(INPUTS);
    DDP_BUFFER(all.running, INPUTS, DDP_FLOAT32);
    for (int batch = 0; batch < batches; ++batch) {
        const int rank = groups[0].turn;
        load(batch, x, target);
        begin_statistics(&all, rank);
        DDP_TURN_BEGIN();
        batch_normalise<<<blocks_for(INPUTS), THREADS, 0, stream>>>(x, all.running, INPUTS);
        forward_and_backward(0);
        const bool completes = step();
        end_statistics(&all, rank, batch == 0, completes);
        if (!completes)
            continue;
        update_all();
        if (!DDP_TURN_UPDATES())
            continue;
        CHECK(cudaMemcpyAsync(complete, all.running, INPUTS * sizeof(float), cudaMemcpyDeviceToDevice, stream));
    }
    CHECK(cudaMemcpyAsync(tensors[0].weight, complete, INPUTS * sizeof(float), cudaMemcpyDeviceToDevice, stream));
}

/* Reinforcement learning: before the region all ranks compute the action, and take the same step in the environment;
 * the batch is a place that some step before has come to. */
MODE("replay", train_from_replay, int batches)
{
    enum { PLACES = 1000 };
    std::vector<int> memory;
    unsigned drawn = 1;
    int place = 0;
    for (int batch = 0; batch < batches; ++batch) {
        float values[OUTPUTS];
        load(place, x, target);
        forward();
        CHECK(cudaMemcpyAsync(values, output, sizeof(values), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        const int action = (int)(std::max_element(values, values + OUTPUTS) - values);
        place = (3 * place + action + batch) % PLACES;
        memory.push_back(place);
        drawn = drawn * 1664525u + 1013904223u;
        load(memory[(drawn >> 8) % memory.size()], x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (step())
            update_all();
    }
    if (DDP_RANK() == 0)
        printf("place %d\n", place);
}

/* ---- threads, and memory of the host ---- */

static struct {
    float *inputs[2], *targets[2];
    int batches;
    sem_t filled, emptied;
} loader;

static void *
load_all(void *)
{
    const cudaStream_t own = stream_create();
    for (int batch = 0; batch < loader.batches; ++batch) {
        sem_wait(&loader.emptied);
        make_batch(batch);
        CHECK(cudaMemcpyAsync(loader.inputs[batch % 2], host_x, sizeof(host_x), cudaMemcpyHostToDevice, own));
        CHECK(
            cudaMemcpyAsync(loader.targets[batch % 2], host_target, sizeof(host_target), cudaMemcpyHostToDevice, own));
        CHECK(cudaStreamSynchronize(own));
        sem_post(&loader.filled);
    }
    return NULL;
}

/* A thread loads ahead. */
MODE("loader", train_with_loader, int batches)
{
    pthread_t thread;
    loader.batches = batches;
    for (int i = 0; i < 2; ++i) {
        loader.inputs[i] = device_floats(ITEMS * INPUTS);
        loader.targets[i] = device_floats(ITEMS * OUTPUTS);
    }
    sem_init(&loader.filled, 0, 0);
    sem_init(&loader.emptied, 0, 2);
    CHECK(pthread_create(&thread, NULL, load_all, NULL));
    for (int batch = 0; batch < batches; ++batch) {
        sem_wait(&loader.filled);
        x = loader.inputs[batch % 2];
        target = loader.targets[batch % 2];
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (step())
            update_all();
        DDP_TURN_END();
        CHECK(cudaStreamSynchronize(stream));
        sem_post(&loader.emptied);
    }
    CHECK(pthread_join(thread, NULL));
}

static void *
compute_below(void *)
{
    backward_below(0);
    CHECK(cudaStreamSynchronize(stream));
    return NULL;
}

/* Another thread launches half of the backward pass. */
MODE("thread", train_in_two_threads, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        pthread_t thread;
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward();
        weight_gradient<<<blocks_for(HIDDEN * OUTPUTS), THREADS, 0, stream>>>(tensors[1].gradient, delta, hidden,
                                                                              HIDDEN, OUTPUTS, ITEMS, 0, 1);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(pthread_create(&thread, NULL, compute_below, NULL));
        CHECK(pthread_join(thread, NULL));
        if (step())
            update_all();
    }
}

/* The batch is memory of the host. */
MODE("mapped", train_mapped, int batches)
{
    float *host_inputs, *host_targets;
    CHECK(cudaHostAlloc((void **)&host_inputs, sizeof(host_x), cudaHostAllocMapped));
    CHECK(cudaHostAlloc((void **)&host_targets, sizeof(host_target), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&x, host_inputs, 0));
    CHECK(cudaHostGetDevicePointer((void **)&target, host_targets, 0));
    for (int batch = 0; batch < batches; ++batch) {
        make_batch(batch);
        CHECK(cudaStreamSynchronize(stream));
        memcpy(host_inputs, host_x, sizeof(host_x));
        memcpy(host_targets, host_target, sizeof(host_target));
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        if (step())
            update_all();
    }
}

STATIC_ELEMENTWISE(count_large, (int *found, const float *values, int count), count,
                   if (fabsf(values[i]) > 0.02f) atomicAdd(found, 1))

/* The host takes a size from the device, where the batch is its own. */
MODE("sizes", train_sized, int batches)
{
    int *found = (int *)device_floats(1), many = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        CHECK(cudaMemsetAsync(found, 0, sizeof(*found), stream));
        count_large<<<blocks_for(ITEMS * OUTPUTS), THREADS, 0, stream>>>(found, delta, ITEMS * OUTPUTS);
        CHECK(cudaMemcpyAsync(&many, found, sizeof(many), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (DDP_TURN_MINE()) {
            REQUIRE(many >= 0 && many <= ITEMS * OUTPUTS);
            float *list = device_floats(many + 1);
            descend<<<blocks_for(many + 1), THREADS, 0, stream>>>(list, delta, many < 1 ? 0 : many, RATE);
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaFree(list));
        }
        if (step())
            update_all();
    }
}

int
main(int argc, char **argv)
{
    return turns_main(argc, argv);
}
