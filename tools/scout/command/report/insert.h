/*
 * insert.h - the lines that annotate a program, each with the place in its source.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_INSERT_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_INSERT_H

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/site.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct insertion {
    char *file;
    int line;   /* the text goes in front of this line */
    char *text; /* without indentation and the last line's end */
};

struct insertions {
    struct insertion *items; /* by file and line; those of one line in their order */
    uint32_t count;
    bool *placed;        /* [tensor_count]: has a line */
    bool *placed_steps;  /* [group_count] */
    uint32_t *group_of;  /* [group_count]: the number that lines give a group of the finding */
    uint32_t groups;     /* of lines */
    uint32_t forgotten;  /* DDP_FORGET comes before it is freed: one annotation is of several sizes; SCOUT_NONE */
    bool has_no_records; /* several are not shown in open_copy */
    uint32_t open_copy;  /* an operation that brings data and has no line; SCOUT_NONE */
};

/* Looks the places up in debug information and in the sources, as far as there are any. */
void insertions_find(struct sites *sites, const struct scout_log *log, const struct scout_finding *finding,
                     struct insertions *insertions);
void insertions_free(struct insertions *insertions);

/* Whether a tensor has an annotation of its own. */
bool insertions_wants(const struct scout_finding *finding, const struct scout_tensor *tensor);

/* ---- lines.c: the annotation lines that a finding comes to, and where they stand ---- */
/* The patch-like listing. */
void lines_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites);

/* ---- annotated.c ---- */
/*
 * The annotations of a program, held against what was found: what is missing, what is superfluous.
 *
 * Threads: one at a time.
 */

/* One line for each difference; one line if there is none. */
void annotated_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding);

/*
 * Of a program whose steps are equal on all ranks, what these leave open: parameters without an annotation, where
 * gradients of more elements are annotated, and a step behind an operation that trains with gradients. Returns how many
 * lines it has printed.
 */
uint32_t annotated_print_open(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
                              struct sites *sites);

#endif
