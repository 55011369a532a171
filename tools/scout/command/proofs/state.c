/*
 * state.c - see prove.h: proof (complete) of plans by state, in one process: what has no class is exchanged, then what
 * ranks average, then halves of the data; and sums.
 */
#include "tools/common/owned.h"
#include "tools/near/element.h"
#include "tools/scout/command/proofs/prove.h"

#include <float.h>
#include <math.h>

enum {
    BORDERS = 5, /* behind the first, that are looked at: two before contents are exchanged, and three then; */
    OUTSIDE = BORDERS + 1, /* and one after a pass outside of the steps */
    EXCHANGED = 3          /* the first after a step in which contents, or halves of data, were exchanged */
};

/* The first tensor of a class, and the border, that differ in another run. */
static bool
find_unlike_border(const struct trial *it, const struct played *other, uint32_t role, uint32_t borders,
                   uint32_t *tensor, uint32_t *border)
{
    for (*border = 0; *border <= borders; ++*border)
        for (*tensor = 0; *tensor < it->play->plan.tensor_count; ++*tensor)
            if ((role == 0 || it->play->tensors[*tensor].role == role) && !played_are_same(it, other, *border, *tensor))
                return true;
    return false;
}

/* The first border at which a tensor is there. A variable of a module is not before the module's first launch, which
 * may be in the first step. */
static uint32_t
first_border_of(const struct trial *it, uint32_t tensor)
{
    uint32_t border = 0;
    while (border < BORDERS && played_hash(&it->alone, 0, border, tensor) == 0)
        ++border;
    return border;
}

/* Whether a tensor that is called constant is the same at all borders of a run, from the first at which it is there. */
static void
judge_constant(const struct trial *it, uint32_t tensor)
{
    uint32_t first = first_border_of(it, tensor);
    for (uint32_t border = BORDERS; border > first; --border)
        if (played_hash(&it->alone, 0, border, tensor) != played_hash(&it->alone, 0, first, tensor))
            proof_conclude(it->proof, PROOF_FAILED, "by the plan %s is constant, but it changed in step %u",
                           proof_name(it->proof, &it->play->tensors[tensor]), border);
}

static bool
judge_borders(const struct trial *it)
{
    for (uint32_t i = 0; i < it->play->plan.tensor_count && it->proof->end != PROOF_FAILED; ++i)
        if (it->play->tensors[i].role == PLAY_UNWRITTEN)
            judge_constant(it, i);
    return it->proof->end != PROOF_FAILED;
}

static void
judge_rest(const struct trial *it, const struct played *rest, uint32_t borders)
{
    struct proof *proof = it->proof;
    uint32_t tensor, border;
    const char *between =
        borders == OUTSIDE ? ", and so does the work between them" : "; no work between steps was seen";
    if (find_unlike_border(it, rest, 0, borders, &tensor, &border)) {
        const char *name = proof_name(proof, &it->play->tensors[tensor]);
        if (border < BORDERS - 2)
            proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of one process differ: %s, after step %u", name, border);
        else if (border == OUTSIDE)
            proof_conclude(
                proof, PROOF_FAILED,
                "memory without a class, set back by one step, changes %s in the work between steps, such as "
                "validation: this work reads memory that an earlier step wrote, and that differs between ranks",
                name);
        else
            proof_conclude(proof, PROOF_FAILED,
                           "memory without a class, set back by one step, changes %s of step %u: the plan "
                           "misses memory that persists from step to step",
                           name, border);
    } else if (!played_reads_are_same(it, rest)) {
        proof_conclude(
            proof, PROOF_FAILED,
            "memory without a class, set back by one step, changes bytes that the program copies to the host: "
            "the plan misses memory that persists from step to step%s",
            borders == OUTSIDE ? ", or work between steps, such as validation, reads memory that an earlier "
                                 "step wrote, and that differs between ranks"
                               : "");
    } else {
        proof_conclude(
            proof, PROOF_PASSED,
            "%d steps give the same results after all memory that the plan does not name is set back by one step%s%s",
            BORDERS - 2, between, proof_is_noisy(it->play) ? ", up to the noise of one process" : "");
    }
}

/* How many samples of a tensor are others in two runs, in one only, and in both. */
struct touched {
    uint32_t first, second, both;
};

