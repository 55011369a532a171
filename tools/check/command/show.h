/*
 * show.h - the verdict of a check, for people (a table on stdout) and for programs (--json).
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_SHOW_H
#define DDPRUN_TOOLS_CHECK_COMMAND_SHOW_H

#include "launcher/common/error.h"
#include "tools/check/command/verdict.h"

#include <stdio.h>

/* At most 20 tensors, worst first, and what limits the comparison. */
void check_print_table(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict);

/* The verdict and what to do. `colour`: its first word has one. */
void check_print_verdict(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict,
                         bool colour);

/* All tensors. False with errno; the file is then as it was before. */
bool check_write_json(const char *path, const struct check_evidence *evidence, const struct check_verdict *verdict,
                      int exit_code) __attribute__((warn_unused_result));

/* The same without a verdict: why there is no verdict. */
bool check_write_json_error(const char *path, const struct error *error) __attribute__((warn_unused_result));

#endif
