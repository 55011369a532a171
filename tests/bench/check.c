/*
 * check.c - what does `ddprun check` cost? bench/check [--json] [--runs R] [--steps K] [--ranks N] [--width W]
 * [--layers L] [--slow].
 *
 * Defaults: of samples/digits, samples/chargpt and, with --slow, a trainer whose steps take a second, the check of as
 * many steps as it chooses, and that of three, each beside three steps that do not begin from the reference (--free).
 *
 * Time: of the command for a right program, samples/chargpt, beside what it cannot do without: three runs of K steps on
 * one rank and one on N, each with its start, as `ddprun -n 1` and `ddprun -n N` make them without comparing. Runs of
 * the two follow each other; medians of R pairs.
 *
 * Memory: the largest process of the command, beyond the largest of `ddprun -n N`. Disk: the reference file that
 * `ddprun check -n 1 --reference` writes, also relative to K times the bytes of parameters and gradients.
 */
#include "report.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS_AT_MOST = 100, WORDS_AT_MOST = 40, LIMIT_S = 900, RUNS_OF_ONE = 3 };

static char folder[PATH_MAX]; /* of this program */
static char ddprun[PATH_MAX + 16], trainer[PATH_MAX + 32], digits[PATH_MAX + 32], paced[PATH_MAX + 48],
    data[2 * PATH_MAX], work[] = "/tmp/ddprun-check-XXXXXX";
static int runs = 7, steps = 3, ranks = 2, width = 64, layers = 2;

/* What one run took. */
struct cost {
    double wall_s;
    double peak_mib; /* of its largest process */
};

static void
fail(const char *what, const char *detail)
{
    fprintf(stderr, "bench: %s: %s\n", what, detail);
    rmdir(work);
    exit(1);
}

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* `words`, then those of the trainer. A run that hangs is ended by its alarm. `may_differ`: so may the verdict. */
static struct cost
run_words(char *const *words, char *const *trainer_words, bool may_differ)
{
    char *all[WORDS_AT_MOST];
    size_t count = 0;
    for (size_t i = 0; words[i] != NULL; ++i)
        all[count++] = words[i];
    for (size_t i = 0; trainer_words[i] != NULL; ++i)
        all[count++] = trainer_words[i];
    all[count] = NULL;

    struct rusage used;
    int status;
    fflush(stdout); /* or the child would print it again */
    double begin_s = now_s();
    pid_t pid = fork();
    if (pid < 0)
        fail("fork", strerror(errno));
    if (pid == 0) {
        if (freopen("/dev/null", "r", stdin) == NULL || freopen("/dev/null", "w", stdout) == NULL ||
            freopen("/dev/null", "w", stderr) == NULL)
            _exit(126);
        alarm(LIMIT_S);
        execv(all[0], all);
        _exit(127);
    }
    bool ended = wait4(pid, &status, 0, &used) == pid;
    if (!ended || (status != 0 && !(may_differ && WIFEXITED(status) && WEXITSTATUS(status) == 1)))
        fail("a run has failed; start it by hand to see why", words[1]);
    return (struct cost){.wall_s = now_s() - begin_s, .peak_mib = (double)used.ru_maxrss / 1024.0};
}

static struct cost
run(char *const *words)
{
    char steps_text[16], width_text[16], layers_text[16];
    snprintf(steps_text, sizeof(steps_text), "%d", steps);
    snprintf(width_text, sizeof(width_text), "%d", width);
    snprintf(layers_text, sizeof(layers_text), "%d", layers);
    char *trainer_words[] = {trainer,    "--data",       data,      "--layers",       layers_text, "--width",
                             width_text, "--batch",      "24",      "--steps",        steps_text,  "--warmup",
                             "0",        "--eval-every", "1000000", "--eval-batches", "1",         "--quiet",
                             NULL};
    return run_words(words, trainer_words, false);
}

static struct cost
run_training(int count)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", count);
    char *words[] = {ddprun, "-q", "-n", text, NULL};
    return run(words);
}

static struct cost
run_check(void)
{
    char ranks_text[16], steps_text[16];
    snprintf(ranks_text, sizeof(ranks_text), "%d", ranks);
    snprintf(steps_text, sizeof(steps_text), "%d", steps);
    char *words[] = {ddprun, "check", "-n", ranks_text, "--steps", steps_text, NULL};
    return run(words);
}

