/*
 * prove.c - see prove.h.
 */
#include "tools/scout/command/prove.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "tools/check/format/element.h"
#include "tools/common/inner_run.h"
#include "tools/plan/format/play_json.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATIENCE_S = 20, /* with a ddprun that was asked to end */
    GRACE_MS = 3000  /* for the other rank, which may wait for the one that cannot go on */
};

/* What rounding may change of an average, by its norm: sums of 32 bits, and of 16. */
static const double rounding = 1e-3, rounding_16 = 3e-2;

/* A run of the two ranks. */
struct played {
    struct play_page *pages[PLAY_RANKS];
    bool late;
    int signal;
    char reason[512]; /* why its ddprun failed; "": it did not, or had been asked to end */
};

static void __attribute__((format(printf, 3, 4)))
conclude(struct proof *proof, enum proof_end end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(proof->text, sizeof(proof->text), format, args);
    va_end(args);
    proof->end = end;
}

static void
tensor_text(const struct play_tensor *tensor, char text[64])
{
    static const char *const names[] = {[PLAY_PARAMETER] = "parameter",
                                        [PLAY_GRADIENT] = "gradient",
                                        [PLAY_STATE] = "state",
                                        [PLAY_COMPARED] = "state",
                                        [PLAY_PER_RANK] = "memory of each rank",
                                        [PLAY_STAYS] = "memory",
                                        [PLAY_UNWRITTEN] = "memory",
                                        [PLAY_UNREAD] = "memory",
                                        [PLAY_CHANGES] = "state",
                                        [PLAY_STREAM] = "stream",
                                        [PLAY_SUM] = "sum",
                                        [PLAY_LAST] = "memory"};
    snprintf(text, 64, "%s a%" PRIu32 "[%" PRIu64 ":%" PRIu64 "]", names[tensor->role], tensor->alloc, tensor->lo,
             tensor->hi);
}

/* ---- a run ---- */

static uint32_t
stage_of(const struct played *played, int rank)
{
    return atomic_load(&played->pages[rank]->stage);
}

/* Whether the ranks have seen all they can. *stuck_ms: since when one cannot go on; 0: all can. */
static bool
is_over(const struct played *played, int64_t now_ms, int64_t *stuck_ms)
{
    bool all = true;
    for (int rank = 0; rank < PLAY_RANKS; ++rank) {
        uint32_t stage = stage_of(played, rank);
        if (stage == PLAY_IMPOSSIBLE && *stuck_ms == 0)
            *stuck_ms = now_ms;
        all = all && (stage == PLAY_OVER || stage == PLAY_IMPOSSIBLE);
    }
    return all || (*stuck_ms != 0 && now_ms - *stuck_ms > GRACE_MS);
}

static void
show_progress(const struct play *play, const struct played *played, bool end)
{
    if (!isatty(STDERR_FILENO))
        return;
    if (end)
        fputs("\r\033[K", stderr);
    else if (play->plan.data >= PLAY_REHEARSAL)
        fprintf(stderr, "\r\033[Kddprun: plan: rehearsal %s",
                play->plan.data == PLAY_REHEARSAL ? "of rounds" : "of one process");
    else
        fprintf(stderr, "\r\033[Kddprun: scout: proof (%c), step %u of %u", "bcddeeeeee"[play->plan.data],
                atomic_load(&played->pages[0]->steps), play -> plan.steps);
    fflush(stderr);
}

/* Stays with the run until it has ended. The players wait to be ended. */
static void
attend(const struct scout_order *order, const struct play *play, pid_t pid, struct played *played)
{
    int status;
    int64_t begin_ms = clock_now_ms(), asked_ms = 0, stuck_ms = 0;
    while (!inner_run_has_ended(pid, &status)) {
        int number = inner_run_next_signal();
        int64_t now_ms = clock_now_ms();
        bool is_asked = number != 0 && number != SIGCHLD, over = is_over(played, now_ms, &stuck_ms);
        show_progress(play, played, false);
        if (is_asked)
            played->signal = number;
        else if (asked_ms == 0 && !over && now_ms - begin_ms > (int64_t)order->timeout_s * 1000)
            played->late = true;
        if (asked_ms == 0 && (is_asked || played->late || over)) {
            kill(pid, SIGTERM);
            asked_ms = now_ms;
        } else if (asked_ms != 0 && now_ms - asked_ms > PATIENCE_S * 1000) {
            kill(pid, SIGKILL);
        }
    }
    show_progress(play, played, true);
}

