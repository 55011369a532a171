/* request.c - see request.h. */
#include "tools/predict/request.h"

#include "base/protocol.h"
#include "launcher/options/option_rows.h"
#include "tools/common/owned.h"

#include <sys/stat.h>

enum { DEFAULT_STEPS = 60, MOST_STEPS = 900 };

/* ---- values ---- */

struct unit {
    const char *name;
    double factor;
};

/* A number of digits, with a fraction or without, in one of the units. */
static bool
take_quantity(const char *number, const char *unit, const struct unit *units, double *value)
{
    char *end;
    while (units->name != NULL && strcmp(units->name, unit) != 0)
        ++units;
    *value = strtod(number, &end) * units->factor;
    return units->name != NULL && *end == '\0' && number[0] != '.' && end[-1] != '.';
}

bool
predict_parse_link(const char *text, struct link *link)
{
    static const struct unit bandwidths[] = {{"Gbit", 125.0}, {"Mbit", 0.125}, {"GB", 1000.0}, {"MB", 1.0}, {NULL, 0}};
    static const struct unit latencies[] = {{"ns", 1e-3}, {"us", 1.0}, {"ms", 1e3}, {NULL, 0}};
    char bandwidth[16], latency[16], names[2][8]; /* without an exponent: what follows digits is the unit */
    struct link parsed;
    int end = 0;
    if (sscanf(text, "%15[0-9.]%7[A-Za-z],%15[0-9.]%7[A-Za-z]%n", bandwidth, names[0], latency, names[1], &end) != 4 ||
        text[end] != '\0' || !take_quantity(bandwidth, names[0], bandwidths, &parsed.bytes_per_us) ||
        !take_quantity(latency, names[1], latencies, &parsed.latency_us) || parsed.bytes_per_us < 1e-3 ||
        parsed.bytes_per_us > 1e9 || parsed.latency_us > 1e7)
        return false;
    *link = parsed;
    return true;
}

static bool
take_counts(const struct option_row *row, void *target, const char *value, struct error *error)
{
    struct predict_request *request = target;
    OWNED char *copy = xstrdup(value);
    char *rest = copy;
    bool ok = true;
    (void)row;
    request->count_count = 0;
    for (char *word; ok && (word = strsep(&rest, ",")) != NULL;) {
        unsigned long count = 0;
        ok = request->count_count < PREDICT_MOST_COUNTS && option_whole_number(word, 1, PREDICT_MOST_RANKS, &count);
        if (ok)
            request->counts[request->count_count++] = (unsigned)count;
    }
    return ok || error_set(error, DDPRUN_EXIT_USAGE,
                           "'%s' is not a list of at most %d numbers of ranks from 1 to %d, in -n of predict; write "
                           "for example 2,4,8",
                           value, PREDICT_MOST_COUNTS, PREDICT_MOST_RANKS);
}

static bool
take_link(const struct option_row *row, void *target, const char *value, struct error *error)
{
    struct predict_request *request = target;
    (void)row;
    request->has_link = predict_parse_link(value, &request->link);
    return request->has_link ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "'%s' is not BANDWIDTH,LATENCY, in --link of predict; write for example 100Gbit,5us (Gbit, Mbit, "
                     "GB or MB a second; ns, us or ms)",
                     value);
}

/* ---- the command line ---- */

#define OPTION_TARGET struct predict_request
const struct option_row predict_rows[] = {
    {.name = "ranks",
     .letter = 'n',
     .argument = "LIST",
     SPECIAL(take_counts),
     .help = "numbers of ranks, 1 to 1000000 (default 2,4,8,16,32,64)"},
    {.name = "link",
     .argument = "BANDWIDTH,LATENCY",
     SPECIAL(take_link),
     .help = "link between neighbours in the ring of ranks, such as 100Gbit,5us;\n"
             "Gbit, Mbit, GB or MB per second (10^9 and 10^6); ns, us or ms\n"
             "(default: as measured between two ranks)"},
    {.name = "steps",
     .argument = "M",
     WHOLE(steps, PREDICT_LEAST_STEPS, MOST_STEPS, "a number from 40 to 900"),
     .help = "measured steps of the program, 40 to 900 (default 60)"},
    HELP_ROW,
    {0},
};

struct predict_request
predict_usual(void)
{
    static const unsigned usual[] = {2, 4, 8, 16, 32, 64};
    struct predict_request request = {.steps = DEFAULT_STEPS, .count_count = sizeof(usual) / sizeof(usual[0])};
    memcpy(request.counts, usual, sizeof(usual));
    return request;
}

void
predict_take_program(struct predict_request *request, char *const *words)
{
    struct stat status;
    if (words[1] == NULL && stat(*words, &status) == 0 && S_ISDIR(status.st_mode))
        request->folder = *words;
    request->program = words;
}
