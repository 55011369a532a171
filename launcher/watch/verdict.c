/* verdict.c - see verdict.h. */
#include "launcher/watch/verdict.h"

#include "base/protocol.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 64 };

bool
verdict_is_unfinished(const struct rank_view *rank)
{
    if (!rank->ended || rank->exit_code != 0 || rank->signal != 0 || rank->stage == RANK_STAGE_ENDED)
        return false;
    return rank->stage == RANK_STAGE_RANK || rank->stage == RANK_STAGE_TRAINING || rank->connected;
}

static bool
is_training(const struct rank_view *rank)
{
    return !rank->ended && (rank->stage == RANK_STAGE_RANK || rank->stage == RANK_STAGE_TRAINING || rank->connected);
}

/* At the end of the program the ranks wait for those that come; a rank that has left before is not missed. */
static bool
is_at_end(const struct rank_view *rank)
{
    return rank->wait == RANK_WAIT_EXCHANGE && strcmp(rank->wait_for, RANK_PLACE_END) == 0;
}

bool
verdict_is_needed(const struct rank_view *ranks, int count, int rank, bool by_any)
{
    for (int i = 0; i < count; ++i) {
        const struct rank_view *other = &ranks[i];
        bool follows = other->stage == RANK_STAGE_FAILED && other->failure_follows;
        if (i == rank || (!follows && !is_training(other)))
            continue;
        bool ahead = other->generation == ranks[rank].generation ? other->step > ranks[rank].step
                                                                 : other->generation > ranks[rank].generation;
        bool counts = by_any || (i == 0 && other->wait != RANK_WAIT_DEVICE);
        bool waits = counts && other->wait != RANK_WAIT_NONE && !is_at_end(other);
        if (follows || waits || ahead || other->stage < RANK_STAGE_RANK)
            return true;
    }
    return false;
}

/* A trainer may try a helper or two; what starts a worker for each that ends goes on for ever. */
enum { MOST_REFUSALS = 10 };

/* How a rank failed, from the best explanation of a job's end to the worst. */
enum fault {
    FAULT_SAID,      /* it stopped the job and says why */
    FAULT_DIED,      /* signal, exit code */
    FAULT_REFUSED,   /* something in it starts process after process that would be the rank, too */
    FAULT_ALONE,     /* by plan: it has trained alone */
    FAULT_LEFT,      /* exit code 0 in the middle of training */
    FAULT_ASIDE,     /* its process ended well, and what may be its trainer did not */
    FAULT_MISSED,    /* it never took part, while others did */
    FAULT_FEWER,     /* it ended after fewer programs than others have begun */
    FAULT_DISAGREED, /* it ended after fewer steps than others made */
    FAULT_STEPLESS,  /* it trained, and ended without a step */
    FAULT_SEVERED,   /* it has closed the sockets by which others speak with it, and others have failed */
    FAULT_UNCLEAR,   /* something failed that needs other ranks, and it cannot tell whose fault that is */
    FAULT_FOLLOWED,  /* it says that another rank's end stopped it */
    FAULT_NONE,
};

static unsigned
last_generation(const struct rank_view *ranks, int count)
{
    unsigned last = 0;
    for (int i = 0; i < count; ++i)
        last = ranks[i].generation > last ? ranks[i].generation : last;
    return last;
}

uint64_t
verdict_most_steps(const struct rank_view *ranks, int count)
{
    uint64_t most = 0;
    unsigned last = last_generation(ranks, count);
    for (int i = 0; i < count; ++i)
        most = ranks[i].generation == last && ranks[i].step > most ? ranks[i].step : most;
    return most;
}

uint64_t
verdict_least_steps(const struct rank_view *ranks, int count)
{
    uint64_t least = ranks[0].step;
    for (int i = 1; i < count; ++i)
        least = ranks[i].step < least ? ranks[i].step : least;
    return least;
}

uint64_t
verdict_least_overlapped(const struct rank_view *ranks, int count)
{
    uint64_t least = ranks[0].overlapped_step;
    for (int i = 1; i < count; ++i)
        least = ranks[i].overlapped_step < least ? ranks[i].overlapped_step : least;
    return least;
}

bool
verdict_last_right(const struct rank_view *ranks, int count, uint64_t *step_p)
{
    uint64_t wrong = UINT64_MAX;
    for (int i = 0; i < count; ++i) {
        if (ranks[i].wrong_step > 0 && ranks[i].wrong_step < wrong)
            wrong = ranks[i].wrong_step;
    }
    if (wrong == UINT64_MAX)
        return false;
    *step_p = wrong - 1;
    return true;
}

