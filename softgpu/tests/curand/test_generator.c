/*
 * test_generator.c - generators give numbers of the distributions that they name, as they are defined, the
 * same for the same seed, offset and calls, on the device as on the host, on any stream; and refuse what they cannot
 * do.
 */
#include "../cublas/device.h"

#include "tests/lib/test.h"

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

enum { UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE, LOG_NORMAL, LOG_NORMAL_DOUBLE, KINDS };

static curandStatus_t
generate(curandGenerator_t generator, int kind, void *to)
{
    return kind == UNIFORM          ? curandGenerateUniform(generator, to, COUNT)
           : kind == UNIFORM_DOUBLE ? curandGenerateUniformDouble(generator, to, COUNT)
           : kind == NORMAL         ? curandGenerateNormal(generator, to, COUNT, 3, 2)
           : kind == NORMAL_DOUBLE  ? curandGenerateNormalDouble(generator, to, COUNT, 3, 2)
           : kind == LOG_NORMAL     ? curandGenerateLogNormal(generator, to, COUNT, 0.25f, 0.5f)
                                    : curandGenerateLogNormalDouble(generator, to, COUNT, 0.25, 0.5);
}

/* Of one number of the sequence the middle of its interval; of two 53 bits, counted from one. */
static double
uniform(const unsigned *bits, bool wide, size_t at)
{
    return wide ? (double)((((uint64_t)bits[2 * at + 1] << 32 | bits[2 * at]) >> 11) + 1) * 0x1p-53
                : ((double)bits[at] + 0.5) * 0x1p-32;
}

/* Number `at` by its definition: normal numbers are Box and Muller's pairs, log-normal ones their exponentials. */
static double
defined(const unsigned *bits, int kind, size_t at)
{
    bool wide = kind % 2 != 0, is_log = kind >= LOG_NORMAL;
    if (kind <= UNIFORM_DOUBLE)
        return uniform(bits, wide, at);
    double radius = sqrt(-2 * log(uniform(bits, wide, at & ~(size_t)1))),
           angle = 2 * M_PI * uniform(bits, wide, at | 1);
    double normal = radius * (at % 2 == 0 ? cos(angle) : sin(angle));
    return is_log ? exp(0.25 + 0.5 * normal) : 3 + 2 * normal;
}

TEST_GROUP(all, .start = device_start);

PART_TEST(test_numbers_are_as_defined, 2 * KINDS)
{
    int kind = _i / 2;
    bool wide = kind % 2 != 0;
    curandGenerator_t device = new_generator(types[_i % 2], false, 11), host = new_generator(types[_i % 2], true, 11);
    unsigned *bits = malloc(2 * COUNT * sizeof(*bits));
    void *memory = device_copy_of(NULL, COUNT * sizeof(double)), *got = malloc(COUNT * sizeof(double));
    ck_assert_int_eq(curandGenerate(host, bits, wide ? 2 * COUNT : COUNT), 0);
    ck_assert_int_eq(generate(device, kind, memory), 0);
    device_read(got, memory, COUNT * (wide ? sizeof(double) : sizeof(float)));
    for (size_t i = 0; i < COUNT; ++i) {
        double value = wide ? ((double *)got)[i] : (double)((float *)got)[i], wanted = defined(bits, kind, i);
        if (!(fabs(value - wanted) <= (wide ? 1e-14 : 4e-5) * (1 + fabs(wanted))) ||
            (kind <= UNIFORM_DOUBLE && value <= 0))
            ck_abort_msg("number %zu is %.17g, not %.17g", i, value, wanted);
    }
    free(bits);
    free(got);
    device_free(memory);
    ck_assert_int_eq(curandDestroyGenerator(device), 0);
    ck_assert_int_eq(curandDestroyGenerator(host), 0);
}

/* Those of its authors' known-answer test. */
TEST(test_philox_begins_with_its_known_answer)
{
    unsigned got[4];
    const unsigned answer[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    curandGenerator_t host = new_generator(CURAND_RNG_PSEUDO_PHILOX4_32_10, true, 0);
    ck_assert_int_eq(curandGenerate(host, got, 4), 0);
    ck_assert_mem_eq(got, answer, sizeof(got));
    curandDestroyGenerator(host);
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
