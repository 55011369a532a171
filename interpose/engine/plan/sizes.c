/*
 * sizes.c - communicators whose kernels have fewer blocks (--try-ctas), which steps of a trial take in place of those
 * that NCCL has chosen by itself.
 *
 * All groups' buckets go through one size at a time: it changes at a boundary, the same one in the order of all ranks'
 * operations. They are made for the trial, and end behind it, or one of them stays in place of NCCL's own.
 */
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/send/send.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/mutant.h"

static const struct group *owner GUARDED_BY(issuer_role); /* whose trial they are for; NULL: there are none */
static bool were_made GUARDED_BY(issuer_role);

uint32_t
sizes_ctas(unsigned size)
{
    return size >= 1 && size <= COLLECTIVES_SIZES_AT_MOST ? engine_state.options.try_ctas >> (size - 1) : 0;
}

bool
sizes_are_wanted(void)
{
    return sizes_ctas(1) > 0 && !were_made;
}

bool
sizes_are_open(const struct group *group)
{
    return owner == group;
}

/* Said by rank 0. */
static void
say_made(bool made, uint64_t before_bytes, int64_t us)
{
    uint64_t all_bytes, after_bytes = memory_free(&all_bytes);
    if (engine_state.rendezvous.rank != 0)
        return;
    if (made)
        message_line("--try-ctas %u: communicators were made in %.3g ms and %.1f MiB of device memory; the next steps "
                     "compare them",
                     engine_state.options.try_ctas, (double)us * 1e-3,
                     before_bytes > after_bytes ? (double)(before_bytes - after_bytes) / 1048576 : 0.0);
    else
        message_line(
            "--try-ctas %u: not tried: NCCL has failed on a rank, or less than an eighth of a device's memory is "
            "free; buckets go on as before",
            engine_state.options.try_ctas);
}

static void
keep(unsigned size) BY_ISSUER
{
    struct comm_error error;
    if (!collectives_keep_size(&engine_state.collectives, size, &error))
        stop_job_by(error.cause, "%s", error.text);
}

bool
sizes_begin(const struct group *group)
{
    uint32_t most_ctas[COLLECTIVES_SIZES_AT_MOST];
    unsigned count = 0;
    struct comm_error error;
    uint64_t all_bytes, before_bytes = memory_free(&all_bytes), good = memory_is_spare(0);
    int64_t begun_us = clock_now_us();
    for (; count < COLLECTIVES_SIZES_AT_MOST && sizes_ctas(count + 1) > 0; ++count)
        most_ctas[count] = sizes_ctas(count + 1);
    were_made = true;
    least_of_ranks("memory for communicators", &good, 1);
    if (good) {
        issue_unstage();
        good = collectives_open_sizes(&engine_state.collectives, most_ctas, count, &error);
        if (!good && error.cause == COMM_OTHERS)
            stop_job_by(error.cause, "%s", error.text);
        if (!good)
            message_line("--try-ctas %u: %s", engine_state.options.try_ctas, error.text);
        least_of_ranks("communicators with fewer blocks", &good, 1);
        if (!good)
            keep(0);
        issue_stage();
    }
    owner = good ? group : NULL;
    say_made(good != 0, before_bytes, clock_now_us() - begun_us);
    return good != 0;
}

void
sizes_use(const struct group *group, unsigned size)
{
    if (owner == group)
        collectives_use_size(&engine_state.collectives, size);
}

void
sizes_keep(const struct group *group, unsigned size)
{
    if (owner != group)
        return;
    if (MUTANT(SIZE_DIFFERS) && engine_state.rendezvous.rank % 2 == 1)
        size = 1;
    uint64_t least = size; /* a communicator that ends on some ranks only would stop them all */
    least_of_ranks("the communicators that stay", &least, 1);
    uint64_t most = greatest_of_ranks("the communicators that stay", size);
    if (least != most)
        stop_job("ranks have chosen different communicators, %u and %u; this is an error of ddprun", (unsigned)least,
                 (unsigned)most);
    issue_unstage();
    keep(size);
    issue_stage();
    owner = NULL;
    if (engine_state.rendezvous.rank != 0)
        return;
    if (size > 0)
        message_line("collectives have at most %u block%s from step %llu on", sizes_ctas(size),
                     sizes_ctas(size) > 1 ? "s" : "", (unsigned long long)engine_state.boundary_count + 1);
    else
        message_line("collectives stay as NCCL chooses: no trial has found shorter steps with fewer blocks");
}
