/*
 * trace_file.h - the file of a trace: a line of JSON for each thing that happened. docs/trace.md has the format.
 *
 * Called by trace.c and trace_plans.c, with the issuer's role, and at the start and the end of the program.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_REPORT_TRACE_FILE_H
#define DDPRUN_INTERPOSE_ENGINE_REPORT_TRACE_FILE_H

#include "bucketing/cost.h"
#include "interpose/engine/memory/memory.h"
#include "interpose/engine/report/json.h"

enum { TRACE_VERSION = 1 };

/* With --trace: opens the file and writes its head. All ranks: it is an exchange. Ends the job if it cannot. */
void trace_file_open(void);
bool trace_file_is_open(void);
/* A new line; then what is in it, and trace_file_write(). One at a time. */
struct json *trace_file_begin(void);
void trace_file_write(struct json *line);
/* Writes the plan that is in force for the group, its number `number`, from 1 on; the first has its tensors, too. */
void trace_file_write_plan(const struct group *group, uint64_t number) BY_ISSUER;
/* Writes what an all-reduce costs on an idle device; `cost` is not empty. */
void trace_file_write_costs(const struct cost *cost);
/* Writes the exchanges and the values of DDP_MEAN since the last call. */
void trace_file_write_exchanges(void);
/* Writes the line that says that the trace is whole. */
void trace_file_close(void);

#endif