/* What samples of a tensor differ by where only noise does. */
static double
noise_of_samples(const struct trial *it, uint32_t tensor)
{
    const float *of = played_sample(&it->alone, 0, tensor);
    double most = 0, largest = 0;
    for (int k = 0; k < PLAY_SAMPLES && it->play->tensors[tensor].noise != 0; ++k) {
        for (int run = 0; run < 2; ++run)
            most = fmax(most, fabs((double)of[k] - (double)played_sample(&it->noise.others[run], 0, tensor)[k]));
        largest = fmax(largest, fabs((double)of[k]));
    }
    return near_noise(most, largest);
}

/* Whether a sample is another, by more than noise. */
static bool
is_touched(float of, float other, double noise)
{
    return element_to_bits(of) != element_to_bits(other) && !(fabs((double)of - (double)other) <= noise);
}

static struct touched
touched_by_halves(const struct trial *it, const struct played halves[2], uint32_t tensor)
{
    struct touched touched = {0};
    const float *of = played_sample(&it->alone, 0, tensor);
    const float *one = played_sample(&halves[0], 0, tensor), *two = played_sample(&halves[1], 0, tensor);
    double noise = noise_of_samples(it, tensor);
    for (int k = 0; k < PLAY_SAMPLES; ++k) {
        bool first = is_touched(of[k], one[k], noise), second = is_touched(of[k], two[k], noise);
        touched.first += first;
        touched.second += second;
        touched.both += first && second;
    }
    return touched;
}

/* Whether another run differs at the last border; with noise, which goes on from there as it->alone does, at any border
 * after the exchange. */
static bool
differs(const struct trial *it, const struct played *other, uint32_t tensor)
{
    return ANY_NUMBER(border, it->play->tensors[tensor].noise != 0 ? EXCHANGED : BORDERS, BORDERS + 1,
                      !played_are_same(it, other, border, tensor));
}

/* What is averaged depends on data, then or later. A counter or a random state does not: all ranks make it in each
 * step. Where data show themselves nowhere this is not asked. */
static void
judge_reached(const struct trial *it, const struct played halves[2])
{
    const struct play *play = it->play;
    uint32_t reached = 0, other = play->plan.tensor_count;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        bool is_reached = differs(it, &halves[0], i) || differs(it, &halves[1], i);
        bool changes = played_hash(&it->alone, 0, BORDERS - 1, i) != played_hash(&it->alone, 0, BORDERS, i);
        reached += is_reached;
        other = play->tensors[i].role == PLAY_CHANGES && changes && !is_reached ? i : other;
    }
    if (it->proof->end == PROOF_PASSED && reached > 0 && other < play->plan.tensor_count)
        proof_conclude(it->proof, PROOF_IMPOSSIBLE,
                       "%s changes, and no data reaches it: scout cannot tell whether it is trained, or a stream",
                       proof_name(it->proof, &play->tensors[other]));
}

/* What --per-rank names is carried, or whole numbers: what both halves of a batch change is trained. */
static void
judge_own(const struct play_tensor *tensor, const struct touched *touched, const char *text, struct proof *proof)
{
    bool is_whole = tensor->type == (uint32_t)play_plan_type(SCOUT_INTEGER);
    if (!is_whole && touched->both > 0)
        proof_conclude(proof, PROOF_FAILED,
                       "both halves of a batch change the same elements of %s: it is trained, and ranks must not keep "
                       "their own; leave it out of --per-rank",
                       text);
    else if (!is_whole && (touched->first == 0 || touched->second == 0))
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "halves of a batch do not show whether %s is carried from batch to batch, as --per-rank says",
                       text);
}

/* Whether what a tensor held before shows in it, after a step, as it was put there: each step changes it a little. */
static bool
keeps_itself(const struct trial *it, const struct played *state, uint32_t tensor)
{
    enum { HALF = PLAY_SAMPLES / 2 };
    const float *of = played_sample(&it->alone, 0, tensor), *seen = played_sample(state, 0, tensor);
    double rest = 0, put = 0;
    for (int k = 0; k < HALF; ++k) {
        rest += pow((double)seen[k] - (double)of[k], 2);
        put += pow((double)seen[HALF + k], 2);
    }
    return put > 0 && 4 * rest <= put;
}

/* Why it is not known whether a tensor is trained. Parameters and momenta in one allocation, of which an update gets
 * one pointer, look like a hidden state: elements are computed from others. */