static void
measure_time(struct report *report)
{
    static double ratio[RUNS_AT_MOST], whole[RUNS_AT_MOST], bare[RUNS_AT_MOST], memory[RUNS_AT_MOST];
    run_check(); /* brings the files into memory */
    for (int i = 0; i < runs; ++i) {
        struct cost check = run_check(), many = run_training(ranks);
        bare[i] = many.wall_s;
        for (int k = 0; k < RUNS_OF_ONE; ++k)
            bare[i] += run_training(1).wall_s;
        whole[i] = check.wall_s;
        ratio[i] = check.wall_s / bare[i];
        memory[i] = check.peak_mib - many.peak_mib;
    }
    char name[120];
    snprintf(name, sizeof(name), "ddprun check, %d ranks, %d steps", ranks, steps);
    report_value(report, name, 1e3 * report_median(whole, (size_t)runs), "ms");
    snprintf(name, sizeof(name), "the same steps and starts, not compared: %d x 1 rank, %d ranks", RUNS_OF_ONE, ranks);
    report_value(report, name, 1e3 * report_median(bare, (size_t)runs), "ms");
    report_value(report, "check over these", report_median(ratio, (size_t)runs), "ratio");
    report_value(report, "largest process of check, beyond that of training", report_median(memory, (size_t)runs),
                 "MiB");
}

/* ---- what every check costs, by default ---- */

static struct cost
run_default(char *const *trainer_words, bool is_free, bool three, bool may_differ)
{
    char ranks_text[16];
    snprintf(ranks_text, sizeof(ranks_text), "%d", ranks);
    char *words[8] = {ddprun, "check", "-n", ranks_text};
    size_t count = 4;
    if (three) {
        words[count++] = "--steps";
        words[count++] = "3";
    }
    if (is_free)
        words[count++] = "--free";
    return run_words(words, trainer_words, may_differ);
}

/* `most`: seconds that the default may take; 0: 2.5 times what three steps took that do not begin from the reference.
 */
static void
measure_default(struct report *report, const char *name, char *const *trainer_words, double most, bool may_differ)
{
    static double three[RUNS_AT_MOST], whole[RUNS_AT_MOST], bare[RUNS_AT_MOST], three_ms[RUNS_AT_MOST],
        whole_ms[RUNS_AT_MOST];
    int times = most > 0 ? 1 : runs;
    char text[120];
    for (int i = 0; i < times; ++i) {
        bare[i] = 1e3 * run_default(trainer_words, true, true, may_differ).wall_s;
        three_ms[i] = 1e3 * run_default(trainer_words, false, true, may_differ).wall_s;
        whole_ms[i] = 1e3 * run_default(trainer_words, false, false, may_differ).wall_s;
        three[i] = three_ms[i] / bare[i];
        whole[i] = whole_ms[i] / bare[i];
    }
    double longest = report_median(whole_ms, (size_t)times);
    snprintf(text, sizeof(text), "%s: check --free --steps 3", name);
    report_value(report, text, report_median(bare, (size_t)times), "ms");
    snprintf(text, sizeof(text), "%s: check --steps 3", name);
    report_value(report, text, report_median(three_ms, (size_t)times), "ms");
    snprintf(text, sizeof(text), "%s: check", name);
    report_value(report, text, longest, "ms");
    snprintf(text, sizeof(text), "%s: check --steps 3 over --free", name);
    report_ratio(report, text, three, (size_t)times, 1.2);
    snprintf(text, sizeof(text), "%s: check over --free --steps 3", name);
    if (most > 0)
        report_figure(report, text, 1e-3 * longest, "s", BAR_AT_MOST, most);
    else
        report_ratio(report, text, whole, (size_t)times, 2.5);
}

static void
measure_defaults(struct report *report, bool slow)
{
    char width_text[16], layers_text[16];
    snprintf(width_text, sizeof(width_text), "%d", width);
    snprintf(layers_text, sizeof(layers_text), "%d", layers);
    char *digits_words[] = {digits, "--data", DDPRUN_BENCH_DIGITS, "--batch", "48", "--steps", "200", "--quiet", NULL};
    char *chargpt_words[] = {trainer,    "--data",       data,      "--layers",       layers_text, "--width",
                             width_text, "--batch",      "24",      "--steps",        "200",       "--warmup",
                             "0",        "--eval-every", "1000000", "--eval-batches", "1",         "--quiet",
                             NULL};
    char *slow_words[] = {paced,          "--layers", "4",       "--layer-us", "125000",
                          "--forward-us", "500000",   "--steps", "100",        NULL};
    measure_default(report, "digits", digits_words, 0, false);
    measure_default(report, "chargpt", chargpt_words, 0, false);
    if (slow) /* its gradients are made of the rank's number */
        measure_default(report, "a second for each step", slow_words, 180, true);
}