static void
release(const struct play *play, struct played *played)
{
    for (int rank = 0; rank < PLAY_RANKS; ++rank)
        play_page_unmap(&play->plan, played->pages[rank]);
}

static bool
make_run(const struct scout_order *order, struct play *play, enum play_data data, struct played *played,
         struct error *error)
{
    char *plan = xasprintf("%s/play.%d", order->folder, data), *summary = xasprintf("%s.json", plan);
    char *errors = xasprintf("%s.err", plan);
    const struct scout_child child = {.variable = DDPRUN_ENV_SCOUT_PLAY,
                                      .value = plan,
                                      .ranks = data == PLAY_REHEARSAL ? order->ranks
                                               : data >= PLAY_ALONE   ? 1
                                                                      : PLAY_RANKS,
                                      .is_rehearsal = data >= PLAY_REHEARSAL,
                                      .silent = true,
                                      .summary = summary,
                                      .errors = errors};
    *played = (struct played){0};
    play->plan.data = data;
    snprintf(play->plan.pages, sizeof(play->plan.pages), "%s.page", plan);
    struct play_exchange *exchange = play_exchange_map(plan, true);
    bool ok = play_save(plan, play) && exchange != NULL;
    play_exchange_unmap(exchange);
    for (int rank = 0; rank < PLAY_RANKS && ok; ++rank)
        ok = (played->pages[rank] = play_page_map(&play->plan, rank, true)) != NULL;
    if (ok && data > PLAY_ALONE) { /* which one page suffices for */
        atomic_store(&played->pages[1]->stage, PLAY_OVER);
        atomic_store(&played->pages[1]->steps, UINT32_MAX);
    }
    pid_t pid = ok ? scout_child_start(order, &child) : -1;
    if (pid > 0) {
        attend(order, play, pid, played);
        scout_child_reason(summary, played->reason, sizeof(played->reason));
    } else {
        release(play, played);
        *played = (struct played){0};
        (void)error_set(error, DDPRUN_EXIT_FAILURE,
                        "cannot start the program, in %s: %s; make room there, or set TMPDIR", order->folder,
                        strerror(errno));
    }
    if (pid > 0 && played->signal != 0)
        (void)error_set(error, 128 + played->signal, "scout ended by signal %d", played->signal);
    ok = pid > 0 && played->signal == 0;
    free(plan);
    free(summary);
    free(errors);
    return ok;
}

/* ---- what it shows ---- */

/* How many steps both ranks have completed, and recorded. */
static uint32_t
completed_steps(const struct played *played)
{
    uint32_t steps = UINT32_MAX;
    for (int rank = 0; rank < PLAY_RANKS; ++rank) {
        uint32_t done = atomic_load(&played->pages[rank]->steps);
        steps = done < steps ? done : steps;
    }
    return steps;
}

/* How many steps can be judged; 0, with the end of the proof: none, or the run failed. *why: what came then; "": all
 * was seen. */
static uint32_t
steps_of(const struct played *played, const char **why, struct proof *proof)
{
    uint32_t steps = completed_steps(played);
    bool complete = true, begun = true;
    *why = "";
    for (int rank = 0; rank < PLAY_RANKS; ++rank) {
        struct play_page *page = played->pages[rank];
        uint32_t stage = stage_of(played, rank);
        complete = complete && stage == PLAY_OVER;
        begun = begun && (stage == PLAY_RUNNING || stage == PLAY_OVER);
        if (stage == PLAY_IMPOSSIBLE)
            *why = page->why;
    }
    if (complete)
        return steps;
    if (**why == '\0' && played->late)
        *why = "it took longer than --timeout says";
    else if (**why == '\0' && played->reason[0] == '\0')
        *why = "the program ended; give it more steps";
    bool failed = **why == '\0';
    if (failed || steps == 0)
        conclude(proof, failed && begun ? PROOF_FAILED : PROOF_IMPOSSIBLE, "%s", failed ? played->reason : *why);
    return failed ? 0 : steps;
}

static bool
is_same_page(const struct play *play, const struct play_page *const pages[2], uint32_t step, uint32_t tensor)
{
    return *play_hash(&play->plan, (struct play_page *)pages[0], step, tensor) ==
           *play_hash(&play->plan, (struct play_page *)pages[1], step, tensor);
}

