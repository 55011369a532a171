/*
 * state.c - see prove.h: proof (complete) of plans by state, in one process: what has no class is exchanged, then what
 * ranks average, then halves of the data; and sums.
 */
#include "launcher/common/xcalloc.h"
#include "tools/check/format/element.h"
#include "tools/scout/command/proofs/prove.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BORDERS = 5,          /* behind the first, that are looked at: two before contents are exchanged, and three then; */
    OUTSIDE = BORDERS + 1 /* and one behind a pass outside of the steps */
};

/* Of two runs of one process: the first tensor of a class, and the border, that differ. */
static bool
find_unlike_border(const struct play *play, const struct played *a, const struct played *b, uint32_t role,
                   uint32_t borders, uint32_t *tensor, uint32_t *border)
{
    const struct play_page *const pages[] = {a->pages[0], b->pages[0]};
    for (*border = 0; *border <= borders; ++*border)
        for (*tensor = 0; *tensor < play->plan.tensor_count; ++*tensor)
            if ((role == 0 || play->tensors[*tensor].role == role) && !played_is_same(play, pages, *border, *tensor))
                return true;
    return false;
}

/* Whether what is called constant is the same at all borders of a run, and what is called state is not always. */
static bool
judge_borders(const struct play *play, const struct played *plain, uint32_t borders, struct proof *proof)
{
    for (uint32_t i = 0; i < play->plan.tensor_count && proof->end != PROOF_FAILED; ++i) {
        uint64_t first = *play_hash(&play->plan, plain->pages[0], 0, i);
        for (uint32_t border = borders; border > 0 && play->tensors[i].role == PLAY_UNWRITTEN; --border) {
            if (*play_hash(&play->plan, plain->pages[0], border, i) != first)
                proof_conclude(proof, PROOF_FAILED, "%s is called constant, and has changed in step %u",
                               proof_name(proof, &play->tensors[i]), border);
        }
    }
    return proof->end != PROOF_FAILED;
}

static void
judge_rest(const struct play *play, const struct played *plain, const struct played *rest, uint32_t borders,
           struct proof *proof)
{
    uint32_t tensor, border;
    uint64_t exchanged = atomic_load(&rest->pages[0]->exchanged);
    if (find_unlike_border(play, plain, rest, 0, borders, &tensor, &border)) {
        if (border < BORDERS - 2)
            proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program differ by themselves: %s, after step %u",
                           proof_name(proof, &play->tensors[tensor]), border);
        else if (border == OUTSIDE)
            proof_conclude(proof, PROOF_FAILED,
                           "where memory without a class gets what it held one step before, %s differs behind what the "
                           "program does between steps: that uses what an earlier step has left, which is another on "
                           "each rank",
                           proof_name(proof, &play->tensors[tensor]));
        else
            proof_conclude(
                proof, PROOF_FAILED,
                "where memory without a class gets what it held one step before, %s differs after step %u: the plan "
                "misses memory that stays from step to step",
                proof_name(proof, &play->tensors[tensor]), border);
    } else if (atomic_load(&plain->pages[0]->reads) != atomic_load(&rest->pages[0]->reads)) {
        proof_conclude(
            proof, PROOF_FAILED,
            "where memory without a class gets what it held one step before, the program's copies bring other "
            "bytes to the host: the plan misses memory that stays from step to step%s",
            borders == OUTSIDE
                ? ", or what the program does between steps, as validation, uses what an earlier step has left, "
                  "which is another on each rank"
                : "");
    } else {
        proof_conclude(
            proof, PROOF_PASSED,
            "%" PRIu64 " bytes of memory without a class got what they held one step before, and all that stays "
            "and all that the host reads is the same for %d steps%s",
            exchanged, BORDERS - 2,
            borders == OUTSIDE ? ", and behind what comes between steps" : "; between steps nothing was seen");
    }
}

/* How many samples of a tensor are others in two runs, in one only, and in both. */
struct touched {
    uint32_t first, second, both;
};

static uint32_t
bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static struct touched
touched_by_halves(const struct play *play, const struct played *plain, const struct played halves[2], uint32_t tensor)
{
    struct touched touched = {0};
    const float *of = play_sample(&play->plan, plain->pages[0], tensor);
    const float *one = play_sample(&play->plan, halves[0].pages[0], tensor);
    const float *two = play_sample(&play->plan, halves[1].pages[0], tensor);
    for (int k = 0; k < PLAY_SAMPLES; ++k) {
        bool first = bits_of(of[k]) != bits_of(one[k]), second = bits_of(of[k]) != bits_of(two[k]);
        touched.first += first;
        touched.second += second;
        touched.both += first && second;
    }
    return touched;
}