static void
conclude_open(const struct play_tensor *tensor, const char *text, struct proof *proof)
{
    const char *why = tensor->is_in_place
                          ? "is trained, or carried from batch to batch, which its updates do not show: they compute "
                            "its elements from several of it. If it is parameters and momenta, give each an allocation"
                          : "is overwritten in each step, and halves of a batch do not show whether it is trained, or "
                            "carried from batch to batch";
    proof_conclude(proof, PROOF_IMPOSSIBLE, "%s %s", text, why);
}

/* What the program carries from batch to batch is computed from one record each: with halves of the data exchanged
 * other elements of it change each time. What is overwritten has to show that it is no such. */
static void
judge_carried(const struct trial *it, const struct played *state, const struct played halves[2])
{
    const struct play *play = it->play;
    struct proof *proof = it->proof;
    FOR_EACH_UNTIL(tensor, play->tensors, play->plan.tensor_count, proof->end != PROOF_PASSED) {
        uint32_t i = NUMBER_OF(tensor);
        if (tensor->role != PLAY_CHANGES && tensor->role != PLAY_PER_RANK)
            continue;
        struct touched touched = touched_by_halves(it, halves, i);
        bool is_split = touched.first > 0 && touched.second > 0 && touched.both == 0;
        bool is_open =
            tensor->is_overwritten && touched.both == 0 && !(tensor->is_in_place && keeps_itself(it, state, i));
        const char *text = proof_name(proof, tensor);
        if (is_split || is_open)
            proof->scratch = (struct scout_bytes){(uint32_t)tensor->alloc, tensor->lo, tensor->hi};
        if (tensor->role == PLAY_PER_RANK)
            judge_own(tensor, &touched, text, proof);
        else if (is_split)
            proof_conclude(
                proof, PROOF_FAILED,
                "each half of a batch changes other elements of %s: the program carries it from batch to batch, and "
                "has no use for a mean of it; --per-rank a%" PRIu32 " gives each rank its own",
                text, tensor->alloc);
        else if (is_open)
            conclude_open(tensor, text, proof);
    }
}

/* Makes another run; with noise, one whose steps begin as those of it->alone do. Returns whether it has come to the
 * last border. */
static bool
exchange_alone(struct trial *it, enum play_data data, struct played *played)
{
    return played_make(it, data, PLAY_TAKES_BEGUN, played) && played_completed(played) == BORDERS;
}

static void
prove_classes(struct trial *it)
{
    OWNED_RUN struct played state = {.count = 0};
    struct played halves[2] = {{.count = 0}, {.count = 0}};
    uint32_t tensor, border;
    bool whole = exchange_alone(it, PLAY_STATE_EXCHANGED, &state);
    bool first = exchange_alone(it, PLAY_FIRST_HALVES, &halves[0]);
    bool second = exchange_alone(it, PLAY_SECOND_HALVES, &halves[1]);
    if (whole && find_unlike_border(it, &state, PLAY_STREAM, BORDERS, &tensor, &border)) {
        proof_conclude(it->proof, PROOF_FAILED,
                       "by the plan %s is a stream, but it depends on averaged memory: with that memory's bytes of one "
                       "step before, it differs after step %u",
                       proof_name(it->proof, &it->play->tensors[tensor]), border);
    } else if (whole && first && second) {
        judge_carried(it, &state, halves);
        judge_reached(it, halves);
    } else if (!it->is_ended) {
        proof_conclude(it->proof, PROOF_IMPOSSIBLE,
                       "the program ended where halves of its data, or its state, were exchanged");
    }
    played_release(&halves[0]);
    played_release(&halves[1]);
}

/* ---- sums ---- */

/* Where its contents were exchanged a sum has changed by as much. */
enum sum_verdict { IS_SUM, IS_NO_SUM, SHOWS_NOTHING };

static enum sum_verdict
judge_sum(const struct trial *trial, const struct played *sums, uint32_t tensor)
{
    const struct play_tensor *it = &trial->play->tensors[tensor];
    const float *of = played_sample(&trial->alone, 0, tensor), *seen = played_sample(sums, 0, tensor);
    size_t bytes = element_size((int)it->type), count = (size_t)(it->hi - it->lo) / bytes;
    size_t distance = (count + PLAY_SAMPLES - 1) / PLAY_SAMPLES;
    enum sum_verdict verdict = SHOWS_NOTHING;
    double noise = noise_of_samples(trial, tensor);
    for (size_t k = 0; k * distance < count && verdict != IS_NO_SUM; ++k) {
        double limit = 16 * FLT_EPSILON * fmax(fabs((double)of[k]), fabs((double)seen[k])) + noise;
        if (!isnan(seen[k]))
            verdict = fabs((double)of[k] - (double)seen[k]) <= limit ? IS_SUM : IS_NO_SUM;
    }
    return verdict;
}

