/*
 * turns.c - see prove.h: proof (d), ranks by turns beside one process that plays all turns; and how many times as fast
 * as one process they are, where both runs are timed.
 */
#include "tools/scout/command/proofs/prove.h"

#include "tools/common/range.h"
#include "tools/plan/format/play_json.h"

#include <math.h>

/* What no operation writes, and is not the same when two runs begin, is an address, or was never set. */
static bool
is_left_out(const struct trial *it, const struct played *run, uint32_t tensor)
{
    uint32_t role = it->play->tensors[tensor].role;
    return (role == PLAY_UNWRITTEN || role == PLAY_UNREAD) && !played_are_same(it, run, 0, tensor);
}

/* The first tensor, and round, in which a run differs from that of one process by more than noise. */
static bool
find_unlike(const struct trial *it, const struct played *run, uint32_t rounds, uint32_t *tensor, uint32_t *round)
{
    for (*round = 0; *round <= rounds; ++*round)
        for (*tensor = 0; *tensor < it->play->plan.tensor_count; ++*tensor)
            if (!is_left_out(it, run, *tensor) && !played_are_same(it, run, *round, *tensor))
                return true;
    return false;
}

/* Whether a tensor changes after a round of a run. */
static bool
moves(const struct played *run, uint32_t after, uint32_t rounds, uint32_t tensor)
{
    uint64_t then = played_hash(run, 0, after, tensor);
    return ANY_NUMBER(round, after + 1, rounds + 1, played_hash(run, 0, round, tensor) != then);
}

/* A parameter behind whose end, in its memory, bytes change that no operation writes by the plan: it is longer.
 * *behind: these. */
static const struct play_tensor *
find_longer(const struct play *play, const struct played *ranks, uint32_t rounds, const struct play_tensor **behind)
{
    FOR_EACH(it, play->tensors, play->plan.tensor_count) {
        bool changes =
            (it->role == PLAY_UNWRITTEN || it->role == PLAY_UNREAD) && moves(ranks, 0, rounds, NUMBER_OF(it));
        const struct play_tensor *parameter =
            FIND(other, play->tensors, changes ? play->plan.tensor_count : 0,
                 other->role == PLAY_PARAMETER && other->alloc == it->alloc && other->hi == it->lo);
        *behind = it;
        if (parameter != NULL)
            return parameter;
    }
    return NULL;
}

static void
conclude_alike(const struct trial *it, const struct played *ranks, uint32_t rounds)
{
    const struct play *play = it->play;
    struct proof *proof = it->proof;
    uint64_t bytes = 0, left_out = 0, noisy = 0;
    uint32_t trained = 0, still = 0; /* after the first round, before which memory may not be there */
    const struct play_tensor *behind, *parameter = find_longer(play, ranks, rounds, &behind), *by = NULL;
    if (parameter != NULL) {
        char text[sizeof(proof->name)];
        snprintf(text, sizeof(text), "%s", proof_name(proof, parameter));
        proof_conclude(proof, PROOF_FAILED,
                       "after %s lies %s, which changes although no operation of the plan writes it", text,
                       proof_name(proof, behind));
        return;
    }
    FOR_EACH(tensor, play->tensors, play->plan.tensor_count) {
        bool is_compared = !is_left_out(it, ranks, NUMBER_OF(tensor));
        bool is_counted = tensor->role >= PLAY_PER_RANK || tensor->role == PLAY_GRADIENT;
        bytes += is_compared && is_counted ? tensor->hi - tensor->lo : 0;
        left_out += is_compared ? 0 : tensor->hi - tensor->lo;
        noisy += is_compared && is_counted && tensor->noise != 0 ? tensor->hi - tensor->lo : 0;
        by = by == NULL && tensor->noise != 0 ? tensor : by;
        bool is_trained = tensor->role == PLAY_PARAMETER || tensor->role == PLAY_CHANGES;
        trained += is_trained;
        still += is_trained && rounds > 1 && !moves(ranks, 1, rounds, NUMBER_OF(tensor));
    }
    if (trained > 0 && still == trained) { /* it may name other memory than the program trains */
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "no memory that the plan trains has changed in %u rounds, and it did when scout recorded it",
                       rounds);
        return;
    }
    proof_conclude(proof, PROOF_PASSED,
                   "%d ranks that take turns, and one process that computes all turns, have the same %" PRIu64
                   " bytes after each of %u round%s%s",
                   ranks->count, bytes, rounds, rounds == 1 ? "" : "s",
                   play->plan.by == PLAY_BY_STATE && rounds > 1 ? "; the second round has fewer steps" : "");
    char name[PLAY_NAME_BYTES];
    size_t used = strlen(proof->text);
    if (by != NULL)
        snprintf(proof->text + used, sizeof(proof->text) - used,
                 "; %" PRIu64
                 " of them up to the noise of one process: the same launch of %s twice gives different bits",
                 noisy, proof_noise_name(play, by, name));
    used = strlen(proof->text);
    if (left_out > 0)
        snprintf(proof->text + used, sizeof(proof->text) - used,
                 "; %" PRIu64 " bytes that no operation writes are not compared", left_out);
}