/* Whether two runs differ at the last border. */
static bool
differs(const struct play *play, const struct played *a, const struct played *b, uint32_t tensor)
{
    const struct play_page *const pages[] = {a->pages[0], b->pages[0]};
    return !played_is_same(play, pages, BORDERS, tensor);
}

/* What is averaged depends on data, then or later. A counter or a random state does not: all ranks make it in each
 * step. Where data show themselves nowhere this is not asked. */
static void
judge_reached(const struct play *play, const struct played *plain, const struct played halves[2], struct proof *proof)
{
    uint32_t reached = 0, other = play->plan.tensor_count;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        bool is_reached = differs(play, plain, &halves[0], i) || differs(play, plain, &halves[1], i);
        bool changes = *play_hash(&play->plan, plain->pages[0], BORDERS - 1, i) !=
                       *play_hash(&play->plan, plain->pages[0], BORDERS, i);
        reached += is_reached;
        other = play->tensors[i].role == PLAY_CHANGES && changes && !is_reached ? i : other;
    }
    if (proof->end != PROOF_PASSED || reached == 0 || other == play->plan.tensor_count)
        return;
    proof_conclude(proof, PROOF_IMPOSSIBLE,
                   "%s changes, and no data reach it: whether it is trained, or a stream, cannot be told",
                   proof_name(proof, &play->tensors[other]));
}

/* What --per-rank names is carried, or whole numbers: what both halves of a batch change is trained. */
static void
judge_own(const struct play_tensor *tensor, const struct touched *touched, const char *text, struct proof *proof)
{
    bool is_whole = tensor->type == (uint32_t)play_plan_type(SCOUT_INTEGER);
    if (!is_whole && touched->both > 0)
        proof_conclude(proof, PROOF_FAILED,
                       "both halves of a batch change the same elements of %s: it is trained, and no rank may have it "
                       "for itself; leave it out of --per-rank",
                       text);
    else if (!is_whole && (touched->first == 0 || touched->second == 0))
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "whether %s is carried from batch to batch, as --per-rank says, halves of a batch do not show",
                       text);
}

/* What the program carries from batch to batch is computed from one record each: with halves of the data exchanged
 * other elements of it change each time. `by_state`: which ranges are overwritten, and have to show that they are no
 * such; NULL: of a plan. */
static void
judge_carried(const struct play *play, const struct played *plain, const struct played halves[2],
              const struct by_state *by_state, struct proof *proof)
{
    for (uint32_t i = 0; i < play->plan.tensor_count && proof->end == PROOF_PASSED; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        if (tensor->role != PLAY_CHANGES && tensor->role != PLAY_PER_RANK)
            continue;
        struct touched touched = touched_by_halves(play, plain, halves, i);
        bool is_split = touched.first > 0 && touched.second > 0 && touched.both == 0;
        bool is_open = by_state != NULL && by_state->ranges[i].is_overwritten && touched.both == 0;
        const char *text = proof_name(proof, tensor);
        if (tensor->role == PLAY_PER_RANK)
            judge_own(tensor, &touched, text, proof);
        else if (is_split)
            proof_conclude(
                proof, PROOF_FAILED,
                "each half of a batch changes other elements of %s: the program carries it from batch to batch, and "
                "has no use for a mean of it; --per-rank a%" PRIu32 " gives each rank its own",
                text, tensor->alloc);
        else if (is_open)
            proof_conclude(
                proof, PROOF_IMPOSSIBLE,
                "%s is overwritten in each step, and halves of a batch do not show whether it is trained, or "
                "carried from batch to batch",
                text);
    }
}

/* Makes another run of the one process, as far as the last border. */
static bool
exchange(const struct scout_order *order, struct play *play, enum play_data data, struct played *played, bool *whole,
         struct error *error)
{
    bool ok = played_make(order, play, data, played, error);
    *whole = ok && played_completed(played) == BORDERS;
    return ok;
}

static bool
prove_classes(const struct scout_order *order, struct play *play, const struct by_state *by_state,
              const struct played *plain, struct proof *proof, struct error *error)
{
    struct played state = {0}, halves[2] = {{{0}}, {{0}}};
    uint32_t tensor, border;
    bool whole[3];
    bool ok = exchange(order, play, PLAY_STATE_EXCHANGED, &state, &whole[0], error) &&
              exchange(order, play, PLAY_FIRST_HALVES, &halves[0], &whole[1], error) &&
              exchange(order, play, PLAY_SECOND_HALVES, &halves[1], &whole[2], error);
    if (ok && whole[0] && find_unlike_border(play, plain, &state, PLAY_STREAM, BORDERS, &tensor, &border)) {
        proof_conclude(
            proof, PROOF_FAILED,
            "%s is called a stream, and differs after step %u where what ranks average gets what it held one step "
            "before",
            proof_name(proof, &play->tensors[tensor]), border);
    } else if (ok && whole[0] && whole[1] && whole[2]) {
        judge_carried(play, plain, halves, by_state, proof);
        judge_reached(play, plain, halves, proof);
    } else if (ok) {
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "the program ended where halves of its data, or its state, were exchanged");
    }
    played_release(play, &state);
    played_release(play, &halves[0]);
    played_release(play, &halves[1]);
    return ok;
}

