/*
 * cuts.cu WAY - trainers of which it is hard to tell where a step ends: the host decides the update by what it reads,
 * data lie on the device, layers update within the backward pass, or a prediction by the new weights follows. Without a
 * word it prints all ways.
 *
 *     cuts WAY [options of program.h]
 *
 * A turn of the oracle, by state, ends directly after the batch's last write of what is trained.
 */
#include "tests/tools/plan/program.h"

static const char *const ways[] = {
    "units",        /* competitive learning: the host reads distances, and picks the unit that is moved. Doubles */
    "units-float",  /* the same in floats */
    "units-device", /* a kernel picks the unit */
    "units-device-float",
    "error",        /* the host reads a prediction, and passes its error to the update. Floats */
    "error-double", /* the same in doubles */
    "error-copy",   /* and the sample is copied in each step */
    "error-copy-double",
    "layers",         /* two layers, each updated within the backward pass */
    "layers-copy",    /* the same, the batch is copied */
    "predicts",       /* after the update the host reads an error by the new weights, which scales the next update */
    "logs",           /* the same, and only prints it */
    "shows",          /* after the update the host reads the weights, and sums them up for a log */
    "writes-late",    /* and from some step on what predicts changes the weights, too */
    "skips",          /* two models, and from some step on each fifth batch has no update of the second */
    "whole",          /* each batch is the whole data */
    "whole-shuffled", /* in another order each time */
};

enum {
    UNITS = 64,
    DIM = 8,
    SAMPLES = 200,
    SIZE = 64,
    ROWS = 8,
    HIDDEN = 16,
    BATCHES = 12,
    ALL = 64,
    LATE = 300,
    SKIPS = 20
};

static bool
has(const char *word)
{
    return strstr(way, word) != NULL;
}

template <typename Real>
static std::vector<Real>
read_back(const Real *memory, size_t count)
{
    std::vector<Real> host(count);
    CHECK(cudaMemcpy(host.data(), memory, count * sizeof(Real), cudaMemcpyDeviceToHost));
    return host;
}

template <typename Real>
static Real *
floats(size_t count, double from, double to)
{
    std::vector<Real> host(count);
    for (Real &value : host)
        value = (Real)(from + (to - from) * random_number());
    return device_copy(host.data(), count);
}

/* ---- units ---- */

template <typename Real>
__global__ void
distances(const Real *w, const Real *x, int at, Real *far)
{
    Real sum = 0;
    for (int k = 0; k < DIM; ++k)
        sum += (w[threadIdx.x * DIM + k] - x[at + k]) * (w[threadIdx.x * DIM + k] - x[at + k]);
    far[threadIdx.x] = sum;
}

template <typename Real>
__global__ void
pick(const Real *far, int *best)
{
    int least = 0;
    for (int u = 1; u < UNITS; ++u)
        least = far[u] < far[least] ? u : least;
    *best = least;
}

template <typename Real>
__device__ void
move_units(Real *w, const Real *x, int at, int best, Real rate)
{
    const int u = (int)threadIdx.x, apart = u > best ? u - best : best - u;
    for (int k = 0; apart <= 8 && k < DIM; ++k)
        w[u * DIM + k] += rate / (1 + apart) * (x[at + k] - w[u * DIM + k]);
}

template <typename Real>
__global__ void
move_near(Real *w, const Real *x, int at, int best, Real rate)
{
    move_units(w, x, at, best, rate);
}

template <typename Real>
__global__ void
move_near_picked(Real *w, const Real *x, int at, const int *best, Real rate)
{
    move_units(w, x, at, *best, rate);
}

template <typename Real>
static void
train_units(void)
{
    Real *x = floats<Real>(SAMPLES * DIM, 0, 1), *w = floats<Real>(UNITS * DIM, 0, 1);
    Real *far = floats<Real>(UNITS, 0, 0);
    int *best = device_copy((const int[]){0}, 1);
    keep("weights", w, UNITS * DIM);
    double sum = 0;
    for (int s = 0; turn(s, steps); ++s) {
        const int at = (int)(random_number() * SAMPLES) * DIM;
        distances<<<1, UNITS>>>(w, x, at, far);
        if (has("device")) {
            pick<<<1, 1>>>(far, best);
            move_near_picked<<<1, UNITS>>>(w, x, at, best, (Real)0.05);
        } else {
            const std::vector<Real> host = read_back(far, UNITS);
            int least = 0;
            for (int u = 1; u < UNITS; ++u)
                least = host[u] < host[least] ? u : least;
            sum += host[least];
            move_near<<<1, UNITS>>>(w, x, at, least, (Real)0.05);
        }
        turn_end();
    }
    printf("sum %.5f\n", sum);
}