/* Why a tensor may differ that ranks compute otherwise than one process. */
static const char *
name_causes(const struct trial *it, const struct play_tensor *tensor)
{
    bool host_writes =
        it->log != NULL && ANY(op, it->log->ops, it->log->op_count,
                               op->kind == SCOUT_COPY && op->bytes == 0 && op->to.alloc == tensor->alloc);
    if (host_writes)
        return "the host writes it, and no call says when";
    if (it->play->plan.by == PLAY_BY_STATE)
        return "the plan misses memory that persists, the host changes it, or sums depend on the order of threads";
    return "a gradient is missing or has another type, it is averaged in the wrong place, the host changes it, or sums "
           "depend on the order of threads";
}

/* Ranks, and one process that plays all turns, by all that stays. A difference counts if another run like that of one
 * process is the same; if not, (d) is not possible. */
static void
judge_turns(struct trial *it, const struct played *ranks, uint32_t rounds)
{
    struct play *play = it->play;
    struct proof *proof = it->proof;
    uint32_t tensor, round;
    if (!played_shows_mistakes(it))
        return;
    if (!find_unlike(it, ranks, rounds, &tensor, &round)) {
        conclude_alike(it, ranks, rounds);
        return;
    }
    if (round == 0) {
        proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program begin with different values: %s differs",
                       proof_name(proof, &play->tensors[tensor]));
        return;
    }
    proof_conclude(proof, PROOF_FAILED, "after round %u %s differs from one process that computes all turns: %s", round,
                   proof_name(proof, &play->tensors[tensor]), name_causes(it, &play->tensors[tensor]));
    OWNED_RUN struct played made = {.count = 0};
    struct played *again = proof_is_noisy(play) ? &it->noise.others[0] : &made;
    if ((again != &made || played_make(it, PLAY_ALONE, PLAY_BEGINS_ITSELF, &made)) &&
        played_completed(again) >= rounds && find_unlike(it, again, rounds, &tensor, &round))
        proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of one process differ: %s, after round %u",
                       proof_name(proof, &play->tensors[tensor]), round);
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

static void
find_times(const struct played *ranks, const struct played *alone, struct play_times *times)
{
    struct range round = {0}, batch = {0};
    uint32_t count = (uint32_t)ranks->count;
    take_stretches(ranks, &round);
    take_stretches(alone, &batch);
    if (round.count == 0 || batch.count == 0)
        return;
    *times =
        (struct play_times){.ranks = count,
                            .round_ns = (uint64_t)range_middle(&round),
                            .batch_ns = (uint64_t)range_middle(&batch),
                            .low = (uint32_t)fmin(100 * count * range_low(&batch) / range_high(&round), UINT32_MAX),
                            .high = (uint32_t)fmin(100 * count * range_high(&batch) / range_low(&round), UINT32_MAX)};
}

/* ---- the host ---- */

