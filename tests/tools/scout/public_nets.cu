/*
 * public_nets.cu HABIT - how trainers that the public shares lay out their nets, their memory and their data, each as a
 * small program, annotated as it has to be:
 *
 *   target       what is wanted comes from a second net, which follows the first one slowly (deep Q learning)
 *   target-copy  the same, copied from the first one in every eighth step
 *   sequence     a recurrent net: a loop over time forward and another backward, whose gradients are added up
 *   reuse        each layer is updated as soon as backward has its gradient, and one buffer holds the gradient of all
 *   per-step     each layer's backward pass allocates its gradients, updates the layer and frees them
 *   single       a step has one record
 *   average      a moving average of a gradient, which nothing annotates, behind DDP_STEP; `early`: in front of it
 *   scales       four numbers for all records come with each batch, as few and as new as the labels of few records are
 *   rbm          contrastive divergence: the gradient is a difference of two products; generators on the device
 *   factors      a matrix is factorised: updates go into second tables, which are exchanged for the first ones
 *   noise        cuRAND draws noise for each step
 *   bias-row     the bias is the last row of the weights, and the input has a column of ones
 *   whole        one launch does all of a step, forward, backward and update
 *   columns      a convolution: columns of the image, then a product of matrices
 *   recompute    backward computes the activations again, into the memory of the first ones
 */
#include "tests/tools/scout/habit.h"

#include <curand.h>
#include <curand_kernel.h>

/* ---- target nets ---- */

ELEMENTWISE(follow, (float *target, const float *weights, float by, int count), count,
            target[i] += by * (weights[i] - target[i]))

/* wanted = reward + 0.5 * what the target net says of the same state. */
ELEMENTWISE(add_reward, (float *to, const float *reward, const float *value, int count), count,
            to[i] = reward[i] + 0.5f * value[i])