/* ---- an error that the host computes ---- */

template <typename Real>
__global__ void
predict_one(const Real *w, const Real *x, int at, Real *p)
{
    Real sum = 0;
    for (int i = 0; i < SIZE; ++i)
        sum += w[i] * x[at + i];
    *p = sum;
}

template <typename Real>
__global__ void
update_by(Real *w, const Real *x, int at, Real error)
{
    w[threadIdx.x] -= error * x[at + threadIdx.x];
}

template <typename Real>
static void
train_error(void)
{
    std::vector<Real> host_x(SAMPLES * SIZE);
    for (Real &value : host_x)
        value = (Real)(random_number() - 0.5);
    Real *x = device_copy(host_x.data(), has("copy") ? SIZE : host_x.size());
    Real *w = floats<Real>(SIZE, 0.1, 0.1), *p = floats<Real>(1, 0, 0);
    keep("weights", w, SIZE);
    double sum = 0;
    for (int s = 0; turn(s, steps); ++s) {
        const Real *sample = &host_x[(size_t)(s % SAMPLES * SIZE)];
        const int at = has("copy") ? 0 : s % SAMPLES * SIZE;
        double wanted = 0;
        for (int i = 0; i < SIZE; ++i)
            wanted += sample[i] * (i % 5 - 2);
        if (has("copy"))
            CHECK(cudaMemcpy(x, sample, SIZE * sizeof(Real), cudaMemcpyHostToDevice));
        predict_one<<<1, 1>>>(w, x, at, p);
        const double error = (double)read_back(p, 1)[0] - wanted;
        sum += error * error;
        update_by<<<1, SIZE>>>(w, x, at, (Real)(0.15 * error));
        turn_end();
    }
    printf("sum %.5f\n", sum);
}

/* ---- layers that are updated within the backward pass ---- */

__global__ void
layer_forward(const float *w, const float *in, float *out, int ins, int outs, int at)
{
    const int row = (int)blockIdx.x, o = (int)threadIdx.x;
    float sum = 0;
    for (int i = 0; i < ins; ++i)
        sum += w[o * ins + i] * in[at + row * ins + i];
    out[row * outs + o] = sum > 0 ? sum : 0.2f * sum;
}

__global__ void
delta_out(const float *out, const float *x, float *delta, int at)
{
    const int row = (int)blockIdx.x;
    delta[row * DIM + threadIdx.x] = out[row * DIM + threadIdx.x] - 0.5f * x[at + row * DIM + DIM - 1 - threadIdx.x];
}

__global__ void
delta_below(const float *w, const float *delta, float *below, int ins, int outs)
{
    const int row = (int)blockIdx.x, i = (int)threadIdx.x;
    float sum = 0;
    for (int o = 0; o < outs; ++o)
        sum += w[o * ins + i] * delta[row * outs + o];
    below[row * ins + i] = sum;
}

__global__ void
update_layer(float *w, const float *delta, const float *in, int ins, int outs, int at, float rate)
{
    const int o = (int)blockIdx.x, i = (int)threadIdx.x;
    float sum = 0;
    for (int row = 0; row < ROWS; ++row)
        sum += delta[row * outs + o] * in[at + row * ins + i];
    w[o * ins + i] -= rate * sum / ROWS;
}

