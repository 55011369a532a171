/*
 * json.h - a writer of one line of JSON. The engine links no library for it, whose functions the program could have
 * under the same names.
 *
 * Called by the trace. A line is composed in memory, and reaches the file's buffer when it is whole: the program may
 * fork meanwhile.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_REPORT_JSON_H
#define DDPRUN_INTERPOSE_ENGINE_REPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
/* A time in microseconds, with three digits behind the point. */
void json_add_us(struct json *json, const char *name, double us);
/* Escapes what JSON demands; other bytes stay as they are. */
void json_add_text(struct json *json, const char *name, const char *text);

#endif
