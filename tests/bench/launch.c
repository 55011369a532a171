/*
 * launch.c - what starting and holding a job costs. bench/launch [--json] [--runs N] [--ranks N,N,...] [--idle
 * SECONDS] [--under mpirun|address].
 *
 * Start-up: ranks that join by their first annotation and leave (launch_rank), from the start of ddprun to its end. In
 * turn with it, where there is an mpirun, the same number of processes that join and leave its PMIx (launch_pmix). No
 * device is used: what the first use of one costs is measured apart. Medians of wall clock times with their spread, CPU
 * times of all processes of the job, and ratios of runs that followed each other.
 *
 * Holding: CPU time of ddprun itself, of all its threads, beside ranks that wait, from 2 s after the last one joined.
 * Under mpirun there is one ddprun for each rank, and that of rank 0 hears all others: its CPU time, beside 100 ranks
 * unless other numbers are given. `--under mpirun` measures nothing else.
 *
 * `--under address`: one ddprun a rank, which meet at an address as on two hosts (--nnodes), in turn with as many under
 * mpirun, which meet by PMIx: starts only.
 *
 * Run it on a machine that does nothing else; CPU times bear a busy one better.
 */
#include "report.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { RUNS_AT_MOST = 100, COUNTS_AT_MOST = 8, LIMIT_S = 120, HELD_AT_MOST = 64, UNDER_MPIRUN = 100 };

static char folder[PATH_MAX];      /* of this program */
static unsigned limit_s = LIMIT_S; /* of one run */
static char ddprun[PATH_MAX + 16], rank_program[PATH_MAX + 16], pmix_program[PATH_MAX + 16],
    device_program[PATH_MAX + 16];

/* What one run took, in seconds. */
struct cost {
    double wall, cpu;
};

static void
fail(const char *what, const char *detail)
{
    fprintf(stderr, "bench: %s: %s\n", what, detail);
    exit(1);
}

static double
seconds_of(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        fail("clock_gettime", strerror(errno));
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Starts `words`; its stdout goes to `output`, or nowhere (-1). A run that hangs is ended by its alarm. */
static pid_t
start(char *const *words, int output)
{
    fflush(stdout); /* or the child would print it again */
    pid_t pid = fork();
    if (pid < 0)
        fail("fork", strerror(errno));
    if (pid > 0)
        return pid;
    if (freopen("/dev/null", "r", stdin) == NULL || (output < 0 && freopen("/dev/null", "w", stdout) == NULL) ||
        freopen("/dev/null", "w", stderr) == NULL) /* ddprun's word that nothing was averaged */
        _exit(126);
    if (output >= 0)
        dup2(output, STDOUT_FILENO);
    alarm(limit_s);
    execvp(words[0], words);
    _exit(127);
}

static struct cost
run(char *const *words)
{
    struct rusage used;
    int status;
    double begin = seconds_of(CLOCK_MONOTONIC);
    pid_t pid = start(words, -1);
    if (wait4(pid, &status, 0, &used) != pid || status != 0)
        fail("a run has failed; start it by hand to see why", words[0]);
    return (struct cost){.wall = seconds_of(CLOCK_MONOTONIC) - begin,
                         .cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                                1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)};
}

static struct cost
run_ours(int ranks)
{
    char count[16];
    snprintf(count, sizeof(count), "%d", ranks);
    char *words[] = {ddprun, "-q", "--output", "none", "--device", "softgpu", "-n", count, rank_program, NULL};
    return run(words);
}

static struct cost
run_theirs(int ranks)
{
    char count[16];
    snprintf(count, sizeof(count), "%d", ranks);
    char *words[] = {"mpirun", "--oversubscribe", "-n", count, pmix_program, NULL};
    return run(words);
}

/* As on two hosts with half of the ranks each. */
static struct cost
run_at_address(int ranks)
{
    static int next;
    char script[PATH_MAX * 3];
    int port = 20000 + (int)(getpid() + next++) % 9000;
    snprintf(script, sizeof(script),
             "for node in 1 0; do '%s' -q --output none --device softgpu --nnodes 2 --node-rank $node --master "
             "localhost:%d -n %d '%s' & done; wait $! && wait",
             ddprun, port, ranks / 2, rank_program);
    char *words[] = {"sh", "-c", script, NULL};
    return run(words);
}

static struct cost
run_by_pmix(int ranks)
{
    char count[16];
    snprintf(count, sizeof(count), "%d", ranks);
    char *words[] = {"mpirun", "--oversubscribe", "-n",      count,        ddprun, "-q", "--output",
                     "none",   "--device",        "softgpu", rank_program, NULL};
    return run(words);
}

static bool
has_mpirun(void)
{
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    char *words[] = {"sh", "-c", "command -v mpirun", NULL};
    int status;
    return access(pmix_program, X_OK) == 0 && waitpid(start(words, -1), &status, 0) > 0 && status == 0;
}

