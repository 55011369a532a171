/* played.c - see prove.h. */
#include "tools/scout/command/proofs/prove.h"

#include "base/clock.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"

#include <math.h>
#include <stdarg.h>

enum { GRACE_MS = 3000 }; /* for the other rank, which may wait for the one that cannot go on */

void
proof_conclude(struct proof *proof, enum proof_end end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(proof->text, sizeof(proof->text), format, args);
    va_end(args);
    proof->end = end;
}

const char *
proof_name(struct proof *proof, const struct play_tensor *tensor)
{
    static const char *const names[PLAY_LAST + 1] = {
        [PLAY_PARAMETER] = "parameter",
        [PLAY_GRADIENT] = "gradient",
        [PLAY_STATE] = "state",
        [PLAY_COMPARED] = "state",
        [PLAY_PER_RANK] = "memory of each rank",
        [PLAY_CHANGES] = "state",
        [PLAY_STREAM] = "stream",
        [PLAY_SUM] = "sum",
    };
    const char *name = names[tensor->role];
    const bool has_place = tensor->allocated_at[0] != '\0';
    snprintf(proof->name, sizeof(proof->name), "%s a%" PRIu32 "[%" PRIu64 ":%" PRIu64 "]%s%s%s",
             name != NULL ? name : "memory", tensor->alloc, tensor->lo, tensor->hi, has_place ? " (allocated at " : "",
             tensor->allocated_at, has_place ? ")" : "");
    return proof->name;
}

/* ---- noise ---- */

bool
proof_is_noisy(const struct play *play)
{
    return ANY(tensor, play->tensors, play->plan.tensor_count, tensor->noise != 0);
}

const char *
proof_noise_name(const struct play *play, const struct play_tensor *tensor, char text[PLAY_NAME_BYTES])
{
    return plain_name(play->operations[tensor->noise - 1].name, text, PLAY_NAME_BYTES);
}

bool
proof_ends_at_noise(struct proof *proof, const struct play *play, const struct play_tensor *tensor)
{
    char name[PLAY_NAME_BYTES];
    if (tensor->noise == 0)
        return false;
    proof_conclude(proof, PROOF_IMPOSSIBLE,
                   "%s is too noisy to prove: the same launch of %s twice gives different bits",
                   proof_name(proof, tensor), proof_noise_name(play, tensor, name));
    return true;
}

/* ---- a run ---- */

/* Whether the ranks have seen all they can. *stuck_ms: since when one cannot go on; 0: all can. */
static bool
is_over(const struct played *played, int64_t now_ms, int64_t *stuck_ms)
{
    bool all = true;
    for (int rank = 0; rank < played->count; ++rank) {
        uint32_t stage = atomic_load(&played->pages[rank]->stage);
        if (stage == PLAY_IMPOSSIBLE && *stuck_ms == 0)
            *stuck_ms = now_ms;
        all = all && (stage == PLAY_OVER || stage == PLAY_IMPOSSIBLE);
    }
    return all || (*stuck_ms != 0 && now_ms - *stuck_ms > GRACE_MS);
}

/* Stays with the run until it has ended. The players wait to be ended. */
static void
attend(const struct scout_order *order, const struct play *play, pid_t pid, struct played *played)
{
    int64_t stuck_ms = 0;
    struct inner_run run = {.pid = pid, .begin_ms = clock_now_ms()};
    while (inner_run_goes_on(&run)) {
        bool over = is_over(played, clock_now_ms(), &stuck_ms);
        inner_run_show("proof (%c), step %u of %u", "ccddeeeeeeffgg"[play->plan.data],
                       atomic_load(&played->pages[0]->steps), play -> plan.steps);
        played->late = played->late || (!over && inner_run_is_late(&run, order->timeout_s));
        if (played->late || over)
            inner_run_end(&run);
    }
    played->signal = run.signal;
    inner_run_show(NULL);
}

void
played_release(struct played *played)
{
    for (int rank = 0; rank < played->count; ++rank)
        play_page_unmap(&played->plan, played->pages[rank]);
    *played = (struct played){.count = 0};
}

