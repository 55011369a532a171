/*
 * request.c - see request.h.
 */
#include "launcher/predict/request.h"

#include "base/protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEFAULT_STEPS = 60, MOST_STEPS = 900, DEFAULT_TIMEOUT_S = 900, MOST_TIMEOUT_S = 1000000 };

void
predict_print_help(void)
{
    fputs("Usage: ddprun [options] predict [options] program [arguments...]\n"
          "       ddprun predict [options] DIR\n\n"
          "Predicts what a step takes on other numbers of ranks. Runs the program for some steps\n"
          "on two ranks, to see when gradients are ready and what an all-reduce costs; with\n"
          "--link on one rank, which needs one GPU. Or takes that from the trace in DIR, written\n"
          "by ddprun --trace DIR. Prints step time, exposed communication and efficiency for\n"
          "each number of ranks, and what it assumes.\n\n"
          "  -n, --ranks LIST            numbers of ranks (default 2,4,8,16,32,64)\n"
          "  --link BANDWIDTH,LATENCY    between neighbours in a ring of all ranks, such as 100Gbit,5us;\n"
          "                              Gbit, Mbit, GB or MB a second; ns, us or ms\n"
          "                              (default: as measured between two ranks)\n"
          "  --steps M                   steps of the program that are looked at, 40 to 900 (default 60)\n"
          "  --timeout SECONDS           end the program if they take longer (default 900)\n"
          "  --help                      print this\n\n"
          "Exit codes: 0: printed; 1: the program failed or made no steps, or the trace has none,\n"
          "with the reason; 2: wrong options.\n",
          stdout);
}

/* ---- values ---- */

struct unit {
    const char *name;
    double factor;
};

/* Digits, with a fraction or without, and a unit; up to `end` or the end of the text. NULL: it is not that. */
static const char *
parse_quantity(const char *text, const struct unit *units, char end, double *value)
{
    size_t digits = strspn(text, "0123456789"), fraction = 0;
    if (text[digits] == '.')
        fraction = 1 + strspn(text + digits + 1, "0123456789");
    if (digits == 0 || digits > 12 || fraction == 1 || fraction > 12)
        return NULL;
    const char *rest = text + digits + fraction;
    char number[32];
    snprintf(number, sizeof(number), "%.*s", (int)(digits + fraction), text); /* no exponent: the rest is the unit */
    *value = strtod(number, NULL);
    size_t length = end != '\0' ? strcspn(rest, (char[]){end, '\0'}) : strlen(rest);
    for (; units->name != NULL; ++units) {
        if (strlen(units->name) == length && strncmp(units->name, rest, length) == 0 && rest[length] == end) {
            *value *= units->factor;
            return rest + length;
        }
    }
    return NULL;
}

bool
predict_parse_link(const char *text, struct link *link)
{
    static const struct unit bandwidths[] = {{"Gbit", 125.0}, {"Mbit", 0.125}, {"GB", 1000.0}, {"MB", 1.0}, {NULL, 0}};
    static const struct unit latencies[] = {{"ns", 1e-3}, {"us", 1.0}, {"ms", 1e3}, {NULL, 0}};
    struct link parsed;
    const char *comma = parse_quantity(text, bandwidths, ',', &parsed.bytes_per_us);
    if (comma == NULL || parse_quantity(comma + 1, latencies, '\0', &parsed.latency_us) == NULL ||
        parsed.bytes_per_us < 1e-3 || parsed.bytes_per_us > 1e9 || parsed.latency_us > 1e7)
        return false;
    *link = parsed;
    return true;
}

static bool
parse_number(const char *text, size_t length, unsigned least, unsigned most, unsigned *number_p)
{
    unsigned long number = 0;
    if (length == 0 || length > 9 || strspn(text, "0123456789") < length)
        return false;
    for (size_t i = 0; i < length; ++i)
        number = number * 10 + (unsigned long)(text[i] - '0');
    *number_p = (unsigned)number;
    return number >= least && number <= most;
}

static bool
take_counts(const char *value, struct predict_request *request, struct error *error)
{
    request->count_count = 0;
    for (const char *at = value;; ++at) {
        size_t length = strcspn(at, ",");
        unsigned *count = &request->counts[request->count_count];
        if (request->count_count == PREDICT_MOST_COUNTS || !parse_number(at, length, 1, PREDICT_MOST_RANKS, count))
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "'%s' is not a list of at most %d numbers of ranks from 1 to %d, in -n of predict; write "
                             "for example 2,4,8",
                             value, PREDICT_MOST_COUNTS, PREDICT_MOST_RANKS);
        ++request->count_count;
        at += length;
        if (*at == '\0')
            return true;
    }
}

static bool
take_link(const char *value, struct predict_request *request, struct error *error)
{
    request->has_link = predict_parse_link(value, &request->link);
    return request->has_link ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "'%s' is not BANDWIDTH,LATENCY, in --link of predict; write for example 100Gbit,5us (Gbit, Mbit, "
                     "GB or MB a second; ns, us or ms)",
                     value);
}

static bool
take_steps(const char *value, struct predict_request *request, struct error *error)
{
    return parse_number(value, strlen(value), PREDICT_LEAST_STEPS, MOST_STEPS, &request->steps) ||
           error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not a number from %d to %d, in --steps of predict", value,
                     PREDICT_LEAST_STEPS, MOST_STEPS);
}

static bool
take_timeout(const char *value, struct predict_request *request, struct error *error)
{
    return parse_number(value, strlen(value), 1, MOST_TIMEOUT_S, &request->timeout_s) ||
           error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not a number from %d to %d, in --timeout of predict", value, 1,
                     MOST_TIMEOUT_S);
}

static const struct {
    const char *name;
    bool (*take)(const char *value, struct predict_request *request, struct error *error);
} known[] = {{"-n", take_counts},
             {"--ranks", take_counts},
             {"--link", take_link},
             {"--steps", take_steps},
             {"--timeout", take_timeout}};

/* ---- the command line ---- */

static bool
take_word(struct predict_request *request, char *const **words, struct error *error)
{
    const char *word = **words;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        size_t length = strlen(known[i].name);
        if (strncmp(word, known[i].name, length) != 0 || (word[length] != '\0' && word[length] != '='))
            continue;
        if (word[length] == '=')
            return known[i].take(word + length + 1, request, error);
        if ((*words)[1] == NULL)
            break;
        return known[i].take(*++*words, request, error);
    }
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "unknown option %s of predict, or one without its value; see ddprun "
                     "predict --help",
                     word);
}

bool
predict_parse(char *const *words, struct predict_request *request, struct error *error)
{
    static const unsigned usual[] = {2, 4, 8, 16, 32, 64};
    struct stat status;
    *request = (struct predict_request){
        .steps = DEFAULT_STEPS, .timeout_s = DEFAULT_TIMEOUT_S, .count_count = sizeof(usual) / sizeof(usual[0])};
    memcpy(request->counts, usual, sizeof(usual));
    for (++words; *words != NULL && (*words)[0] == '-'; ++words) {
        if (strcmp(*words, "--") == 0) {
            ++words;
            break;
        }
        if (strcmp(*words, "--help") == 0) {
            request->help = true;
            return true;
        }
        if (!take_word(request, &words, error))
            return false;
    }
    if (*words == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "no program given, after predict; write for example: ddprun predict -n 2,4,8 ./train (see "
                         "ddprun predict --help)");
    if (words[1] == NULL && stat(*words, &status) == 0 && S_ISDIR(status.st_mode))
        request->folder = *words;
    request->program = words;
    return true;
}
