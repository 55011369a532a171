/*
 * turns.c - see prove.h: proof (d), ranks by turns beside one process that plays all turns; and how many times as fast
 * as one process they are, where both runs are timed.
 */
#include "tools/scout/command/proofs/prove.h"

#include "tools/common/range.h"
#include "tools/plan/format/play_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The runs of (d): ranks by turns, and one process that plays all turns, with its noise. */
struct runs {
    const struct scout_order *order;
    struct play *play;
    struct played ranks, alone;
    struct noise noise;
    uint32_t rounds;
    struct error *error;
};

/* What no operation writes, and is not the same when two runs begin, is an address, or was never set. */
static bool
is_left_out(const struct runs *runs, const struct played *run, uint32_t tensor)
{
    uint32_t role = runs->play->tensors[tensor].role;
    return (role == PLAY_UNWRITTEN || role == PLAY_UNREAD) && !noise_are_same(&runs->noise, run, 0, tensor);
}

/* The first tensor, and round, in which a run differs from that of one process by more than noise. */
static bool
find_unlike(const struct runs *runs, const struct played *run, uint32_t *tensor, uint32_t *round)
{
    for (*round = 0; *round <= runs->rounds; ++*round)
        for (*tensor = 0; *tensor < runs->play->plan.tensor_count; ++*tensor)
            if (!is_left_out(runs, run, *tensor) && !noise_are_same(&runs->noise, run, *round, *tensor))
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
conclude_alike(const struct runs *runs, struct proof *proof)
{
    const struct play *play = runs->play;
    uint64_t bytes = 0, left_out = 0, noisy = 0;
    const struct play_tensor *behind, *parameter = find_longer(play, &runs->ranks, runs->rounds, &behind), *by = NULL;
    if (parameter != NULL) {
        char text[sizeof(proof->name)];
        snprintf(text, sizeof(text), "%s", proof_name(proof, parameter));
        proof_conclude(proof, PROOF_FAILED, "%s ends where %s changes, which no operation writes by the plan", text,
                       proof_name(proof, behind));
        return;
    }
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        bool is_compared = !is_left_out(runs, &runs->ranks, i);
        bool is_counted = tensor->role >= PLAY_PER_RANK || tensor->role == PLAY_GRADIENT;
        bytes += is_compared && is_counted ? tensor->hi - tensor->lo : 0;
        left_out += is_compared ? 0 : tensor->hi - tensor->lo;
        noisy += is_compared && is_counted && tensor->noise != 0 ? tensor->hi - tensor->lo : 0;
        by = by == NULL && tensor->noise != 0 ? tensor : by;
    }
    proof_conclude(proof, PROOF_PASSED,
                   "%d ranks that take turns, and one process that plays all turns, have the same %" PRIu64
                   " bytes after each of %u round%s%s",
                   runs->ranks.count, bytes, runs->rounds, runs->rounds == 1 ? "" : "s",
                   play->plan.by == PLAY_BY_STATE && runs->rounds > 1 ? "; the second round has fewer steps" : "");
    char name[PLAY_NAME_BYTES];
    size_t used = strlen(proof->text);
    if (by != NULL)
        snprintf(proof->text + used, sizeof(proof->text) - used,
                 "; %" PRIu64
                 " of them up to the noise of one process: the same launch of %s twice gives different bits",
                 noisy, noise_name(play, by, name));
    used = strlen(proof->text);
    if (left_out > 0)
        snprintf(proof->text + used, sizeof(proof->text) - used,
                 "; %" PRIu64 " bytes that no operation writes are not compared", left_out);
}

/* Whether another run like one of them is the same; if not, (d) is not possible. */
static void
judge_again(const struct runs *runs, const struct played *again, struct proof *proof)
{
    uint32_t tensor, round;
    if (played_completed(again) >= runs->rounds && find_unlike(runs, again, &tensor, &round))
        proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program differ by themselves: %s, after round %u",
                       proof_name(proof, &runs->play->tensors[tensor]), round);
}

