/*
 * options.c - see options.h: one table of all options.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char HEAD[] = "Usage: chargpt [options]\n"
                           "Trains a GPT to continue a text, character by character.\n"
                           "\n";
static const char TAIL[] =
    "  --quiet               print errors only\n"
    "  --help                print this\n"
    "\n"
    "Lines `step N loss X val Y` go to stdout: mean cross-entropy in nats a character, of the step's batch and of the\n"
    "validation part, which is the last tenth of the text. The speed goes to stderr.\n"
    "On the stand-in, SOFTGPU_WORKERS=2 SOFTGPU_BLAS_THREADS=2 lets one trainer use two cores.\n";

enum kind { SIDE, COUNT, NUMBER, SEED, TEXT };

/* Where the value goes, and what it may be. */
struct row {
    const char *name, *help;
    enum kind kind;
    void *at;
    double least, most;
};

static void fail(const char *option, const char *text, const char *wanted) __attribute__((noreturn));

static void
fail(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "chargpt: --%s %s: expected %s; --help lists the options\n", option, text, wanted);
    exit(2);
}

static uint64_t
parse_whole(const struct row *row, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull() takes "-1" for a large number. */
    bool bad = !isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0;
    if (row->kind == SEED) {
        if (bad)
            fail(row->name, text, "a whole number");
    } else if (bad || (double)value < row->least || (double)value > row->most) {
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "a whole number from %.0f to %.0f", row->least, row->most);
        fail(row->name, text, wanted);
    }
    return value;
}

static float
parse_number(const struct row *row, const char *text)
{
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || (double)value < row->least || (double)value > row->most) {
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "a number from %g to %g", row->least, row->most);
        fail(row->name, text, wanted);
    }
    return value;
}

static void
take(const struct row *row, const char *text)
{
    switch (row->kind) {
    case SIDE:
        *(int *)row->at = (int)parse_whole(row, text);
        break;
    case COUNT:
        *(size_t *)row->at = parse_whole(row, text);
        break;
    case SEED:
        *(uint64_t *)row->at = parse_whole(row, text);
        break;
    case NUMBER:
        *(float *)row->at = parse_number(row, text);
        break;
    case TEXT:
        *(const char **)row->at = text;
        break;
    }
}

/* What the values must be together. The largest buffers have fewer than 2^31 elements: the kernels count with an int.
 */
static void
check(const struct options *options)
{
    const struct shape *shape = &options->shape;
    if (shape->width % shape->heads != 0) {
        fprintf(stderr, "chargpt: --width %d: must be a multiple of --heads %d\n", shape->width, shape->heads);
        exit(2);
    }
    const double rows = (double)options->batch * shape->context, limit = 2147483647.0;
    if (rows * 4.0 * shape->width > limit || rows * 256.0 > limit || rows * shape->heads * shape->context > limit) {
        fprintf(stderr, "chargpt: --batch %zu: too large for --context %d, --width %d and --heads %d\n", options->batch,
                shape->context, shape->width, shape->heads);
        exit(2);
    }
    if (options->checkpoint_every > 0 && options->checkpoint == NULL) {
        fprintf(stderr, "chargpt: --checkpoint-every %zu: --checkpoint says where\n", options->checkpoint_every);
        exit(2);
    }
}

static void
parse(int argc, char **argv, const struct row *rows, size_t row_count, bool *quiet)
{
    struct option names[32] = {{0}};
    for (size_t i = 0; i < row_count; ++i)
        names[i] = (struct option){rows[i].name, required_argument, NULL, (int)i};
    names[row_count] = (struct option){"quiet", no_argument, NULL, 'q'};
    names[row_count + 1] = (struct option){"help", no_argument, NULL, 'h'};

    opterr = 0; /* the messages below are of one form with all others */
    int which;
    while ((which = getopt_long(argc, argv, ":", names, NULL)) != -1) {
        if (which >= 0 && which < (int)row_count) {
            take(&rows[which], optarg);
        } else if (which == 'q') {
            *quiet = true;
        } else if (which == 'h') {
            fputs(HEAD, stdout);
            for (size_t i = 0; i < row_count; ++i)
                printf("  --%-19s %s\n", rows[i].name, rows[i].help);
            fputs(TAIL, stdout);
            exit(0);
        } else if (which == ':') {
            fprintf(stderr, "chargpt: %s: wants a value; --help lists the options\n", argv[optind - 1]);
            exit(2);
        } else {
            fprintf(stderr, "chargpt: %s: no such option; --help lists them\n", argv[optind - 1]);
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "chargpt: %s: expected options only; --help lists them\n", argv[optind]);
        exit(2);
    }
}

