/*
 * options.c - see options.h.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] = "Usage: digits [options]\n"
                            "Trains a network of 64-128-64-10 neurons to read handwritten digits.\n"
                            "\n"
                            "  --batch N      images a step, of all ranks together (default 96)\n"
                            "  --steps N      training steps (default 300)\n"
                            "  --lr RATE      learning rate (default 0.1)\n"
                            "  --seed N       of the initial weights and of the order of the images (default 1)\n"
                            "  --data FILE    images as CSV (default samples/data/digits.csv)\n"
                            "  --save FILE    write the parameters there at the end; %d in the name becomes the rank\n"
                            "  --log-every N  steps between two lines with the loss (default 100)\n"
                            "  --quiet        print errors only\n"
                            "  --help         print this\n";

static void fail(const char *option, const char *text, const char *wanted) __attribute__((noreturn));

static void
fail(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "digits: --%s %s: expected %s; --help lists the options\n", option, text, wanted);
    exit(2);
}

static uint64_t
parse_whole(const char *option, const char *text, uint64_t least, uint64_t most, const char *wanted)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull() takes "-1" for a large number. */
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < least || value > most)
        fail(option, text, wanted);
    return value;
}

static size_t
parse_count(const char *option, const char *text)
{
    return (size_t)parse_whole(option, text, 1, 1000000000, "a whole number from 1 to 1000000000");
}

static float
parse_rate(const char *option, const char *text)
{
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0.0f)
        fail(option, text, "a positive number");
    return value;
}

struct options
options_parse(int argc, char **argv)
{
    static const struct option names[] = {
        {"batch", required_argument, NULL, 'b'}, {"steps", required_argument, NULL, 'n'},
        {"lr", required_argument, NULL, 'r'},    {"seed", required_argument, NULL, 's'},
        {"data", required_argument, NULL, 'd'},  {"save", required_argument, NULL, 'o'},
        {"quiet", no_argument, NULL, 'q'},       {"log-every", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    struct options options = {
        .batch = 96, .steps = 300, .rate = 0.1f, .seed = 1, .data = "samples/data/digits.csv", .log_every = 100};

    opterr = 0; /* the messages below are of one form with all others */
    int which;
    while ((which = getopt_long(argc, argv, ":", names, NULL)) != -1) {
        switch (which) {
        case 'b':
            options.batch = parse_count("batch", optarg);
            break;
        case 'n':
            options.steps = parse_count("steps", optarg);
            break;
        case 'r':
            options.rate = parse_rate("lr", optarg);
            break;
        case 's':
            options.seed = parse_whole("seed", optarg, 0, UINT64_MAX, "a whole number");
            break;
        case 'd':
            options.data = optarg;
            break;
        case 'o':
            options.save = optarg;
            break;
        case 'l':
            options.log_every = parse_count("log-every", optarg);
            break;
        case 'q':
            options.quiet = true;
            break;
        case 'h':
            fputs(USAGE, stdout);
            exit(0);
        case ':':
            fprintf(stderr, "digits: %s: wants a value; --help lists the options\n", argv[optind - 1]);
            exit(2);
        default:
            fprintf(stderr, "digits: %s: no such option; --help lists them\n", argv[optind - 1]);
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "digits: %s: expected options only; --help lists them\n", argv[optind]);
        exit(2);
    }
    return options;
}