static void
train_layers(void)
{
    std::vector<float> host_x(BATCHES * ROWS * DIM);
    for (float &value : host_x)
        value = (float)(random_number() - 0.5);
    const bool copies = has("copy");
    float *x = device_copy(host_x.data(), copies ? ROWS * DIM : host_x.size());
    float *w1 = floats<float>(HIDDEN * DIM, -0.4, 0.4), *w2 = floats<float>(DIM * HIDDEN, -0.4, 0.4);
    float *h = floats<float>(ROWS * HIDDEN, 0, 0), *y = floats<float>(ROWS * DIM, 0, 0);
    float *delta = floats<float>(ROWS * DIM, 0, 0), *below = floats<float>(ROWS * HIDDEN, 0, 0);
    keep("weights", w1, HIDDEN * DIM);
    keep("weights", w2, DIM * HIDDEN);
    for (int s = 0; turn(s, steps); ++s) {
        const int from = s % BATCHES * ROWS * DIM, at = copies ? 0 : from;
        if (copies)
            CHECK(cudaMemcpy(x, &host_x[(size_t)from], ROWS * DIM * sizeof(float), cudaMemcpyHostToDevice));
        layer_forward<<<ROWS, HIDDEN>>>(w1, x, h, DIM, HIDDEN, at);
        layer_forward<<<ROWS, DIM>>>(w2, h, y, HIDDEN, DIM, 0);
        delta_out<<<ROWS, DIM>>>(y, x, delta, at);
        update_layer<<<DIM, HIDDEN>>>(w2, delta, h, HIDDEN, DIM, 0, 0.1f);
        delta_below<<<ROWS, HIDDEN>>>(w2, delta, below, HIDDEN, DIM); /* by the new weights of the layer above */
        update_layer<<<HIDDEN, DIM>>>(w1, below, x, DIM, HIDDEN, at, 0.1f);
        turn_end();
    }
    printf("trained\n");
}

/* ---- a prediction by the new weights ---- */

__global__ void
errors(const float *w, const float *x, const float *y, float *e)
{
    float sum = 0;
    for (int k = 0; k < DIM; ++k)
        sum += x[threadIdx.x * DIM + k] * w[k];
    e[threadIdx.x] = sum - y[threadIdx.x];
}

__global__ void
gradient_of(const float *x, const float *e, float *g, int rows)
{
    float sum = 0;
    for (int i = 0; i < rows; ++i)
        sum += e[i] * x[i * DIM + threadIdx.x];
    g[threadIdx.x] = sum / rows;
}

__global__ void
descend(float *w, const float *g, float rate)
{
    w[threadIdx.x] -= rate * g[threadIdx.x];
}

__global__ void
descend_by(float *w, const float *x, const float *e, int rows, float rate)
{
    float sum = 0;
    for (int i = 0; i < rows; ++i)
        sum += e[i] * x[i * DIM + threadIdx.x];
    w[threadIdx.x] -= rate * sum / rows;
}

/* A prediction that may scale the weights. */
__global__ void
errors_and_more(float *w, const float *x, const float *y, float *e, float scale)
{
    float sum = 0;
    for (int k = 0; k < DIM; ++k)
        sum += x[threadIdx.x * DIM + k] * w[k];
    e[threadIdx.x] = sum - y[threadIdx.x];
    if (threadIdx.x == 0 && scale != 1)
        w[0] *= scale;
}

static void
make_data(std::vector<float> *x, std::vector<float> *y)
{
    for (size_t i = 0; i < y->size(); ++i) {
        (*y)[i] = 0;
        for (size_t k = 0; k < DIM; ++k) {
            (*x)[i * DIM + k] = (float)random_number() - 0.5f;
            (*y)[i] += (*x)[i * DIM + k] * (float)(k + 1);
        }
    }
}