struct options
options_parse(int argc, char **argv)
{
    struct options o = {
        .shape = {.layers = 2, .width = 128, .heads = 4, .context = 64},
        .batch = 16,
        .accumulate = 1,
        .steps = 600,
        .rate = 2e-3f,
        .decay = 0.1f,
        .clip = 1.0f,
        .warmup = 20,
        .seed = 1,
        .data = "samples/data/shakespeare.txt",
        .eval_every = 100,
        .eval_batches = 10,
        .temperature = 0.8f,
    };
    const struct row rows[] = {
        {"layers", "blocks of attention and perceptron (default 2)", SIDE, &o.shape.layers, 1, LAYERS_MAX},
        {"width", "channels, at most 256: a block of threads is a row (default 128)", SIDE, &o.shape.width, 1, 256},
        {"heads", "heads of attention (default 4)", SIDE, &o.shape.heads, 1, 256},
        {"context", "characters that the network sees at a time (default 64)", SIDE, &o.shape.context, 1, 1024},
        {"batch", "sequences a backward pass, of all ranks together (default 16)", COUNT, &o.batch, 1, 65536},
        {"accumulate", "backward passes a step, their gradients added up (default 1)", COUNT, &o.accumulate, 1, 65536},
        {"steps", "training steps, counted from the beginning also after --resume (default 600)", COUNT, &o.steps, 0,
         1e9},
        {"lr", "learning rate (default 0.002)", NUMBER, &o.rate, 0, 1},
        {"warmup", "steps over which the learning rate rises from 0 (default 20)", COUNT, &o.warmup, 0, 1e9},
        {"weight-decay", "of the matrices, times the learning rate (default 0.1)", NUMBER, &o.decay, 0, 100},
        {"clip", "gradients are scaled down to this norm (default 1)", NUMBER, &o.clip, 1e-6, 1e30},
        {"seed", "of the initial values, the batches and the sample (default 1)", SEED, &o.seed, 0, 0},
        {"data", "the text (default samples/data/shakespeare.txt)", TEXT, &o.data, 0, 0},
        {"eval-every", "steps between two lines with the losses (default 100)", COUNT, &o.eval_every, 1, 1e9},
        {"eval-batches", "batches of the validation part (default 10)", COUNT, &o.eval_batches, 1, 10000},
        {"save", "write the parameters there at the end; %d in the name becomes the rank", TEXT, &o.save, 0, 0},
        {"checkpoint", "write there, at the end, what --resume needs", TEXT, &o.checkpoint, 0, 0},
        {"checkpoint-every", "and every so many steps", COUNT, &o.checkpoint_every, 1, 1e9},
        {"resume", "continue from this checkpoint; the shape of the network must be the same", TEXT, &o.resume, 0, 0},
        {"sample", "write so many characters at the end (default 0)", COUNT, &o.sample, 0, 1e9},
        {"temperature", "of the sample: below 1 likelier characters get likelier still (default 0.8)", NUMBER,
         &o.temperature, 0.01, 100},
    };
    parse(argc, argv, rows, sizeof(rows) / sizeof(rows[0]), &o.quiet);
    check(&o);
    return o;
}

struct adamw
options_adamw(const struct options *options, size_t step)
{
    const float beta1 = 0.9f, beta2 = 0.99f;
    const float share = step < options->warmup ? (float)step / (float)options->warmup : 1.0f;
    return (struct adamw){
        .rate = options->rate * share,
        .decay = options->decay,
        .beta1 = beta1,
        .beta2 = beta2,
        .epsilon = 1e-6f, /* gradients that are only rounding errors move nothing */
        .correction1 = (float)(1.0 - pow(beta1, (double)step)),
        .correction2 = (float)(1.0 - pow(beta2, (double)step)),
        .norm_limit = options->clip,
    };
}
