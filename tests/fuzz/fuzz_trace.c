/*
 * fuzz_trace.c - target: the file of a rank's trace, and the timeline that is made of it.
 *
 * Required: the timeline is JSON, whatever names and numbers the file has, and each of its slices has a length.
 */
#include "tests/fuzz/fuzz.h"

#include "launcher/trace/chrome.h"

#include <json-c/json.h>

#include <stdlib.h>

static void
require_timeline(const char *text)
{
    struct json_tokener *tokener = json_tokener_new();
    json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
    json_object *timeline = json_tokener_parse_ex(tokener, text, -1), *events, *value;
    fuzz_require(timeline != NULL, "the timeline is JSON, in UTF-8");
    fuzz_require(json_object_object_get_ex(timeline, "traceEvents", &events), "it has events");
    for (size_t i = 0; i < json_object_array_length(events); ++i) {
        json_object *event = json_object_array_get_idx(events, i);
        if (json_object_object_get_ex(event, "dur", &value))
            fuzz_require(json_object_get_double(value) >= 0, "a slice has a length");
    }
    json_object_put(timeline);
    json_tokener_free(tokener);
}

void
fuzz_trace(const uint8_t *bytes, size_t count)
{
    struct trace trace = {0};
    size_t half = count / 2; /* two ranks */
    trace_take_file(&trace, 0, "rank-0.jsonl", (const char *)bytes, half);
    trace_take_file(&trace, 1, "rank-1.jsonl", (const char *)bytes + half, count - half);
    if (trace.run_count > 0) {
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        struct run_clock *clocks = clocks_align(&trace);
        fuzz_require(out != NULL, "there is memory");
        chrome_write(out, &trace, clocks);
        fclose(out);
        require_timeline(text);
        clocks_free(clocks, &trace);
        free(text);
    }
    trace_free(&trace);
}