static bool
is_only_read(const struct play_tensor *tensor)
{
    return tensor->role == PLAY_UNWRITTEN || tensor->role == PLAY_UNREAD;
}

/* What no operation writes, and is not the same when two ranks or runs begin, is an address, or was never set. */
static bool
is_unset(const struct play *play, const struct play_page *const pages[2], uint32_t tensor)
{
    return is_only_read(&play->tensors[tensor]) && !is_same_page(play, pages, 0, tensor);
}

/* Concludes (b) with the first tensor that is not the same on both ranks. False: there is none. */
static bool
find_difference(const struct play *play, const struct played *played, uint32_t steps, struct proof *proof)
{
    const struct play_page *const pages[] = {played->pages[0], played->pages[1]};
    for (uint32_t step = 0; step <= steps; ++step)
        for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
            const struct play_tensor *tensor = &play->tensors[i];
            if (tensor->role == PLAY_GRADIENT || (tensor->role == PLAY_PER_RANK && step > 0) ||
                is_same_page(play, pages, step, i) || is_unset(play, pages, i))
                continue;
            char text[64];
            tensor_text(tensor, text);
            if (step == 0)
                conclude(proof, PROOF_IMPOSSIBLE, "%s is not the same on two ranks before the first step", text);
            else
                conclude(proof, PROOF_FAILED,
                         "%s differs between the ranks after step %u: what updates it is not averaged, or is used "
                         "before it is averaged",
                         text, step);
            return true;
        }
    return false;
}

/* (b) */
static void
judge_ranks(const struct play *play, const struct played *played, uint32_t steps, const char *then, struct proof *proof)
{
    const struct play_page *const pages[] = {played->pages[0], played->pages[1]};
    uint32_t own = 0, equal = 0;
    uint64_t bytes = 0, others = 0;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        bool is_gradient = tensor->role == PLAY_GRADIENT;
        own += is_gradient && !is_same_page(play, pages, 1, i);
        equal += tensor->role < PLAY_PER_RANK && !is_gradient;
        bytes += tensor->role < PLAY_PER_RANK && !is_gradient ? tensor->hi - tensor->lo : 0;
        others += tensor->role == PLAY_STAYS || (tensor->role >= PLAY_UNWRITTEN && !is_unset(play, pages, i))
                      ? tensor->hi - tensor->lo
                      : 0;
    }
    if (find_difference(play, played, steps, proof))
        return;
    if (own == 0)
        conclude(proof, PROOF_IMPOSSIBLE,
                 "both ranks compute the same gradients: what is copied in a step does not change them");
    else
        conclude(proof, PROOF_PASSED,
                 "%u gradients of two ranks with different data differ, and %u tensors, %" PRIu64 " bytes, and %" PRIu64
                 " other bytes are bitwise equal after each of %u steps%s%s",
                 own, equal, bytes, others, steps, then[0] != '\0' ? "; then " : "", then);
}

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
compare_averages(const struct play *play, struct play_page *const pages[2], struct scout_proofs *proofs)
{
    struct proof *proof = &proofs->halves;
    double largest = 0, worst = 0;
    uint32_t worst_tensor = 0;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i)
        largest = fmax(largest, norm_of(play_sample(&play->plan, pages[0], i), NULL));
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        const float *a = play_sample(&play->plan, pages[0], i), *b = play_sample(&play->plan, pages[1], i);
        double limit = tensor->type <= 2 ? rounding : rounding_16, difference = norm_of(a, b) / limit;
        if (tensor->role != PLAY_GRADIENT || largest == 0 || difference / largest <= worst)
            continue;
        worst = difference / largest;
        worst_tensor = i;
    }
    char text[64];
    tensor_text(&play->tensors[worst_tensor], text);
    bool is_changed = !(worst <= 1) || !isfinite(largest), is_scaled = proofs->needs_halves;
    proofs->needs_halves = is_scaled || is_changed;
    if (is_changed && is_scaled)
        conclude(proof, PROOF_FAILED,
                 "with halves of their data exchanged the ranks have another average of %s, by %.2g of the gradients: "
                 "it is no sum over records where it is averaged (clipped, or normalised over the batch)",
                 text, worst * (play->tensors[worst_tensor].type <= 2 ? rounding : rounding_16));
    else if (is_changed)
        conclude(proof, PROOF_IMPOSSIBLE,
                 "with halves of their data exchanged the ranks have another average of %s, by %.2g of the gradients: "
                 "records do not lie one behind the other in what is copied, or it is normalised over the batch",
                 text, worst * (play->tensors[worst_tensor].type <= 2 ? rounding : rounding_16));
    else
        conclude(proof, PROOF_PASSED,
                 "with halves of their data exchanged two ranks have the same averages, within %.2g of the gradients",
                 worst * (play->tensors[worst_tensor].type <= 2 ? rounding : rounding_16));
}

