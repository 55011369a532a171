/*
 * options.c - see options.h. To add an option: one row in `rows`, one field in struct options, one take_...() function.
 */
#include "launcher/options.h"

#include "base/protocol.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum group { GROUP_PLACES, GROUP_TRAINING, GROUP_SAFETY, GROUP_OTHER, GROUP_COUNT };

static const char *const group_titles[GROUP_COUNT] = {
    [GROUP_PLACES] = "Ranks and GPUs",
    [GROUP_TRAINING] = "Averaging of gradients",
    [GROUP_SAFETY] = "Checks and records",
    [GROUP_OTHER] = "Other",
};

/* Takes the value of an option (NULL where it has none). */
typedef bool (*take_fn)(struct options *options, const char *value, struct problem *problem);

struct row {
    char letter;          /* 0: none */
    const char *name;     /* long name, without dashes */
    const char *argument; /* name of its value in the help; NULL: takes none */
    enum group group;
    take_fn take; /* NULL: --help and --version, which the parser answers itself */
    const char *help;
};

static bool
bad_value(struct problem *problem, const char *name, const char *value, const char *wanted)
{
    return problem_set(problem, DDPRUN_EXIT_USAGE, "'%s' is not %s, in --%s; see ddprun --help", value, wanted, name);
}

/* A whole decimal number in [least, most], digits only. */
static bool
whole_number(const char *text, unsigned long least, unsigned long most, unsigned long *number)
{
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;
    unsigned long value = strtoul(text, NULL, 10);
    if (errno != 0 || value < least || value > most)
        return false;
    *number = value;
    return true;
}

static bool
take_ranks(struct options *options, const char *value, struct problem *problem)
{
    unsigned long number;
    if (!whole_number(value, 1, OPTIONS_MOST_RANKS, &number))
        return bad_value(problem, "ranks", value, "a number of ranks from 1 to 256");
    options->rank_count = (int)number;
    return true;
}

/* The place of `value` among names[count]; -1 if it is none of them. */
static int
one_of(const char *value, const char *const *names, int count)
{
    for (int i = 0; i < count; ++i) {
        if (strcmp(value, names[i]) == 0)
            return i;
    }
    return -1;
}

static bool
take_device(struct options *options, const char *value, struct problem *problem)
{
    static const char *const names[] = {[DEVICE_AUTO] = "auto", [DEVICE_GPU] = "gpu", [DEVICE_SOFTGPU] = "softgpu"};
    int place = one_of(value, names, sizeof(names) / sizeof(names[0]));
    if (place < 0)
        return bad_value(problem, "device", value, "one of auto, gpu, softgpu");
    options->device = (enum device_choice)place;
    return true;
}

static bool
take_gpus(struct options *options, const char *value, struct problem *problem)
{
    gpu_list_free(&options->gpus);
    return gpu_list_parse(value, &options->gpus, problem);
}

static bool
take_share_gpu(struct options *options, const char *value, struct problem *problem)
{
    (void)value, (void)problem;
    options->share_gpu = true;
    return true;
}

static bool
take_bucket_mb(struct options *options, const char *value, struct problem *problem)
{
    static const char wanted[] = "a size above 0 and up to 1048576 (MiB)";
    /* strtod also takes blanks, hexadecimal, "inf" and "nan". */
    if (value[0] == '\0' || strspn(value, "0123456789.eE+-") != strlen(value))
        return bad_value(problem, "bucket-mb", value, wanted);
    char *end;
    double bytes = strtod(value, &end) * (1 << 20);
    if (*end != '\0' || !(bytes >= 1.0) || bytes > 1024.0 * 1024.0 * (1 << 20))
        return bad_value(problem, "bucket-mb", value, wanted);
    options->bucket_bytes = (uint64_t)llround(bytes);
    return true;
}

static bool
take_no_overlap(struct options *options, const char *value, struct problem *problem)
{
    (void)value, (void)problem;
    options->overlap = false;
    return true;
}

