/*
 * hooks.c - what interposition costs: bench/hooks [--json] [--pairs N].
 *
 * First in instructions, which repeat: programs under callgrind make many calls of one kind (bench/hooks_calls), and
 * the difference between two kinds is what a hook adds to a call. Then the search for addresses in copies from the
 * host, in instructions a byte (tests/bucketing/test_words.c). Then a trainer with 2,000 launches a step
 * (bench/thousands) on the stand-in, in a world of one and bare, in turn: instructions of the training thread and time,
 * as medians of the ratios of pairs with their 95 % intervals. Then the CPU time of annotations, in pairs too.
 *
 * Last what checks cost: two ranks with 200 parameters (tests/trainers/paced), where a host function costs 20 us and a
 * copy 10 us as on a GPU; steps with a check beside steps without one in the same run, medians over runs.
 */
#include "report.h"

#include "base/protocol.h"
#include "base/status_page.h"
#include "bucketing/ranges.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS_AT_MOST = 101, COMMAND_BYTES = 4 * PATH_MAX, FEW_CALLS = 1000, MANY_CALLS = 11000 };

static char folder[PATH_MAX]; /* of the build */
static char job[] = "/tmp/ddprun-bench-XXXXXX";

/* Runs a command; numbers[count] are those after labels[count] in its output. Ends the program if one is missing. */
static void
numbers_from(const char *command, const char *const *labels, size_t count, double *numbers)
{
    char line[1024];
    for (size_t i = 0; i < count; ++i)
        numbers[i] = -1.0;
    FILE *output = popen(command, "r");
    if (output == NULL) {
        fprintf(stderr, "bench: cannot run %s: %s\n", command, strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof(line), output) != NULL) {
        for (size_t i = 0; i < count; ++i) {
            const char *found = strstr(line, labels[i]);
            if (found != NULL)
                numbers[i] = strtod(found + strlen(labels[i]), NULL);
        }
    }
    int ended = pclose(output);
    for (size_t i = 0; i < count; ++i) {
        if (ended != 0 || numbers[i] < 0.0) {
            fprintf(stderr, "bench: no \"%s\" from: %s\n", labels[i], command);
            exit(1);
        }
    }
}

static double
number_from(const char *command, const char *label)
{
    double number;
    numbers_from(command, &label, 1, &number);
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

/* ---- copies to the device: the search for addresses ---- */

static void
measure_copies(struct report *report)
{
    static const char *const kinds[] = {"int32", "bfloat16", "image"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        double counts[2];
        char command[COMMAND_BYTES], name[128];
        for (int twice = 0; twice < 2; ++twice) { /* 8 MiB, and 16 */
            snprintf(
                command, sizeof(command),
                "valgrind --tool=callgrind --callgrind-out-file=/dev/null %s/tests/unit/test_words scan %s %02d 2>&1",
                folder, kinds[i], 8 << twice);
            counts[twice] = number_from(command, "Collected : ");
        }
        snprintf(name, sizeof(name), "copy of %s from the host: added to a byte", kinds[i]);
        report_figure(report, name, (counts[1] - counts[0]) / (8 << 20), "instr.", BAR_AT_MOST, 1);
    }
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

/* ---- annotations ---- */

/* CPU time of this many, of two arenas in turn. */
static double
annotating_s(size_t count)
{
    struct ranges ranges = {0};
    clock_t begin = clock();
    for (size_t i = 0; i < count; ++i) {
        if (ranges_add(&ranges, (i % 2 + 1) << 40 | i << 4, 8, i, NULL) != RANGES_OK)
            exit(1);
    }
    ranges_free(&ranges);
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static void
measure_annotating(struct report *report, int pairs)
{
    double ratios[PAIRS_AT_MOST];
    for (int i = 0; i < pairs; ++i) {
        double few_s = 0;
        for (int k = 0; k < 10; ++k) /* as long as one of 100,000 */
            few_s += annotating_s(10000) / 10;
        ratios[i] = annotating_s(100000) / few_s;
    }
    report_ratio(report, "100,000 annotations beside 10,000, of two arenas in turn", ratios, (size_t)pairs, 12.5);
}

/* ---- checks ---- */

enum { CHECK_TENSORS = 200, CHECK_RUNS_AT_MOST = 5, CHECK_STEPS = 300 };

/* The most bytes that reached the host in a step of the trace's last half; there all is learned. */
static double
most_check_bytes(void)
{
    char command[COMMAND_BYTES];
    snprintf(command, sizeof(command),
             "grep check_bytes %s/rank-0.jsonl | tail -n %d | sed 's/.*\"check_bytes\":\\([0-9]*\\).*/bytes \\1/' | "
             "sort -k 2 -n",
             job, CHECK_STEPS / 2);
    return number_from(command, "bytes ");
}

static void
measure_checks(struct report *report, int pairs)
{
    char command[COMMAND_BYTES], trace[PATH_MAX];
    double shares[CHECK_RUNS_AT_MOST], host_us[CHECK_RUNS_AT_MOST];
    size_t runs = (size_t)(pairs < CHECK_RUNS_AT_MOST ? pairs : CHECK_RUNS_AT_MOST);
    snprintf(
        command, sizeof(command),
        "SOFTGPU_HOST_FUNCTION_US=20 SOFTGPU_COPY_US=10 %s/bin/ddprun -q -n 2 --check-every 5 --trace %s "
        "%s/tests/trainers/paced --layers %d --kib 16 --layer-us 100 --forward-us 5000 --steps %d --apart 5 2>&1 | "
        "sed -n 's/^apart \\(.*\\) ms, \\(.*\\) ms on the host; others \\(.*\\) ms, \\(.*\\) ms on the host$/"
        "apart \\1 host \\2 others \\3 idle \\4/p'",
        folder, job, folder, CHECK_TENSORS, CHECK_STEPS);
    for (size_t i = 0; i < runs; ++i) {
        double figures[4];
        numbers_from(command, (const char *[]){"apart ", "host ", "others ", "idle "}, 4, figures);
        shares[i] = (figures[0] - figures[2]) / figures[2]; /* of a step; every hundredth has a check: in percent */
        host_us[i] = 1e3 * (figures[1] - figures[3]);
    }
    report_figure(report, "checks: bytes to the host a tensor and check", most_check_bytes() / CHECK_TENSORS, "bytes",
                  BAR_AT_MOST, 64);
    report_figure(report, "checks: share of a run, --check-every 100", report_median(shares, runs), "%", BAR_AT_MOST,
                  0.5);
    report_value(report, "checks: DDP_STEP on the host, added", report_median(host_us, runs), "us");
    snprintf(trace, sizeof(trace), "%s/rank-0.jsonl", job);
    unlink(trace);
    snprintf(trace, sizeof(trace), "%s/rank-1.jsonl", job);
    unlink(trace);
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
    if (!report_take_options(&report, argc, argv, &pairs, PAIRS_AT_MOST))
        return 2;
    report_program_folder(folder, 2);
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
    measure_copies(&report);
    measure_world_of_one(&report, pairs);
    measure_annotating(&report, pairs);
    measure_checks(&report, pairs);
    return 0;
}