uint64_t
verdict_buckets_wanted(const struct rank_view *ranks, int count)
{
    uint64_t wanted = 0;
    for (int i = 0; i < count; ++i) {
        uint64_t asked = rank_wanted_pack(ranks[i].generation, ranks[i].buckets_asked);
        wanted = ranks[i].buckets_asked > 0 && asked > wanted ? asked : wanted;
    }
    return wanted;
}

bool
verdict_any_became_rank(const struct rank_view *ranks, int count)
{
    for (int i = 0; i < count; ++i) {
        if (ranks[i].stage >= RANK_STAGE_RANK)
            return true;
    }
    return false;
}

/* The same, or one is about to: its engine waits for all others to meet it, those too that have ended. */
static bool
any_takes_part(const struct rank_view *ranks, int count)
{
    for (int i = 0; i < count; ++i) {
        if (ranks[i].stage == RANK_STAGE_GATE && ranks[i].connected)
            return true;
    }
    return verdict_any_became_rank(ranks, count);
}

static bool
is_annotated(const struct rank_view *rank)
{
    return rank->gradient_count > 0 || rank->parameter_count > 0;
}

bool
verdict_reduces_only(const struct rank_view *rank)
{
    return rank->reduce_count > 0 && rank->gradient_count == 0;
}

bool
verdict_is_unaveraged(const struct rank_view *rank)
{
    return rank->step == 0 && !rank->unannotated && !verdict_reduces_only(rank) &&
           (rank->changed_count > 0 || (!is_annotated(rank) && rank->launch_count > 0));
}

bool
verdict_left_unaveraged(const struct rank_view *rank)
{
    bool worked = rank->gradient_count > 0 && (rank->gradient_work > 0 || rank->parameter_count == 0);
    return verdict_is_unaveraged(rank) || (rank->step == 0 && !rank->unannotated && worked);
}

static bool
any_follows(const struct rank_view *ranks, int count)
{
    for (int i = 0; i < count; ++i) {
        if (ranks[i].stage == RANK_STAGE_FAILED && ranks[i].failure_follows)
            return true;
    }
    return false;
}

static enum fault
fault_of(const struct rank_view *ranks, int count, int i)
{
    const struct rank_view *rank = &ranks[i];
    if (rank->stage == RANK_STAGE_FAILED && !rank->failure_follows)
        return FAULT_SAID;
    if (rank->severed && !rank->ended && any_follows(ranks, count))
        return FAULT_SEVERED;
    if (rank->stage == RANK_STAGE_FAILED)
        return rank->failure_by == RANK_MAY_FOLLOW ? FAULT_UNCLEAR : FAULT_FOLLOWED;
    if (rank->ended && (rank->exit_code != 0 || rank->signal != 0))
        return FAULT_DIED;
    if (rank->refusal_count >= MOST_REFUSALS)
        return FAULT_REFUSED;
    if (rank->ended && rank->alone_updates > 0)
        return FAULT_ALONE;
    if (rank->ended && rank->left_pid != 0)
        return FAULT_ASIDE;
    if (!rank->ended || count == 1)
        return FAULT_NONE;
    if (rank->left_early)
        return FAULT_LEFT;
    if (rank->stage < RANK_STAGE_RANK && !rank->connected && (rank->missed_preload || any_takes_part(ranks, count)))
        return FAULT_MISSED;
    if (rank->generation < last_generation(ranks, count))
        return FAULT_FEWER;
    if (rank->stage == RANK_STAGE_ENDED && rank->step < verdict_most_steps(ranks, count))
        return FAULT_DISAGREED;
    if (rank->stage == RANK_STAGE_RANK && verdict_left_unaveraged(rank) && verdict_most_steps(ranks, count) == 0)
        return FAULT_STEPLESS;
    return FAULT_NONE;
}

/* Nothing of a program that does not train. */
static const char *
how_far(const struct rank_view *rank, char text[RANK_STEP_BYTES])
{
    return rank->step > 0 || rank->stage >= RANK_STAGE_RANK ? rank_describe_step(rank, text) : "";
}

static int
exit_code_of(const struct rank_view *rank, enum fault fault)
{
    if (fault == FAULT_DIED)
        return rank->signal != 0 ? 128 + rank->signal : rank->exit_code;
    return DDPRUN_EXIT_FAILURE;
}

