/*
 * trainer.c - what ddprun costs and gains on a trainer: bench/trainer [--json] [--pairs N].
 *
 * Each figure is the median over pairs of runs, one of each kind in turn, of the ratio of their training times, as the
 * trainer itself measures them (tests/trainers/ladder prints "trained for S s"). On the stand-in; two ranks share this
 * machine's cores, so the gain of overlap is measured on a link that takes time but no CPU.
 */
#include "report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { PAIRS_AT_MOST = 101, COMMAND_BYTES = 3 * PATH_MAX };

static char folder[PATH_MAX]; /* of the build */

/* Runs the command and returns the seconds that its trainer reports; ends the program if there are none. */
static double
training_seconds(const char *command)
{
    char line[512];
    double seconds = -1.0;
    FILE *output = popen(command, "r");
    if (output == NULL) {
        fprintf(stderr, "bench: cannot run %s: %s\n", command, strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof(line), output) != NULL) {
        const char *found = strstr(line, "trained for ");
        if (found != NULL)
            seconds = strtod(found + strlen("trained for "), NULL);
    }
    if (pclose(output) != 0 || seconds <= 0.0) {
        fprintf(stderr, "bench: no time from: %s\n", command);
        exit(1);
    }
    return seconds;
}

/* The median of time(first) / time(second) over pairs. */
static double
ratio(const char *first, const char *second, int pairs)
{
    double ratios[PAIRS_AT_MOST];
    (void)training_seconds(first); /* warms the page cache */
    for (int i = 0; i < pairs; ++i) {
        double a = training_seconds(first), b = training_seconds(second);
        ratios[i] = a / b;
    }
    return report_median(ratios, (size_t)pairs);
}

/* The command line of one run: `launch` are ddprun's options, "" runs the trainer by itself. */
static void
command(char *text, size_t bytes, const char *environment, const char *launch, const char *shape)
{
    bool bare = launch[0] == '\0';
    int wanted = snprintf(text, bytes, "%s %s%s%s %s/tests/trainers/ladder --time 1 %s 2>&1", environment,
                          bare ? "" : folder, bare ? "" : "/bin/ddprun -q ", launch, folder, shape);
    if (wanted < 0 || (size_t)wanted >= bytes)
        exit(1);
}

static void
measure(struct report *report, int pairs)
{
    /* Many small launches: what a hook costs shows. Large kernels and a slow link: what overlap gains shows. */
    static const char small[] = "--layers 12 --width 16 --batch 8 --steps 400";
    static const char large[] = "--layers 12 --width 96 --batch 96 --steps 30";
    static const char link[] = "SOFTGPU_LINK=latency_us=500,gbytes_per_s=0.05";
    char bare[COMMAND_BYTES], one[COMMAND_BYTES], overlapped[COMMAND_BYTES], plain[COMMAND_BYTES];

    command(bare, sizeof(bare), "", "", small);
    command(one, sizeof(one), "", "-n 1", small);
    report_figure(report, "world of one / bare, many small launches", ratio(one, bare, pairs), "ratio", BAR_AT_MOST,
                  1.005);
    command(bare, sizeof(bare), "", "", large);
    command(one, sizeof(one), "", "-n 1", large);
    report_figure(report, "world of one / bare, large kernels", ratio(one, bare, pairs), "ratio", BAR_AT_MOST, 1.005);

    command(overlapped, sizeof(overlapped), link, "-n 2 --bucket-mb 0.04", large);
    command(plain, sizeof(plain), link, "-n 2 --bucket-mb 0.04 --no-overlap", large);
    report_figure(report, "two ranks on a slow link, without overlap / with", ratio(plain, overlapped, pairs), "ratio",
                  BAR_AT_LEAST, 1.0);
}

int
main(int argc, char **argv)
{
    struct report report = {.json = false};
    int pairs = 7;
    if (!report_take_options(&report, argc, argv, &pairs, PAIRS_AT_MOST))
        return 2;
    report_program_folder(folder, 2);
    struct utsname machine;
    if (!report.json && uname(&machine) == 0)
        printf("stand-in on %s %s, %ld cores, medians of %d pairs\n", machine.sysname, machine.machine,
               sysconf(_SC_NPROCESSORS_ONLN), pairs);
    measure(&report, pairs);
    return 0;
}
