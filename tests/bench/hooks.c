/*
 * hooks.c - what interposition costs: bench/hooks [--json] [--pairs N].
 *
 * First in instructions, which repeat: programs under callgrind make many calls of one kind (bench/hooks_calls), and
 * the difference between two kinds is what a hook adds to a call. Then a trainer with 2,000 launches a step
 * (bench/thousands) on the stand-in, in a world of one and bare, in turn: instructions of the training thread and time,
 * as medians of the ratios of pairs with their 95 % intervals.
 */
#include "report.h"

#include "base/protocol.h"
#include "base/status_page.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { PAIRS_AT_MOST = 101, COMMAND_BYTES = 4 * PATH_MAX, FEW_CALLS = 1000, MANY_CALLS = 11000 };

static char folder[PATH_MAX]; /* of the build */
static char job[] = "/tmp/ddprun-bench-XXXXXX";

/* Runs a command, and returns the number after `label` in its output; ends the program if there is none. */
static double
number_from(const char *command, const char *label)
{
    char line[1024];
    double number = -1.0;
    FILE *output = popen(command, "r");
    if (output == NULL) {
        fprintf(stderr, "bench: cannot run %s: %s\n", command, strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof(line), output) != NULL) {
        const char *found = strstr(line, label);
        if (found != NULL)
            number = strtod(found + strlen(label), NULL);
    }
    if (pclose(output) != 0 || number < 0.0) {
        fprintf(stderr, "bench: no \"%s\" from: %s\n", label, command);
        exit(1);
    }
    return number;
}

/* ---- instructions of a call ---- */

/* All counts have the same number of digits: what the program spends on its arguments then cancels out too. */
static double
instructions_of(const char *environment, const char *kind, long count)
{
    char command[COMMAND_BYTES];
    snprintf(command, sizeof(command),
             "LD_PRELOAD=%s/lib/libddprun.so LD_LIBRARY_PATH=%s/tests/interpose %s valgrind --tool=callgrind "
             "--callgrind-out-file=/dev/null %s/bench/hooks_calls %s %05ld 2>&1",
             folder, folder, environment, folder, kind, count);
    return number_from(command, "Collected : ");
}

/* The middle one of three runs: what comes before the calls (the loader, the start of the C library) is now and then a
 * few instructions more or less, which is not the call's cost. */
static double
usual_instructions_of(const char *environment, const char *kind, long count)
{
    double a = instructions_of(environment, kind, count), b = instructions_of(environment, kind, count);
    if (a == b)
        return a;
    double c = instructions_of(environment, kind, count);
    double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Of one call of this kind, with its loop. */
static double
instructions_per_call(const char *environment, const char *kind)
{
    double few = usual_instructions_of(environment, kind, FEW_CALLS);
    return (usual_instructions_of(environment, kind, MANY_CALLS) - few) / (MANY_CALLS - FEW_CALLS);
}

static void
measure_calls(struct report *report)
{
    char environment[COMMAND_BYTES];
    snprintf(environment, sizeof(environment),
             DDPRUN_ENV_PROTOCOL "=%u " DDPRUN_ENV_JOB_DIR "=%s " DDPRUN_ENV_ENGINE
                                 "=%s/tests/interpose/libfake_engine.so " DDPRUN_ENV_RANK "=0 " DDPRUN_ENV_LOCAL_RANK
                                 "=0 " DDPRUN_ENV_LOCAL_WORLD_SIZE "=1 " DDPRUN_ENV_STATUS_INDEX
                                 "=0 " DDPRUN_ENV_STATUS_COUNT "=1",
             DDPRUN_PROTOCOL_VERSION, job, folder);

    report_figure(report, "copy, not the rank: added to the call",
                  instructions_per_call("", "copy") - instructions_per_call("", "bare-copy"), "instr.", BAR_AT_MOST, 4);
    report_figure(report, "launch, not the rank: added to the call",
                  instructions_per_call("", "launch") - instructions_per_call("", "bare-launch"), "instr.", BAR_AT_MOST,
                  4);
    double bare = instructions_per_call(environment, "rank");
    report_figure(report, "launch, 4 pointers outside all ranges: added",
                  instructions_per_call(environment, "outside") - bare, "instr.", BAR_AT_MOST, 60);
    report_figure(report, "launch, 4 pointers between 5,000 ranges: added",
                  instructions_per_call(environment, "interleaved") - bare, "instr.", BAR_AT_MOST, 200);
}

/* ---- a world of one ---- */

static void
measure_pairs(struct report *report, const char *name, const char *one, const char *bare, const char *label, int pairs)
{
    double ratios[PAIRS_AT_MOST];
    (void)number_from(one, label); /* warms the page cache */
    for (int i = 0; i < pairs; ++i) {
        double a = number_from(one, label), b = number_from(bare, label);
        ratios[i] = a / b;
    }
    report_ratio(report, name, ratios, (size_t)pairs, 1.005);
}

static void
measure_world_of_one(struct report *report, int pairs)
{
    static const char counted[] = "valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no "
                                  "--toggle-collect=train";
    char one[COMMAND_BYTES], bare[COMMAND_BYTES];
    snprintf(one, sizeof(one), "%s/bin/ddprun -q -n 1 --device softgpu %s %s/bench/thousands 4 2>&1", folder, counted,
             folder);
    snprintf(bare, sizeof(bare), "%s %s/bench/thousands 4 2>&1", counted, folder);
    measure_pairs(report, "world of one / bare: instructions", one, bare, "Collected : ", pairs < 5 ? pairs : 5);
    snprintf(one, sizeof(one), "%s/bin/ddprun -q -n 1 %s/bench/thousands 50 2>&1", folder, folder);
    snprintf(bare, sizeof(bare), "%s/bench/thousands 50 2>&1", folder);
    measure_pairs(report, "world of one / bare: time", one, bare, "trained for ", pairs);
}

/* ---- the program ---- */

static void
make_job(void)
{
    if (mkdtemp(job) == NULL || status_page_map(job, 1, true) == NULL) {
        perror(job);
        exit(1);
    }
}

static void
remove_job(void)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/" DDPRUN_STATUS_FILE, job);
    unlink(name);
    snprintf(name, sizeof(name), "%s/" DDPRUN_RANK_LOCK_FORMAT, job, 0);
    unlink(name);
    rmdir(job);
}

int
main(int argc, char **argv)
{
    struct report report = {.json = false};
    int pairs = 11;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--json") == 0) {
            report.json = true;
        } else if (strcmp(argv[i], "--pairs") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0 &&
                   atoi(argv[i + 1]) <= PAIRS_AT_MOST) {
            pairs = atoi(argv[++i]);
        } else {
            fprintf(stderr, "Usage: hooks [--json] [--pairs N]   (N from 1 to %d, default 11)\n", PAIRS_AT_MOST);
            return 2;
        }
    }
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    for (int i = 0; i < 2 && length > 0; ++i) {
        char *slash = strrchr(folder, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    if (system("valgrind --version >/dev/null 2>&1") != 0) {
        printf("skipped: no valgrind, which counts the instructions\n");
        return 77;
    }
    struct utsname machine;
    if (!report.json && uname(&machine) == 0)
        printf("stand-in on %s %s, %ld cores; instructions by callgrind, %d pairs\n", machine.sysname, machine.machine,
               sysconf(_SC_NPROCESSORS_ONLN), pairs);
    make_job();
    atexit(remove_job);
    measure_calls(&report);
    measure_world_of_one(&report, pairs);
    return 0;
}
