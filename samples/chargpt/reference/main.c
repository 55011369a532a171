/*
 * chargpt_reference - how fast is a step of the sample chargpt on the stand-in, beside the same arithmetic in plain C
 * with the same BLAS on the same core? And do both train the same? A benchmark program: run by people, and with
 * --losses by a test.
 *
 * Both get the same cores: one, and then all, with two threads of BLAS each; plain C's own loops run on one. Runs of
 * both alternate; the figure is the median of the pairs' ratios.
 */
#include "chargpt/options.h"
#include "chargpt/text.h"
#include "gpt.h"
#include "tests/bench/report.h"

#include <cblas.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char USAGE[] =
    "Usage: chargpt_reference [--json] [--pairs N] [--trainer FILE] [-- options of chargpt]\n"
    "       chargpt_reference --losses [-- options of chargpt]\n"
    "Compares a step of chargpt on the stand-in with the same arithmetic in plain C, on the same cores.\n"
    "\n"
    "  --json          one JSON object a figure instead of a table\n"
    "  --pairs N       runs of both (default 7)\n"
    "  --trainer FILE  the program to measure (default ../samples/chargpt_plain beside this one)\n"
    "  --losses        train in plain C only, and print what chargpt prints\n"
    "  --help          print this\n";

enum { PAIRS_MAX = 100, LOSSES_MAX = 5 };

struct arguments {
    struct report report;
    int pairs;
    bool prints_losses;
    char trainer[PATH_MAX];
    char **options; /* those of chargpt, after the program's name */
    int option_count;
};

static void fail(const char *what, const char *detail) __attribute__((noreturn));

static void
fail(const char *what, const char *detail)
{
    fprintf(stderr, "chargpt_reference: %s: %s\n", what, detail);
    exit(1);
}

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Trains as the trainer does. Returns seconds a step, without validation; losses[i] is that of step i + 1. */
static double
train(const struct options *options, const struct text *text, bool prints, double losses[LOSSES_MAX])
{
    struct options o = *options;
    o.shape.vocabulary = text->vocabulary;
    const size_t context = (size_t)o.shape.context, rows = o.batch * context;
    int *inputs = calloc(rows, sizeof(int)), *targets = calloc(rows, sizeof(int));
    if (inputs == NULL || targets == NULL)
        fail("memory", "there is not enough");
    static struct gpt gpt;
    gpt_create(&gpt, &o.shape, o.batch, o.seed);

    double seconds = 0.0;
    for (size_t step = 1; step <= o.steps; ++step) {
        double begin_s = now_s(), loss = 0.0;
        gpt_zero_gradients(&gpt);
        for (size_t i = 0; i < o.accumulate; ++i) {
            text_batch(text, o.seed, (step - 1) * o.accumulate + i, 0, o.batch, context, inputs, targets);
            loss += gpt_forward(&gpt, inputs, targets, o.batch, context) / (double)o.accumulate;
            gpt_backward(&gpt, inputs, targets, o.batch, context, 1.0f / (float)o.accumulate);
        }
        struct adamw constants = options_adamw(&o, step);
        gpt_update(&gpt, &constants);
        seconds += now_s() - begin_s;
        if (step <= LOSSES_MAX)
            losses[step - 1] = loss;
        if (!prints || (step % o.eval_every != 0 && step != o.steps))
            continue;
        double validation = 0.0;
        for (size_t i = 0; i < o.eval_batches; ++i) {
            text_validation(text, o.eval_batches * o.batch, i * o.batch, o.batch, context, inputs, targets);
            validation += gpt_forward(&gpt, inputs, targets, o.batch, context) / (double)o.eval_batches;
        }
        printf("step %zu loss %.5f val %.5f\n", step, loss, validation);
    }
    gpt_destroy(&gpt);
    free(inputs);
    free(targets);
    return seconds / (double)o.steps;
}

/* 'text' as one word of a shell. */
static void
append_quoted(char *command, size_t size, const char *text)
{
    size_t length = strlen(command);
    for (snprintf(command + length, size - length, " '"); *text != '\0' && strlen(command) + 8 < size; ++text) {
        length = strlen(command);
        snprintf(command + length, size - length, *text == '\'' ? "'\\''" : "%c", *text);
    }
    length = strlen(command);
    snprintf(command + length, size - length, "'");
}

/* The same by the trainer, with this many threads and `more` options. */
static double
run_trainer(const struct arguments *arguments, int threads, const char *more, double losses[LOSSES_MAX])
{
    char command[8192], line[512];
    snprintf(command, sizeof(command), "SOFTGPU_WORKERS=%d SOFTGPU_BLAS_THREADS=%d", threads, threads);
    append_quoted(command, sizeof(command), arguments->trainer);
    for (int i = 0; i < arguments->option_count; ++i)
        append_quoted(command, sizeof(command), arguments->options[i]);
    snprintf(command + strlen(command), sizeof(command) - strlen(command), " %s 2>&1 </dev/null", more);

    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): a command of this program's own */
    if (pipe == NULL)
        fail(arguments->trainer, "cannot be started");
    double milliseconds = 0.0, loss;
    size_t step;
    while (fgets(line, sizeof(line), pipe) != NULL) {
        const char *speed = strstr(line, " s, ");
        if (sscanf(line, "step %zu loss %lf", &step, &loss) == 2) {
            if (step >= 1 && step <= LOSSES_MAX)
                losses[step - 1] = loss;
        } else if (speed == NULL || sscanf(speed, " s, %lf ms/step", &milliseconds) != 1) {
            fputs(line, stderr);
        }
    }
    if (pclose(pipe) != 0 || milliseconds <= 0.0)
        fail(arguments->trainer, "did not train");
    return milliseconds / 1e3;
}