HABITS("target", "target-copy", train_with_target, copies)
{
    float *target[TENSORS], *other_h, *value, *reward;
    create_net();
    other_h = floats(BATCH * HIDDEN, 0);
    value = floats(BATCH * OUTPUTS, 0);
    reward = wanted;
    wanted = floats(BATCH * OUTPUTS, 0);
    for (int t = 0; t < TENSORS; ++t) {
        target[t] = floats(tensor_count[t], 0);
        CHECK(cudaMemcpy(target[t], w[t], (size_t)tensor_count[t] * sizeof(float), cudaMemcpyDeviceToDevice));
    }
    for (int step = 0; step < STEPS; ++step) {
        std::swap(wanted, reward);
        load();
        std::swap(wanted, reward);
        RUN(dense, BATCH * HIDDEN)(other_h, x, target[0], target[1], BATCH, INPUTS, HIDDEN, HIDDEN, BENT);
        RUN(dense, BATCH * OUTPUTS)(value, other_h, target[2], target[3], BATCH, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
        RUN(add_reward, BATCH * OUTPUTS)(wanted, reward, value, BATCH * OUTPUTS);
        train_on_batch();
        for (int t = 0; t < TENSORS; ++t) {
            if (!copies)
                RUN(follow, tensor_count[t])(target[t], w[t], 0.1f, tensor_count[t]);
            else if (step % 8 == 7)
                CHECK(cudaMemcpy(target[t], w[t], (size_t)tensor_count[t] * sizeof(float), cudaMemcpyDeviceToDevice));
        }
    }
}

/* ---- a recurrent net ---- */

enum { TIMES = 5 };

MODE("sequence", train_sequence)
{
    static float host_x[TIMES * BATCH * INPUTS], host_wanted[BATCH * OUTPUTS];
    float *own, *own_gradient, *in, *in_gradient, *last, *last_gradient, *states[TIMES + 1], *errors[TIMES + 1];
    create_activations();
    create_pair(&in, &in_gradient, INPUTS * HIDDEN);
    create_pair(&own, &own_gradient, HIDDEN * HIDDEN);
    create_pair(&last, &last_gradient, HIDDEN * OUTPUTS);
    float *all_x = floats(TIMES * BATCH * INPUTS, 0);
    for (int t = 0; t <= TIMES; ++t) {
        states[t] = floats(BATCH * HIDDEN, 0);
        errors[t] = floats(BATCH * HIDDEN, 0);
    }
    for (int step = 0; step < STEPS; ++step) {
        for (int t = 0; t < TIMES; ++t)
            draw_batch(host_x + t * BATCH * INPUTS, host_wanted);
        CHECK(cudaMemcpy(all_x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(wanted, host_wanted, sizeof(host_wanted), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(states[0], 0, BATCH * HIDDEN * sizeof(float)));
        for (int t = 0; t < TIMES; ++t)
            RUN(cell, BATCH * HIDDEN)
        (states[t + 1], all_x + t * BATCH * INPUTS, states[t], in, own, BATCH, INPUTS, HIDDEN);
        RUN(dense, BATCH * OUTPUTS)(y, states[TIMES], last, no_bias, BATCH, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(gradient_of, HIDDEN * OUTPUTS)(last_gradient, states[TIMES], delta, BATCH, HIDDEN, OUTPUTS, OUTPUTS, false);
        RUN(delta_below, BATCH * HIDDEN)(errors[TIMES], delta, last, states[TIMES], BATCH, HIDDEN, OUTPUTS, OUTPUTS);
        CHECK(cudaMemset(in_gradient, 0, INPUTS * HIDDEN * sizeof(float)));
        CHECK(cudaMemset(own_gradient, 0, HIDDEN * HIDDEN * sizeof(float)));
        for (int t = TIMES; t > 0; --t) {
            RUN(gradient_of, INPUTS * HIDDEN)
            (in_gradient, all_x + (t - 1) * BATCH * INPUTS, errors[t], BATCH, INPUTS, HIDDEN, HIDDEN, true);
            RUN(gradient_of, HIDDEN * HIDDEN)
            (own_gradient, states[t - 1], errors[t], BATCH, HIDDEN, HIDDEN, HIDDEN, true);
            RUN(delta_below, BATCH * HIDDEN)
            (errors[t - 1], errors[t], own, states[t - 1], BATCH, HIDDEN, HIDDEN, HIDDEN);
        }
        DDP_STEP(0);
        RUN(descend, INPUTS * HIDDEN)(in, in_gradient, rate, INPUTS * HIDDEN);
        RUN(descend, HIDDEN * HIDDEN)(own, own_gradient, rate, HIDDEN * HIDDEN);
        RUN(descend, HIDDEN * OUTPUTS)(last, last_gradient, rate, HIDDEN * OUTPUTS);
    }
}

/* ---- reuse, per-step ---- */

/* Without a buffer for all gradients it makes one. */
static void
update_alone(int t, float *buffer)
{
    float *gradient = buffer;
    if (buffer == NULL)
        CHECK(cudaMalloc(&gradient, tensor_count[t] * sizeof(float)));
    if (buffer == NULL)
        DDP_GRADIENT(gradient, tensor_count[t], DDP_FLOAT32);
    compute_gradient(gradient, t, BATCH, false);
    DDP_STEP(0);
    RUN(descend, tensor_count[t])(w[t], gradient, rate, tensor_count[t]);
    if (buffer == NULL)
        DDP_FORGET(gradient);
    if (buffer == NULL)
        CHECK(cudaFree(gradient));
}

/* A gradient is averaged after each of its uses: the range in the buffer is annotated for the largest of them. */
HABITS("reuse", "per-step", train_inside, per_step)
{
    float *buffer = per_step ? NULL : floats(INPUTS * HIDDEN, 0);
    create_activations();
    for (int t = 0; t < TENSORS; ++t) {
        w[t] = floats(tensor_count[t], 0.5f);
        DDP_PARAMETER(w[t], tensor_count[t], DDP_FLOAT32);
    }
    if (buffer != NULL)
        DDP_GRADIENT(buffer, INPUTS * HIDDEN, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        load();
        forward();
        compute_deltas(BATCH);
        for (int t = TENSORS; t-- > 0;)
            update_alone(t, buffer);
    }
}

/* ---- single, average, early ---- */

MODE("single", train_single)
{
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        load_rows(1);
        train_on_rows(1);
    }
}

HABITS("average", "early", train_with_average, is_early)
{
    float *average = floats(HIDDEN, 0);
    size_t first, count;
    create_net();
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        load();
        x += first * INPUTS, wanted += first * OUTPUTS;
        forward_rows((int)count);
        compute_deltas((int)count);
        compute_gradients((int)count, false);
        x -= first * INPUTS, wanted -= first * OUTPUTS;
        if (is_early)
            RUN(move_average, HIDDEN)(average, g[1], 0.9f, HIDDEN);
        DDP_STEP(0);
        if (!is_early)
            RUN(move_average, HIDDEN)(average, g[1], 0.9f, HIDDEN);
        descend_all();
    }
}

ELEMENTWISE(multiply_columns, (float *values, const float *by, int count), count, values[i] *= by[i % 4])

MODE("scales", train_scales)
{
    float host[4], *scales = floats(4, 0);
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        load();
        for (float &value : host)
            value = 0.5f + random_number();
        CHECK(cudaMemcpy(scales, host, sizeof(host), cudaMemcpyHostToDevice));
        forward();
        RUN(multiply_columns, BATCH * OUTPUTS)(y, scales, BATCH * OUTPUTS);
        backward(false);
        DDP_STEP(0);
        descend_all();
    }
}

/* ---- rbm ---- */

ELEMENTWISE(seed_generators, (curandState * generators, int count), count,
            curand_init(7, (unsigned long long)i, 0, &generators[i]))

/* Probabilities of units given the others, and a draw of them: `turned`: of the visible ones. */
ELEMENTWISE(draw_units,
            (float *to, float *chance, const float *from, const float *weights, curandState *generators, int in,
             int out, bool turned),
            BATCH *out, int k = i % out;
            float sum = dot(in, from + i / out * in, 1, weights + (turned ? k * in : k), turned ? 1 : out);
            chance[i] = 1 / (1 + expf(-sum)); to[i] = curand_uniform(&generators[i]) < chance[i] ? 1.0f : 0.0f)

ELEMENTWISE(contrast, (float *gradient, const float *v, const float *first, const float *v_again, const float *second),
            INPUTS *HIDDEN,
            gradient[i] = (dot(BATCH, v_again + i / HIDDEN, INPUTS, second + i % HIDDEN, HIDDEN) -
                           dot(BATCH, v + i / HIDDEN, INPUTS, first + i % HIDDEN, HIDDEN)) /
                          BATCH)

MODE("rbm", train_rbm)
{
    float *weights, *gradient, *again, *again_chance, *first, *second, *drawn;
    curandState *generators;
    create_activations();
    create_pair(&weights, &gradient, INPUTS * HIDDEN);
    again = floats(BATCH * INPUTS, 0);
    again_chance = floats(BATCH * INPUTS, 0);
    first = floats(BATCH * HIDDEN, 0);
    second = floats(BATCH * HIDDEN, 0);
    drawn = floats(BATCH * HIDDEN, 0);
    CHECK(cudaMalloc(&generators, BATCH * HIDDEN * sizeof(*generators)));
    RUN(seed_generators, BATCH * HIDDEN)(generators, BATCH * HIDDEN);
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(draw_units, BATCH * HIDDEN)(drawn, first, x, weights, generators, INPUTS, HIDDEN, false);
        RUN(draw_units, BATCH * INPUTS)(again, again_chance, drawn, weights, generators, HIDDEN, INPUTS, true);
        RUN(draw_units, BATCH * HIDDEN)(drawn, second, again, weights, generators, INPUTS, HIDDEN, false);
        RUN(contrast, INPUTS * HIDDEN)(gradient, x, first, again, second);
        DDP_STEP(0);
        RUN(descend, INPUTS * HIDDEN)(weights, gradient, 0.5f, INPUTS * HIDDEN);
    }
}