/* What the issue asks for on two cores; 0: no bar for that number of ranks. */
static double
bar_of(int ranks)
{
    return ranks == 2 ? 0.15 : ranks == 64 ? 0.6 : ranks == 256 ? 3.0 : 0.0;
}

static void
show_median(struct report *report, const char *what, int ranks, double *values, int runs, double bar)
{
    char name[160];
    double median = report_median(values, (size_t)runs); /* sorts them */
    snprintf(name, sizeof(name), "%s, %d ranks [%.3f, %.3f]", what, ranks, values[0], values[runs - 1]);
    if (bar > 0.0)
        report_figure(report, name, median, "s", BAR_AT_MOST, bar);
    else
        report_value(report, name, median, "s");
}

static void
measure_start(struct report *report, int ranks, int runs, bool mpirun)
{
    static double wall[RUNS_AT_MOST], cpu[RUNS_AT_MOST], their_wall[RUNS_AT_MOST], wall_ratio[RUNS_AT_MOST],
        cpu_ratio[RUNS_AT_MOST];
    run_ours(ranks); /* brings the files into memory */
    for (int i = 0; i < runs; ++i) {
        struct cost ours = run_ours(ranks);
        wall[i] = ours.wall;
        cpu[i] = ours.cpu;
        if (!mpirun)
            continue;
        struct cost theirs = run_theirs(ranks);
        their_wall[i] = theirs.wall;
        wall_ratio[i] = ours.wall / theirs.wall;
        cpu_ratio[i] = ours.cpu / theirs.cpu;
    }
    char name[64];
    show_median(report, "start to end", ranks, wall, runs, bar_of(ranks));
    show_median(report, "CPU time of all processes", ranks, cpu, runs, 0.0);
    if (!mpirun)
        return;
    show_median(report, "mpirun, start to end", ranks, their_wall, runs, 0.0);
    snprintf(name, sizeof(name), "start to end over mpirun's, %d ranks", ranks);
    report_value(report, name, report_median(wall_ratio, (size_t)runs), "ratio");
    snprintf(name, sizeof(name), "CPU time over mpirun's, %d ranks", ranks);
    report_value(report, name, report_median(cpu_ratio, (size_t)runs), "ratio");
}

static void
measure_meeting(struct report *report, int ranks, int runs)
{
    static double wall[RUNS_AT_MOST], cpu[RUNS_AT_MOST], their_cpu[RUNS_AT_MOST], ratio[RUNS_AT_MOST];
    char name[96];
    for (int i = 0; i < runs; ++i) {
        struct cost ours = run_at_address(ranks), theirs = run_by_pmix(ranks);
        wall[i] = ours.wall;
        cpu[i] = ours.cpu;
        their_cpu[i] = theirs.cpu;
        ratio[i] = ours.cpu / theirs.cpu;
    }
    show_median(report, "by address, start to end", ranks, wall, runs, 0.0);
    show_median(report, "by address, CPU time of all processes", ranks, cpu, runs, 0.0);
    show_median(report, "by PMIx, CPU time of all processes", ranks, their_cpu, runs, 0.0);
    snprintf(name, sizeof(name), "CPU time by address over that by PMIx, %d ranks", ranks);
    report_figure(report, name, report_median(ratio, (size_t)runs), "ratio", BAR_AT_MOST, 1.2);
}

/* On the stand-in, without ddprun. */
static void
measure_device(struct report *report, int runs)
{
    static double times[RUNS_AT_MOST];
    char *words[] = {device_program, NULL}, line[64];
    if (access(device_program, X_OK) != 0)
        return;
    for (int i = 0; i < runs; ++i) {
        int pipes[2], status;
        if (pipe(pipes) != 0)
            fail("pipe", strerror(errno));
        pid_t pid = start(words, pipes[1]);
        close(pipes[1]);
        FILE *output = fdopen(pipes[0], "r");
        if (output == NULL || fgets(line, sizeof(line), output) == NULL || waitpid(pid, &status, 0) != pid ||
            status != 0)
            fail("a run has failed; start it by hand to see why", device_program);
        fclose(output);
        times[i] = atof(line);
    }
    report_value(report, "first use of a device of the stand-in, by itself", report_median(times, (size_t)runs), "ms");
}

