/*
 * different_data.c - see prove.h: proof (c), two ranks with different data; whether what --per-rank names is carried;
 * and the order of all proofs.
 */
#include "tools/near/element.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/proofs/prove.h"

#include <math.h>

/* What rounding may change of an average, by its norm: sums of 32 bits, and of 16. */
static const double rounding = 1e-3, rounding_16 = 3e-2;

static double
norm_of(const float *a, const float *b)
{
    double sum = 0;
    for (int k = 0; k < PLAY_SAMPLES; ++k) {
        double difference = (double)a[k] - (b != NULL ? (double)b[k] : 0);
        sum += difference * difference;
    }
    return sqrt(sum);
}

/* (c): the averages of the two runs. Each gradient counts by the largest norm among them: one that is zero but for
 * rounding has rounding only. */
static void
compare_averages(const struct play *play, const struct played *whole, const struct played *halves,
                 struct scout_proofs *proofs)
{
    struct proof *proof = &proofs->halves;
    double largest = 0, worst = 0;
    uint32_t worst_tensor = 0;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i)
        largest = fmax(largest, norm_of(played_sample(whole, 0, i), NULL));
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        double difference = norm_of(played_sample(whole, 0, i), played_sample(halves, 0, i)) /
                            (play->tensors[i].type <= 2 ? rounding : rounding_16);
        if (play->tensors[i].role != PLAY_GRADIENT || largest == 0 || difference / largest <= worst)
            continue;
        worst = difference / largest;
        worst_tensor = i;
    }
    bool is_changed = !(worst <= 1) || !isfinite(largest), is_scaled = proofs->needs_halves;
    proofs->needs_halves = is_scaled || is_changed;
    double shown = worst * (play->tensors[worst_tensor].type <= 2 ? rounding : rounding_16);
    if (is_changed)
        proof_conclude(
            proof, is_scaled ? PROOF_FAILED : PROOF_IMPOSSIBLE,
            "when two ranks exchange halves of their data, the average of %s changes by %.2g of the gradients: %s",
            proof_name(proof, &play->tensors[worst_tensor]), shown,
            is_scaled
                ? "where it is averaged it is not a sum over records (it is clipped before, or normalised over the "
                  "batch)"
                : "the copied records do not lie one after the other, or the gradient is normalised over the batch");
    else
        proof_conclude(
            proof, PROOF_PASSED,
            "when two ranks exchange halves of their data, the averages stay the same, within %.2g of the gradients",
            shown);
}

static void
judge_halves(const struct play *play, const struct played *whole, const struct played *halves,
             struct scout_proofs *proofs)
{
    struct proof *proof = &proofs->halves;
    bool is_changed = false;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        bool is_gradient = play->tensors[i].role == PLAY_GRADIENT;
        bool same = is_gradient && play->tensors[i].noise != 0
                        ? atomic_load(&halves->pages[0]->exchanged) == 0 /* noise alone makes others */
                        : played_hash(whole, 0, is_gradient, i) == played_hash(halves, 0, is_gradient, i);
        is_changed = is_changed || (is_gradient && !same);
        if (!is_gradient && !same && play->tensors[i].role != PLAY_UNWRITTEN && play->tensors[i].role != PLAY_UNREAD) {
            proof_conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program begin with different values");
            return;
        }
    }
    if (!is_changed)
        proof_conclude(proof, PROOF_IMPOSSIBLE, "the exchange changes no gradient");
    else
        compare_averages(play, whole, halves, proofs);
}

/* ---- what --per-rank names ---- */

/* Of the elements of a tensor that were looked at, how many follow the first half of a batch alone, the second alone,
 * neither alone, and no batch. */
enum followed { BY_FIRST, BY_SECOND, BY_BOTH, BY_NONE, FOLLOWED };

static enum followed
followed_by(bool first, bool second)
{
    if (first && second)
        return BY_NONE;
    if (first)
        return BY_FIRST;
    return second ? BY_SECOND : BY_BOTH;
}

static void
count_followed(const struct play *play, const struct played *whole, const struct played *halves, uint32_t tensor,
               uint32_t counts[FOLLOWED])
{
    const struct play_tensor *it = &play->tensors[tensor];
    size_t count = (size_t)(it->hi - it->lo) / element_size((int)it->type);
    size_t distance = (count + PLAY_SAMPLES - 1) / PLAY_SAMPLES;
    for (size_t k = 0; k * distance < count; ++k) {
        uint32_t bits[2 * PLAY_RANKS];
        for (int i = 0; i < 2 * PLAY_RANKS; ++i)
            memcpy(&bits[i], &played_sample(i < PLAY_RANKS ? whole : halves, i % PLAY_RANKS, tensor)[k],
                   sizeof(bits[i]));
        bool first = bits[2] == bits[0] && bits[3] == bits[1], second = bits[2] == bits[1] && bits[3] == bits[0];
        counts[followed_by(first, second)] += 1;
    }
}

/* Whether that shows a tensor as carried. What is trained depends on all records. By chance few of its elements look
 * otherwise, as where only the sign of a gradient counts; and of what grows, rows that no record of a batch names. */
static bool
is_carried(const struct scout_finding *finding, const struct play_tensor *tensor, const uint32_t counts[FOLLOWED])
{
    enum { LEAST = 8 };
    bool grows = ANY(it, finding->tensors, finding->tensor_count, it->alloc == tensor->alloc && it->grows);
    return counts[BY_BOTH] == 0 && counts[BY_FIRST] >= LEAST && counts[BY_SECOND] >= LEAST &&
           (!grows || counts[BY_NONE] == 0);
}