/* Other memory than sums that differs where sums were exchanged. */
static bool
sums_reach(const struct trial *it, const struct played *sums, uint32_t *tensor)
{
    for (*tensor = 0; *tensor < it->play->plan.tensor_count; ++*tensor)
        if (it->play->tensors[*tensor].role != PLAY_SUM && differs(it, sums, *tensor))
            return true;
    return false;
}

/* What may be a sum and is none is state; whole numbers that are none have no class, nor have numbers for the host. */
static void
settle_sum(struct play_tensor *tensor, enum sum_verdict verdict, struct proof *proof)
{
    if (verdict == IS_NO_SUM && tensor->may_be_sum && tensor->hi - tensor->lo > ELEMENT_BYTES)
        tensor->role = PLAY_CHANGES;
    else if (verdict == IS_NO_SUM)
        proof_conclude(proof, PROOF_FAILED,
                       "by the plan %s is a sum, but the number that a step adds depends on the sum",
                       proof_name(proof, tensor));
    else if (verdict == SHOWS_NOTHING)
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "scout cannot tell whether %s is a sum, or an average that moves slowly: it hardly changes",
                       proof_name(proof, tensor));
}

/* Whether each step has added one. */
static bool
counts_steps(const struct trial *it, uint32_t tensor)
{
    return ALL_NUMBERS(border, 1, BORDERS + 1,
                       played_whole(&it->alone, 0, border, tensor) ==
                           played_whole(&it->alone, 0, border - 1, tensor) + 1);
}

/* A count of steps may decide about a number that kernels reach, as about a scale that grows with it: each rank would
 * count its own steps. */
static void
judge_counts(struct trial *it)
{
    FOR_EACH_UNTIL(tensor, it->play->tensors, it->play->plan.tensor_count, it->proof->end != PROOF_NOT_ASKED) {
        if (tensor->role == PLAY_SUM && tensor->may_decide && counts_steps(it, NUMBER_OF(tensor)))
            proof_conclude(it->proof, PROOF_IMPOSSIBLE,
                           "%s grows by one in each step, and a kernel that counts so may change a variable of its "
                           "module by the count, as a scale of losses: --per-rank a%" PRIu32 " gives each rank its own",
                           proof_name(it->proof, tensor), tensor->alloc);
    }
}

static void
prove_sums(struct trial *it)
{
    struct play *play = it->play;
    OWNED_RUN struct played sums = {.count = 0};
    uint32_t tensor;
    FOR_EACH_MUTABLE(of, play->tensors, play->plan.tensor_count)
        of->role = of->may_be_sum ? PLAY_SUM : of->role;
    if (!ANY(it, play->tensors, play->plan.tensor_count, it->role == PLAY_SUM))
        return;
    bool whole = exchange_alone(it, PLAY_SUMS_EXCHANGED, &sums);
    if (!it->is_ended && !whole)
        proof_conclude(it->proof, PROOF_IMPOSSIBLE, "the program ended where sums were exchanged");
    else if (whole && sums_reach(it, &sums, &tensor))
        proof_conclude(it->proof, PROOF_FAILED,
                       "%s is computed from memory that is a sum by the plan, or two runs of one process differ",
                       proof_name(it->proof, &play->tensors[tensor]));
    for (uint32_t i = 0; i < play->plan.tensor_count && whole && it->proof->end == PROOF_NOT_ASKED; ++i)
        if (play->tensors[i].role == PLAY_SUM)
            settle_sum(&play->tensors[i], judge_sum(it, &sums, i), it->proof);
}

enum { NUMBER_BYTES = 16, NUMBERS = 4 }; /* that are tried, each in a run of its own */

/* What a number is by a run that has exchanged it, and nothing else. */
static enum play_role
role_of_exchanged(const struct trial *it, const struct played *exchanged, uint32_t i)
{
    if (!differs(it, exchanged, i))
        return PLAY_LAST;
    return judge_sum(it, exchanged, i) == IS_SUM ? PLAY_SUM : PLAY_CHANGES;
}

