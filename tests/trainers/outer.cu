/*
 * outer.cu - parameters of all float types whose course with --sync-every K, --outer-lr and --outer-momentum is known:
 * each rank computes what all ranks do, and holds its own parameters against that.
 *
 *     outer MODE KIND --every K [--rate X] [--momentum Y]
 *
 * KIND is device, managed or pageable, which the host updates. In each step a parameter moves by an eighth of its way
 * to a target, which is another on each rank. MODE:
 *   parameters: DDP_STEP_PARAMETERS behind the update
 *   gradients: DDP_STEP before it
 *   sync: as gradients, and DDP_SYNC behind steps 6 and 7 and at the end
 *   again: as parameters, and from step 10 on they are annotated again in other memory
 * Each rank counts its steps in a DDP_STATE, in its own way: it must stay its own. It does the same in a DDP_BUFFER,
 * which takes rank 0's at averages, and at no other step. Exit code 1: something is not so.
 */
#include "../trainer_options.h"
#include "common.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 3000, STEPS = 24, THREADS = 100, RANKS_AT_MOST = 4, AGAIN = 10 };

static const char *kind;
static int every = 1;
static double rate = 1, momentum;
static float *counter, *tally, *gradient;
static float known_tally[RANKS_AT_MOST];

/* ---- numbers ---- */

/* What a number is computed with. */
template <typename Number> struct wide {
    typedef float type;
};
template <> struct wide<double> {
    typedef double type;
};

template <typename Number>
__host__ __device__ static typename wide<Number>::type
widen(Number value)
{
    return (typename wide<Number>::type)value;
}

template <typename Number>
__host__ __device__ static Number
narrow(double value)
{
    return (Number)(typename wide<Number>::type)value;
}

template <typename Number>
__host__ __device__ static Number
moved(Number value, int i, int rank)
{
    double now = widen(value), target = 0.5 * (i % 7) - 1 + rank * (1 + i % 3);
    return narrow<Number>(now + 0.125 * (target - now));
}

/* ---- one tensor: on the device, and what it must be ---- */

template <typename Number>
__global__ void
move_all(Number *values, int rank)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    values[i] = moved(values[i], i, rank);
}

template <typename Number> struct parameter {
    typedef typename wide<Number>::type Wide;
    Number *values;
    Number known[RANKS_AT_MOST][COUNT];
    Wide anchor[COUNT], velocity[COUNT];

    void place()
    {
        if (strcmp(kind, "pageable") == 0)
            values = (Number *)malloc(sizeof(known[0]));
        else if (strcmp(kind, "managed") == 0)
            CHECK(cudaMallocManaged(&values, sizeof(known[0])));
        else
            CHECK(cudaMalloc(&values, sizeof(known[0])));
    }

    /* All ranks begin as rank 0 is known to be. */
    void annotate(int type)
    {
        place();
        for (int i = 0; i < COUNT; ++i) {
            for (int r = 1; r < RANKS_AT_MOST; ++r)
                known[r][i] = known[0][i];
            anchor[i] = widen(known[0][i]);
            velocity[i] = 0;
        }
        CHECK(cudaMemcpy(values, known[0], sizeof(known[0]), cudaMemcpyDefault));
        DDP_PARAMETER(values, COUNT, type);
    }

    void create(int type)
    {
        for (int i = 0; i < COUNT; ++i)
            known[0][i] = narrow<Number>(0.25 * (i % 11) - 1.5);
        annotate(type);
    }

    void annotate_again(int type)
    {
        if (strcmp(kind, "device") != 0) /* else the one that is freed is annotated again */
            DDP_FORGET(values);
        if (strcmp(kind, "pageable") != 0)
            CHECK(cudaFree(values));
        annotate(type); /* what the host had is left: it could have the same address again */
    }

    void update()
    {
        for (int i = 0; strcmp(kind, "pageable") == 0 && i < COUNT; ++i)
            values[i] = moved(values[i], i, DDP_RANK());
        if (strcmp(kind, "pageable") != 0)
            move_all<<<COUNT / THREADS, THREADS>>>(values, DDP_RANK());
        for (int r = 0; r < DDP_WORLD_SIZE(); ++r) {
            for (int i = 0; i < COUNT; ++i)
                known[r][i] = moved(known[r][i], i, r);
        }
    }

    void average(bool is_outer)
    {
        for (int i = 0; i < COUNT; ++i) {
            double sum = 0;
            for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
                sum += widen(known[r][i]);
            Number mean = narrow<Number>(sum / DDP_WORLD_SIZE());
            Wide step = widen(narrow<Number>(anchor[i])) - widen(mean);
            if (is_outer) {
                velocity[i] = (Wide)momentum * velocity[i] + step;
                anchor[i] -= (Wide)rate * (step + (Wide)momentum * velocity[i]);
                mean = narrow<Number>(anchor[i]);
            }
            for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
                known[r][i] = mean;
        }
    }

    bool holds(const char *name, double allowed)
    {
        static Number found[COUNT];
        double most = 0, largest = 0;
        CHECK(cudaMemcpy(found, values, sizeof(found), cudaMemcpyDefault));
        for (int i = 0; i < COUNT; ++i) {
            double wanted = widen(known[DDP_RANK()][i]);
            most = fmax(most, fabs(widen(found[i]) - wanted));
            largest = fmax(largest, fabs(wanted));
        }
        bool good = most <= allowed * largest;
        printf("rank %d: %s differs by %.2e of %.2f%s\n", DDP_RANK(), name, most, largest, good ? "" : ": WRONG");
        return good;
    }
};