static struct arguments
parse(int argc, char **argv)
{
    struct arguments arguments = {.pairs = 7};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = '\0';
    snprintf(arguments.trainer, sizeof(arguments.trainer), "%.4000s/../samples/chargpt_plain", dirname(self));

    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; ++i) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(USAGE, stdout);
            exit(0);
        } else if (strcmp(argv[i], "--json") == 0) {
            arguments.report.json = true;
        } else if (strcmp(argv[i], "--losses") == 0) {
            arguments.prints_losses = true;
        } else if (strcmp(argv[i], "--pairs") == 0 && i + 1 < argc && atoi(argv[i + 1]) >= 1 &&
                   atoi(argv[i + 1]) <= PAIRS_MAX) {
            arguments.pairs = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--trainer") == 0 && i + 1 < argc) {
            snprintf(arguments.trainer, sizeof(arguments.trainer), "%s", argv[++i]);
        } else {
            fputs(USAGE, stderr);
            exit(2);
        }
    }
    arguments.option_count = i < argc ? argc - i - 1 : 0;
    arguments.options = argv + argc - arguments.option_count;
    return arguments;
}

/* The core that this process is on, for itself and what it starts. Returns what it might use before. */
static cpu_set_t
stay_on_one_core(void)
{
    cpu_set_t before, one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    if (sched_getaffinity(0, sizeof(before), &before) != 0 || sched_setaffinity(0, sizeof(one), &one) != 0)
        fail("this process", "cannot be kept on one core");
    return before;
}

/* Median over the pairs of the trainer's time for a step, as a share of plain C's; both with this many threads. */
static double
step_ratio(const struct arguments *arguments, const struct options *options, const struct text *text, int threads)
{
    double ratios[PAIRS_MAX], plain[PAIRS_MAX], losses[LOSSES_MAX];
    openblas_set_num_threads(threads);
    for (int i = 0; i < arguments->pairs; ++i) {
        plain[i] = train(options, text, false, losses);
        ratios[i] = run_trainer(arguments, threads, "--eval-batches 1", losses) / plain[i];
    }
    fprintf(stderr, "plain C: %.2f ms a step with %d thread%s, median of %d; %s\n",
            1e3 * report_median(plain, (size_t)arguments->pairs), threads, threads == 1 ? "" : "s of BLAS",
            arguments->pairs, openblas_get_config());
    return report_median(ratios, (size_t)arguments->pairs);
}

static double
loss_difference(const struct arguments *arguments, const struct options *options, const struct text *text)
{
    double ours[LOSSES_MAX] = {0}, theirs[LOSSES_MAX] = {0}, largest = 0.0;
    struct options first = *options;
    first.steps = LOSSES_MAX;
    train(&first, text, false, theirs);
    run_trainer(arguments, 1, "--eval-batches 1 --eval-every 1 --steps 5", ours);
    for (size_t i = 0; i < LOSSES_MAX; ++i)
        largest = fmax(largest, fabs(ours[i] - theirs[i]));
    return largest;
}

static void
measure(struct arguments *arguments, const struct options *options, const struct text *text)
{
    struct report *report = &arguments->report;
    cpu_set_t before = stay_on_one_core();
    report_figure(report, "chargpt: losses of steps 1 to 5, largest difference",
                  loss_difference(arguments, options, text), "nats", BAR_AT_MOST, 1e-4);
    report_figure(report, "chargpt: step, stand-in / plain C, on one core", step_ratio(arguments, options, text, 1), "",
                  BAR_AT_MOST, 2.0);
    if (CPU_COUNT(&before) < 2) {
        fprintf(stderr, "there is one core only: nothing to measure on two\n");
        return;
    }
    sched_setaffinity(0, sizeof(before), &before);
    report_figure(report, "chargpt: step, stand-in / plain C, two threads each",
                  step_ratio(arguments, options, text, 2), "", BAR_AT_MOST, 2.0);
}

int
main(int argc, char **argv)
{
    struct arguments arguments = parse(argc, argv);
    if (__builtin_cpu_supports("avx2") == 0)
        fail("this machine", "has no AVX2, which this program is compiled for");
    /* Its own defaults stand before what the command line says. */
    char *words[256] = {argv[0], "--steps", "30"};
    if (arguments.option_count > 200)
        fail("options", "there are more than 200");
    memcpy(words + 3, arguments.options, sizeof(char *) * (size_t)arguments.option_count);
    struct options options = options_parse(3 + arguments.option_count, words);
    arguments.options = words + 1;
    arguments.option_count += 2;
    struct text text;
    text_load(options.data, (size_t)options.shape.context, &text);

    if (arguments.prints_losses) {
        double losses[LOSSES_MAX];
        openblas_set_num_threads(1);
        train(&options, &text, true, losses);
    } else {
        measure(&arguments, &options, &text);
    }
    text_free(&text);
    return 0;
}
