/*
 * request.h - the command line of `ddprun predict`.
 */
#ifndef DDPRUN_TOOLS_PREDICT_REQUEST_H
#define DDPRUN_TOOLS_PREDICT_REQUEST_H

#include "launcher/options/command.h"
#include "tools/predict/predict.h"

enum { PREDICT_MOST_COUNTS = 64, PREDICT_MOST_RANKS = 1000000, PREDICT_LEAST_STEPS = 40 };

struct predict_request {
    unsigned counts[PREDICT_MOST_COUNTS]; /* numbers of ranks, as they were given */
    size_t count_count;
    bool has_link;
    struct link link;
    unsigned steps, timeout_s; /* of the program */
    const char *folder;        /* a trace; NULL: the program is run */
    char *const *program;
};

extern const struct option_row predict_rows[]; /* up to one without a name */

/* Without options; and what stands behind them, at least one word: a program, or the folder of a trace. */
struct predict_request predict_usual(void);
void predict_take_program(struct predict_request *request, char *const *words);

/* "100Gbit,5us": bandwidth in Gbit, Mbit, GB or MB a second (of 10^9 and 10^6), latency in ns, us or ms. */
bool predict_parse_link(const char *text, struct link *link) __attribute__((warn_unused_result));

#endif