static void
judge_halves(const struct play *play, const struct played *whole, const struct played *halves,
             struct scout_proofs *proofs)
{
    struct proof *proof = &proofs->halves;
    struct play_page *pages[] = {whole->pages[0], halves->pages[0]};
    bool is_changed = false;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        bool is_gradient = play->tensors[i].role == PLAY_GRADIENT;
        bool same = is_same_page(play, (const struct play_page *const[]){pages[0], pages[1]}, is_gradient ? 1 : 0, i);
        is_changed = is_changed || (is_gradient && !same);
        if (!is_gradient && !same && play->tensors[i].role != PLAY_UNWRITTEN) {
            conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program do not begin alike");
            return;
        }
    }
    if (!is_changed)
        conclude(proof, PROOF_IMPOSSIBLE, "the exchange changes no gradient");
    else
        compare_averages(play, pages, proofs);
}

/* ---- what --per-rank names ---- */

/* Of the elements of a tensor that were looked at, how many follow the first half of a batch alone, the second alone,
 * neither alone, and no batch. */
enum { BY_FIRST, BY_SECOND, BY_BOTH, BY_NONE, FOLLOWED };

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
            memcpy(&bits[i],
                   &play_sample(&play->plan, (i < PLAY_RANKS ? whole : halves)->pages[i % PLAY_RANKS], tensor)[k],
                   sizeof(bits[i]));
        bool first = bits[2] == bits[0] && bits[3] == bits[1], second = bits[2] == bits[1] && bits[3] == bits[0];
        counts[first && second ? BY_NONE : first ? BY_FIRST : second ? BY_SECOND : BY_BOTH] += 1;
    }
}

/* Whether that shows a tensor as carried. What is trained depends on all records. By chance few of its elements look
 * otherwise, as where only the sign of a gradient counts; and of what grows, rows that no record of a batch names. */
static bool
is_carried(const struct scout_finding *finding, const struct play_tensor *tensor, const uint32_t counts[FOLLOWED])
{
    enum { LEAST = 8 };
    bool grows = false;
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        grows = grows || (finding->tensors[i].alloc == tensor->alloc && finding->tensors[i].grows);
    return counts[BY_BOTH] == 0 && counts[BY_FIRST] >= LEAST && counts[BY_SECOND] >= LEAST &&
           (!grows || counts[BY_NONE] == 0);
}

static void
judge_own(const struct scout_finding *finding, const struct play *play, const struct played *whole,
          const struct played *halves, struct proof *proof)
{
    char text[64];
    for (uint32_t i = 0; i < play->plan.tensor_count && proof->end != PROOF_FAILED; ++i) {
        uint32_t counts[FOLLOWED] = {0};
        if (play->tensors[i].role != PLAY_PER_RANK)
            continue;
        count_followed(play, whole, halves, i, counts);
        tensor_text(&play->tensors[i], text);
        if (is_carried(finding, &play->tensors[i], counts))
            conclude(proof, PROOF_PASSED,
                     "each element that was looked at follows one half of a batch: it is carried, not trained");
        else
            conclude(proof, PROOF_FAILED,
                     "%s: of the elements that were looked at, %u follow the first half of a batch, %u the second, %u "
                     "both, %u none: trained, or carried from batch to batch? No rank may have for itself what is "
                     "trained",
                     text, counts[BY_FIRST], counts[BY_SECOND], counts[BY_BOTH], counts[BY_NONE]);
    }
}

/* ---- (d) ---- */

static bool
is_same_in_both(const struct play *play, const struct played *ranks, const struct played *alone, uint32_t step,
                uint32_t tensor)
{
    bool same = true;
    for (int rank = 0; rank < PLAY_RANKS; ++rank) {
        const struct play_page *const pages[] = {ranks->pages[rank], alone->pages[rank]};
        same = same && is_same_page(play, pages, step, tensor);
    }
    return same;
}

