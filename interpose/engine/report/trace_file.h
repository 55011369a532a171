/*
 * trace_file.h - the file of a trace: a line of JSON for each thing that happened. docs/trace.md has the format.
 *
 * Called by trace.c and trace_plans.c, with the issuer's role, and at the start and the end of the program.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_REPORT_TRACE_FILE_H
#define DDPRUN_INTERPOSE_ENGINE_REPORT_TRACE_FILE_H

#include "bucketing/cost.h"
#include "interpose/engine/memory/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TRACE_VERSION = 1 };

/* With --trace: opens the file and writes its head. All ranks: it is an exchange. Ends the job if it cannot. */
void trace_file_open(void);
/* A new line; then what is in it, and trace_file_write(). One at a time. */
struct json *trace_file_begin(void);
void trace_file_write(struct json *line);
/* Writes the plan that is in force for the group, its number `number`, from 1 on; the first has its tensors, too. */
void trace_file_write_plan(const struct group *group, uint64_t number) BY_ISSUER;
/* Writes what an all-reduce costs on an idle device; `cost` is not empty. */
void trace_file_write_costs(const struct cost *cost);
/* Writes the exchanges, the new warnings and the values of DDP_MEAN since the last call. */
void trace_file_write_exchanges(void);
/* Writes the line that says that the trace is whole. */
void trace_file_close(void);

/* ---- json.c ---- */
/*
 * A writer of one line of JSON. The engine links no library for it, whose functions the program could have under the
 * same names.
 *
 * Called by the trace. A line is composed in memory, and reaches the file's buffer when it is whole: the program may
 * fork meanwhile.
 */

/* A line in the making; between json_begin() and json_end(). */
struct json {
    FILE *stream; /* in memory */
    char *text;
    size_t bytes;
    bool follows; /* the next value is not the first in its object or array */
};

/* Begins an object. Ends the job if there is no memory. */
void json_begin(struct json *json);
/* Ends the object and the line, newline included: json->text, json->bytes, for the caller to free. */
void json_end(struct json *json);

/* An object or array inside, '{' or '[', and its end. `name`: of a member; NULL: an element of an array. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);

void json_add_bool(struct json *json, const char *name, bool value);
void json_add_i64(struct json *json, const char *name, int64_t value);
void json_add_u64(struct json *json, const char *name, uint64_t value);
/* All of its digits: what is read is the same number. */
void json_add_double(struct json *json, const char *name, double value);
/* A time in microseconds, with three digits after the point. */
void json_add_us(struct json *json, const char *name, double us);
/* Escapes what JSON demands; other bytes stay as they are. */
void json_add_text(struct json *json, const char *name, const char *text);

#endif
