/*
 * kinds.c - see kinds.h. What is expected follows from what really happened: the records say how far each rank came,
 * and when; a fault that landed after a rank's end may leave the job a success, one that landed before may not.
 */
#include "tests/faults/kinds.h"

#include "tests/faults/leftovers.h"

#include <regex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { STEP_POINTS = 3, START_POINTS = 7, ALL_POINTS = START_POINTS + STEP_POINTS * KINDS_STEPS + 1 };

#define MS 1000000ll

/* ---- choosing ---- */

/* splitmix64 */
static uint64_t
mix(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t
run_random(struct run *run, uint64_t below)
{
    return mix(&run->random) % below;
}

static int64_t
part_of(struct run *run, int64_t ns)
{
    return (int64_t)((double)ns * (double)run_random(run, 1000) / 1000.0);
}

/* A quarter of all moments lies before the first step, one in eight after the last. */
static struct moment
choose_moment(struct run *run, const struct pace *pace)
{
    uint64_t part = run_random(run, 8);
    if (part < 2)
        return (struct moment){0, part_of(run, pace->start_ns)};
    if (part == 2)
        return (struct moment){KINDS_STEPS, part_of(run, pace->end_ns)};
    return (struct moment){1 + (uint32_t)run_random(run, KINDS_STEPS - 1), part_of(run, pace->step_ns)};
}

void
run_choose(struct run *run, uint64_t seed, unsigned number, const struct kind *kind, const struct pace *pace)
{
    *run = (struct run){.number = number, .random = seed * 0x2545f4914f6cdd1d + number};
    run->kind = kind != NULL ? kind : &kinds[number % (unsigned)kind_count];
    run->ranks = 2 + (int)run_random(run, 3);
    run->target = (int)run_random(run, (uint64_t)run->ranks);
    run->moment = choose_moment(run, pace);
    run->point = 1 + (unsigned)run_random(run, run_random(run, 4) == 0 ? START_POINTS : ALL_POINTS);
}

/* ---- doing ---- */

/* Waits for the moment. False if the run ended before. */
static bool
await_moment(const struct run *run, struct job *job)
{
    const struct rank_record *record = &job->records[run->target];
    while (record->step < run->moment.step) {
        if (job_poll(job, 200))
            return false;
    }
    for (int64_t until_ns = job_now_ns() + run->moment.delay_ns; job_now_ns() < until_ns;) {
        if (job_poll(job, 200))
            return false;
    }
    return true;
}

/* The rank's process, once there is one; 0 if the run ended before. */
static pid_t
await_process(const struct run *run, struct job *job, bool program)
{
    pid_t pid;
    while ((pid = job_rank_process(job, run->target, program)) == 0) {
        if (job_poll(job, 200))
            return 0;
    }
    return pid;
}

static void
signal_rank(struct run *run, struct job *job, int number, bool program)
{
    pid_t pid = await_moment(run, job) ? await_process(run, job, program) : 0;
    if (pid != 0 && kill(pid, number) == 0)
        run->fault_ns = job_now_ns();
}

static void
signal_launcher(struct run *run, struct job *job, int number)
{
    if (await_moment(run, job) && kill(job->pid, number) == 0)
        run->fault_ns = job_now_ns();
}

static void
kill_rank(struct run *run, struct job *job)
{
    signal_rank(run, job, SIGKILL, true);
}

static void
crash_rank(struct run *run, struct job *job)
{
    signal_rank(run, job, SIGSEGV, true);
}

static void
kill_shell(struct run *run, struct job *job)
{
    signal_rank(run, job, SIGKILL, false);
}

/* Where nobody waits for the rank any more, a stopped one is nobody's fault: it is let go. */
static void
stop_rank(struct run *run, struct job *job)
{
    while (job->records[run->target].pid == 0 && !job_poll(job, 200)) {
    }
    signal_rank(run, job, SIGSTOP, true);
    pid_t pid = job_rank_process(job, run->target, true);
    if (run->fault_ns != 0 && pid != 0 && job->records[run->target].done_ns != 0) {
        job_wait(job, 300 * MS);
        kill(pid, SIGCONT);
    }
}

static void
terminate_launcher(struct run *run, struct job *job)
{
    signal_launcher(run, job, SIGTERM);
}

static void
interrupt_launcher(struct run *run, struct job *job)
{
    signal_launcher(run, job, SIGINT);
}

static void
kill_launcher(struct run *run, struct job *job)
{
    signal_launcher(run, job, SIGKILL);
}

/* From now on the rank gets no more memory than it has. */
static void
limit_memory(struct run *run, struct job *job)
{
    pid_t pid = await_moment(run, job) ? await_process(run, job, true) : 0;
    const struct rlimit limit = {1 << 20, 1 << 20};
    if (pid != 0 && prlimit(pid, RLIMIT_AS, &limit, NULL) == 0)
        run->fault_ns = job_now_ns();
}

static void
leave_output(struct run *run, struct job *job)
{
    if (!await_moment(run, job))
        return;
    job_close_output(job);
    run->fault_ns = job_now_ns();
}

/* Nobody reads; then a rank dies. All must be gone before somebody reads again. */
static void
kill_behind_full_pipe(struct run *run, struct job *job)
{
    if (!await_moment(run, job))
        return;
    job->reads = false;
    job_wait(job, part_of(run, 50 * MS));
    pid_t pid = await_process(run, job, true);
    if (pid == 0 || kill(pid, SIGKILL) != 0)
        return;
    run->fault_ns = job_now_ns();
    for (int64_t until_ns = job_now_ns() + 60 * 1000 * MS;
         job_now_ns() < until_ns && leftovers_processes(job->mark, job->pid) > 0;)
        job_poll(job, 5000);
    run->gone_ns = job_now_ns();
    job->reads = true;
}

static void
pause_reading(struct run *run, struct job *job)
{
    if (!await_moment(run, job))
        return;
    job->reads = false;
    run->fault_ns = job_now_ns();
    job_wait(job, part_of(run, 300 * MS));
    job->reads = true;
}

/* ---- judging ---- */

__attribute__((format(printf, 2, 3))) static void
wrong(char why[KINDS_WHY_BYTES], const char *format, ...)
{
    size_t used = strlen(why);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why + used, KINDS_WHY_BYTES - used, format, arguments);
    va_end(arguments);
    used = strlen(why);
    snprintf(why + used, KINDS_WHY_BYTES - used, "; ");
}

