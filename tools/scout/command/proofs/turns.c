/*
 * turns.c - see prove.h: proof (d), ranks by turns beside one process that plays all turns; and how many times as fast
 * as one process they are, where both runs are timed.
 */
#include "tools/scout/command/proofs/prove.h"

#include "tools/common/range.h"
#include "tools/plan/format/play_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What no operation writes, and is not the same when two runs begin, is an address, or was never set. */
static bool
is_left_out(const struct play *play, const struct played *a, const struct played *b, uint32_t tensor)
{
    uint32_t role = play->tensors[tensor].role;
    return (role == PLAY_UNWRITTEN || role == PLAY_UNREAD) && !played_are_same(play, a, b, 0, tensor);
}

/* The first tensor, and round, in which two runs differ. */
static bool
find_unlike(const struct play *play, const struct played *a, const struct played *b, uint32_t rounds, uint32_t *tensor,
            uint32_t *round)
{
    for (*round = 0; *round <= rounds; ++*round)
        for (*tensor = 0; *tensor < play->plan.tensor_count; ++*tensor)
            if (!is_left_out(play, a, b, *tensor) && !played_are_same(play, a, b, *round, *tensor))
                return true;
    return false;
}

/* A parameter behind whose end, in its memory, bytes change that no operation writes by the plan: it is longer.
 * *behind: these. */
static const struct play_tensor *
find_longer(const struct play *play, const struct played *ranks, uint32_t rounds, const struct play_tensor **behind)
{
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *it = &play->tensors[i];
        uint64_t first = played_hash(play, ranks, 0, 0, i), moves = 0;
        for (uint32_t round = 1; round <= rounds; ++round)
            moves += played_hash(play, ranks, 0, round, i) != first;
        for (uint32_t k = 0; k < play->plan.tensor_count && moves > 0; ++k) {
            const struct play_tensor *parameter = &play->tensors[k];
            *behind = it;
            if (parameter->role == PLAY_PARAMETER && parameter->alloc == it->alloc && parameter->hi == it->lo &&
                (it->role == PLAY_UNWRITTEN || it->role == PLAY_UNREAD))
                return parameter;
        }
    }
    return NULL;
}

static void
conclude_alike(const struct play *play, const struct played *ranks, const struct played *alone, uint32_t rounds,
               struct proof *proof)
{
    uint64_t bytes = 0, left_out = 0;
    const struct play_tensor *behind, *parameter = find_longer(play, ranks, rounds, &behind);
    if (parameter != NULL) {
        char text[sizeof(proof->name)];
        snprintf(text, sizeof(text), "%s", proof_name(proof, parameter));
        proof_conclude(proof, PROOF_FAILED, "%s ends where %s changes, which no operation writes by the plan", text,
                       proof_name(proof, behind));
        return;
    }
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        bool is_compared = !is_left_out(play, ranks, alone, i);
        bool is_counted = tensor->role >= PLAY_PER_RANK || tensor->role == PLAY_GRADIENT;
        bytes += is_compared && is_counted ? tensor->hi - tensor->lo : 0;
        left_out += is_compared ? 0 : tensor->hi - tensor->lo;
    }
    proof_conclude(proof, PROOF_PASSED,
                   "%d ranks that take turns, and one process that plays all turns, have the same %" PRIu64
                   " bytes after each of %u round%s%s",
                   ranks->count, bytes, rounds, rounds == 1 ? "" : "s",
                   play->plan.by == PLAY_BY_STATE && rounds > 1 ? "; the second round has fewer steps" : "");
    size_t used = strlen(proof->text);
    if (left_out > 0)
        snprintf(proof->text + used, sizeof(proof->text) - used,
                 "; %" PRIu64 " bytes that no operation writes are not compared", left_out);
}

/* Whether a run does the same again, as far as `rounds`; if not, (d) is not possible. */
static bool
repeat(const struct scout_order *order, struct play *play, enum play_data data, const struct played *first,
       uint32_t rounds, struct proof *proof, struct error *error)
{
    struct played again;
    uint32_t tensor, round;
    if (!played_make(order, play, data, &again, error))
        return false;
    if (played_completed(&again) >= rounds && find_unlike(play, first, &again, rounds, &tensor, &round)) {
        proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program differ by themselves: %s, after round %u",
                       proof_name(proof, &play->tensors[tensor]), round);
    }
    played_release(play, &again);
    return true;
}

/* Ranks, and one process that plays all turns, by all that stays. A difference counts if both do the same again. */
static bool
judge_turns(const struct scout_order *order, struct play *play, const struct played *ranks, const struct played *alone,
            uint32_t rounds, struct proof *proof, struct error *error)
{
    uint32_t tensor, round;
    if (!find_unlike(play, ranks, alone, rounds, &tensor, &round)) {
        conclude_alike(play, ranks, alone, rounds, proof);
        return true;
    }
    if (round == 0) {
        proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program do not begin alike: %s differs",
                       proof_name(proof, &play->tensors[tensor]));
        return true;
    }
    proof_conclude(
        proof, PROOF_FAILED,
        "after round %u %s is not what one process has that plays the turns of all ranks: %s, the host changes it, "
        "or sums depend on the order of threads",
        round, proof_name(proof, &play->tensors[tensor]),
        play->plan.by == PLAY_BY_STATE
            ? "the plan misses memory that stays"
            : "a gradient is missing or has another type, it is averaged in the wrong place");
    return repeat(order, play, PLAY_ALONE, alone, round, proof, error) &&
           (proof->end == PROOF_IMPOSSIBLE || repeat(order, play, PLAY_TURNS, ranks, round, proof, error));
}