static bool
take_reduce(struct options *options, const char *value, struct problem *problem)
{
    static const char *const names[] = {[DDPRUN_REDUCE_MEAN] = "mean", [DDPRUN_REDUCE_SUM] = "sum"};
    int place = one_of(value, names, DDPRUN_REDUCTION_COUNT);
    if (place < 0)
        return bad_value(problem, "reduce", value, "one of mean, sum");
    options->reduction = (enum ddprun_reduction)place;
    return true;
}

static bool
take_compress(struct options *options, const char *value, struct problem *problem)
{
    static const char *const names[] = {
        [DDPRUN_COMPRESS_NONE] = "none", [DDPRUN_COMPRESS_FP16] = "fp16", [DDPRUN_COMPRESS_BF16] = "bf16"};
    int place = one_of(value, names, DDPRUN_COMPRESSION_COUNT);
    if (place < 0)
        return bad_value(problem, "compress", value, "one of none, fp16, bf16");
    options->compression = (enum ddprun_compression)place;
    return true;
}

static bool
take_communicators(struct options *options, const char *value, struct problem *problem)
{
    unsigned long number;
    if (!whole_number(value, 1, DDPRUN_MOST_COMMUNICATORS, &number))
        return bad_value(problem, "communicators", value, "a number from 1 to 8");
    options->communicator_count = (unsigned)number;
    return true;
}

static bool
take_nccl(struct options *options, const char *value, struct problem *problem)
{
    if (value[0] == '\0')
        return bad_value(problem, "nccl", value, "a path or a library name");
    options->nccl = value;
    return true;
}

static bool
take_check_every(struct options *options, const char *value, struct problem *problem)
{
    unsigned long number;
    if (!whole_number(value, 0, 1000000000, &number))
        return bad_value(problem, "check-every", value, "a number of steps from 0 (never) to 1000000000");
    options->check_every = (unsigned)number;
    return true;
}

static bool
take_verify(struct options *options, const char *value, struct problem *problem)
{
    (void)value, (void)problem;
    options->verify = true;
    return true;
}

static bool
take_timeout(struct options *options, const char *value, struct problem *problem)
{
    unsigned long number;
    if (!whole_number(value, 1, 1000000, &number))
        return bad_value(problem, "timeout", value, "a whole number of seconds from 1 to 1000000");
    options->timeout_s = (unsigned)number;
    return true;
}

static bool
take_trace(struct options *options, const char *value, struct problem *problem)
{
    if (value[0] == '\0')
        return bad_value(problem, "trace", value, "a folder");
    options->trace_dir = value;
    return true;
}

static bool
take_quiet(struct options *options, const char *value, struct problem *problem)
{
    (void)value, (void)problem;
    options->quiet = true;
    return true;
}