/* Nothing more where the place is known: the report below has the stack. */
static const char *
hint_for_signal(const struct rank_view *rank)
{
    if (rank->crash_place[0] != '\0')
        return "";
    switch (rank->signal) {
    case SIGKILL:
        if (rank->out_of_memory)
            return ": killed by the kernel's out-of-memory handling; the ranks together need more memory than the "
                   "host, or the job's limit, has";
        return "; killed from outside, often for lack of memory (see dmesg)";
    case SIGUSR1:
    case SIGUSR2:
        return "; it has no handler for the signal, which a scheduler may have sent to all processes of the job: leave "
               "that "
               "out (Slurm: --signal), or add a handler";
    case SIGPIPE:
        return "; the reader of its output, or of a connection, has left";
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
        return "; a debugger or a sanitizer on this rank may show where";
    default:
        return "";
    }
}

static void
describe_death(const struct rank_view *rank, int i, struct error *error, int code)
{
    char step[RANK_STEP_BYTES];
    const char *far = how_far(rank, step);
    char last[sizeof(rank->last_line) + 24] = "", place[sizeof(rank->crash_place) + 8] = "";
    if (rank->last_line[0] != '\0')
        snprintf(last, sizeof(last), "; its last line: \"%s\"", rank->last_line);
    if (rank->crash_place[0] != '\0')
        snprintf(place, sizeof(place), ", at %s", rank->crash_place);
    if (rank->signal != 0)
        error_set(error, code, "rank %d was ended by SIG%s (%s)%s%s%s%s", i,
                  sigabbrev_np(rank->signal) != NULL ? sigabbrev_np(rank->signal) : "?",
                  sigdescr_np(rank->signal) != NULL ? sigdescr_np(rank->signal) : "unknown signal", far, place,
                  hint_for_signal(rank), last);
    else
        error_set(error, code, "rank %d ended with exit code %d%s%s", i, rank->exit_code, far,
                  last[0] != '\0' ? last : "; its last output may say why");
}

static void
describe_stepless(const struct rank_view *rank, int i, struct error *error, int code)
{
    if (!is_annotated(rank))
        error_set(error, code,
                  "rank %d launched %" PRIu64
                  " kernels and ended without an annotation: nothing was averaged; annotate "
                  "the program (man ddprun.h), or give --unannotated",
                  i, rank->launch_count);
    else if (rank->gradient_count == 0)
        error_set(error, code,
                  "parameters of rank %d changed, and it ended without a DDP_STEP: nothing was averaged; annotate "
                  "gradients, and call DDP_STEP after each backward pass (man ddprun.h), or give --unannotated",
                  i);
    else
        error_set(error, code,
                  "rank %d annotated %" PRIu64 " gradient%s and ended without a DDP_STEP: nothing was averaged; call "
                  "it after each backward pass (see ddprun.h), or give --unannotated",
                  i, rank->gradient_count, rank->gradient_count == 1 ? "" : "s");
}

