/*
 * state.c - see prove.h: proof (complete) of plans by state, in one process: what has no class is exchanged, then what
 * ranks average, then halves of the data; and sums.
 */
#include "tools/check/format/element.h"
#include "tools/scout/command/proofs/played.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BORDERS = 5 }; /* behind the first, that are looked at: two before contents are exchanged, and three then */

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
    char text[64];
    for (uint32_t i = 0; i < play->plan.tensor_count && proof->end != PROOF_FAILED; ++i) {
        uint64_t first = *play_hash(&play->plan, plain->pages[0], 0, i);
        for (uint32_t border = 1; border <= borders && play->tensors[i].role == PLAY_UNWRITTEN; ++border) {
            proof_tensor_text(&play->tensors[i], text);
            if (*play_hash(&play->plan, plain->pages[0], border, i) != first)
                proof_conclude(proof, PROOF_FAILED, "%s is called constant, and has changed in step %u", text, border);
        }
    }
    return proof->end != PROOF_FAILED;
}

static void
judge_rest(const struct play *play, const struct played *plain, const struct played *rest, uint32_t borders,
           struct proof *proof)
{
    uint32_t tensor, border;
    char text[64];
    uint64_t exchanged = atomic_load(&rest->pages[0]->exchanged);
    if (find_unlike_border(play, plain, rest, 0, borders, &tensor, &border)) {
        proof_tensor_text(&play->tensors[tensor], text);
        if (border < BORDERS - 2)
            proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program differ by themselves: %s, after step %u",
                           text, border);
        else
            proof_conclude(
                proof, PROOF_FAILED,
                "where memory without a class gets what it held one step before, %s differs after step %u: the plan "
                "misses memory that stays from step to step",
                text, border);
    } else if (atomic_load(&plain->pages[0]->reads) != atomic_load(&rest->pages[0]->reads)) {
        proof_conclude(
            proof, PROOF_FAILED,
            "where memory without a class gets what it held one step before, the program's copies bring other "
            "bytes to the host: the plan misses memory that stays from step to step");
    } else {
        proof_conclude(proof, PROOF_PASSED,
                       "%" PRIu64
                       " bytes of memory without a class got what they held one step before, and all that stays "
                       "and all that the host reads is the same for %u steps",
                       exchanged, borders - 2);
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

/* What the program carries from batch to batch is computed from one record each: with halves of the data exchanged
 * other elements of it change each time. `by_state`: which ranges are overwritten, and have to show that they are no
 * such; NULL: of a plan. */
static void
judge_carried(const struct play *play, const struct played *plain, const struct played halves[2],
              const struct by_state *by_state, struct proof *proof)
{
    char text[64];
    for (uint32_t i = 0; i < play->plan.tensor_count && proof->end == PROOF_PASSED; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        if (tensor->role != PLAY_CHANGES)
            continue;
        struct touched touched = touched_by_halves(play, plain, halves, i);
        bool is_split = touched.first > 0 && touched.second > 0 && touched.both == 0;
        bool is_open = by_state != NULL && by_state->ranges[i].is_overwritten && touched.both == 0;
        proof_tensor_text(tensor, text);
        if (is_split)
            proof_conclude(
                proof, PROOF_FAILED,
                "each half of a batch changes other elements of %s: the program carries it from batch to batch, and "
                "a mean of it is none",
                text);
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
    char text[64];
    bool whole[3];
    bool ok = exchange(order, play, PLAY_STATE_EXCHANGED, &state, &whole[0], error) &&
              exchange(order, play, PLAY_FIRST_HALVES, &halves[0], &whole[1], error) &&
              exchange(order, play, PLAY_SECOND_HALVES, &halves[1], &whole[2], error);
    if (ok && whole[0] && find_unlike_border(play, plain, &state, PLAY_STREAM, BORDERS, &tensor, &border)) {
        proof_tensor_text(&play->tensors[tensor], text);
        proof_conclude(
            proof, PROOF_FAILED,
            "%s is called a stream, and differs after step %u where what ranks average gets what it held one step "
            "before",
            text, border);
    } else if (ok && whole[1] && whole[2]) {
        judge_carried(play, plain, halves, by_state, proof);
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
    const struct play_page *const pages[] = {plain->pages[0], sums->pages[0]};
    for (*tensor = 0; *tensor < play->plan.tensor_count; ++*tensor)
        if (play->tensors[*tensor].role != PLAY_SUM && !played_is_same(play, pages, BORDERS, *tensor))
            return true;
    return false;
}

/* What may be a sum and is none is state; whole numbers that are none have no class. */
static void
settle_sum(struct play *play, const struct by_state *by_state, uint32_t i, enum sum_verdict verdict,
           struct proof *proof)
{
    char text[64];
    bool may_be_state = by_state != NULL && by_state->ranges[i].role == PLAY_CHANGES;
    proof_tensor_text(&play->tensors[i], text);
    if (verdict == IS_NO_SUM && may_be_state)
        play->tensors[i].role = PLAY_CHANGES;
    else if (verdict == IS_NO_SUM)
        proof_conclude(proof, PROOF_FAILED, "%s is called a sum, and what a step adds depends on what it held", text);
    else if (verdict == SHOWS_NOTHING)
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "whether %s is a sum, or an average that moves slowly, cannot be told: it hardly changes", text);
}

/* `by_state`: what may be a sum; NULL: of a plan, which says it. */
static bool
prove_sums(const struct scout_order *order, struct play *play, const struct by_state *by_state, struct proof *proof,
           struct error *error)
{
    struct played plain = {0}, sums = {0};
    bool any = false, whole = false, ok = true;
    uint32_t rounds = play->plan.steps, tensor;
    char text[64];
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        if (by_state != NULL && by_state->ranges[i].may_be_sum)
            play->tensors[i].role = PLAY_SUM;
        any = any || play->tensors[i].role == PLAY_SUM;
    }
    play->plan.steps = BORDERS;
    if (any)
        ok = exchange(order, play, PLAY_BORDERS, &plain, &whole, error) &&
             (!whole || exchange(order, play, PLAY_SUMS_EXCHANGED, &sums, &whole, error));
    if (any && ok && !whole) {
        proof_conclude(proof, PROOF_IMPOSSIBLE, "the program ended; give it more steps");
    } else if (any && ok && sums_reach(play, &plain, &sums, &tensor)) {
        proof_tensor_text(&play->tensors[tensor], text);
        proof_conclude(proof, PROOF_FAILED,
                       "%s is computed from what is called a sum, or two runs differ by themselves", text);
    }
    for (uint32_t i = 0; i < play->plan.tensor_count && any && ok && proof->end == PROOF_NOT_ASKED; ++i) {
        if (play->tensors[i].role == PLAY_SUM)
            settle_sum(play, by_state, i, judge_sum(play, &plain, &sums, i), proof);
    }
    played_release(play, &plain);
    played_release(play, &sums);
    play->plan.steps = rounds;
    return ok;
}

/* What has no class is exchanged, then what ranks average, then data. */
bool
proof_complete(const struct scout_order *order, struct play *play, const struct by_state *by_state, struct proof *proof,
               struct error *error)
{
    struct played plain = {0}, rest = {0};
    const char *then;
    uint32_t borders, rounds = play->plan.steps;
    bool ok = prove_sums(order, play, by_state, proof, error);
    if (!ok || proof->end != PROOF_NOT_ASKED)
        return ok;
    play->plan.steps = BORDERS;
    ok = played_make(order, play, PLAY_BORDERS, &plain, error);
    borders = ok ? played_steps(&plain, &then, proof) : 0;
    if (borders > 0 && borders < BORDERS)
        proof_conclude(proof, PROOF_IMPOSSIBLE, "the program ended; give it more steps");
    if (borders == BORDERS && judge_borders(play, &plain, borders, proof)) {
        ok = played_make(order, play, PLAY_REST_EXCHANGED, &rest, error);
        if (ok && played_steps(&rest, &then, proof) == BORDERS)
            judge_rest(play, &plain, &rest, borders, proof);
        else if (ok && proof->end == PROOF_NOT_ASKED)
            proof_conclude(proof, PROOF_FAILED, "where memory without a class gets what it held one step before: %s",
                           then);
        else if (ok && proof->end == PROOF_IMPOSSIBLE)
            proof->end = PROOF_FAILED; /* the run before could be made */
    }
    if (ok && proof->end == PROOF_PASSED)
        ok = prove_classes(order, play, by_state, &plain, proof, error);
    played_release(play, &plain);
    played_release(play, &rest);
    play->plan.steps = rounds;
    return ok;
}
