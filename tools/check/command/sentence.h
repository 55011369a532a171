/*
 * sentence.h - the parts of a verdict's sentence, and what it decides: between verdict.c and equal.c, which draw the
 * conclusions. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_SENTENCE_H
#define DDPRUN_TOOLS_CHECK_COMMAND_SENTENCE_H

#include "tools/check/command/verdict.h"

void sentence_say(char text[1024], const char *format, ...) __attribute__((format(printf, 2, 3)));

void sentence_decide(struct check_verdict *verdict, enum check_result result, enum check_cause cause,
                     const struct check_item *first);

/* "parameter 2 of 6, `w1` (train.cu:12), 400 elements", "unannotated memory 2, which `adam` writes (argument 3), ...".
 */
const char *sentence_name_item(const struct check_verdict *verdict, const struct check_item *item, char text[400]);

/* "on all ranks", "on rank 1", "on 3 of 4 ranks" */
const char *sentence_name_ranks(const struct check_evidence *evidence, const struct check_item *item, char text[48]);

/* How a verdict on an item that differs begins: "after step 3 parameter 2 of 6, `w1` (train.cu:12), 400 elements,
 * differs from one rank's by 0.5 on all ranks". */
const char *sentence_place(const struct check_evidence *evidence, const struct check_verdict *verdict,
                           const struct check_item *item, char text[600]);

#endif
