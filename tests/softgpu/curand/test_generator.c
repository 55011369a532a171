/*
 * test_generator.c - generators give numbers of the distributions that they name (range, mean, deviation, shape), the
 * same for the same seed, offset and calls, on the device as on the host, on any stream; and refuse what they cannot
 * do.
 */
#include "../cublas/device.h"

#include "tests/test.h"

#include <curand.h>

enum { COUNT = 200000 };

static const curandRngType_t types[] = {CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_PHILOX4_32_10};

static curandGenerator_t
new_generator(curandRngType_t type, bool on_host, unsigned long long seed)
{
    curandGenerator_t made;
    ck_assert_int_eq((on_host ? curandCreateGeneratorHost : curandCreateGenerator)(&made, type), 0);
    ck_assert_int_eq(curandSetPseudoRandomGeneratorSeed(made, seed), 0);
    return made;
}

/* Mean, deviation and the share of values below the mean, each within five standard errors. */
static void
check_moments(const double *values, size_t count, double mean, double deviation, double share_below)
{
    double sum = 0, squares = 0, below = 0, root = sqrt((double)count);
    for (size_t i = 0; i < count; ++i) {
        sum += values[i];
        squares += (values[i] - mean) * (values[i] - mean);
        below += values[i] < mean;
    }
    ck_assert_double_lt(fabs(sum / (double)count - mean), 5 * deviation / root);
    ck_assert_double_lt(fabs(sqrt(squares / (double)count) / deviation - 1), 10 / root);
    ck_assert_double_lt(fabs(below / (double)count - share_below), 5 * 0.5 / root);
}

static int
compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* The largest distance between the values' distribution and a known one, as Kolmogorov and Smirnov measure it. */
static void
check_shape(double *values, size_t count, double (*cumulative)(double))
{
    double most = 0;
    qsort(values, count, sizeof(values[0]), compare);
    for (size_t i = 0; i < count; ++i)
        most = fmax(most, fabs(cumulative(values[i]) - ((double)i + 0.5) / (double)count));
    ck_assert_double_lt(most * sqrt((double)count), 2.5); /* by chance once in 10^5 */
}

static double
uniform_cumulative(double x)
{
    return x;
}

static double
normal_cumulative(double x)
{
    return 0.5 * erfc(-x / M_SQRT2);
}

#define DEFINE_FETCH(real)                               \
    static double *fetch_##real(const void *device)      \
    {                                                    \
        real *host = malloc(COUNT * sizeof(real));       \
        double *values = malloc(COUNT * sizeof(double)); \
        device_read(host, device, COUNT * sizeof(real)); \
        for (size_t i = 0; i < COUNT; ++i)               \
            values[i] = (double)host[i];                 \
        free(host);                                      \
        return values;                                   \
    }

DEFINE_FETCH(float)
DEFINE_FETCH(double)

TEST_GROUP(all, .start = device_start);

PART_TEST(test_uniform, 2)
{
    curandGenerator_t generator = new_generator(types[_i], false, 11);
    void *device = device_copy_of(NULL, COUNT * sizeof(double));
    ck_assert_int_eq(curandGenerateUniform(generator, device, COUNT), 0);
    double *values = fetch_float(device);
    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < COUNT; ++i) {
            if (!(values[i] > 0 && values[i] <= 1))
                ck_abort_msg("%g is not in (0, 1]", values[i]);
        }
        check_moments(values, COUNT, 0.5, sqrt(1.0 / 12), 0.5);
        check_shape(values, COUNT, uniform_cumulative);
        free(values);
        if (round == 0)
            ck_assert_int_eq(curandGenerateUniformDouble(generator, device, COUNT), 0);
        values = round == 0 ? fetch_double(device) : NULL;
    }
    device_free(device);
    ck_assert_int_eq(curandDestroyGenerator(generator), 0);
}