bool
played_make(struct trial *it, enum play_data data, enum play_begun begun, struct played *played)
{
    const struct scout_order *order = it->order;
    struct play *play = it->play;
    if (it->is_ended)
        return false;
    static unsigned made; /* pages of earlier runs stay as they are */
    OWNED char *plan = xasprintf("%s/play.%u", order->folder, made++), *summary = xasprintf("%s.json", plan);
    OWNED char *errors = xasprintf("%s.err", plan);
    bool plays_all = data == PLAY_ALONE || data == PLAY_REFERENCE;
    bool is_auto = (data == PLAY_TURNS || plays_all) && order->ranks > 0;
    int ranks = is_auto ? order->ranks : PLAY_RANKS;
    const struct scout_child child = {.variable = DDPRUN_ENV_SCOUT_PLAY,
                                      .value = plan,
                                      .ranks = data >= PLAY_ALONE ? 1 : ranks,
                                      .silent = true,
                                      .summary = summary,
                                      .errors = errors};
    play->plan.data = data;
    play->plan.begun = proof_is_noisy(play) ? begun : PLAY_BEGINS_ITSELF;
    play->plan.turns = plays_all ? (uint32_t)ranks : 0;
    play->plan.is_timed =
        is_auto && data != PLAY_REFERENCE && (data == PLAY_TURNS || play->plan.begun != PLAY_TAKES_BEGUN);
    snprintf(play->plan.begun_path, sizeof(play->plan.begun_path), "%s/begun", order->folder);
    play->plan.reads_own = is_auto && order->options->reads == PLAN_READS_OWN;
    snprintf(play->plan.pages, sizeof(play->plan.pages), "%s.page", plan);
    *played = (struct played){.plan = play->plan, .count = data > PLAY_ALONE ? 1 : ranks};
    struct play_exchange *exchange = play_exchange_map(plan, true);
    bool ok = play_save(plan, play) && exchange != NULL;
    play_exchange_unmap(exchange);
    for (int rank = 0; rank < played->count && ok; ++rank)
        ok = (played->pages[rank] = play_page_map(&play->plan, rank, true)) != NULL;
    pid_t pid = ok ? scout_child_start(order, &child) : -1;
    if (pid <= 0) {
        played_release(played);
        it->is_ended = true;
        return error_set(it->error, DDPRUN_EXIT_FAILURE,
                         "cannot start the program, in %s: %s; make room there, or set TMPDIR", order->folder,
                         strerror(errno));
    }
    attend(order, play, pid, played);
    inner_run_reason(summary, played->reason, sizeof(played->reason));
    it->is_ended = played->signal != 0;
    return !it->is_ended || error_set(it->error, 128 + played->signal, "proofs ended by signal %d", played->signal);
}

void
trial_release(struct trial *it)
{
    played_release(&it->alone);
    for (int run = 0; run < 2; ++run)
        played_release(&it->noise.others[run]);
    free(it->noise.floors);
    it->noise.floors = NULL;
}

/* ---- what it shows ---- */

uint32_t
played_completed(const struct played *played)
{
    uint32_t steps = UINT32_MAX;
    for (int rank = 0; rank < played->count; ++rank) {
        uint32_t done = atomic_load(&played->pages[rank]->steps);
        steps = done < steps ? done : steps;
    }
    return steps;
}

uint32_t
played_steps(const struct played *played, const char **why, struct proof *proof)
{
    uint32_t steps = played_completed(played);
    bool complete = true, begun = true;
    *why = "";
    for (int rank = 0; rank < played->count; ++rank) {
        struct play_page *page = played->pages[rank];
        uint32_t stage = atomic_load(&page->stage);
        complete = complete && stage == PLAY_OVER;
        begun = begun && (stage == PLAY_RUNNING || stage == PLAY_OVER);
        if (stage == PLAY_IMPOSSIBLE) {
            *why = page->why;
            proof->scratch = page->scratch;
        }
    }
    if (complete)
        return steps;
    if (**why == '\0' && played->late)
        *why = "it took longer than --timeout says";
    else if (**why == '\0' && played->reason[0] == '\0')
        *why = "the program ended; give it more steps";
    bool failed = **why == '\0';
    proof->is_run_failed = failed && begun;
    if (failed || steps == 0)
        proof_conclude(proof, failed && begun ? PROOF_FAILED : PROOF_IMPOSSIBLE, "%s", failed ? played->reason : *why);
    return failed ? 0 : steps;
}