/* ---- factors ---- */

enum { PEOPLE = 40, THINGS = 30, WIDTH = 8, RATINGS = 64 };

/* Each person's row by one thread, which adds to the rows of things. */
__global__ void
factorise(const float *people, const float *things, float *next_people, float *next_things, const int *who,
          const int *what, const float *rating, float by)
{
    int i = INDEX;
    if (i >= RATINGS)
        return;
    float error = rating[i];
    for (int f = 0; f < WIDTH; ++f)
        error -= people[who[i] * WIDTH + f] * things[what[i] * WIDTH + f];
    for (int f = 0; f < WIDTH; ++f) {
        atomicAdd(&next_people[who[i] * WIDTH + f], by * error * things[what[i] * WIDTH + f]);
        atomicAdd(&next_things[what[i] * WIDTH + f], by * error * people[who[i] * WIDTH + f]);
    }
}

MODE("factors", train_factors)
{
    float *people = floats(PEOPLE * WIDTH, 1), *things = floats(THINGS * WIDTH, 1), *rating = floats(RATINGS, 0);
    float *next_people = floats(PEOPLE * WIDTH, 0), *next_things = floats(THINGS * WIDTH, 0), host_rating[RATINGS];
    DDP_PARAMETER(people, PEOPLE * WIDTH, DDP_FLOAT32);
    DDP_PARAMETER(next_people, PEOPLE * WIDTH, DDP_FLOAT32);
    DDP_PARAMETER(things, THINGS * WIDTH, DDP_FLOAT32);
    DDP_PARAMETER(next_things, THINGS * WIDTH, DDP_FLOAT32);
    int *who = (int *)floats(RATINGS, 0), *what = (int *)floats(RATINGS, 0), host_who[RATINGS], host_what[RATINGS];
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < RATINGS; ++i) {
            host_who[i] = (int)(random_number() * PEOPLE);
            host_what[i] = (int)(random_number() * THINGS);
            host_rating[i] = (float)((host_who[i] + host_what[i]) % 5);
        }
        CHECK(cudaMemcpy(who, host_who, sizeof(host_who), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(what, host_what, sizeof(host_what), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(rating, host_rating, sizeof(host_rating), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(next_people, people, PEOPLE * WIDTH * sizeof(float), cudaMemcpyDeviceToDevice));
        CHECK(cudaMemcpy(next_things, things, THINGS * WIDTH * sizeof(float), cudaMemcpyDeviceToDevice));
        RUN(factorise, RATINGS)(people, things, next_people, next_things, who, what, rating, rate);
        DDP_STEP_PARAMETERS(0);
        std::swap(people, next_people);
        std::swap(things, next_things);
    }
}

/* ---- noise ---- */

MODE("noise", train_noise)
{
    curandGenerator_t generator;
    float *noise = floats(BATCH * HIDDEN, 0);
    CHECK(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    CHECK(curandSetPseudoRandomGeneratorSeed(generator, 5));
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, HIDDEN, BENT);
        CHECK(curandGenerateNormal(generator, noise, BATCH * HIDDEN, 0, 1));
        RUN(add_scaled, BATCH * HIDDEN)(h, noise, 0.1f, BATCH * HIDDEN);
        RUN(dense, BATCH * OUTPUTS)(y, h, w[2], w[3], BATCH, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
        backward(false);
        DDP_STEP(0);
        descend_all();
    }
    CHECK(curandDestroyGenerator(generator));
}

/* ---- bias-row ---- */

ELEMENTWISE(append_one, (float *to, const float *from, int rows, int in), rows *(in + 1),
            to[i] = i % (in + 1) < in ? from[i / (in + 1) * in + i % (in + 1)] : 1.0f)

MODE("bias-row", train_bias_row)
{
    enum { IN = INPUTS + 1 };
    float *weights, *gradient, *wide;
    create_activations();
    wide = floats(BATCH * IN, 0);
    create_pair(&weights, &gradient, IN * OUTPUTS);
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(append_one, BATCH * IN)(wide, x, BATCH, INPUTS);
        RUN(dense, BATCH * OUTPUTS)(y, wide, weights, no_bias, BATCH, IN, OUTPUTS, OUTPUTS, STRAIGHT);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(gradient_of, IN * OUTPUTS)(gradient, wide, delta, BATCH, IN, OUTPUTS, OUTPUTS, false);
        DDP_STEP(0);
        RUN(descend, IN * OUTPUTS)(weights, gradient, rate, IN * OUTPUTS);
    }
}