static bool
is_left_out(const struct play *play, const struct played *a, const struct played *b, uint32_t tensor)
{
    return is_only_read(&play->tensors[tensor]) && !is_same_in_both(play, a, b, 0, tensor);
}

/* The first tensor, and round, in which two runs differ. */
static bool
find_unlike(const struct play *play, const struct played *a, const struct played *b, uint32_t rounds, uint32_t *tensor,
            uint32_t *round)
{
    for (*round = 0; *round <= rounds; ++*round)
        for (*tensor = 0; *tensor < play->plan.tensor_count; ++*tensor)
            if (!is_left_out(play, a, b, *tensor) && !is_same_in_both(play, a, b, *round, *tensor))
                return true;
    return false;
}

static void
conclude_alike(const struct play *play, const struct played *ranks, const struct played *alone, uint32_t rounds,
               struct proof *proof)
{
    uint64_t bytes = 0, left_out = 0;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        bool is_compared = !is_left_out(play, ranks, alone, i);
        bool is_counted = tensor->role >= PLAY_PER_RANK || tensor->role == PLAY_GRADIENT;
        bytes += is_compared && is_counted ? tensor->hi - tensor->lo : 0;
        left_out += is_compared ? 0 : tensor->hi - tensor->lo;
    }
    conclude(proof, PROOF_PASSED,
             "%u ranks by turns, and one process that plays all turns, have the same %" PRIu64
             " bytes after each of %u round%s",
             PLAY_RANKS, bytes, rounds, rounds == 1 ? "" : "s");
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
    char text[64];
    if (!make_run(order, play, data, &again, error))
        return false;
    if (completed_steps(&again) >= rounds && find_unlike(play, first, &again, rounds, &tensor, &round)) {
        tensor_text(&play->tensors[tensor], text);
        conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program differ by themselves: %s, after round %u", text,
                 round);
    }
    release(play, &again);
    return true;
}

/* Ranks, and one process that plays all turns, by all that stays. A difference counts if both do the same again. */
static bool
judge_turns(const struct scout_order *order, struct play *play, const struct played *ranks, const struct played *alone,
            uint32_t rounds, struct proof *proof, struct error *error)
{
    uint32_t tensor, round;
    char text[64];
    if (!find_unlike(play, ranks, alone, rounds, &tensor, &round)) {
        conclude_alike(play, ranks, alone, rounds, proof);
        return true;
    }
    tensor_text(&play->tensors[tensor], text);
    if (round == 0) {
        conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program do not begin alike: %s differs", text);
        return true;
    }
    conclude(
        proof, PROOF_FAILED,
        "after round %u %s is not what one process has that plays the turns of all ranks: %s, the host changes it, "
        "or sums depend on the order of threads",
        round, text,
        play->plan.by == PLAY_BY_STATE
            ? "the plan misses memory that stays"
            : "a gradient is missing or has another type, it is averaged in the wrong place");
    return repeat(order, play, PLAY_ALONE, alone, round, proof, error) &&
           (proof->end == PROOF_IMPOSSIBLE || repeat(order, play, PLAY_TURNS, ranks, round, proof, error));
}

/* (d), of a plan of turns. */
static bool
play_turns(const struct scout_order *order, struct play *play, struct proof *proof, struct error *error)
{
    struct played ranks = {0}, alone = {0};
    const char *then;
    bool ok = make_run(order, play, PLAY_TURNS, &ranks, error);
    uint32_t rounds = ok ? steps_of(&ranks, &then, proof) : 0, more = 0;
    if (rounds > 0 && (ok = make_run(order, play, PLAY_ALONE, &alone, error)))
        more = steps_of(&alone, &then, proof);
    if (more > 0)
        ok = judge_turns(order, play, &ranks, &alone, rounds < more ? rounds : more, proof, error);
    release(play, &ranks);
    release(play, &alone);
    return ok;
}

static bool prove_complete(const struct scout_order *order, struct play *play, const struct by_state *by_state,
                           struct proof *proof, struct error *error);

