/*
 * generator.c - the host interface of cuRAND: generators of XORWOW and Philox4_32_10, for device memory and for host
 * memory.
 *
 * A generator's states lie in device memory, from the first call for numbers on; a kernel seeds them. Such a call is
 * one kernel on the generator's stream, which gets states, output and the place in the states by value, and writes the
 * states that it draws from. Calls on several streams are the program's to order. The n-th number of a sequence is the
 * n-th written, whatever ordering is asked for. A generator is used by one thread at a time.
 */
#include "curand/distribution.h"
#include "library/driver.h"

#include <curand.h>
#include <stdlib.h>

#define GENERATOR_MAGIC 0x63726e64u

const char softgpu_library_name[] = "cuRAND";

struct curandGenerator_st {
    uint32_t magic; /* GENERATOR_MAGIC; 0 once destroyed */
    bool is_on_host;
    enum sequence_kind kind;
    uint64_t seed;
    uint64_t offset;       /* where the program wants its sequence to begin */
    uint64_t at;           /* the next number's place in a turn of the states */
    struct states *states; /* device memory or, of a host generator, the host's; NULL before the first numbers */
    bool is_seeded;        /* the states are those of seed and offset, and of the numbers drawn since */
    cudaStream_t stream;
};

/* What the generated stubs call. */
int curand_stub(const char *name, _Atomic bool *said);

int
curand_stub(const char *name, _Atomic bool *said)
{
    softgpu_line_unsupported(name, said);
    return CURAND_STATUS_ARCH_MISMATCH; /* "GPU does not support requested feature" */
}

/* ---- the kernels ---- */

enum { SEED_STATES, SEED_KIND, SEED_SEED, SEED_POSITION };

static const struct softgpu_param seed_layout[] = {
    [SEED_STATES] = {0, 8},
    [SEED_KIND] = {8, 4},
    [SEED_SEED] = {16, 8},
    [SEED_POSITION] = {24, 8},
};

static void
run_seed(const struct softgpu_launch *launch)
{
    states_seed(*(struct states *const *)launch->args[SEED_STATES],
                *(const enum sequence_kind *)launch->args[SEED_KIND], *(const uint64_t *)launch->args[SEED_SEED],
                *(const uint64_t *)launch->args[SEED_POSITION]);
}

static struct softgpu_kernel seed_kernel = SOFTGPU_KERNEL("generate_seed_pseudo", run_seed, seed_layout);

enum { ARG_STATES, ARG_OUTPUT, ARG_COUNT, ARG_AT, ARG_KIND, ARG_MEAN, ARG_DEVIATION };

static const struct softgpu_param generate_layout[] = {
    [ARG_STATES] = {0, 8}, [ARG_OUTPUT] = {8, 8}, [ARG_COUNT] = {16, 8},     [ARG_AT] = {24, 8},
    [ARG_KIND] = {32, 4},  [ARG_MEAN] = {40, 8},  [ARG_DEVIATION] = {48, 8},
};

static void
run_generate(const struct softgpu_launch *launch)
{
    const struct distribution wanted = {*(const enum distribution_kind *)launch->args[ARG_KIND],
                                        *(const double *)launch->args[ARG_MEAN],
                                        *(const double *)launch->args[ARG_DEVIATION]};
    struct draw draw;
    states_begin(&draw, *(struct states *const *)launch->args[ARG_STATES], *(const uint64_t *)launch->args[ARG_AT]);
    distribution_fill(&wanted, &draw, *(void *const *)launch->args[ARG_OUTPUT],
                      *(const size_t *)launch->args[ARG_COUNT]);
}

static struct softgpu_kernel generate_kernel = SOFTGPU_KERNEL("gen_sequenced", run_generate, generate_layout);

/* On the generator's stream; a host generator's kernels run here and now. */
static curandStatus_t
launch(const struct curandGenerator_st *generator, struct softgpu_kernel *kernel, void **args)
{
    if (generator->is_on_host)
        kernel->image.run(&(struct softgpu_launch){.args = (const void *const *)args});
    else if (softgpu_kernel_launch(kernel, (CUstream)generator->stream, args) != CUDA_SUCCESS)
        return CURAND_STATUS_LAUNCH_FAILURE;
    return CURAND_STATUS_SUCCESS;
}

/* ---- drawing ---- */

static bool
is_generator(const struct curandGenerator_st *generator)
{
    return generator && generator->magic == GENERATOR_MAGIC;
}

static bool
allocate_states(struct curandGenerator_st *generator)
{
    CUdeviceptr memory = 0;
    if (generator->is_on_host)
        generator->states = malloc(sizeof(*generator->states));
    else if (softgpu_driver()->mem_alloc(&memory, sizeof(*generator->states)) == CUDA_SUCCESS)
        generator->states = (struct states *)(uintptr_t)memory;
    return generator->states != NULL;
}

