/*
 * judge.c - what must have come of a run, for each kind of fault: see kinds.h. What is expected follows from what
 * really happened: the records say how far each rank came, and when; a fault that landed after a rank's end may leave
 * the job a success, one that landed before may not.
 */
#include "base/printable.h"
#include "tests/faults/kinds.h"

#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MS 1000000ll

/* The rank, and where it is, if that is said. */
#define RANK       "rank %d( \\([^)]*\\))?"
#define RANK_LATER "rank %%d( \\([^)]*\\))?" /* in a pattern that is printed first */

#define wrong(why, ...) printable_append(why, KINDS_WHY_BYTES, __VA_ARGS__)

/* Whether a line is of overlap, of what a plan has left over, or of a rank that was slow for a while. */
static bool
is_by_the_way(const char *at)
{
    static const char *const beginnings[] = {"ddprun: steps are shorter without overlap ",
                                             "ddprun: overlap is on again ", "ddprun: plan: "};
    static const char *const words[] = {" are averaged at DDP_STEP, without overlap",
                                        "the job continues, unless this lasts"};
    const char *end = at + strcspn(at, "\n");
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); ++i)
        if (strncmp(at, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i) {
        const char *found = strstr(at, words[i]);
        if (found != NULL && found < end)
            return true;
    }
    return false;
}