/* Under mpirun, `ddprun` is that of rank 0. */
static void
measure_holding(struct report *report, int ranks, bool mpirun, double seconds)
{
    char count[16], line[64], name[80];
    int pipes[2];
    snprintf(count, sizeof(count), "%d", ranks);
    char *ours[] = {ddprun, "-q", "--device", "softgpu", "-n", count, rank_program, "idle", NULL};
    char *theirs[] = {"mpirun",   "--oversubscribe", "-n",         count,  ddprun, "-q",
                      "--device", "softgpu",         rank_program, "idle", NULL};
    char *const *words = mpirun ? theirs : ours;
    if (pipe(pipes) != 0)
        fail("pipe", strerror(errno));
    pid_t pid = start(words, pipes[1]);
    close(pipes[1]);
    FILE *output = fdopen(pipes[0], "r");
    if (output == NULL || fgets(line, sizeof(line), output) == NULL)
        fail("the ranks do not join", words[0]);

    clockid_t clock;
    if (clock_getcpuclockid((pid_t)atoi(line), &clock) != 0)
        fail("no clock of another process", "clock_getcpuclockid");
    struct timespec settle = {.tv_sec = 2},
                    time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&settle, NULL);
    double cpu = seconds_of(clock), wall = seconds_of(CLOCK_MONOTONIC);
    nanosleep(&time, NULL);
    double share = (seconds_of(clock) - cpu) / (seconds_of(CLOCK_MONOTONIC) - wall);
    snprintf(name, sizeof(name), "ddprun%s beside %d ranks that wait", mpirun ? " of rank 0 under mpirun" : "", ranks);
    report_figure(report, name, 100.0 * share, "% of a core", BAR_AT_MOST, 0.1);

    fclose(output);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

/* "2,64,256" */
static int
take_counts(char *text, int *counts)
{
    int count = 0;
    for (char *word = strtok(text, ","); word != NULL && count < COUNTS_AT_MOST; word = strtok(NULL, ",")) {
        counts[count] = atoi(word);
        if (counts[count] < 1)
            fail("no number of ranks", word);
        ++count;
    }
    return count;
}

struct wish {
    int counts[COUNTS_AT_MOST], count, runs;
    bool counted, only_mpirun, only_address, json;
    double idle_s;
};

static struct wish
take_options(int argc, char **argv)
{
    struct wish wish = {.counts = {2, 64, 256}, .count = 3, .runs = 11, .idle_s = 20.0};
    for (int i = 1; i < argc; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--json") == 0)
            wish.json = true;
        else if (strcmp(argv[i], "--runs") == 0 && atoi(value) > 0 && atoi(value) <= RUNS_AT_MOST && ++i)
            wish.runs = atoi(value);
        else if (strcmp(argv[i], "--idle") == 0 && value[0] != '\0' && ++i)
            wish.idle_s = atof(value);
        else if (strcmp(argv[i], "--under") == 0 && strcmp(value, "mpirun") == 0 && ++i)
            wish.only_mpirun = true;
        else if (strcmp(argv[i], "--under") == 0 && strcmp(value, "address") == 0 && ++i)
            wish.only_address = true;
        else if (strcmp(argv[i], "--ranks") == 0 && value[0] != '\0' && (wish.counted = true))
            wish.count = take_counts(argv[++i], wish.counts);
        else
            fail("usage", "launch [--json] [--runs N] [--ranks N,N,...] [--idle SECONDS] [--under "
                          "mpirun|address]");
    }
    return wish;
}

static void
measure_all_holding(struct report *report, const struct wish *wish, bool mpirun)
{
    limit_s = LIMIT_S + (unsigned)wish->idle_s;
    for (int i = 0; i < wish->count && !wish->only_mpirun; ++i) {
        if (wish->counts[i] <= HELD_AT_MOST)
            measure_holding(report, wish->counts[i], false, wish->idle_s);
    }
    if (mpirun && !wish->counted)
        measure_holding(report, UNDER_MPIRUN, true, wish->idle_s);
    for (int i = 0; mpirun && wish->counted && i < wish->count; ++i)
        measure_holding(report, wish->counts[i], true, wish->idle_s);
}

int
main(int argc, char **argv)
{
    struct wish wish = take_options(argc, argv);
    struct report report = {.json = wish.json};
    if (realpath("/proc/self/exe", folder) == NULL)
        fail("/proc/self/exe", strerror(errno));
    dirname(folder);
    snprintf(ddprun, sizeof(ddprun), "%s/../bin/ddprun", folder);
    snprintf(rank_program, sizeof(rank_program), "%s/launch_rank", folder);
    snprintf(device_program, sizeof(device_program), "%s/launch_device", folder);
    snprintf(pmix_program, sizeof(pmix_program), "%s/launch_pmix", folder);

    bool mpirun = has_mpirun();
    double load[1] = {0};
    if (wish.only_mpirun && !mpirun)
        fail("there is no mpirun", "install openmpi-bin");
    if (!report.json && getloadavg(load, 1) == 1)
        printf("%ld cores, load %.1f before, %d runs each%s\n", sysconf(_SC_NPROCESSORS_ONLN), load[0], wish.runs,
               mpirun ? "" : "; no mpirun to compare with");
    for (int i = 0; i < wish.count && wish.only_address && mpirun; ++i) {
        if (wish.counts[i] >= 2)
            measure_meeting(&report, wish.counts[i], wish.runs);
    }
    if (wish.only_address)
        return 0;
    for (int i = 0; i < wish.count && !wish.only_mpirun; ++i)
        measure_start(&report, wish.counts[i], wish.runs, mpirun);
    if (!wish.only_mpirun)
        measure_device(&report, wish.runs);
    if (wish.idle_s > 0.0)
        measure_all_holding(&report, &wish, mpirun);
    return 0;
}