/* What a number is that is called state: by a run in which tensor i alone is exchanged. */
static enum play_role
judge_number(struct trial *it, uint32_t i)
{
    OWNED_RUN struct played exchanged = {.count = 0};
    struct play play = *it->play;
    struct trial trial = *it;
    enum play_role role = PLAY_CHANGES;
    uint32_t tensor;
    OWNED struct play_tensor *tensors = xcalloc(play.plan.tensor_count, sizeof(*tensors));
    trial.play = &play;
    play.tensors = memcpy(tensors, play.tensors, play.plan.tensor_count * sizeof(*tensors));
    for (uint32_t k = 0; k < play.plan.tensor_count; ++k)
        tensors[k].role = k == i ? PLAY_SUM : PLAY_LAST;
    if (exchange_alone(&trial, PLAY_SUMS_EXCHANGED, &exchanged) && atomic_load(&exchanged.pages[0]->exchanged) > 0 &&
        !sums_reach(&trial, &exchanged, &tensor))
        role = role_of_exchanged(it, &exchanged, i);
    it->is_ended = trial.is_ended;
    return role;
}

/* Losses and hits that are called state would be averaged. Whether other memory is computed from one, a run shows in
 * which it alone is exchanged. Larger scratch is not looked for: it may be averaged, for a step overwrites it before it
 * reads it, whatever it holds; what the host reads of it between steps is a mean then. */
static void
prove_numbers(struct trial *it, bool settles)
{
    for (uint32_t i = 0, tried = 0; i < it->play->plan.tensor_count && !it->is_ended && tried < NUMBERS; ++i) {
        struct play_tensor *tensor = &it->play->tensors[i];
        if (tensor->role != PLAY_CHANGES || tensor->hi - tensor->lo > NUMBER_BYTES || tensor->may_be_sum)
            continue;
        ++tried;
        enum play_role role = judge_number(it, i);
        if (role == PLAY_SUM && settles)
            tensor->role = role;
        else if (role != PLAY_CHANGES && !settles)
            proof_conclude(it->proof, PROOF_FAILED, "%s is no state%s", proof_name(it->proof, tensor),
                           role == PLAY_SUM ? " but a sum: the number that a step adds does not depend on it"
                                            : ": nothing depends on its old value");
    }
}

/* ---- all of it ---- */

static void
prove_rest(struct trial *it)
{
    OWNED_RUN struct played rest = {.count = 0};
    const char *then;
    uint32_t borders = played_completed(&it->alone);
    it->play->plan.outside = atomic_load(&it->alone.pages[0]->outside);
    bool ok = played_make(it, PLAY_REST_EXCHANGED, PLAY_TAKES_BEGUN, &rest);
    it->play->plan.outside = 0;
    const bool has_all = ok && played_steps(&rest, &then, it->proof) == borders;
    it->proof->is_run_failed = false; /* the run before could be made */
    if (has_all)
        judge_rest(it, &rest, borders);
    else if (ok && it->proof->end == PROOF_NOT_ASKED)
        proof_conclude(it->proof, PROOF_FAILED, "memory without a class, set back by one step: %s",
                       then[0] != '\0' ? then : "other operations come between steps");
    else if (ok && it->proof->end == PROOF_IMPOSSIBLE)
        it->proof->end = PROOF_FAILED;
}

static bool
goes_on(const struct trial *it)
{
    return !it->is_ended && it->proof->end == PROOF_NOT_ASKED;
}

/* What has no class is exchanged, then what ranks average, then data. */
void
proof_complete(struct trial *it, bool settles)
{
    const char *then;
    uint32_t rounds = it->play->plan.steps;
    it->play->plan.steps = OUTSIDE;
    bool ok = played_make(it, PLAY_BORDERS, PLAY_KEEPS_BEGUN, &it->alone);
    uint32_t borders = ok ? played_steps(&it->alone, &then, it->proof) : 0;
    if (borders > 0 && borders < BORDERS)
        proof_conclude(it->proof, PROOF_IMPOSSIBLE, "%s", then);
    if (borders >= BORDERS && played_measure_noise(it, PLAY_BORDERS) && played_shows_mistakes(it) && judge_borders(it))
        prove_sums(it);
    if (borders >= BORDERS && goes_on(it))
        judge_counts(it);
    if (borders >= BORDERS && goes_on(it))
        prove_numbers(it, settles);
    if (borders >= BORDERS && goes_on(it))
        prove_rest(it);
    if (!it->is_ended && it->proof->end == PROOF_PASSED)
        prove_classes(it);
    it->play->plan.steps = rounds;
    trial_release(it);
}