/* The first line that begins so and says more than that; "" if no line does. */
static void
first_line(const struct job *job, const char *beginning, char *line, size_t bytes)
{
    const char *at = job->text;
    while (at != NULL && (strncmp(at, beginning, strlen(beginning)) != 0 || is_by_the_way(at))) {
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    snprintf(line, bytes, "%.*s", at != NULL ? (int)strcspn(at, "\n") : 0, at != NULL ? at : "");
}

/* It ended with this code, and the first line that begins so matches the pattern, in which %d is the rank. */
static void
expect_line(const struct run *run, const struct job *job, int exit_code, const char *beginning, const char *pattern,
            char why[KINDS_WHY_BYTES])
{
    char wanted[512], line[1024];
    regex_t regex;
    snprintf(wanted, sizeof(wanted), pattern, run->target, run->target);
    first_line(job, beginning, line, sizeof(line));
    if (job->exit_code != exit_code)
        wrong(why, "exit code %d instead of %d; ", job->exit_code, exit_code);
    if (regcomp(&regex, wanted, REG_EXTENDED | REG_NOSUB) != 0) {
        wrong(why, "cannot compile /%s/; ", wanted);
        return;
    }
    if (!run->kind->closed_output && regexec(&regex, line, 0, NULL, 0) != 0)
        wrong(why, "no /%s/; ", wanted);
    regfree(&regex);
}

static void
expect(const struct run *run, const struct job *job, int exit_code, const char *pattern, char why[KINDS_WHY_BYTES])
{
    expect_line(run, job, exit_code, "ddprun: ", pattern, why);
}

static void
expect_done(const struct job *job, char why[KINDS_WHY_BYTES])
{
    for (int r = 0; r < job->ranks; ++r) {
        if (job->records[r].done_ns == 0)
            wrong(why, "called a success, but rank %d reached step %u of %d only; ", r, job->records[r].step,
                  KINDS_STEPS);
    }
}

/* Whether the job was a success, which is right only if every rank was done. */
static bool
succeeds(const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (job->exit_code == 0)
        expect_done(job, why);
    return job->exit_code == 0;
}

/* How many steps a rank may be ahead of one that is gone, which may have given what a round needs: by turns, the rest
 * of that round and the next, whose end it waits at. */
static uint32_t
most_ahead(const struct job *job)
{
    return place_takes_turns(job->place) ? 2 * (uint32_t)job->ranks : 1;
}

/* No rank trains on without the rank that is gone. */
static void
expect_no_rank_alone(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    for (int r = 0; r < job->ranks; ++r) {
        if (job->records[r].step > job->records[run->target].step + most_ahead(job))
            wrong(why, "rank %d trained on to step %u, without rank %d, which was gone after step %u; ", r,
                  job->records[r].step, run->target, job->records[run->target].step);
    }
}

/* The rank's process was ended by a signal. A success may only be where it had been done before. */
bool
judge_signal(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    char pattern[128];
    if (succeeds(job, why)) {
        if (run->fault_ns != 0 && job->records[run->target].done_ns > run->fault_ns + 100 * MS)
            wrong(why, "the signal had no effect; ");
        return false;
    }
    snprintf(pattern, sizeof(pattern), "^ddprun: " RANK_LATER " was ended by SIG%s", sigabbrev_np(run->kind->signal));
    expect(run, job, 128 + run->kind->signal, pattern, why);
    expect_no_rank_alone(run, job, why);
    return true;
}

bool
judge_stop(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (succeeds(job, why))
        return false;
    const char *named = "^ddprun: rank %d .*stopped";
    if (job->records[run->target].step == 0) /* before it takes part, it may be missed only by the limit of time */
        named = "^ddprun: (" RANK " .*stopped|.*(has not returned within|waited) [0-9]+ s)";
    expect(run, job, 1, named, why);
    expect_no_rank_alone(run, job, why);
    return true;
}

/* A rank that leaves with exit code 0 after all steps may be a good end. */
bool
judge_leave(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    bool made_all = run->point >= KINDS_POINTS - 1;
    if (job->exit_code == 0) {
        for (int r = 0; r < job->ranks; ++r) {
            if (r != run->target ? job->records[r].done_ns == 0 : !made_all)
                wrong(why, "called a success, but rank %d left after step %u; ", run->target,
                      job->records[run->target].step);
        }
        return false;
    }
    expect(run, job, 1,
           "^ddprun: .*(" RANK
           " (has ended|ended|annotated [0-9]+ gradients? and ended|left|has left|waits at the end of the "
           "program|(is )?at the end of the program|before its "
           "first step: .*ended( without a DDP_STEP|, and no step of the plan began)|(after|before) [a-z0-9 ]*: the "
           "program "
           "ends in the region of DDP_TURN_OPEN)|differs between ranks? .*%d)",
           why);
    expect_no_rank_alone(run, job, why);
    return true;
}

bool
judge_exit(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    expect(run, job, 3, "^ddprun: " RANK " ended with exit code 3", why);
    expect_no_rank_alone(run, job, why);
    return true;
}

/* ddprun was asked to end. Before it has begun to take signals, the signal itself ends it. */
bool
judge_asked(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    char pattern[128];
    if (succeeds(job, why))
        return false;
    if (job->place->where != ON_NODE) /* in mpirun's words, and with its exit codes */
        return true;
    if (job->killed) {
        if (job->exit_code != 128 + run->kind->signal || job->records[0].pid != 0)
            wrong(why, "ended by signal %d; ", job->exit_code - 128);
        return true;
    }
    snprintf(pattern, sizeof(pattern),
             "^ddprun: SIG%s(: ending %d ranks| while the process of rank [0-9]+ had not started| while the plan .* "
             "was read)",
             sigabbrev_np(run->kind->signal), job->ranks);
    expect(run, job, 128 + run->kind->signal, pattern, why);
    return true;
}

bool
judge_launcher_killed(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    (void)run;
    if (!succeeds(job, why) && (!job->killed || job->exit_code != 128 + SIGKILL))
        wrong(why, "exit code %d; ", job->exit_code);
    return job->killed;
}

/* The supervisor that notices first reports it: supervisor 0 that a rank's supervisor is gone, the others that
 * supervisor 0 is gone. mpirun may end all before. */
bool
judge_supervisor_killed(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    char line[1024];
    if (succeeds(job, why))
        return false;
    first_line(job, "ddprun: ", line, sizeof(line));
    if (strncmp(line, "ddprun: wall time ", 18) == 0) { /* the job was over; mpirun alone counts what came then */
        expect_done(job, why);
        return true;
    }
    expect(run, job, job->exit_code, line[0] == '\0' ? "" : "^ddprun: .*(rank|supervisor) %d|SIGTERM", why);
    expect_no_rank_alone(run, job, why);
    return true;
}

/* The kind takes the link down, and ends no process. */
static bool
is_cut(const struct run *run)
{
    return run->kind->options != NULL;
}

/* The fault came when the job had ended for rank 0's host. Where the link went down, the other host was still to hear
 * of it: only that one reports a loss, and only its exit code is a failure. (No protocol tells both: the last message
 * may be lost.) A daemon of mpirun's that is killed then is a loss for mpirun alone. */
static bool
is_over_for_rank_0(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    static const char summary[] = "ddprun: wall time ";
    char line[1024];
    first_line(job, "ddprun: ", line, sizeof(line));
    if (strncmp(line, summary, strlen(summary)) != 0)
        return false;
    expect_done(job, why);
    if (is_cut(run) && strstr(job->text, " has lost the ddprun of rank 0 ") == NULL)
        wrong(why, "no host says that it has lost rank 0's; ");
    return true;
}

/* Hosts lost each other: on either side ranks cannot continue, and no exit code reports success. */
bool
judge_torn(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (succeeds(job, why))
        return false;
    if (is_over_for_rank_0(run, job, why))
        return true;
    uint32_t least = job->records[0].step, most = least;
    for (int r = 1; r < job->ranks; ++r) {
        least = job->records[r].step < least ? job->records[r].step : least;
        most = job->records[r].step > most ? job->records[r].step : most;
    }
    if (most > least + most_ahead(job))
        wrong(why, "a rank trained on to step %u, without a rank that reached step %u only; ", most, least);
    if (is_cut(run) && least > 0)
        expect(run, job, job->exit_code, "^ddprun: the ddprun of rank [23] .*lost", why);
    return true;
}

/* What a rank without memory makes of it is its own affair (it may do without ddprun's kernels, and report that), as
 * long as it is the one that is named: by itself, or by a rank that waits for it, where glibc ends a thread without
 * memory before it can say anything. */
bool
judge_memory(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (succeeds(job, why))
        return false;
    expect_line(run, job, job->exit_code, "ddprun: rank ", "^ddprun: (rank [0-9]+ .*: )?rank %d", why);
    expect_no_rank_alone(run, job, why);
    return true;
}

/* The process that prints next gets SIGPIPE, as it would without ddprun. */
bool
judge_reader_left(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (succeeds(job, why))
        return false;
    expect(run, job, 128 + SIGPIPE, "^ddprun: rank [0-9]+ was ended by SIGPIPE", why);
    return true;
}

/* All went well; of a long pause on rank 0 there may have been a warning. */
bool
judge_none(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    expect(run, job, 0,
           "^ddprun: (wall time [0-9.]+ s; after start-up \\(steps [0-9]+ to [0-9]+\\) [0-9.]+ steps/s|rank 0 .*no "
           "CUDA call for 60 s)",
           why);
    expect_done(job, why);
    if (job->output_lines != KINDS_STEPS)
        wrong(why, "%zu of %d lines of rank 0 came through; ", job->output_lines, KINDS_STEPS);
    return run->fault_ns != 0;
}