static bool
prove_turns(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
            const struct turns *turns, struct scout_proofs *proofs, struct error *error)
{
    struct play play;
    char why[PLAY_WHY_BYTES];
    bool ok = true;
    bool can = play_plan_make(log, finding, turns, true, &play, why);
    proofs->played = can ? play_json_of(&play) : json_object_new_object();
    if (can) {
        ok = play_turns(order, &play, &proofs->turns, error);
    } else {
        json_object_object_add(proofs->played, "reason", json_object_new_string(why));
        conclude(&proofs->turns, PROOF_IMPOSSIBLE, "%s", why);
    }
    play_free(&play);
    return ok;
}

bool
scout_prove_again(const struct scout_order *order, struct json_object *turns, struct proof *proof, struct error *error)
{
    struct play play;
    char why[PLAY_WHY_BYTES];
    bool ok = true;
    bool can = play_json_read(turns, &play, why);
    if (can && play.plan.by == PLAY_BY_STATE)
        ok = prove_complete(order, &play, NULL, proof, error);
    if (can && ok && (proof->end == PROOF_PASSED || play.plan.by != PLAY_BY_STATE))
        ok = play_turns(order, &play, proof, error);
    if (!can)
        conclude(proof, PROOF_IMPOSSIBLE, "%s", why);
    play_free(&play);
    return ok;
}

/* What a round takes, or a period of one process; 0 with the reason in `why`. */
static bool
rehearse(const struct scout_order *order, struct play *play, enum play_data data, uint64_t *ns, char *why,
         struct error *error)
{
    struct played played;
    *ns = 0;
    if (!make_run(order, play, data, &played, error))
        return false;
    if (stage_of(&played, 0) == PLAY_OVER)
        *ns = atomic_load(&played.pages[0]->round_ns);
    else
        snprintf(why, PLAY_WHY_BYTES, "%s", played.late ? "it took too long" : played.reason);
    release(play, &played);
    return true;
}

static int
by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Takes one more pair into the range. */
static void
widen(struct rehearsal *rehearsal, int ranks, uint64_t round_ns, uint64_t period_ns)
{
    uint64_t times = (uint64_t)ranks * 100 * period_ns / round_ns, most = (uint64_t)ranks * 100;
    uint32_t capped = (uint32_t)(times < most ? times : most);
    rehearsal->low = rehearsal->count == 0 || capped < rehearsal->low ? capped : rehearsal->low;
    rehearsal->high = capped > rehearsal->high ? capped : rehearsal->high;
    rehearsal->is_noisy = times > most || rehearsal->high * 10 > rehearsal->low * 11;
    rehearsal->count += 1;
}

bool
scout_rehearse(const struct scout_order *order, struct json_object *turns, struct rehearsal *rehearsal,
               struct error *error)
{
    enum { LEAST_PAIRS = 2, MOST_PAIRS = 5, LIMIT_MS = 30000 };
    struct play play;
    uint64_t rounds[MOST_PAIRS] = {0}, periods[MOST_PAIRS] = {0};
    int64_t begin_ms = clock_now_ms();
    *rehearsal = (struct rehearsal){0};
    bool ok = true, more = play_json_read(turns, &play, rehearsal->why);
    play.plan.reads_own = order->options->reads == PLAN_READS_OWN;
    while (more) {
        uint32_t i = rehearsal->count;
        ok =
            rehearse(order, &play, PLAY_REHEARSAL, &rounds[i], rehearsal->why, error) &&
            (rehearsal->why[0] != '\0' || rehearse(order, &play, PLAY_ONE_PROCESS, &periods[i], rehearsal->why, error));
        more = ok && rehearsal->why[0] == '\0' && rounds[i] > 0 && periods[i] > 0;
        if (more)
            widen(rehearsal, order->ranks, rounds[i], periods[i]);
        more = more && rehearsal->count < MOST_PAIRS && clock_now_ms() - begin_ms < LIMIT_MS &&
               (rehearsal->count < LEAST_PAIRS || rehearsal->is_noisy);
    }
    qsort(rounds, rehearsal->count, sizeof(rounds[0]), by_size);
    qsort(periods, rehearsal->count, sizeof(periods[0]), by_size);
    rehearsal->round_ns = rounds[rehearsal->count / 2];
    rehearsal->period_ns = periods[rehearsal->count / 2];
    play_free(&play);
    return ok;
}

static bool
has_named(const struct scout_finding *finding)
{
    bool named = false;
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        named = named || finding->tensors[i].named;
    return named;
}