/* The first line of ddprun's, "" if it said nothing. */
static void
first_line(const struct job *job, char *line, size_t bytes)
{
    const char *at = job->text;
    while (at != NULL && strncmp(at, "ddprun: ", 8) != 0) {
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    snprintf(line, bytes, "%.*s", at != NULL ? (int)strcspn(at, "\n") : 0, at != NULL ? at : "");
}

/* It ended with this code and a first line that matches the pattern, in which %d is the rank. */
static void
expect(const struct run *run, const struct job *job, int exit_code, const char *pattern, char why[KINDS_WHY_BYTES])
{
    char wanted[512], line[1024];
    regex_t regex;
    snprintf(wanted, sizeof(wanted), pattern, run->target, run->target);
    first_line(job, line, sizeof(line));
    if (job->exit_code != exit_code)
        wrong(why, "exit code %d instead of %d", job->exit_code, exit_code);
    if (regcomp(&regex, wanted, REG_EXTENDED | REG_NOSUB) != 0) {
        wrong(why, "cannot compile /%s/", wanted);
        return;
    }
    if (!run->kind->closed_output && regexec(&regex, line, 0, NULL, 0) != 0)
        wrong(why, "no /%s/", wanted);
    regfree(&regex);
}

/* A success is right only if every rank was done. */
static void
expect_done(const struct job *job, char why[KINDS_WHY_BYTES])
{
    for (int r = 0; r < job->ranks; ++r) {
        if (job->records[r].done_ns == 0)
            wrong(why, "called a success, but rank %d came to step %u of %d only", r, job->records[r].step,
                  KINDS_STEPS);
    }
}

/* Nobody trains on without the rank that is gone. */
static void
expect_nobody_alone(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    for (int r = 0; r < job->ranks; ++r) {
        if (job->records[r].step > job->records[run->target].step + 1)
            wrong(why, "rank %d trained on to step %u, without rank %d, which was gone after step %u", r,
                  job->records[r].step, run->target, job->records[run->target].step);
    }
}

/* The rank's process was ended by a signal. A success may only be where it had been done before. */
static bool
judge_signal(const struct run *run, const struct job *job, int number, const char *pattern, char why[KINDS_WHY_BYTES])
{
    if (job->exit_code == 0) {
        expect_done(job, why);
        if (job->records[run->target].done_ns > run->fault_ns + 100 * MS)
            wrong(why, "the signal had no effect");
        return false;
    }
    expect(run, job, 128 + number, pattern, why);
    expect_nobody_alone(run, job, why);
    return true;
}

static bool
judge_kill(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    return judge_signal(run, job, SIGKILL, "^ddprun: rank %d was ended by SIGKILL", why);
}

static bool
judge_crash(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    return judge_signal(run, job, SIGSEGV, "^ddprun: rank %d was ended by SIGSEGV", why);
}

static bool
judge_stop(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (job->exit_code == 0) {
        expect_done(job, why);
        return false;
    }
    expect(run, job, 1, "^ddprun: .*(have not come within|has waited|waited) [0-9]+ s", why);
    expect_nobody_alone(run, job, why);
    return true;
}

/* A rank that leaves with exit code 0 after all steps may be a good end. */
static bool
judge_leave(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    bool made_all = run->point >= ALL_POINTS - 1;
    if (job->exit_code == 0) {
        for (int r = 0; r < job->ranks; ++r) {
            if (r != run->target ? job->records[r].done_ns == 0 : !made_all)
                wrong(why, "called a success, but rank %d left after step %u", run->target,
                      job->records[run->target].step);
        }
        return false;
    }
    expect(
        run, job, 1,
        "^ddprun: .*(rank %d (ended|left|has left|waits at the end of the program|at the end of the program|before its "
        "first step: the program used the GPU and ended without a DDP_STEP)|differs between ranks .*%d)",
        why);
    expect_nobody_alone(run, job, why);
    return true;
}

static bool
judge_exit(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    expect(run, job, 3, "^ddprun: rank %d ended with exit code 3", why);
    expect_nobody_alone(run, job, why);
    return true;
}

/* ddprun was asked to end. Before it has begun to take signals, the signal itself ends it. */
static bool
judge_asked(const struct run *run, const struct job *job, int number, const char *name, char why[KINDS_WHY_BYTES])
{
    char pattern[64];
    if (job->exit_code == 0) {
        expect_done(job, why);
        return false;
    }
    if (job->killed) {
        if (job->exit_code != 128 + number || job->records[0].pid != 0)
            wrong(why, "ended by signal %d", job->exit_code - 128);
        return true;
    }
    snprintf(pattern, sizeof(pattern), "^ddprun: SIG%s: ending %d ranks", name, job->ranks);
    expect(run, job, 128 + number, pattern, why);
    return true;
}

static bool
judge_terminate(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    return judge_asked(run, job, SIGTERM, "TERM", why);
}

static bool
judge_interrupt(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    return judge_asked(run, job, SIGINT, "INT", why);
}

static bool
judge_launcher_killed(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    (void)run;
    if (job->exit_code == 0)
        expect_done(job, why);
    else if (!job->killed || job->exit_code != 128 + SIGKILL)
        wrong(why, "exit code %d", job->exit_code);
    return job->killed;
}

/* What a rank without memory makes of it is its own affair, as long as it is the one that is named. */
static bool
judge_memory(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (job->exit_code == 0) {
        expect_done(job, why);
        return false;
    }
    expect(run, job, job->exit_code, "^ddprun: rank %d", why);
    expect_nobody_alone(run, job, why);
    return true;
}

/* Whoever prints next gets SIGPIPE, as it would by itself. */
static bool
judge_reader_left(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    if (job->exit_code == 0) {
        expect_done(job, why);
        return false;
    }
    expect(run, job, 128 + SIGPIPE, "^ddprun: rank [0-9]+ was ended by SIGPIPE", why);
    return true;
}

static bool
judge_none(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    expect(run, job, 0, "^ddprun: [0-9]+ ranks, [0-9]+ steps", why);
    expect_done(job, why);
    if (job->output_lines != KINDS_STEPS)
        wrong(why, "%zu of %d lines of rank 0 came through", job->output_lines, KINDS_STEPS);
    return run->fault_ns != 0;
}

#define TIMEOUT_TEXT_(number) #number
#define TIMEOUT_TEXT(number)  TIMEOUT_TEXT_(number)

const struct kind kind_none = {.name = "none", .about = "nothing happens", .judge = judge_none, .limit_s = 60};

const struct kind kinds[] = {
    {.name = "kill", .about = "SIGKILL of a rank", .limit_s = 2, .inject = kill_rank, .judge = judge_kill},
    {.name = "segv", .about = "SIGSEGV of a rank", .limit_s = 2, .inject = crash_rank, .judge = judge_crash},
    {.name = "stop",
     .about = "SIGSTOP of a rank",
     .options = "--timeout 3",
     .limit_s = 2 + KINDS_TIMEOUT_S,
     .inject = stop_rank,
     .judge = judge_stop},
    {.name = "exit0", .about = "a rank calls exit(0)", .arguments = "exit 0 %d %d", .limit_s = 2, .judge = judge_leave},
    {.name = "_exit0",
     .about = "a rank calls _exit(0)",
     .arguments = "_exit 0 %d %d",
     .limit_s = 2,
     .judge = judge_leave},
    {.name = "exit3", .about = "a rank calls exit(3)", .arguments = "exit 3 %d %d", .limit_s = 2, .judge = judge_exit},
    {.name = "_exit3",
     .about = "a rank calls _exit(3)",
     .arguments = "_exit 3 %d %d",
     .limit_s = 2,
     .judge = judge_exit},
    {.name = "term",
     .about = "SIGTERM of ddprun",
     .limit_s = 2,
     .inject = terminate_launcher,
     .judge = judge_terminate},
    {.name = "int", .about = "SIGINT of ddprun", .limit_s = 2, .inject = interrupt_launcher, .judge = judge_interrupt},
    {.name = "launcher",
     .about = "SIGKILL of ddprun",
     .sweeps = true,
     .limit_s = 2,
     .inject = kill_launcher,
     .judge = judge_launcher_killed},
    {.name = "shell",
     .about = "SIGKILL of the shell between",
     .wrapper = true,
     .limit_s = 2,
     .inject = kill_shell,
     .judge = judge_kill},
    {.name = "memory",
     .about = "no more memory for a rank",
     .limit_s = 2,
     .inject = limit_memory,
     .judge = judge_memory},
    {.name = "reader",
     .about = "stdout's reader leaves",
     .limit_s = 2,
     .inject = leave_output,
     .judge = judge_reader_left},
    {.name = "full",
     .about = "SIGKILL of a rank behind a full pipe",
     .arguments = "chat 500",
     .small_pipe = true,
     .limit_s = 2,
     .inject = kill_behind_full_pipe,
     .judge = judge_kill},
    {.name = "closed",
     .about = "SIGKILL of a rank, stdout closed",
     .closed_output = true,
     .limit_s = 2,
     .inject = kill_rank,
     .judge = judge_kill},
    {.name = "pause",
     .about = "nobody reads stdout for a while",
     .arguments = "chat 500",
     .small_pipe = true,
     .limit_s = 60,
     .inject = pause_reading,
     .judge = judge_none},
};

const int kind_count = sizeof(kinds) / sizeof(kinds[0]);

const struct kind *
kind_named(const char *name)
{
    for (int i = 0; i < kind_count; ++i) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return strcmp(name, kind_none.name) == 0 ? &kind_none : NULL;
}