/* ---- whole ---- */

/* One sample, by one block of HIDDEN threads. */
__global__ void
learn_sample(float *first, float *second, const float *sample, const float *target, float by)
{
    __shared__ float hidden[HIDDEN], errors[OUTPUTS];
    int k = (int)threadIdx.x;
    float sum = 0, back = 0;
    for (int i = 0; i < INPUTS; ++i)
        sum += sample[i] * first[i * HIDDEN + k];
    hidden[k] = tanhf(sum);
    __syncthreads();
    if (k < OUTPUTS) {
        errors[k] = -target[k];
        for (int i = 0; i < HIDDEN; ++i)
            errors[k] += hidden[i] * second[i * OUTPUTS + k];
    }
    __syncthreads();
    for (int j = 0; j < OUTPUTS; ++j) {
        back += errors[j] * second[k * OUTPUTS + j];
        second[k * OUTPUTS + j] -= by * hidden[k] * errors[j];
    }
    for (int i = 0; i < INPUTS; ++i)
        first[i * HIDDEN + k] -= by * sample[i] * back * (1 - hidden[k] * hidden[k]);
}

MODE("whole", train_whole)
{
    create_activations();
    float *first = floats(INPUTS * HIDDEN, 0.5f), *second = floats(HIDDEN * OUTPUTS, 0.5f);
    DDP_PARAMETER(first, INPUTS * HIDDEN, DDP_FLOAT32);
    DDP_PARAMETER(second, HIDDEN * OUTPUTS, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        load();
        learn_sample<<<1, HIDDEN>>>(first, second, x, wanted, rate);
        DDP_STEP_PARAMETERS(0);
    }
}