bool
scout_prove(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
            struct scout_proofs *proofs, struct error *error)
{
    struct play play;
    struct played whole = {0}, halves = {0};
    char why[PLAY_WHY_BYTES];
    bool ok = true;
    struct turns turns;
    turns_find(log, finding, &turns);
    proofs->needs_halves = turns.is_scaled;
    if (!play_plan_make(log, finding, &turns, false, &play, why)) {
        conclude(&proofs->ranks, PROOF_IMPOSSIBLE, "%s", why);
        conclude(&proofs->halves, PROOF_IMPOSSIBLE, "%s", why);
    } else if ((ok = make_run(order, &play, PLAY_STEP_BEFORE, &whole, error))) {
        const char *then;
        uint32_t steps = steps_of(&whole, &then, &proofs->ranks);
        if (steps > 0)
            judge_ranks(&play, &whole, steps, then, &proofs->ranks);
        else if (completed_steps(&whole) > 0) /* the engine may have found first what the recorded steps show */
            (void)find_difference(&play, &whole, completed_steps(&whole), &proofs->ranks);
        bool can = steps > 0 && play_plan_has_halves(log, finding, why), named = steps > 0 && has_named(finding);
        if (!can)
            conclude(&proofs->halves, PROOF_IMPOSSIBLE, "%s", steps > 0 ? why : "proof (b) was not completed");
        if ((can || named) && (ok = make_run(order, &play, PLAY_HALVES, &halves, error)) &&
            steps_of(&halves, &then, can ? &proofs->halves : &proofs->own) > 0) {
            if (can)
                judge_halves(&play, &whole, &halves, proofs);
            judge_own(finding, &play, &whole, &halves, &proofs->own);
        }
    }
    if (has_named(finding) && proofs->own.end == PROOF_NOT_ASKED)
        conclude(&proofs->own, PROOF_IMPOSSIBLE,
                 "whether what --per-rank names is carried from batch to batch, or trained, cannot be shown: %s",
                 proofs->halves.text);
    release(&play, &whole);
    release(&play, &halves);
    play_free(&play);
    ok = ok && prove_turns(order, log, finding, &turns, proofs, error);
    turns_free(&turns);
    return ok;
}

/* ---- by state ---- */

enum { BORDERS = 5 }; /* behind the first, that are looked at: two before contents are exchanged, and three then */