/* ---- sums ---- */

/* Where its contents were exchanged a sum has changed by as much. */
enum sum_verdict { IS_SUM, IS_NO_SUM, SHOWS_NOTHING };

static enum sum_verdict
judge_sum(const struct play *play, const struct played *plain, const struct played *sums, uint32_t tensor)
{
    const struct play_tensor *it = &play->tensors[tensor];
    const float *of = play_sample(&play->plan, plain->pages[0], tensor);
    const float *seen = play_sample(&play->plan, sums->pages[0], tensor);
    size_t bytes = element_size((int)it->type), count = (size_t)(it->hi - it->lo) / bytes;
    size_t distance = (count + PLAY_SAMPLES - 1) / PLAY_SAMPLES;
    enum sum_verdict verdict = SHOWS_NOTHING;
    for (size_t k = 0; k * distance < count && verdict != IS_NO_SUM; ++k) {
        double limit = 16 * FLT_EPSILON * fmax(fabs((double)of[k]), fabs((double)seen[k]));
        if (!isnan(seen[k]))
            verdict = fabs((double)of[k] - (double)seen[k]) <= limit ? IS_SUM : IS_NO_SUM;
    }
    return verdict;
}

/* Other memory than sums that differs where sums were exchanged. */
static bool
sums_reach(const struct play *play, const struct played *plain, const struct played *sums, uint32_t *tensor)
{
    for (*tensor = 0; *tensor < play->plan.tensor_count; ++*tensor)
        if (play->tensors[*tensor].role != PLAY_SUM && differs(play, plain, sums, *tensor))
            return true;
    return false;
}

/* What may be a sum and is none is state; whole numbers that are none have no class, nor have numbers for the host. */
static void
settle_sum(struct play *play, const struct by_state *by_state, uint32_t i, enum sum_verdict verdict,
           struct proof *proof)
{
    bool may_be_state = by_state != NULL && by_state->ranges[i].role == PLAY_CHANGES &&
                        by_state->ranges[i].hi - by_state->ranges[i].lo > ELEMENT_BYTES;
    if (verdict == IS_NO_SUM && may_be_state)
        play->tensors[i].role = PLAY_CHANGES;
    else if (verdict == IS_NO_SUM)
        proof_conclude(proof, PROOF_FAILED, "%s is called a sum, and what a step adds depends on what it held",
                       proof_name(proof, &play->tensors[i]));
    else if (verdict == SHOWS_NOTHING)
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "whether %s is a sum, or an average that moves slowly, cannot be told: it hardly changes",
                       proof_name(proof, &play->tensors[i]));
}

/* `by_state`: what may be a sum; NULL: of a plan, which says it. */
static bool
prove_sums(const struct scout_order *order, struct play *play, const struct by_state *by_state,
           const struct played *plain, struct proof *proof, struct error *error)
{
    struct played sums = {0};
    bool any = false, whole = false, ok = true;
    uint32_t tensor;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        if (by_state != NULL && by_state->ranges[i].may_be_sum)
            play->tensors[i].role = PLAY_SUM;
        any = any || play->tensors[i].role == PLAY_SUM;
    }
    if (any)
        ok = exchange(order, play, PLAY_SUMS_EXCHANGED, &sums, &whole, error);
    if (any && ok && !whole) {
        proof_conclude(proof, PROOF_IMPOSSIBLE, "the program ended where sums were exchanged");
    } else if (any && ok && sums_reach(play, plain, &sums, &tensor)) {
        proof_conclude(proof, PROOF_FAILED,
                       "%s is computed from what is called a sum, or two runs differ by themselves",
                       proof_name(proof, &play->tensors[tensor]));
    }
    for (uint32_t i = 0; i < play->plan.tensor_count && any && ok && proof->end == PROOF_NOT_ASKED; ++i) {
        if (play->tensors[i].role == PLAY_SUM)
            settle_sum(play, by_state, i, judge_sum(play, plain, &sums, i), proof);
    }
    played_release(play, &sums);
    return ok;
}

enum { NUMBER_BYTES = 16, NUMBERS = 4 }; /* that are tried, each in a run of its own */

/* What a number is that is called state, whose contents alone were exchanged. */
static enum play_role
judge_number(const struct play *play, const struct played *plain, const struct played *alone, uint32_t i)
{
    uint32_t tensor;
    if (atomic_load(&alone->pages[0]->exchanged) == 0 || sums_reach(play, plain, alone, &tensor))
        return PLAY_CHANGES;
    if (!differs(play, plain, alone, i))
        return PLAY_LAST;
    return judge_sum(play, plain, alone, i) == IS_SUM ? PLAY_SUM : PLAY_CHANGES;
}

