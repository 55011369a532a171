/*
 * first_sum.c - the first all-reduce of a job adds numbers that are known, and the host looks at the sums.
 *
 * Where GPUs write to each other's memory through an IOMMU, or a switch with ACS, data may be lost or damaged, and no
 * call of NCCL or CUDA fails. If the damage is alike on all ranks, no comparison between them shows it. Or the
 * operation does not end, which the watch reports (report/watchdog.c).
 *
 * Called at the first agreement on annotations: all ranks have come there, and nothing is captured.
 */
#include "interpose/engine/measure/measure.h"

#include "base/message.h"

enum { WORDS = (1 << 20) / sizeof(uint32_t) };

/* Word i of a rank's; each place has its own. */
static uint32_t
word_of(uint32_t i, uint32_t rank)
{
    return i * UINT32_C(2654435761) + rank * UINT32_C(40503);
}

static uint32_t
sum_of(uint32_t i, uint32_t world)
{
    return world * word_of(i, 0) + UINT32_C(40503) * (world * (world - 1) / 2);
}

/* The first word that is wrong; WORDS: none is. */
static uint32_t
find_wrong(const uint32_t *words, uint32_t world)
{
    uint32_t i = 0;
    while (i < WORDS && words[i] == sum_of(i, world))
        ++i;
    return i;
}

static void
add_up(CUdeviceptr memory, uint32_t *words) BY_ISSUER
{
    struct comm_error error;
    for (uint32_t i = 0; i < WORDS; ++i)
        words[i] = word_of(i, (uint32_t)engine_state.rendezvous.rank);
    CUDA("copying numbers to add", cuMemcpyHtoDAsync, memory, words, WORDS * sizeof(*words), first_stream());
    inflight_sending(FIRST_SUM, 0, COMMUNICATOR_ENGINE);
    if (!collectives_add_words(&engine_state.collectives, memory, WORDS, first_stream(), &error))
        stop_job_by(error.cause, FIRST_SUM ": %s", error.text);
    inflight_sent(FIRST_SUM, 0, COMMUNICATOR_ENGINE);
    CUDA("copying sums", cuMemcpyDtoHAsync, words, memory, WORDS * sizeof(*words), first_stream());
    CUDA(FIRST_SUM, cuStreamSynchronize, first_stream());
}

void
first_sum_look(void)
{
    static bool looked;
    if (looked)
        return;
    looked = true;
    RELAX_CAPTURES(); /* or a capture in another thread would end */
    role_take();
    CUdeviceptr memory = 0;
    uint64_t has_memory = engine_state.driver.cuMemAlloc_p(&memory, WORDS * sizeof(uint32_t)) == CUDA_SUCCESS;
    bool is_own = has_memory != 0;
    least_of_ranks("memory for " FIRST_SUM, &has_memory, 1);
    uint32_t *words = engine_calloc(WORDS, sizeof(*words)), world = (uint32_t)engine_state.rendezvous.world_size;
    if (has_memory != 0) {
        add_up(memory, words);
        uint32_t wrong = find_wrong(words, world);
        if (wrong < WORDS)
            stop_job(
                "the first all-reduce is wrong: of known numbers the sum at place %u is %u, not %u. GPUs do not get "
                "what others write: NCCL_P2P_DISABLE=1 tells whether it is P2P (turn ACS and the IOMMU off)",
                wrong, words[wrong], sum_of(wrong, world));
    }
    if (is_own)
        (void)engine_state.driver.cuMemFree_p(memory);
    free(words);
    role_give();
}