PART_TEST(test_normal, 2)
{
    curandGenerator_t generator = new_generator(types[_i], false, 12);
    void *device = device_copy_of(NULL, COUNT * sizeof(double));
    for (int is_double = 0; is_double < 2; ++is_double) {
        if (is_double)
            ck_assert_int_eq(curandGenerateNormalDouble(generator, device, COUNT, 3, 2), 0);
        else
            ck_assert_int_eq(curandGenerateNormal(generator, device, COUNT, 3, 2), 0);
        double *values = is_double ? fetch_double(device) : fetch_float(device);
        check_moments(values, COUNT, 3, 2, 0.5);
        double together = 0; /* the two of a pair have nothing to do with each other */
        for (size_t i = 0; i < COUNT; i += 2)
            together += (values[i] - 3) * (values[i + 1] - 3) / 4;
        ck_assert_double_lt(fabs(together / (COUNT / 2)), 5 / sqrt(COUNT / 2));
        for (size_t i = 0; i < COUNT; ++i)
            values[i] = (values[i] - 3) / 2;
        check_shape(values, COUNT, normal_cumulative);
        free(values);
    }
    device_free(device);
    curandDestroyGenerator(generator);
}

static void
check_exponentials(const double *got, const double *normal, double tolerance)
{
    double most = 0;
    for (size_t i = 0; i < COUNT; ++i)
        most = fmax(most, fabs(got[i] / exp(normal[i]) - 1));
    ck_assert_double_lt(most, tolerance);
}

/* A log-normal number is the exponential of the normal number in its place. */
PART_TEST(test_log_normal, 2)
{
    curandGenerator_t logs = new_generator(types[_i], false, 13), normals = new_generator(types[_i], false, 13);
    void *device[2] = {device_copy_of(NULL, COUNT * sizeof(double)), device_copy_of(NULL, COUNT * sizeof(double))};
    ck_assert_int_eq(curandGenerateLogNormal(logs, device[0], COUNT, 0.25f, 0.5f), 0);
    ck_assert_int_eq(curandGenerateNormal(normals, device[1], COUNT, 0.25f, 0.5f), 0);
    double *got = fetch_float(device[0]), *normal = fetch_float(device[1]);
    check_exponentials(got, normal, 1e-5);
    free(got);
    free(normal);
    ck_assert_int_eq(curandGenerateLogNormalDouble(logs, device[0], COUNT, 0.25, 0.5), 0);
    ck_assert_int_eq(curandGenerateNormalDouble(normals, device[1], COUNT, 0.25, 0.5), 0);
    got = fetch_double(device[0]);
    normal = fetch_double(device[1]);
    check_exponentials(got, normal, 1e-13);
    free(got);
    free(normal);
    device_free(device[0]);
    device_free(device[1]);
    curandDestroyGenerator(logs);
    curandDestroyGenerator(normals);
}

/* One call or several, host or device, this stream or, after it, that: the sequence is one. */
PART_TEST(test_the_sequence_is_one, 2)
{
    curandGenerator_t device = new_generator(types[_i], false, 77), host = new_generator(types[_i], true, 77);
    CUstream stream;
    unsigned *expected = malloc(3000 * sizeof(unsigned)), got[3000];
    unsigned *memory = device_copy_of(NULL, 3000 * sizeof(unsigned));
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(curandGenerate(host, expected, 3000), 0);
    ck_assert_int_eq(curandGenerate(device, memory, 1001), 0);
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    ck_assert_int_eq(curandSetStream(device, (cudaStream_t)stream), 0);
    ck_assert_int_eq(curandGenerate(device, memory + 1001, 1999), 0);
    device_read(got, memory, sizeof(got));
    ck_assert_mem_eq(got, expected, sizeof(got));

    ck_assert_int_eq(curandSetGeneratorOffset(device, 500), 0);
    ck_assert_int_eq(curandGenerate(device, memory, 100), 0);
    device_read(got, memory, 100 * sizeof(unsigned));
    ck_assert_mem_eq(got, expected + 500, 100 * sizeof(unsigned));
    ck_assert_int_eq(curandSetPseudoRandomGeneratorSeed(device, 78), 0);
    ck_assert_int_eq(curandGenerate(device, memory, 100), 0);
    device_read(got, memory, 100 * sizeof(unsigned));
    ck_assert_mem_ne(got, expected + 500, 100 * sizeof(unsigned));
    free(expected);
    device_free(memory);
    ck_assert_int_eq(cuStreamDestroy(stream), CUDA_SUCCESS);
    curandDestroyGenerator(device);
    curandDestroyGenerator(host);
}