/* Makes a run in which tensor i alone is exchanged. */
static bool
try_number(const struct scout_order *order, const struct play *play, const struct played *plain, uint32_t i,
           enum play_role *role, struct error *error)
{
    struct played alone = {0};
    struct play trial = *play;
    bool whole;
    trial.tensors = xcalloc(play->plan.tensor_count, sizeof(*trial.tensors));
    for (uint32_t k = 0; k < play->plan.tensor_count; ++k) {
        trial.tensors[k] = play->tensors[k];
        trial.tensors[k].role = k == i ? PLAY_SUM : PLAY_LAST;
    }
    bool ok = exchange(order, &trial, PLAY_SUMS_EXCHANGED, &alone, &whole, error);
    *role = whole ? judge_number(&trial, plain, &alone, i) : PLAY_CHANGES;
    played_release(&trial, &alone);
    free(trial.tensors);
    return ok;
}

/* Losses and hits that are called state would be averaged. Whether other memory is computed from one, a run shows in
 * which it alone is exchanged. Larger scratch is not looked for: it may be averaged, for a step overwrites it before it
 * reads it, whatever it holds; what the host reads of it between steps is a mean then. */
static bool
prove_numbers(const struct scout_order *order, struct play *play, const struct by_state *by_state,
              const struct played *plain, struct proof *proof, struct error *error)
{
    bool ok = true;
    for (uint32_t i = 0, tried = 0; i < play->plan.tensor_count && ok && tried < NUMBERS; ++i) {
        struct play_tensor *tensor = &play->tensors[i];
        enum play_role role;
        if (tensor->role != PLAY_CHANGES || tensor->hi - tensor->lo > NUMBER_BYTES ||
            (by_state != NULL && by_state->ranges[i].may_be_sum))
            continue;
        ++tried;
        ok = try_number(order, play, plain, i, &role, error);
        if (role == PLAY_SUM && by_state != NULL)
            tensor->role = role;
        else if (role != PLAY_CHANGES && by_state == NULL)
            proof_conclude(proof, PROOF_FAILED, "%s is no state%s", proof_name(proof, tensor),
                           role == PLAY_SUM ? " but a sum: what a step adds does not depend on it"
                                            : ": nothing depends on what it held");
    }
    return ok;
}

/* ---- all of it ---- */

static bool
prove_rest(const struct scout_order *order, struct play *play, const struct played *plain, struct proof *proof,
           struct error *error)
{
    struct played rest = {0};
    const char *then;
    uint32_t borders = played_completed(plain);
    play->plan.outside = atomic_load(&plain->pages[0]->outside);
    bool ok = played_make(order, play, PLAY_REST_EXCHANGED, &rest, error);
    play->plan.outside = 0;
    if (ok && played_steps(&rest, &then, proof) == borders)
        judge_rest(play, plain, &rest, borders, proof);
    else if (ok && proof->end == PROOF_NOT_ASKED)
        proof_conclude(proof, PROOF_FAILED, "where memory without a class gets what it held one step before: %s",
                       then[0] != '\0' ? then : "other operations come between steps");
    else if (ok && proof->end == PROOF_IMPOSSIBLE)
        proof->end = PROOF_FAILED; /* the run before could be made */
    played_release(play, &rest);
    return ok;
}

/* What has no class is exchanged, then what ranks average, then data. */
bool
proof_complete(const struct scout_order *order, struct play *play, const struct by_state *by_state, struct proof *proof,
               struct error *error)
{
    struct played plain = {0};
    const char *then;
    uint32_t rounds = play->plan.steps;
    play->plan.steps = OUTSIDE;
    bool ok = played_make(order, play, PLAY_BORDERS, &plain, error);
    uint32_t borders = ok ? played_steps(&plain, &then, proof) : 0;
    if (borders > 0 && borders < BORDERS)
        proof_conclude(proof, PROOF_IMPOSSIBLE, "%s", then);
    else if (borders >= BORDERS && judge_borders(play, &plain, BORDERS, proof))
        ok = prove_sums(order, play, by_state, &plain, proof, error);
    if (ok && borders >= BORDERS && proof->end == PROOF_NOT_ASKED)
        ok = prove_numbers(order, play, by_state, &plain, proof, error);
    if (ok && borders >= BORDERS && proof->end == PROOF_NOT_ASKED)
        ok = prove_rest(order, play, &plain, proof, error);
    if (ok && proof->end == PROOF_PASSED)
        ok = prove_classes(order, play, by_state, &plain, proof, error);
    played_release(play, &plain);
    play->plan.steps = rounds;
    return ok;
}