/* Bytes of all parameters, from what the trainer itself saves. */
static double
parameter_bytes(void)
{
    char path[PATH_MAX + 16], steps_text[] = "0", width_text[16], layers_text[16];
    snprintf(path, sizeof(path), "%s/parameters", work);
    snprintf(width_text, sizeof(width_text), "%d", width);
    snprintf(layers_text, sizeof(layers_text), "%d", layers);
    pid_t pid = fork();
    if (pid == 0) {
        execl(trainer, trainer, "--data", data, "--width", width_text, "--layers", layers_text, "--steps", steps_text,
              "--save", path, "--quiet", (char *)NULL);
        _exit(127);
    }
    int status;
    struct stat found;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 || stat(path, &found) != 0)
        fail("the trainer has failed", trainer);
    unlink(path);
    return (double)found.st_size;
}

static void
measure_reference(struct report *report)
{
    char path[PATH_MAX], steps_text[16];
    struct stat found;
    snprintf(path, sizeof(path), "%s/reference", work);
    snprintf(steps_text, sizeof(steps_text), "%d", steps);
    char *words[] = {ddprun, "check", "-n", "1", "--steps", steps_text, "--reference", path, NULL};
    run(words);
    if (stat(path, &found) != 0)
        fail("no reference file", path);
    double bytes = (double)found.st_size, compared = 2.0 * steps * parameter_bytes();
    unlink(path);
    report_value(report, "reference file", bytes / 1048576.0, "MiB");
    report_value(report, "reference file over parameters and gradients of all steps", bytes / compared, "ratio");
}

static void
take_options(int argc, char **argv, struct report *report, bool *slow)
{
    for (int i = 1; i < argc; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--json") == 0)
            report->json = true;
        else if (strcmp(argv[i], "--slow") == 0)
            *slow = true;
        else if (strcmp(argv[i], "--runs") == 0 && atoi(value) > 0 && atoi(value) <= RUNS_AT_MOST && ++i)
            runs = atoi(value);
        else if (strcmp(argv[i], "--steps") == 0 && atoi(value) > 0 && ++i)
            steps = atoi(value);
        else if (strcmp(argv[i], "--ranks") == 0 && atoi(value) > 1 && atoi(value) <= 24 && ++i)
            ranks = atoi(value);
        else if (strcmp(argv[i], "--width") == 0 && atoi(value) > 0 && ++i)
            width = atoi(value);
        else if (strcmp(argv[i], "--layers") == 0 && atoi(value) > 0 && ++i)
            layers = atoi(value);
        else
            fail("usage", "check [--json] [--runs R] [--steps K] [--ranks N] [--width W] [--layers L] [--slow]");
    }
}

int
main(int argc, char **argv)
{
    struct report report = {.json = false};
    bool slow = false;
    take_options(argc, argv, &report, &slow);
    if (realpath("/proc/self/exe", folder) == NULL)
        fail("/proc/self/exe", strerror(errno));
    dirname(folder);
    snprintf(ddprun, sizeof(ddprun), "%s/../bin/ddprun", folder);
    snprintf(trainer, sizeof(trainer), "%s/../samples/chargpt", folder);
    snprintf(digits, sizeof(digits), "%s/../samples/digits", folder);
    snprintf(paced, sizeof(paced), "%s/../tests/trainers/paced", folder);
    snprintf(data, sizeof(data), "%s", DDPRUN_BENCH_TEXT);
    if (mkdtemp(work) == NULL)
        fail(work, strerror(errno));

    double load[1] = {0};
    if (!report.json && getloadavg(load, 1) == 1)
        printf("%ld cores, load %.1f before, %d runs each, chargpt of width %d, %d steps\n",
               sysconf(_SC_NPROCESSORS_ONLN), load[0], runs, width, steps);
    measure_defaults(&report, slow);
    measure_time(&report);
    measure_reference(&report);
    rmdir(work);
    return 0;
}