/* Numbers come from states in device memory, in turn: calls of all sizes, over several turns, draw one sequence, and a
 * captured call that is launched again draws from the same states, which are a turn further by then. */
PART_TEST(test_states, 2)
{
    enum { TURN = 8192, CALL = 121 };
    curandGenerator_t device = new_generator(types[_i], false, 79), host = new_generator(types[_i], true, 79);
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    unsigned *expected = malloc(COUNT * sizeof(unsigned)), got[CALL];
    unsigned *memory = device_copy_of(NULL, COUNT * sizeof(unsigned));
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(curandSetStream(device, (cudaStream_t)stream), 0);
    ck_assert_int_eq(curandGenerate(host, expected, COUNT), 0);
    ck_assert_int_eq(curandGenerateSeeds(device), 0);
    for (size_t at = 0, length = 1; at + length < 3 * TURN; at += length, length = length * 7 % 509) {
        ck_assert_int_eq(curandGenerate(device, memory, length), 0);
        ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
        unsigned part[509];
        device_read(part, memory, length * sizeof(unsigned));
        ck_assert_mem_eq(part, expected + at, length * sizeof(unsigned));
    }
    ck_assert_int_eq(curandSetGeneratorOffset(device, TURN - 1), 0);
    ck_assert_int_eq(curandGenerateSeeds(device), 0);
    ck_assert_int_eq(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    ck_assert_int_eq(curandGenerate(device, memory, CALL), 0);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    for (size_t turn = 1; turn < 4; ++turn) {
        ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
        device_read(got, memory, sizeof(got));
        ck_assert_mem_eq(got, expected + turn * TURN - 1, sizeof(got));
    }
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    device_free(memory);
    free(expected);
    cuStreamDestroy(stream);
    curandDestroyGenerator(device);
    curandDestroyGenerator(host);
}

/* Work is ordered by the stream: nothing is written before what was put in ahead of it is done. */
TEST(test_runs_on_its_stream)
{
    curandGenerator_t generator = new_generator(CURAND_RNG_PSEUDO_DEFAULT, false, 5);
    _Atomic bool gate;
    CUstream stream;
    float *memory, value;
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemAllocHost((void **)&memory, sizeof(float)), CUDA_SUCCESS);
    *memory = -1;
    device_hold(stream, &gate);
    ck_assert_int_eq(curandSetStream(generator, (cudaStream_t)stream), 0);
    ck_assert_int_eq(curandGenerateUniform(generator, memory, 1), 0);
    value = *memory;
    atomic_store(&gate, true);
    ck_assert_float_eq(value, -1);
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
    ck_assert_float_ne(*memory, -1);
    cuMemFreeHost(memory);
    cuStreamDestroy(stream);
    curandDestroyGenerator(generator);
}

TEST(test_refusals)
{
    curandGenerator_t generator;
    float *memory = device_copy_of(NULL, 64);
    ck_assert_int_eq(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_MT19937), CURAND_STATUS_TYPE_ERROR);
    ck_assert_int_eq(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_MRG32K3A), CURAND_STATUS_TYPE_ERROR);
    ck_assert_int_eq(curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32), CURAND_STATUS_TYPE_ERROR);
    ck_assert_int_eq(curandGenerateUniform(NULL, memory, 4), CURAND_STATUS_NOT_INITIALIZED);
    generator = new_generator(CURAND_RNG_PSEUDO_PHILOX4_32_10, false, 1);
    ck_assert_int_eq(curandGenerateNormal(generator, memory, 5, 0, 1), CURAND_STATUS_LENGTH_NOT_MULTIPLE);
    ck_assert_int_eq(curandSetGeneratorOrdering(generator, CURAND_ORDERING_QUASI_DEFAULT), CURAND_STATUS_OUT_OF_RANGE);
    ck_assert_int_eq(curandSetGeneratorOrdering(generator, CURAND_ORDERING_PSEUDO_SEEDED), 0);
    ck_assert_int_ne(curandGeneratePoisson(generator, (unsigned *)memory, 4, 2.0), 0);
    ck_assert_int_eq(curandDestroyGenerator(generator), 0);
    device_free(memory);
}