static void
describe_fault(const struct rank_view *ranks, int count, int i, enum fault fault, struct error *error)
{
    const struct rank_view *rank = &ranks[i];
    int code = exit_code_of(rank, fault);
    char step[RANK_STEP_BYTES];
    const char *far = how_far(rank, step);
    switch (fault) {
    case FAULT_SAID:
    case FAULT_UNCLEAR:
    case FAULT_FOLLOWED:
        if (rank->failure_by == RANK_SAYS_ALL)
            error_set(error, code, "%s", rank->failure);
        else if (rank->failure[0] != '\0')
            error_set(error, code, "rank %d%s: %s", i, rank->failure_by == RANK_SAYS_STEP ? "" : far, rank->failure);
        else
            error_set(error, code, "rank %d stopped the job%s without a message; its last output may say why", i, far);
        break;
    case FAULT_DIED:
        describe_death(rank, i, error, code);
        break;
    case FAULT_REFUSED:
        error_set(error, code,
                  "rank %d has started %" PRIu64
                  " processes that annotate, too, beside its trainer, and each was ended: "
                  "annotate in the trainer's process only (in Python below `if __name__ == \"__main__\"`, where "
                  "workers do not run)",
                  i, rank->refusal_count);
        break;
    case FAULT_ALONE:
        error_set(error, code, "rank %d made %" PRIu64 " updates alone%s: what it saved is not the result of %d ranks",
                  i, rank->alone_updates, far, count);
        break;
    case FAULT_LEFT:
        error_set(error, code,
                  "rank %d left with exit code 0%s, without exit handlers (_exit or exec?), while others were "
                  "training; all ranks must make the same number of steps",
                  i, far);
        break;
    case FAULT_ASIDE:
        error_set(error, code,
                  "rank %d ended with exit code 0 and left process %d (%s) running, which ddprun ends; if that is "
                  "the trainer, start it in the foreground (with `exec`, not as a daemon), or end the script with "
                  "`wait`",
                  i, rank->left_pid, rank->left_name);
        break;
    case FAULT_MISSED:
        error_set(
            error, code,
            rank->missed_preload
                ? "rank %d used the CUDA driver in a process that ddprun's library was not loaded into, so it trained "
                  "alone; is it linked statically, or does a wrapper clear LD_PRELOAD?"
                : "rank %d ended without taking part, while others did; does the program behave differently by rank?",
            i);
        break;
    case FAULT_SEVERED:
        error_set(error, code,
                  "rank %d%s has closed its connection to ddprun, and process %d continues: the program closed "
                  "descriptors that it has not opened (close, closefrom), or replaced itself by another one (exec)",
                  i, far, rank->pid);
        break;
    case FAULT_STEPLESS:
        describe_stepless(rank, i, error, code);
        break;
    case FAULT_FEWER:
        error_set(error, code,
                  "rank %d ended after %u program%s that trained, but others have begun one more; all ranks must train "
                  "the same number of times (start other programs that use a GPU as LD_PRELOAD= program)",
                  i, rank->generation + 1, rank->generation == 0 ? "" : "s");
        break;
    default:
        if (rank->left_out_step > 0) {
            error_set(error, code, "rank %d ended%s, others continued to step %" PRIu64 ": " RANK_LEFT_OUT, i, far,
                      verdict_most_steps(ranks, count), i, (unsigned long long)rank->left_out_step);
            break;
        }
        error_set(error, code,
                  "rank %d ended%s, others continued to step %" PRIu64
                  "; all ranks must make the same number of steps (DDP_SHARD divides work evenly)",
                  i, far, verdict_most_steps(ranks, count));
        break;
    }
}

/* Puts `more` into the text at `at`, if there is room. */
static void
insert(struct error *error, size_t at, const char *more)
{
    size_t used = strlen(error->text), length = strlen(more);
    if (at > used || used + length >= sizeof(error->text))
        return;
    memmove(error->text + at + length, error->text + at, used - at + 1);
    memcpy(error->text + at, more, length);
}

/* "rank 3 ..." becomes "rank 3 (host h2, process 123) ..." where there are several hosts to look at. */
static void
name_host(const struct rank_view *ranks, int count, int i, struct error *error)
{
    char name[TEXT_BYTES], place[2 * TEXT_BYTES];
    bool several = false;
    for (int k = 1; k < count; ++k)
        several = several || (ranks[k].host[0] != '\0' && strcmp(ranks[k].host, ranks[0].host) != 0);
    int length = snprintf(name, sizeof(name), "rank %d", i);
    if (!several || ranks[i].host[0] == '\0' || strncmp(error->text, name, (size_t)length) != 0)
        return;
    snprintf(place, sizeof(place), " (host %s, process %d)", ranks[i].host, ranks[i].pid);
    insert(error, (size_t)length, place);
}

bool
verdict_find(const struct rank_view *ranks, int count, struct error *error)
{
    int worst = -1, failed = 0;
    enum fault worst_fault = FAULT_NONE;
    for (int i = 0; i < count; ++i) {
        enum fault fault = fault_of(ranks, count, i);
        failed += fault != FAULT_NONE && fault != FAULT_FOLLOWED;
        if (fault < worst_fault || (fault == worst_fault && fault != FAULT_NONE && ranks[i].order != 0 &&
                                    ranks[worst].order != 0 && ranks[i].order < ranks[worst].order)) {
            worst = i;
            worst_fault = fault;
        }
    }
    if (worst < 0)
        return false;
    describe_fault(ranks, count, worst, worst_fault, error);
    name_host(ranks, count, worst, error);
    error->rank = worst;
    if (failed > 1 && ranks[worst].failure_by != RANK_SAYS_ALL) {
        char more[TEXT_BYTES];
        snprintf(more, sizeof(more), " (first of %d failed ranks)", failed);
        insert(error, strcspn(error->text, "\n"), more); /* details stay after it */
    }
    return true;
}