static curandStatus_t
seed(struct curandGenerator_st *generator)
{
    if (generator->is_seeded)
        return CURAND_STATUS_SUCCESS;
    if (!generator->states && !allocate_states(generator))
        return CURAND_STATUS_ALLOCATION_FAILED;
    void *args[] = {&generator->states, &generator->kind, &generator->seed, &generator->offset};
    generator->at = generator->offset % TURN_NUMBERS;
    curandStatus_t status = launch(generator, &seed_kernel, args);
    generator->is_seeded = status == CURAND_STATUS_SUCCESS;
    return status;
}

static curandStatus_t
generate(struct curandGenerator_st *generator, void *output, size_t count, struct distribution wanted)
{
    if (!is_generator(generator))
        return CURAND_STATUS_NOT_INITIALIZED;
    if (distribution_is_paired(wanted.kind) && count % 2 != 0)
        return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    if (count == 0)
        return CURAND_STATUS_SUCCESS;
    if (!output)
        return CURAND_STATUS_OUT_OF_RANGE;
    void *args[] = {&generator->states, &output, &count, &generator->at, &wanted.kind, &wanted.mean, &wanted.deviation};
    curandStatus_t status = seed(generator);
    status = status == CURAND_STATUS_SUCCESS ? launch(generator, &generate_kernel, args) : status;
    if (status == CURAND_STATUS_SUCCESS)
        generator->at = (generator->at + count * distribution_cost(wanted.kind)) % TURN_NUMBERS;
    return status;
}

/* ---- generators ---- */

static curandStatus_t
refuse_type(curandRngType_t type)
{
    static const struct {
        curandRngType_t type;
        const char *name;
    } known[] = {
        {CURAND_RNG_PSEUDO_MRG32K3A, "CURAND_RNG_PSEUDO_MRG32K3A"},
        {CURAND_RNG_PSEUDO_MTGP32, "CURAND_RNG_PSEUDO_MTGP32"},
        {CURAND_RNG_PSEUDO_MT19937, "CURAND_RNG_PSEUDO_MT19937"},
        {CURAND_RNG_QUASI_DEFAULT, "CURAND_RNG_QUASI_DEFAULT"},
        {CURAND_RNG_QUASI_SOBOL32, "CURAND_RNG_QUASI_SOBOL32"},
        {CURAND_RNG_QUASI_SCRAMBLED_SOBOL32, "CURAND_RNG_QUASI_SCRAMBLED_SOBOL32"},
        {CURAND_RNG_QUASI_SOBOL64, "CURAND_RNG_QUASI_SOBOL64"},
        {CURAND_RNG_QUASI_SCRAMBLED_SOBOL64, "CURAND_RNG_QUASI_SCRAMBLED_SOBOL64"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        if (known[i].type == type)
            softgpu_line("%s is not supported by the stand-in: use CURAND_RNG_PSEUDO_XORWOW or "
                         "CURAND_RNG_PSEUDO_PHILOX4_32_10",
                         known[i].name);
    }
    return CURAND_STATUS_TYPE_ERROR;
}

static curandStatus_t
create(curandGenerator_t *generator_p, curandRngType_t type, bool is_on_host)
{
    CUcontext context;
    if (!generator_p)
        return CURAND_STATUS_OUT_OF_RANGE;
    if (type != CURAND_RNG_PSEUDO_DEFAULT && type != CURAND_RNG_PSEUDO_XORWOW &&
        type != CURAND_RNG_PSEUDO_PHILOX4_32_10)
        return refuse_type(type);
    if (!is_on_host && softgpu_context_ensure(&context) != CUDA_SUCCESS)
        return CURAND_STATUS_INITIALIZATION_FAILED;
    curandGenerator_t generator = calloc(1, sizeof(*generator));
    if (!generator)
        return CURAND_STATUS_ALLOCATION_FAILED;
    generator->magic = GENERATOR_MAGIC;
    generator->is_on_host = is_on_host;
    generator->kind = type == CURAND_RNG_PSEUDO_PHILOX4_32_10 ? SEQUENCE_PHILOX : SEQUENCE_XORWOW;
    *generator_p = generator;
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t
curandCreateGenerator(curandGenerator_t *generator, curandRngType_t rng_type)
{
    return create(generator, rng_type, false);
}

curandStatus_t
curandCreateGeneratorHost(curandGenerator_t *generator, curandRngType_t rng_type)
{
    return create(generator, rng_type, true);
}

curandStatus_t
curandDestroyGenerator(curandGenerator_t generator)
{
    if (!is_generator(generator))
        return CURAND_STATUS_NOT_INITIALIZED;
    generator->magic = 0;
    if (generator->is_on_host)
        free(generator->states);
    else
        softgpu_driver()->mem_free((CUdeviceptr)generator->states);
    free(generator);
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t
curandSetStream(curandGenerator_t generator, cudaStream_t stream)
{
    if (!is_generator(generator))
        return CURAND_STATUS_NOT_INITIALIZED;
    generator->stream = stream;
    return CURAND_STATUS_SUCCESS;
}

/* Starts the seed's sequence at the generator's offset. */
curandStatus_t
curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed)
{
    if (!is_generator(generator))
        return CURAND_STATUS_NOT_INITIALIZED;
    generator->seed = seed;
    generator->is_seeded = false;
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t
curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset)
{
    if (!is_generator(generator))
        return CURAND_STATUS_NOT_INITIALIZED;
    generator->offset = offset;
    generator->is_seeded = false;
    return CURAND_STATUS_SUCCESS;
}

/* All orderings of pseudorandom numbers are the same here. */
curandStatus_t
curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t order)
{
    if (!is_generator(generator))
        return CURAND_STATUS_NOT_INITIALIZED;
    return order >= CURAND_ORDERING_PSEUDO_BEST && order <= CURAND_ORDERING_PSEUDO_DYNAMIC ? CURAND_STATUS_SUCCESS
                                                                                           : CURAND_STATUS_OUT_OF_RANGE;
}

/* Only quasirandom generators have dimensions. */
curandStatus_t
curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned int num_dimensions)
{
    (void)num_dimensions;
    return is_generator(generator) ? CURAND_STATUS_TYPE_ERROR : CURAND_STATUS_NOT_INITIALIZED;
}