/* ---- how fast ---- */

/* What a round took in each stretch, in nanoseconds. */
static void
take_stretches(const struct played *played, struct range *ns)
{
    const struct play_page *page = played->pages[0];
    uint32_t count = atomic_load(&page->stretches);
    for (uint32_t i = 0; i < count && i < PLAY_STRETCHES; ++i)
        range_add(ns, (double)page->stretch_ns[i]);
}

static uint32_t
hundredths(double times, uint32_t most)
{
    return (uint32_t)(100 * (times < most ? times : most));
}

static void
find_times(const struct played *ranks, const struct played *alone, struct play_times *times)
{
    struct range round = {0}, batch = {0};
    uint32_t count = (uint32_t)ranks->count;
    take_stretches(ranks, &round);
    take_stretches(alone, &batch);
    if (round.count == 0 || batch.count == 0)
        return;
    *times = (struct play_times){.ranks = count,
                                 .round_ns = (uint64_t)range_middle(&round),
                                 .batch_ns = (uint64_t)range_middle(&batch),
                                 .low = hundredths(count * range_low(&batch) / range_high(&round), count),
                                 .high = hundredths(count * range_high(&batch) / range_low(&round), count)};
}

/* ---- the host ---- */

/* What the host has sent in the last steps of a run; 0: the run shows nothing. */
static bool
play_host(const struct scout_order *order, struct play *play, enum play_data data, uint64_t *sent, struct error *error)
{
    enum { STEPS = 6 };
    struct played played;
    uint32_t steps = play->plan.steps;
    play->plan.steps = STEPS;
    bool ok = played_make(order, play, data, &played, error);
    if (ok && played_completed(&played) + 1 == STEPS && atomic_load(&played.pages[0]->exchanged) > 0)
        *sent = atomic_load(&played.pages[0]->reads);
    played_release(play, &played);
    play->plan.steps = steps;
    return ok;
}

/* Whether the host carries what it reads from step to step, and sends what comes of it: one process makes one batch
 * from what another one has led to, and no two can be computed at once. */
bool
proof_host(const struct scout_order *order, struct play *play, bool must_show, struct proof *proof, struct error *error)
{
    enum { DATA_BYTES = 64 };
    uint64_t same = 0, other = 0, again = 0;
    bool reads = false, sends = false;
    for (const struct play_operation *it = play->operations; it < play->operations + play->plan.operation_count; ++it) {
        reads = reads || it->reads != PLAY_READS_NOTHING;
        sends = sends || it->host_bytes > DATA_BYTES;
    }
    if (!reads || !sends)
        return true;
    if (!play_host(order, play, PLAY_SAME_READS, &same, error) ||
        !play_host(order, play, PLAY_OTHER_READS, &other, error))
        return false;
    if (same != other && !play_host(order, play, PLAY_SAME_READS, &again, error))
        return false;
    if ((same == 0 || other == 0) && must_show)
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "bytes that are computed from state are copied to the host, and as many come back: whether the "
                       "host updates them no run has shown");
    if (same != 0 && other != 0 && same != other && same == again)
        proof_conclude(proof, PROOF_FAILED,
                       "what the program sends to the device depends on what it has read there in the step before, as "
                       "where the host updates weights, or plays by the policy: no batch can be computed before the "
                       "one before it");
    return true;
}

/* ---- all of it ---- */

bool
proof_play_turns(const struct scout_order *order, struct play *play, struct proof *proof, struct play_times *times,
                 struct error *error)
{
    struct played ranks = {0}, alone = {0};
    const char *then;
    bool ok = played_make(order, play, PLAY_TURNS, &ranks, error);
    uint32_t rounds = ok ? played_steps(&ranks, &then, proof) : 0, more = 0;
    if (rounds > 0 && (ok = played_make(order, play, PLAY_ALONE, &alone, error)))
        more = played_steps(&alone, &then, proof);
    if (more > 0)
        ok = judge_turns(order, play, &ranks, &alone, rounds < more ? rounds : more, proof, error);
    if (more > 0 && proof->end == PROOF_PASSED)
        find_times(&ranks, &alone, times);
    played_release(play, &ranks);
    played_release(play, &alone);
    return ok;
}

bool
scout_prove_again(const struct scout_order *order, struct json_object *turns, struct proof *proof,
                  struct play_times *times, struct error *error)
{
    struct play play;
    char why[PLAY_WHY_BYTES] = "";
    bool ok = true;
    if (play_json_read(turns, &play, why))
        ok = proof_play_turns(order, &play, proof, times, error);
    else
        proof_conclude(proof, PROOF_IMPOSSIBLE, "%s", why);
    play_free(&play);
    return ok;
}
