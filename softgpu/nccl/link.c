/*
 * link.c - see link.h.
 */
#include "nccl/link.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Longer than a day is a slip of the pen, and would not fit the arithmetic for long. */
#define LATENCY_MAX_US  86400e6
#define BUSY_FACTOR_MAX 1000.0

static bool
parse_number(const char **cursor, double *number_p)
{
    char *end;
    double number = strtod(*cursor, &end);
    if (end == *cursor || !isfinite(number) || (*end != '\0' && *end != ','))
        return false;
    *cursor = *end == ',' ? end + 1 : end;
    *number_p = number;
    return *end == '\0' || **cursor != '\0'; /* nothing after a comma is malformed */
}

bool
link_model_parse(const char *value, struct link_model *model_p)
{
    static const char latency_key[] = "latency_us=", bandwidth_key[] = "gbytes_per_s=", busy_key[] = "busy_factor=",
                      slows_key[] = "slows=";
    struct link_model model = {.latency_us = 0.0, .gbytes_per_s = INFINITY, .busy_factor = 1.0, .slows = 1.0};
    bool has_latency = false, has_bandwidth = false, has_busy = false, has_slows = false;

    for (const char *cursor = value ? value : ""; *cursor;) {
        if (!has_latency && strncmp(cursor, latency_key, strlen(latency_key)) == 0) {
            cursor += strlen(latency_key);
            has_latency = parse_number(&cursor, &model.latency_us);
            if (!has_latency || model.latency_us < 0.0 || model.latency_us > LATENCY_MAX_US)
                return false;
        } else if (!has_bandwidth && strncmp(cursor, bandwidth_key, strlen(bandwidth_key)) == 0) {
            cursor += strlen(bandwidth_key);
            has_bandwidth = parse_number(&cursor, &model.gbytes_per_s);
            if (!has_bandwidth || model.gbytes_per_s < 1e-6)
                return false;
        } else if (!has_busy && strncmp(cursor, busy_key, strlen(busy_key)) == 0) {
            cursor += strlen(busy_key);
            has_busy = parse_number(&cursor, &model.busy_factor);
            if (!has_busy || model.busy_factor < 1.0 || model.busy_factor > BUSY_FACTOR_MAX)
                return false;
        } else if (!has_slows && strncmp(cursor, slows_key, strlen(slows_key)) == 0) {
            cursor += strlen(slows_key);
            has_slows = parse_number(&cursor, &model.slows);
            if (!has_slows || model.slows < 1.0 || model.slows > BUSY_FACTOR_MAX)
                return false;
        } else {
            return false;
        }
    }
    *model_p = model;
    return true;
}

int64_t
link_model_ns(const struct link_model *model, size_t bytes, bool pays_latency)
{
    double ns = (pays_latency ? model->latency_us * 1e3 : 0.0) + (double)bytes / model->gbytes_per_s;
    return (int64_t)ns;
}