static const struct row rows[] = {
    {'n', "ranks", "N", GROUP_PLACES, take_ranks,
     "how many ranks to start, 1 to 256 (default: one per GPU that is\nvisible; stand-in: $SOFTGPU_DEVICES, or 1)"},
    {0, "device", "auto|gpu|softgpu", GROUP_PLACES, take_device,
     "where to run: GPUs, or the CPU stand-in for programs built with\n"
     "softgpu-cc (default auto: what the program was built for;\nscripts and wrappers count as gpu)"},
    {0, "gpus", "LIST", GROUP_PLACES, take_gpus,
     "GPUs to use, one per rank, in this order: 0,2,5-7 or UUIDs;\n"
     "numbers count within an inherited CUDA_VISIBLE_DEVICES\n(default: all visible ones)"},
    {0, "share-gpu", NULL, GROUP_PLACES, take_share_gpu,
     "allow more ranks than GPUs: ranks take turns on the GPUs (for\n"
     "trying things out; sets NCCL_HOSTID, and NCCL_SOCKET_IFNAME=lo\nunless it is set)"},
    {0, "bucket-mb", "X", GROUP_TRAINING, take_bucket_mb,
     "buckets of at most X MiB, fractions allowed (default: as measured\ntimes and the measured cost of an all-reduce "
     "make best, kept in\n~/.cache/ddprun unless DDPRUN_COST_CACHE=0; 25 until then)"},
    {0, "no-overlap", NULL, GROUP_TRAINING, take_no_overlap,
     "average everything at the end of the step instead of during\nbackward"},
    {0, "reduce", "mean|sum", GROUP_TRAINING, take_reduce,
     "what becomes of a gradient: the mean of all ranks', or their\nsum (default mean)"},
    {0, "compress", "none|fp16|bf16", GROUP_TRAINING, take_compress,
     "send float32 gradients in 16 bits: half the bytes, rounded\n(default none)"},
    {0, "communicators", "K", GROUP_TRAINING, take_communicators,
     "buckets take turns on K NCCL communicators, 1 to 8 (default 1)"},
    {0, "nccl", "PATH", GROUP_TRAINING, take_nccl, "NCCL library to use (default libnccl.so.2)"},
    {0, "check-every", "K", GROUP_SAFETY, take_check_every,
     "compare the parameters of all ranks every K steps, besides\nthe first overlapped ones; 0: never (default 100)"},
    {0, "verify", NULL, GROUP_SAFETY, take_verify,
     "check every gradient of every step for writes that were not\n"
     "seen, and compare the parameters after every step; slow"},
    {0, "timeout", "SECONDS", GROUP_SAFETY, take_timeout,
     "how long a rank may wait for the others before the job is\nstopped (default 600)"},
    {0, "trace", "DIR", GROUP_SAFETY, take_trace,
     "write what each rank did to DIR/rank-N.jsonl; DIR is made if\nabsent (default: no trace)"},
    {'q', "quiet", NULL, GROUP_OTHER, take_quiet, "no closing summary (errors are still reported)"},
    {'V', "version", NULL, GROUP_OTHER, NULL, "print the version and exit"},
    {'h', "help", NULL, GROUP_OTHER, NULL, "print this help and exit"},
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]), FIRST_LONG_VALUE = 256 };

/* getopt_long's view of the table; long options answer FIRST_LONG_VALUE + row. "+": stop at the program; ":": tell a
 * missing value apart. */
static void
describe_to_getopt(struct option *longs, char *letters)
{
    *letters++ = '+';
    *letters++ = ':';
    for (int i = 0; i < ROW_COUNT; ++i) {
        longs[i] = (struct option){.name = rows[i].name,
                                   .has_arg = rows[i].argument != NULL ? required_argument : no_argument,
                                   .val = FIRST_LONG_VALUE + i};
        if (rows[i].letter == 0)
            continue;
        *letters++ = rows[i].letter;
        if (rows[i].argument != NULL)
            *letters++ = ':';
    }
    *letters = '\0';
    longs[ROW_COUNT] = (struct option){0};
}

static const struct row *
row_of(int answer)
{
    for (int i = 0; i < ROW_COUNT; ++i) {
        if (answer == FIRST_LONG_VALUE + i || (rows[i].letter != 0 && answer == rows[i].letter))
            return &rows[i];
    }
    return NULL;
}

static enum options_result
bad_option(int answer, char **argv, struct problem *problem)
{
    const struct row *row = row_of(optopt);
    if (answer == ':')
        problem_set(problem, DDPRUN_EXIT_USAGE, "option --%s wants a value (%s), which is missing; see ddprun --help",
                    row != NULL ? row->name : "?", row != NULL ? row->argument : "?");
    else if (row != NULL)
        problem_set(problem, DDPRUN_EXIT_USAGE, "option --%s takes no value, in '%s'; leave the value out", row->name,
                    argv[optind - 1]);
    else if (optopt != 0)
        problem_set(
            problem, DDPRUN_EXIT_USAGE,
            "unknown option -%c, before the program; see ddprun --help (the program's own options stand behind it)",
            optopt);
    else
        problem_set(problem, DDPRUN_EXIT_USAGE,
                    "unknown or ambiguous option %s, before the program; see ddprun --help (the program's own options "
                    "stand behind it)",
                    argv[optind - 1]);
    return OPTIONS_BAD;
}

