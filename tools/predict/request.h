/*
 * request.h - the command line of `ddprun predict`.
 */
#ifndef DDPRUN_TOOLS_PREDICT_REQUEST_H
#define DDPRUN_TOOLS_PREDICT_REQUEST_H

#include "launcher/options/command.h"
#include "launcher/options/options.h"
#include "tools/predict/predict.h"

enum { PREDICT_MOST_COUNTS = 64, PREDICT_MOST_RANKS = 1000000, PREDICT_LEAST_STEPS = 40 };

struct predict_request {
    unsigned counts[PREDICT_MOST_COUNTS]; /* numbers of ranks, as they were given */
    size_t count_count;
    bool has_link;
    struct link link;
    unsigned steps;     /* of the program */
    const char *folder; /* a trace; NULL: the program is run */
    char *const *program;
};

extern const struct option_row predict_rows[]; /* up to one without a name */

/* Without options; and what stands after them, at least one word: a program, or the folder of a trace. */
struct predict_request predict_usual(void);
void predict_take_program(struct predict_request *request, char *const *words);

/* "100Gbit,5us": bandwidth in Gbit, Mbit, GB or MB a second (of 10^9 and 10^6), latency in ns, us or ms. */
bool predict_parse_link(const char *text, struct link *link) MUST_USE;

/* ---- table.c ---- */
/*
 * What `ddprun predict` prints: a step on each number of ranks, with the batch shared out among them and with the
 * batch kept on each, how many are worth it, and what is assumed.
 */

/* Borrowed. */
struct forecasts {
    const struct predict_request *request;
    struct model *kept;                        /* each rank has a part of the batch, one of */
    unsigned shares;                           /* so many: 1 is the whole */
    struct model *shared[PREDICT_MOST_COUNTS]; /* each has the share of one of counts[i] ranks; NULL: not looked at */
};

/* To standard output. Error: a number of ranks that cannot be predicted, and nothing is printed; or all are noise. */
bool table_print(const struct forecasts *forecasts, struct error *error) MUST_USE;

/* ---- command.c: `ddprun predict`: what would a step take on other numbers of ranks? ---- */
/* Main thread, before any other is started. */
extern const struct command predict_command;

#endif