/* What is read after the update belongs to the next batch: the round's others have left no trace in it. */
static void
train_predicts(void)
{
    std::vector<float> host_x(BATCHES * ROWS * DIM), host_y(BATCHES * ROWS);
    make_data(&host_x, &host_y);
    float *x = device_copy(host_x.data(), ROWS * DIM), *y = device_copy(host_y.data(), ROWS);
    float *w = floats<float>(DIM, 0, 0), *e = floats<float>(ROWS, 0, 0), rate = 0.4f, sum = 0;
    keep("weights", w, DIM);
    for (int s = 0; turn(s, steps); ++s) {
        CHECK(cudaMemcpy(x, &host_x[(size_t)(s % BATCHES * ROWS * DIM)], ROWS * DIM * 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(y, &host_y[(size_t)(s % BATCHES * ROWS)], ROWS * 4, cudaMemcpyHostToDevice));
        errors<<<1, ROWS>>>(w, x, y, e);
        descend_by<<<1, DIM>>>(w, x, e, ROWS, rate);
        turn_end();
        if (begins("shows")) {
            for (float weight : read_back(w, DIM))
                sum += weight;
            continue;
        }
        if (has("late"))
            errors_and_more<<<1, ROWS>>>(w, x, y, e, s < LATE ? 1 : 0.99f);
        else
            errors<<<1, ROWS>>>(w, x, y, e);
        float now = 0;
        for (float error : read_back(e, ROWS))
            now += error * error;
        sum += now;
        if (begins("predicts"))
            rate = 0.2f + 0.2f / (1 + now);
    }
    printf("sum %.4f\n", (double)sum);
}

/* ---- two models ---- */

static void
train_two(void)
{
    std::vector<float> host_x(BATCHES * ROWS * DIM), host_y(BATCHES * ROWS);
    make_data(&host_x, &host_y);
    float *x = device_copy(host_x.data(), ROWS * DIM), *y = device_copy(host_y.data(), ROWS);
    float *w = floats<float>(DIM, 0, 0), *v = floats<float>(DIM, 0, 0), *e = floats<float>(ROWS, 0, 0);
    keep("weights", w, DIM);
    keep("weights", v, DIM);
    for (int s = 0; turn(s, steps); ++s) {
        CHECK(cudaMemcpy(x, &host_x[(size_t)(s % BATCHES * ROWS * DIM)], ROWS * DIM * 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(y, &host_y[(size_t)(s % BATCHES * ROWS)], ROWS * 4, cudaMemcpyHostToDevice));
        errors<<<1, ROWS>>>(w, x, y, e);
        descend_by<<<1, DIM>>>(w, x, e, ROWS, 0.4f);
        errors<<<1, ROWS>>>(v, x, y, e);
        if (s < SKIPS || s % 5 != 0)
            descend_by<<<1, DIM>>>(v, x, e, ROWS, 0.2f);
        turn_end();
    }
    printf("trained\n");
}

/* ---- the whole data ---- */

static void
train_whole(void)
{
    std::vector<float> host_x(ALL * DIM), host_y(ALL), batch_x(ALL * DIM), batch_y(ALL);
    make_data(&host_x, &host_y);
    float *x = device_copy(host_x.data(), ALL * DIM), *y = device_copy(host_y.data(), ALL);
    float *w = floats<float>(DIM, 0, 0), *e = floats<float>(ALL, 0, 0), *g = floats<float>(DIM, 0, 0);
    int order[ALL];
    for (int i = 0; i < ALL; ++i)
        order[i] = i;
    for (int s = 0; s < steps; ++s) {
        for (int i = ALL - 1; i > 0 && has("shuffled"); --i) {
            const int other = (int)(random_number() * (i + 1)), was = order[i];
            order[i] = order[other];
            order[other] = was;
        }
        for (int i = 0; i < ALL; ++i) {
            batch_y[(size_t)i] = host_y[(size_t)order[i]];
            memcpy(&batch_x[(size_t)i * DIM], &host_x[(size_t)order[i] * DIM], DIM * sizeof(float));
        }
        CHECK(cudaMemcpy(x, batch_x.data(), ALL * DIM * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(y, batch_y.data(), ALL * sizeof(float), cudaMemcpyHostToDevice));
        errors<<<1, ALL>>>(w, x, y, e);
        gradient_of<<<1, DIM>>>(x, e, g, ALL);
        descend<<<1, DIM>>>(w, g, 0.5f);
    }
    keep("weights", w, DIM);
}

int
main(int argc, char **argv)
{
    program_take(argc, argv, ways);
    if (begins("units"))
        has("float") ? train_units<float>() : train_units<double>();
    else if (begins("error"))
        has("double") ? train_error<double>() : train_error<float>();
    else if (begins("layers"))
        train_layers();
    else if (begins("whole"))
        train_whole();
    else if (begins("skips"))
        train_two();
    else
        train_predicts();
    save(path);
    return 0;
}
