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
    struct link_model model = {.latency_us = 0.0, .gbytes_per_s = INFINITY, .busy_factor = 1.0, .slows = 1.0};
    struct {
        const char *key;
        double *number, least, most;
        bool is_given;
    } parts[] = {
        {"latency_us=", &model.latency_us, 0.0, LATENCY_MAX_US, false},
        {"gbytes_per_s=", &model.gbytes_per_s, 1e-6, INFINITY, false},
        {"busy_factor=", &model.busy_factor, 1.0, BUSY_FACTOR_MAX, false},
        {"slows=", &model.slows, 1.0, BUSY_FACTOR_MAX, false},
    };
    const size_t count = sizeof(parts) / sizeof(parts[0]);
    for (const char *cursor = value ? value : ""; *cursor;) {
        size_t i = 0;
        while (i < count && strncmp(cursor, parts[i].key, strlen(parts[i].key)) != 0)
            ++i;
        if (i == count || parts[i].is_given)
            return false;
        cursor += strlen(parts[i].key);
        parts[i].is_given = parse_number(&cursor, parts[i].number);
        if (!parts[i].is_given || *parts[i].number < parts[i].least || *parts[i].number > parts[i].most)
            return false;
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