/* Else the first call for numbers does it, which a capture refuses: it allocates. */
curandStatus_t
curandGenerateSeeds(curandGenerator_t generator)
{
    return is_generator(generator) ? seed(generator) : CURAND_STATUS_NOT_INITIALIZED;
}

curandStatus_t
curandGetVersion(int *version)
{
    if (!version)
        return CURAND_STATUS_OUT_OF_RANGE;
    *version = CURAND_VERSION;
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t
curandGetProperty(libraryPropertyType type, int *value)
{
    static const int parts[] = {
        [MAJOR_VERSION] = CURAND_VER_MAJOR, [MINOR_VERSION] = CURAND_VER_MINOR, [PATCH_LEVEL] = CURAND_VER_PATCH};
    if (!value || (unsigned)type >= sizeof(parts) / sizeof(parts[0]))
        return CURAND_STATUS_OUT_OF_RANGE;
    *value = parts[type];
    return CURAND_STATUS_SUCCESS;
}

/* ---- numbers ---- */

curandStatus_t
curandGenerate(curandGenerator_t generator, unsigned int *outputPtr, size_t num)
{
    return generate(generator, outputPtr, num, (struct distribution){DISTRIBUTION_BITS, 0, 0});
}

/* Of 64-bit quasirandom generators only. */
curandStatus_t
curandGenerateLongLong(curandGenerator_t generator, unsigned long long *outputPtr, size_t num)
{
    (void)outputPtr;
    (void)num;
    return is_generator(generator) ? CURAND_STATUS_TYPE_ERROR : CURAND_STATUS_NOT_INITIALIZED;
}

curandStatus_t
curandGenerateUniform(curandGenerator_t generator, float *outputPtr, size_t num)
{
    return generate(generator, outputPtr, num, (struct distribution){DISTRIBUTION_UNIFORM, 0, 0});
}

curandStatus_t
curandGenerateUniformDouble(curandGenerator_t generator, double *outputPtr, size_t num)
{
    return generate(generator, outputPtr, num, (struct distribution){DISTRIBUTION_UNIFORM_DOUBLE, 0, 0});
}

#define DEFINE_NORMAL(name, real, kind)                                                                 \
    curandStatus_t name(curandGenerator_t generator, real *outputPtr, size_t n, real mean, real stddev) \
    {                                                                                                   \
        return generate(generator, outputPtr, n, (struct distribution){kind, mean, stddev});            \
    }

DEFINE_NORMAL(curandGenerateNormal, float, DISTRIBUTION_NORMAL)
DEFINE_NORMAL(curandGenerateNormalDouble, double, DISTRIBUTION_NORMAL_DOUBLE)
DEFINE_NORMAL(curandGenerateLogNormal, float, DISTRIBUTION_LOG_NORMAL)
DEFINE_NORMAL(curandGenerateLogNormalDouble, double, DISTRIBUTION_LOG_NORMAL_DOUBLE)