bool
verdict_add_last_right(const struct rank_view *ranks, int count, struct error *error)
{
    char more[3 * TEXT_BYTES];
    uint64_t step;
    if (!verdict_last_right(ranks, count, &step))
        return false;
    if (verdict_most_steps(ranks, count) <= 1) /* it has saved nothing that comes from an average */
        return true;
    if (step == 0)
        snprintf(more, sizeof(more),
                 ". No step of this run is known to be right: continue from no checkpoint that it has saved");
    else
        snprintf(more, sizeof(more),
                 ". Step %" PRIu64 " is the last that is known to be right: continue from a checkpoint of step %" PRIu64
                 " or earlier",
                 step, step);
    insert(error, strcspn(error->text, "\n"), more); /* details stay after it */
    return true;
}

bool
verdict_only_follows(const struct rank_view *ranks, int count)
{
    enum fault best = FAULT_NONE;
    for (int i = 0; i < count; ++i) {
        enum fault fault = fault_of(ranks, count, i);
        best = fault < best ? fault : best;
    }
    return best == FAULT_SEVERED || best == FAULT_UNCLEAR || best == FAULT_FOLLOWED;
}

bool
verdict_may_be_common(const struct rank_view *ranks, int count)
{
    bool may = ranks[0].batch_count > 0 && is_training(&ranks[0]);
    for (int i = 0; i < count; ++i) {
        enum fault fault = fault_of(ranks, count, i);
        bool may_be = fault == FAULT_DIED && ranks[i].signal != SIGKILL && !ranks[i].left_early;
        may = may && (fault == FAULT_NONE || may_be);
    }
    return may;
}

/* ---- the end ---- */

/* Compares what all ranks report of the last comparison of parameters. One that left by _exit() may have missed it. */
static bool
hashes_agree(const struct rank_view *ranks, int count, struct error *error)
{
    for (int i = 1; i < count; ++i) {
        if ((verdict_is_unfinished(&ranks[i]) || verdict_is_unfinished(&ranks[0])) &&
            (ranks[i].check_count != ranks[0].check_count || ranks[i].checked_step != ranks[0].checked_step))
            continue;
        if (ranks[i].check_count != ranks[0].check_count || ranks[i].checked_step != ranks[0].checked_step)
            return error_set(error, DDPRUN_EXIT_FAILURE,
                             "ranks 0 and %d disagree on the number of comparisons of parameters (%" PRIu64
                             " and %" PRIu64 "); the result cannot be trusted, please report this",
                             i, ranks[0].check_count, ranks[i].check_count);
        if (ranks[0].check_count > 0 && ranks[i].parameter_hash != ranks[0].parameter_hash)
            return error_set(error, DDPRUN_EXIT_FAILURE,
                             "parameters differ between ranks 0 and %d after step %" PRIu64 " (hashes %016" PRIx64
                             " and %016" PRIx64 "); the result cannot be trusted, please report this",
                             i, ranks[0].checked_step, ranks[0].parameter_hash, ranks[i].parameter_hash);
    }
    return true;
}

/* The batches of a round that is not complete are no step, and yet all ranks pass them. Ranks that reached their end
 * have compared that themselves. */
static bool
turns_agree(const struct rank_view *ranks, int count, struct error *error)
{
    int most = 0;
    for (int i = 1; i < count; ++i)
        most = ranks[i].turn_batches > ranks[most].turn_batches ? i : most;
    for (int i = 0; i < count; ++i) {
        if (!verdict_is_unfinished(&ranks[i]) || ranks[i].turn_batches == ranks[most].turn_batches)
            continue;
        error->rank = i;
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "rank %d left with exit code 0 after %" PRIu64
                         " batches in turns, without exit handlers (_exit "
                         "or exec?), rank %d had %" PRIu64,
                         i, ranks[i].turn_batches, most, ranks[most].turn_batches);
    }
    return true;
}

bool
verdict_find_at_end(const struct rank_view *ranks, int count, struct error *error)
{
    if (verdict_find(ranks, count, error))
        return true;
    for (int i = 0; i < count; ++i) {
        if (ranks[i].step != verdict_most_steps(ranks, count)) {
            describe_fault(ranks, count, i, FAULT_DISAGREED, error);
            name_host(ranks, count, i, error);
            error->rank = i;
            return true;
        }
    }
    return !turns_agree(ranks, count, error) || !hashes_agree(ranks, count, error);
}