static enum options_result
parse_all(int argc, char **argv, struct options *options, struct problem *problem)
{
    struct option longs[ROW_COUNT + 1];
    char letters[3 + 2 * ROW_COUNT];
    describe_to_getopt(longs, letters);

    optind = 0; /* glibc: start afresh, also after an earlier call */
    opterr = 0;
    int answer;
    while ((answer = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct row *row = answer == '?' || answer == ':' ? NULL : row_of(answer);
        if (row == NULL)
            return bad_option(answer, argv, problem);
        if (row->take == NULL)
            return row->letter == 'h' ? OPTIONS_HELP : OPTIONS_VERSION;
        if (!row->take(options, optarg, problem))
            return OPTIONS_BAD;
    }
    if (optind >= argc) {
        problem_set(problem, DDPRUN_EXIT_USAGE,
                    "no program given, after the options; write for example: ddprun -n 2 ./train (see ddprun --help)");
        return OPTIONS_BAD;
    }
    options->program = argv + optind;
    return OPTIONS_RUN;
}

enum options_result
options_parse(int argc, char **argv, struct options *options_p, struct problem *problem)
{
    struct options options = {
        .device = DEVICE_AUTO,
        .overlap = true,
        .communicator_count = 1,
        .check_every = DDPRUN_DEFAULT_CHECK_EVERY,
        .timeout_s = DDPRUN_DEFAULT_TIMEOUT_S,
    };
    enum options_result result = parse_all(argc, argv, &options, problem);
    if (result == OPTIONS_RUN)
        *options_p = options;
    else
        options_free(&options);
    return result;
}

void
options_free(struct options *options)
{
    gpu_list_free(&options->gpus);
}

static void
print_row(FILE *out, const struct row *row)
{
    enum { COLUMN = 28 };
    char left[64];
    snprintf(left, sizeof(left), "  %c%c%s--%s%s%s", row->letter != 0 ? '-' : ' ', row->letter != 0 ? row->letter : ' ',
             row->letter != 0 ? ", " : "  ", row->name, row->argument != NULL ? " " : "",
             row->argument != NULL ? row->argument : "");

    if (strlen(left) < COLUMN)
        fprintf(out, "%-*s", COLUMN, left);
    else
        fprintf(out, "%s\n%*s", left, COLUMN, "");
    for (const char *p = row->help; *p != '\0'; ++p) {
        fputc(*p, out);
        if (*p == '\n')
            fprintf(out, "%*s", COLUMN, "");
    }
    fputc('\n', out);
}

void
options_print_help(FILE *out)
{
    fputs("Usage: ddprun [options] program [arguments...]\n\n"
          "Starts N ranks of a program that was written for one GPU, each with a GPU of\n"
          "its own, and averages their gradients: one model, trained N times as wide.\n"
          "Options end at the program; everything behind it belongs to the program.\n",
          out);
    for (int group = 0; group < GROUP_COUNT; ++group) {
        fprintf(out, "\n%s:\n", group_titles[group]);
        for (int i = 0; i < ROW_COUNT; ++i) {
            if (rows[i].group == (enum group)group)
                print_row(out, &rows[i]);
        }
    }
    fputs("\nThe program finds RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE in its\n"
          "environment. Rank 0 has the terminal's input and prints as it is; lines of other\n"
          "ranks begin with [rank] ([rank]+ where a line longer than 64 KiB goes on).\n"
          "When one rank fails, all are stopped.\n"
          "\nExit codes: that of the rank that failed first (128 + signal if a signal ended\n"
          "it); 0: all ranks ended well; 1: ddprun or a rank stopped the job with a\n"
          "message; 2: wrong options; 127: the program cannot be started.\n"
          "\nExamples:\n"
          "  ddprun -n 2 ./train --batch 96         two ranks on two GPUs, or on the stand-in\n"
          "                                         if softgpu-cc built the program\n"
          "  ddprun --gpus 1,3 ./train              two ranks, on GPUs 1 and 3\n"
          "  ddprun -n 2 --share-gpu ./train        two ranks on one GPU\n"
          "  ddprun -n 4 --device softgpu ./run.sh  a script that starts such a program\n",
          out);
}