static void
judge_own(const struct scout_finding *finding, const struct play *play, const struct played *whole,
          const struct played *halves, struct proof *proof)
{
    for (uint32_t i = 0; i < play->plan.tensor_count && proof->end != PROOF_FAILED; ++i) {
        uint32_t counts[FOLLOWED] = {0};
        if (play->tensors[i].role != PLAY_PER_RANK)
            continue;
        count_followed(play, whole, halves, i, counts);
        if (proof_ends_at_noise(proof, play, &play->tensors[i]))
            return;
        if (is_carried(finding, &play->tensors[i], counts))
            proof_conclude(
                proof, PROOF_PASSED,
                "each examined element depends on one half of a batch alone: the memory is carried, not trained");
        else
            proof_conclude(
                proof, PROOF_FAILED,
                "%s: trained, or carried from batch to batch? Of its examined elements %u depend on the first "
                "half of a batch, %u on the second, %u on both, %u on neither. If it is trained, ranks must "
                "not keep their own",
                proof_name(proof, &play->tensors[i]), counts[BY_FIRST], counts[BY_SECOND], counts[BY_BOTH],
                counts[BY_NONE]);
    }
}

static bool
has_named(const struct scout_finding *finding)
{
    return ANY(it, finding->tensors, finding->tensor_count, it->named);
}

/* (c), and what --per-rank names: two ranks whose data differ in a step, and two that have exchanged halves of it. */
static void
prove_halves(struct trial *it, const struct scout_log *log, const struct scout_finding *finding,
             struct scout_proofs *proofs)
{
    OWNED_RUN struct played whole = {.count = 0}, halves = {.count = 0};
    char why[PLAY_WHY_BYTES];
    const char *then;
    bool can = play_plan_has_halves(log, finding, why);
    it->proof = can ? &proofs->halves : &proofs->own;
    if (!can)
        proof_conclude(&proofs->halves, PROOF_IMPOSSIBLE, "%s", why);
    if (!can && !has_named(finding))
        return;
    bool has_run =
        played_make(it, PLAY_STEP_BEFORE, PLAY_BEGINS_ITSELF, &whole) && played_steps(&whole, &then, it->proof) > 0;
    if (has_run && played_make(it, PLAY_HALVES, PLAY_BEGINS_ITSELF, &halves) &&
        played_steps(&halves, &then, it->proof) > 0) {
        if (can)
            judge_halves(it->play, &whole, &halves, proofs);
        judge_own(finding, it->play, &whole, &halves, &proofs->own);
    }
}

/* For a report: the plan that is played, or why none is. */
static struct json_object *
json_of_played(bool can, const struct play *play, const char *why)
{
    struct json_object *json = can ? play_json_of(play) : json_object_new_object();
    if (!can)
        json_object_object_add(json, "reason", json_object_new_string(why));
    return json;
}

bool
scout_prove(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
            struct scout_proofs *proofs, struct error *error)
{
    struct play play;
    struct trial trial = {.order = order, .log = log, .play = &play, .error = error};
    char why[PLAY_WHY_BYTES];
    struct turns turns;
    turns_find(log, finding, &turns);
    proofs->needs_halves = turns.is_scaled;
    bool can = play_plan_make(log, finding, &turns, &play, why);
    proofs->played = json_of_played(can, &play, why);
    if (can) {
        prove_halves(&trial, log, finding, proofs);
        trial.proof = &proofs->turns;
        proof_host(&trial, false);
    } else {
        proof_conclude(&proofs->halves, PROOF_IMPOSSIBLE, "%s", why);
        proof_conclude(&proofs->turns, PROOF_IMPOSSIBLE, "%s", why);
    }
    if (proofs->turns.end == PROOF_NOT_ASKED)
        proof_play_turns(&trial, &proofs->times);
    if (has_named(finding) && proofs->own.end == PROOF_NOT_ASKED)
        proof_conclude(
            &proofs->own, PROOF_IMPOSSIBLE,
            "scout cannot tell whether the memory that --per-rank names is carried from batch to batch, or trained: %s",
            proofs->halves.text);
    play_free(&play);
    turns_free(&turns);
    return !trial.is_ended;
}

bool
scout_prove_by_state(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
                     const struct turns *turns, bool prove, struct scout_proofs *proofs, struct error *error)
{
    struct play play;
    struct trial trial = {.order = order, .log = log, .play = &play, .proof = &proofs->complete, .error = error};
    char why[PLAY_WHY_BYTES];
    bool can = play_plan_make(log, finding, turns, &play, why);
    if (can && prove)
        proof_host(&trial, turns->host_may_update);
    if (can && prove && proofs->complete.end == PROOF_NOT_ASKED)
        proof_complete(&trial, true);
    if (can)
        play_plan_settle(&play);
    proofs->played = json_of_played(can, &play, why); /* a proof has told sums from state */
    trial.proof = &proofs->turns;
    if (proofs->complete.end == PROOF_PASSED)
        proof_play_turns(&trial, &proofs->times);
    play_free(&play);
    return !trial.is_ended;
}

bool
scout_prove_kept(const struct scout_order *order, struct play *play, struct scout_proofs *proofs, struct error *error)
{
    struct trial trial = {.order = order, .play = play, .proof = &proofs->complete, .error = error};
    proofs->by_state = play->plan.by == PLAY_BY_STATE;
    if (proofs->by_state)
        proof_complete(&trial, false);
    trial.proof = &proofs->turns;
    if (!proofs->by_state || proofs->complete.end == PROOF_PASSED)
        proof_play_turns(&trial, &proofs->times);
    return !trial.is_ended;
}