/* Of two runs of one process: the first tensor of a class, and the border, that differ. */
static bool
find_unlike_border(const struct play *play, const struct played *a, const struct played *b, uint32_t role,
                   uint32_t borders, uint32_t *tensor, uint32_t *border)
{
    const struct play_page *const pages[] = {a->pages[0], b->pages[0]};
    for (*border = 0; *border <= borders; ++*border)
        for (*tensor = 0; *tensor < play->plan.tensor_count; ++*tensor)
            if ((role == 0 || play->tensors[*tensor].role == role) && !is_same_page(play, pages, *border, *tensor))
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
            tensor_text(&play->tensors[i], text);
            if (*play_hash(&play->plan, plain->pages[0], border, i) != first)
                conclude(proof, PROOF_FAILED, "%s is called constant, and has changed in step %u", text, border);
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
        tensor_text(&play->tensors[tensor], text);
        if (border < BORDERS - 2)
            conclude(proof, PROOF_IMPOSSIBLE, "two runs of the program differ by themselves: %s, after step %u", text,
                     border);
        else
            conclude(
                proof, PROOF_FAILED,
                "where memory without a class gets what it held one step before, %s differs after step %u: the plan "
                "misses memory that stays from step to step",
                text, border);
    } else if (atomic_load(&plain->pages[0]->reads) != atomic_load(&rest->pages[0]->reads)) {
        conclude(proof, PROOF_FAILED,
                 "where memory without a class gets what it held one step before, the program's copies bring other "
                 "bytes to the host: the plan misses memory that stays from step to step");
    } else {
        conclude(proof, PROOF_PASSED,
                 "%" PRIu64 " bytes of memory without a class got what they held one step before, and all that stays "
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
        tensor_text(tensor, text);
        if (is_split)
            conclude(
                proof, PROOF_FAILED,
                "each half of a batch changes other elements of %s: the program carries it from batch to batch, and "
                "a mean of it is none",
                text);
        else if (is_open)
            conclude(proof, PROOF_IMPOSSIBLE,
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
    bool ok = make_run(order, play, data, played, error);
    *whole = ok && completed_steps(played) == BORDERS;
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
        tensor_text(&play->tensors[tensor], text);
        conclude(proof, PROOF_FAILED,
                 "%s is called a stream, and differs after step %u where what ranks average gets what it held one step "
                 "before",
                 text, border);
    } else if (ok && whole[1] && whole[2]) {
        judge_carried(play, plain, halves, by_state, proof);
    } else if (ok) {
        conclude(proof, PROOF_IMPOSSIBLE, "the program ended where halves of its data, or its state, were exchanged");
    }
    release(play, &state);
    release(play, &halves[0]);
    release(play, &halves[1]);
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
        if (play->tensors[*tensor].role != PLAY_SUM && !is_same_page(play, pages, BORDERS, *tensor))
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
    tensor_text(&play->tensors[i], text);
    if (verdict == IS_NO_SUM && may_be_state)
        play->tensors[i].role = PLAY_CHANGES;
    else if (verdict == IS_NO_SUM)
        conclude(proof, PROOF_FAILED, "%s is called a sum, and what a step adds depends on what it held", text);
    else if (verdict == SHOWS_NOTHING)
        conclude(proof, PROOF_IMPOSSIBLE,
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
        conclude(proof, PROOF_IMPOSSIBLE, "the program ended; give it more steps");
    } else if (any && ok && sums_reach(play, &plain, &sums, &tensor)) {
        tensor_text(&play->tensors[tensor], text);
        conclude(proof, PROOF_FAILED, "%s is computed from what is called a sum, or two runs differ by themselves",
                 text);
    }
    for (uint32_t i = 0; i < play->plan.tensor_count && any && ok && proof->end == PROOF_NOT_ASKED; ++i) {
        if (play->tensors[i].role == PLAY_SUM)
            settle_sum(play, by_state, i, judge_sum(play, &plain, &sums, i), proof);
    }
    release(play, &plain);
    release(play, &sums);
    play->plan.steps = rounds;
    return ok;
}

/* What has no class is exchanged, then what ranks average, then data. */
static bool
prove_complete(const struct scout_order *order, struct play *play, const struct by_state *by_state, struct proof *proof,
               struct error *error)
{
    struct played plain = {0}, rest = {0};
    const char *then;
    uint32_t borders, rounds = play->plan.steps;
    bool ok = prove_sums(order, play, by_state, proof, error);
    if (!ok || proof->end != PROOF_NOT_ASKED)
        return ok;
    play->plan.steps = BORDERS;
    ok = make_run(order, play, PLAY_BORDERS, &plain, error);
    borders = ok ? steps_of(&plain, &then, proof) : 0;
    if (borders > 0 && borders < BORDERS)
        conclude(proof, PROOF_IMPOSSIBLE, "the program ended; give it more steps");
    if (borders == BORDERS && judge_borders(play, &plain, borders, proof)) {
        ok = make_run(order, play, PLAY_REST_EXCHANGED, &rest, error);
        if (ok && steps_of(&rest, &then, proof) == BORDERS)
            judge_rest(play, &plain, &rest, borders, proof);
        else if (ok && proof->end == PROOF_NOT_ASKED)
            conclude(proof, PROOF_FAILED, "where memory without a class gets what it held one step before: %s", then);
        else if (ok && proof->end == PROOF_IMPOSSIBLE)
            proof->end = PROOF_FAILED; /* the run before could be made */
    }
    if (ok && proof->end == PROOF_PASSED)
        ok = prove_classes(order, play, by_state, &plain, proof, error);
    release(play, &plain);
    release(play, &rest);
    play->plan.steps = rounds;
    return ok;
}

bool
scout_prove_by_state(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
                     const struct by_state *by_state, bool prove, struct scout_proofs *proofs, struct error *error)
{
    struct play play;
    char why[PLAY_WHY_BYTES];
    bool can = play_plan_make_by_state(log, finding, by_state, &play, why), ok = true;
    if (can && prove)
        ok = prove_complete(order, &play, by_state, &proofs->complete, error);
    proofs->played = can ? play_json_of(&play) : json_object_new_object(); /* a proof has told sums from state */
    if (!can)
        json_object_object_add(proofs->played, "reason", json_object_new_string(why));
    if (ok && proofs->complete.end == PROOF_PASSED)
        ok = play_turns(order, &play, &proofs->turns, error);
    play_free(&play);
    return ok;
}