/* Ranks, and one process that plays all turns, by all that stays. A difference counts if one process does the same
 * again. */
static bool
judge_turns(struct runs *runs, struct proof *proof)
{
    struct play *play = runs->play;
    uint32_t tensor, round;
    if (!noise_is_small(&runs->noise, proof))
        return true;
    if (!find_unlike(runs, &runs->ranks, &tensor, &round)) {
        conclude_alike(runs, proof);
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
    struct played again = {0};
    bool ok = noise_is_any(play) || played_make(runs->order, play, PLAY_ALONE, &again, runs->error);
    if (ok)
        judge_again(runs, noise_is_any(play) ? &runs->noise.others[0] : &again, proof);
    played_release(play, &again);
    return ok;
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
play_host(const struct scout_order *order, struct play *play, enum play_data data, bool is_first, uint64_t *sent,
          struct error *error)
{
    enum { STEPS = 6 };
    struct played played;
    uint32_t steps = play->plan.steps;
    play->plan.steps = STEPS;
    play->plan.begun = !noise_is_any(play) ? PLAY_BEGINS_ITSELF : is_first ? PLAY_KEEPS_BEGUN : PLAY_TAKES_BEGUN;
    bool ok = played_make(order, play, data, &played, error);
    play->plan.begun = PLAY_BEGINS_ITSELF;
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
    FOR_EACH(it, play->operations, play->plan.operation_count) {
        reads = reads || it->reads != PLAY_READS_NOTHING;
        sends = sends || it->host_bytes > DATA_BYTES;
    }
    if (!reads || !sends)
        return true;
    if (!play_host(order, play, PLAY_SAME_READS, true, &same, error) ||
        !play_host(order, play, PLAY_OTHER_READS, false, &other, error))
        return false;
    if (same != other && !play_host(order, play, PLAY_SAME_READS, false, &again, error))
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

/* The run of ranks, and that of one process, whose bytes at the begin of each round the others have if anything has
 * noise. Returns whether all were made: of so many rounds, 0 with the end of the proof. */
static bool
make_runs(struct runs *runs, struct proof *proof)
{
    struct play *play = runs->play;
    bool is_noisy = noise_is_any(play);
    const enum play_data both[] = {is_noisy ? PLAY_ALONE : PLAY_TURNS, is_noisy ? PLAY_TURNS : PLAY_ALONE};
    const char *then;
    for (int i = 0; i < 2; ++i) {
        struct played *run = both[i] == PLAY_ALONE ? &runs->alone : &runs->ranks;
        play->plan.begun = !is_noisy ? PLAY_BEGINS_ITSELF : i == 0 ? PLAY_KEEPS_BEGUN : PLAY_TAKES_BEGUN;
        bool ok = played_make(runs->order, play, both[i], run, runs->error);
        play->plan.begun = PLAY_BEGINS_ITSELF;
        if (!ok)
            return false;
        uint32_t rounds = played_steps(run, &then, proof);
        runs->rounds = i == 0 || rounds < runs->rounds ? rounds : runs->rounds;
        if (rounds == 0)
            return true;
    }
    return noise_measure(runs->order, play, PLAY_ALONE, &runs->alone, &runs->noise, runs->error);
}

bool
proof_play_turns(const struct scout_order *order, struct play *play, struct proof *proof, struct play_times *times,
                 struct error *error)
{
    struct runs runs = {.order = order, .play = play, .error = error};
    bool ok = make_runs(&runs, proof) && (runs.rounds == 0 || judge_turns(&runs, proof));
    if (runs.rounds > 0 && proof->end == PROOF_PASSED)
        find_times(&runs.ranks, &runs.alone, times);
    noise_release(&runs.noise);
    played_release(play, &runs.ranks);
    played_release(play, &runs.alone);
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