static parameter<float> of_float;
static parameter<double> of_double;
static parameter<__half> of_half;
static parameter<__nv_bfloat16> of_bfloat;

/* ---- training ---- */

__global__ void
add(float *values, float value)
{
    values[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

static void
average(bool is_outer)
{
    of_float.average(is_outer);
    of_double.average(is_outer);
    of_half.average(is_outer);
    of_bfloat.average(is_outer);
    for (int r = 1; r < DDP_WORLD_SIZE(); ++r)
        known_tally[r] = known_tally[0];
}

static void
update(void)
{
    of_float.update();
    of_double.update();
    of_half.update();
    of_bfloat.update();
    add<<<COUNT / THREADS, THREADS>>>(counter, mine());
    add<<<COUNT / THREADS, THREADS>>>(tally, mine());
    for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
        known_tally[r] += 1.0f + (float)r;
}

static bool
counts(const char *name, const float *values, float wanted)
{
    float count;
    CHECK(cudaMemcpy(&count, values + COUNT - 1, sizeof(count), cudaMemcpyDeviceToHost));
    if (count != wanted)
        printf("rank %d: its %s is %g, not %g: WRONG\n", DDP_RANK(), name, count, wanted);
    return count == wanted;
}

static void
train(void)
{
    bool has_gradients = !is_mode("parameters") && !is_mode("again");
    for (int step = 1; step <= STEPS; ++step) {
        if (has_gradients) {
            add<<<COUNT / THREADS, THREADS>>>(gradient, mine());
            DDP_STEP(0);
            if (step > 1 && (step - 1) % every == 0)
                average(true);
        }
        update();
        if (!has_gradients) {
            DDP_STEP_PARAMETERS(0);
            if (step % every == 0)
                average(true);
        }
        if (is_mode("again") && step == AGAIN) {
            of_float.annotate_again(DDP_FLOAT32);
            of_double.annotate_again(DDP_FLOAT64);
            of_half.annotate_again(DDP_FLOAT16);
            of_bfloat.annotate_again(DDP_BFLOAT16);
        }
        if (is_mode("sync") && (step == 6 || step == 7 || step == STEPS)) {
            DDP_SYNC(0);
            average(false);
        }
    }
}

int
main(int argc, char **argv)
{
    REQUIRE(argc > 2);
    mode = argv[1];
    kind = argv[2];
    take_options(argc, argv, 3, {{"--every", &every}, {"--rate", &rate}, {"--momentum", &momentum}});
    counter = device_floats(COUNT);
    tally = device_floats(COUNT);
    gradient = device_floats(COUNT);
    of_float.create(DDP_FLOAT32);
    of_double.create(DDP_FLOAT64);
    of_half.create(DDP_FLOAT16);
    of_bfloat.create(DDP_BFLOAT16);
    DDP_STATE(counter, COUNT, DDP_FLOAT32);
    DDP_BUFFER(tally, COUNT, DDP_FLOAT32);
    if (!is_mode("parameters") && !is_mode("again"))
        DDP_GRADIENT(gradient, COUNT, DDP_FLOAT32);
    train();
    CHECK(cudaDeviceSynchronize());
    bool good = of_float.holds("float32", 1e-6) & of_double.holds("float64", 1e-14) & of_half.holds("float16", 2e-3) &
                of_bfloat.holds("bfloat16", 2e-2);
    good &= counts("state", counter, STEPS * mine()) & counts("buffer", tally, known_tally[DDP_RANK()]);
    return good ? 0 : 1;
}