/* What the host has sent in the last steps of a run; 0: the run shows nothing. */
static uint64_t
play_host(struct trial *it, enum play_data data, enum play_begun begun)
{
    enum { STEPS = 6 };
    OWNED_RUN struct played played = {.count = 0};
    uint64_t sent = 0;
    uint32_t steps = it->play->plan.steps;
    it->play->plan.steps = STEPS;
    if (played_make(it, data, begun, &played) && played_completed(&played) + 1 == STEPS &&
        atomic_load(&played.pages[0]->exchanged) > 0)
        sent = atomic_load(&played.pages[0]->reads);
    it->play->plan.steps = steps;
    return sent;
}

/* Whether the host carries what it reads from step to step, and sends what comes of it: one process makes one batch
 * from what another one has led to, and no two can be computed at once. */
void
proof_host(struct trial *it, bool must_show)
{
    enum { DATA_BYTES = 64 };
    const struct play *play = it->play;
    bool reads = ANY(operation, play->operations, play->plan.operation_count, operation->reads != PLAY_READS_NOTHING);
    reads = reads || ANY(written, play->written, play->plan.written_count, written->unread != 0);
    if (!reads || !ANY(operation, play->operations, play->plan.operation_count, operation->host_bytes > DATA_BYTES))
        return;
    uint64_t same = play_host(it, PLAY_SAME_READS, PLAY_KEEPS_BEGUN);
    uint64_t other = play_host(it, PLAY_OTHER_READS, PLAY_TAKES_BEGUN);
    if ((same == 0 || other == 0) && must_show)
        proof_conclude(it->proof, PROOF_IMPOSSIBLE,
                       "bytes that are computed from state are copied to the host, and as many are copied back: no run "
                       "has shown whether the host updates them");
    if (same != 0 && other != 0 && same != other && same == play_host(it, PLAY_SAME_READS, PLAY_TAKES_BEGUN))
        proof_conclude(
            it->proof, PROOF_FAILED,
            "what the program sends to the device depends on what it read from the device in the step before: "
            "the host updates weights, or chooses the next batch by a result. The ranks cannot compute "
            "such batches side by side");
}

/* ---- all of it ---- */

/* By state, what ends a rank in a round ends a training: rounds before it prove nothing. */
static bool
has_refused(const struct trial *it, const struct played *run)
{
    return it->play->plan.by == PLAY_BY_STATE &&
           ANY_NUMBER(rank, 0, (uint32_t)run->count, atomic_load(&run->pages[rank]->stage) == PLAY_IMPOSSIBLE);
}

/* The run of ranks, and that of one process, whose bytes at the begin of each round the others have if anything has
 * noise. Returns of so many rounds; 0: not all were made, or the proof has ended. */
static uint32_t
make_runs(struct trial *it, struct played *ranks)
{
    bool is_noisy = proof_is_noisy(it->play);
    const enum play_data both[] = {is_noisy ? PLAY_ALONE : PLAY_TURNS, is_noisy ? PLAY_TURNS : PLAY_ALONE};
    uint32_t least = UINT32_MAX;
    const char *then;
    for (int i = 0; i < 2; ++i) {
        struct played *run = both[i] == PLAY_ALONE ? &it->alone : ranks;
        bool ok = played_make(it, both[i], i == 0 ? PLAY_KEEPS_BEGUN : PLAY_TAKES_BEGUN, run);
        uint32_t rounds = ok ? played_steps(run, &then, it->proof) : 0;
        if (ok && rounds == 0 && both[i] == PLAY_TURNS)
            proof_clock(it, run);
        if (rounds == 0)
            return 0;
        if (has_refused(it, run)) {
            proof_conclude(it->proof, PROOF_IMPOSSIBLE, "%s", then);
            return 0;
        }
        least = rounds < least ? rounds : least;
    }
    return played_measure_noise(it, PLAY_ALONE) ? least : 0;
}

void
proof_play_turns(struct trial *it, struct play_times *times)
{
    OWNED_RUN struct played ranks = {.count = 0};
    uint32_t rounds = make_runs(it, &ranks);
    if (rounds > 0)
        judge_turns(it, &ranks, rounds);
    if (rounds > 0 && it->proof->end == PROOF_PASSED)
        proof_cut(it, &ranks, rounds);
    if (rounds > 0 && it->proof->end == PROOF_PASSED)
        find_times(&ranks, &it->alone, times);
    trial_release(it);
}