/* ---- columns ---- */

enum { SIDE = 8, WINDOW = 3, PLACES = (SIDE - WINDOW + 1) * (SIDE - WINDOW + 1), FILTERS = 6, IMAGES = 8 };

__global__ void
to_columns(float *columns, const float *images)
{
    int i = INDEX / (WINDOW * WINDOW), k = INDEX % (WINDOW * WINDOW), image = i / PLACES, place = i % PLACES;
    int row = place / (SIDE - WINDOW + 1) + k / WINDOW, column = place % (SIDE - WINDOW + 1) + k % WINDOW;
    if (image < IMAGES)
        columns[INDEX] = images[image * SIDE * SIDE + row * SIDE + column];
}

MODE("columns", train_columns)
{
    static float host[IMAGES * SIDE * SIDE], host_wanted[IMAGES * OUTPUTS];
    enum { ROWS = IMAGES * PLACES, IN = WINDOW * WINDOW, FEATURES = PLACES * FILTERS };
    float *images = floats(IMAGES * SIDE * SIDE, 0), *columns = floats(ROWS * IN, 0), *maps = floats(ROWS * FILTERS, 0);
    float *error = floats(ROWS * FILTERS, 0), *filters, *of_filters, *last, *of_last;
    create_activations();
    create_pair(&filters, &of_filters, IN * FILTERS);
    create_pair(&last, &of_last, FEATURES * OUTPUTS);
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < IMAGES * SIDE * SIDE; ++i)
            host[i] = random_number() - 0.5f;
        for (int i = 0; i < IMAGES * OUTPUTS; ++i)
            host_wanted[i] = host[i / OUTPUTS * SIDE * SIDE + i % OUTPUTS] > 0 ? 1.0f : 0.0f;
        CHECK(cudaMemcpy(images, host, sizeof(host), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(wanted, host_wanted, sizeof(host_wanted), cudaMemcpyHostToDevice));
        RUN(to_columns, ROWS * IN)(columns, images);
        RUN(dense, ROWS * FILTERS)(maps, columns, filters, no_bias, ROWS, IN, FILTERS, FILTERS, BENT);
        RUN(dense, IMAGES * OUTPUTS)(y, maps, last, no_bias, IMAGES, FEATURES, OUTPUTS, OUTPUTS, STRAIGHT);
        RUN(square_delta, IMAGES * OUTPUTS)(delta, y, wanted, IMAGES * OUTPUTS);
        RUN(gradient_of, FEATURES * OUTPUTS)(of_last, maps, delta, IMAGES, FEATURES, OUTPUTS, OUTPUTS, false);
        RUN(delta_below, ROWS * FILTERS)(error, delta, last, maps, IMAGES, FEATURES, OUTPUTS, OUTPUTS);
        RUN(gradient_of, IN * FILTERS)(of_filters, columns, error, ROWS, IN, FILTERS, FILTERS, false);
        DDP_STEP(0);
        RUN(descend, IN * FILTERS)(filters, of_filters, rate, IN * FILTERS);
        RUN(descend, FEATURES * OUTPUTS)(last, of_last, rate, FEATURES * OUTPUTS);
    }
}

/* ---- recompute ---- */

MODE("recompute", train_recompute)
{
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        load();
        forward();
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        CHECK(cudaMemset(h, 0, BATCH * HIDDEN * sizeof(float))); /* in between others use it */
        RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, HIDDEN, BENT);
        RUN(delta_below, BATCH * HIDDEN)(below, delta, w[2], h, BATCH, HIDDEN, OUTPUTS, OUTPUTS);
        compute_gradients(BATCH, false);
        DDP_STEP(0);
        descend_all();
    }
}