uint64_t
played_hash(const struct played *played, int rank, uint32_t step, uint32_t tensor)
{
    return play_seen(&played->plan, played->pages[rank], step, tensor)->hash;
}

int32_t
played_whole(const struct played *played, int rank, uint32_t step, uint32_t tensor)
{
    return play_seen(&played->plan, played->pages[rank], step, tensor)->whole;
}

const float *
played_sample(const struct played *played, int rank, uint32_t tensor)
{
    return play_sample(&played->plan, played->pages[rank], tensor);
}

/* ---- whether runs are the same ---- */

bool
played_measure_noise(struct trial *it, enum play_data data)
{
    const uint32_t tensors = it->play->plan.tensor_count;
    it->noise.floors = xcalloc(tensors + 1, sizeof(*it->noise.floors));
    for (int i = 0; i < 2 && proof_is_noisy(it->play); ++i) {
        struct played *run = &it->noise.others[i];
        if (!played_make(it, data, PLAY_TAKES_BEGUN, run))
            return false;
        for (uint32_t k = 0; k < (played_completed(run) + 1) * tensors; ++k) {
            struct near_apart *floor = &it->noise.floors[k % tensors];
            *floor = near_larger(*floor, play_seen(&it->play->plan, run->pages[0], 0, k)->apart);
        }
    }
    return true;
}

bool
played_are_same(const struct trial *it, const struct played *run, uint32_t step, uint32_t tensor)
{
    const bool has_noise = it->play->tensors[tensor].noise != 0;
    for (int rank = 0; rank < run->count; ++rank) {
        const struct near_apart apart = play_seen(&it->play->plan, run->pages[rank], step, tensor)->apart;
        const bool has_same_bits = played_hash(&it->alone, rank, step, tensor) == played_hash(run, rank, step, tensor);
        if (has_noise ? !near_is_noise(apart, it->noise.floors[tensor]) : !has_same_bits)
            return false;
    }
    return true;
}

/* How far runs of one process are apart in a number that the host has read; infinite numbers say nothing. */
static double
floor_of_read(const struct trial *it, uint32_t k)
{
    double floor = 0, number = it->alone.pages[0]->numbers[k];
    for (int i = 0; i < 2; ++i) {
        const struct play_page *other = it->noise.others[i].pages[0];
        const double apart = k < other->number_count ? fabs(other->numbers[k] - number) : 0;
        floor = isfinite(apart) ? fmax(floor, apart) : floor;
    }
    return floor;
}

/* What any number that the host reads may differ by: a difference of large numbers is as noisy as they are, and may be
 * near zero itself, where these runs agree by chance. */
static double
noise_of_any_read(const struct trial *it)
{
    const struct play_page *first = it->alone.pages[0];
    double noise = 0, largest = 0;
    for (uint32_t k = 0; k < first->number_count; ++k) {
        noise = fmax(noise, NEAR_NOISE_FACTOR * floor_of_read(it, k));
        largest = isfinite(first->numbers[k]) ? fmax(largest, fabs((double)first->numbers[k])) : largest;
    }
    return fmin(noise, NEAR_NOISE_AT_MOST * largest);
}

bool
played_reads_are_same(const struct trial *it, const struct played *run)
{
    const struct play_page *first = it->alone.pages[0], *page = run->pages[0];
    if (atomic_load(&first->reads) != atomic_load(&page->reads) || first->number_count != page->number_count)
        return false;
    const double any = noise_of_any_read(it);
    for (uint32_t k = 0; k < first->number_count; ++k) {
        const double number = first->numbers[k], other = page->numbers[k];
        const double own = fmax(NEAR_NOISE_AT_MOST * fabs(number), NEAR_NOISE_FACTOR * floor_of_read(it, k));
        const bool is_alike = number == other || (isnan(number) && isnan(other));
        if (!is_alike && !(fabs(other - number) <= fmax(any, own)))
            return false;
    }
    return true;
}

bool
played_shows_mistakes(const struct trial *it)
{
    FOR_EACH(tensor, it->play->tensors, it->play->plan.tensor_count)
        if (!near_shows_mistakes(it->noise.floors[NUMBER_OF(tensor)]) &&
            proof_ends_at_noise(it->proof, it->play, tensor))
            return false;
    return true;
}
