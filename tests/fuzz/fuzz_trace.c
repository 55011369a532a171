/*
 * fuzz_trace.c - target: the file of a rank's trace, and the timeline and the page that are made of it.
 *
 * Required: the timeline is JSON, whatever names and numbers the file has, and each of its slices has a length; the
 * page is well nested, of a bounded size, and has two scripts: its report, which is JSON, and its own.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/page/page.h"
#include "tools/trace/read.h"

#include <json-c/json.h>

#include <stdlib.h>
#include <string.h>

static void
require_timeline(const char *text)
{
    json_object *timeline = fuzz_json(text, strlen(text)), *events, *value;
    fuzz_require(json_object_object_get_ex(timeline, "traceEvents", &events), "it has events");
    for (size_t i = 0; i < json_object_array_length(events); ++i) {
        json_object *event = json_object_array_get_idx(events, i);
        if (json_object_object_get_ex(event, "dur", &value))
            fuzz_require(json_object_get_double(value) >= 0, "a slice has a length");
    }
    json_object_put(timeline);
}

enum { NAME_BYTES = 16, DEEPEST = 32, PAGE_BYTES_AT_MOST = 2 << 20 };

/* The end of the tag at `at`, behind its '>': an attribute's value may have one, too. */
static const char *
end_of_tag(const char *at)
{
    char quote = 0;
    for (; *at != '\0' && (quote != 0 || *at != '>'); ++at) {
        if (quote == 0 ? *at == '"' || *at == '\'' : *at == quote)
            quote = quote == 0 ? *at : 0;
    }
    fuzz_require(*at == '>', "a tag of the page ends");
    return at + 1;
}

static void
require_page(const char *text, size_t length)
{
    static const char *const single[] = {"!DOCTYPE", "meta"};
    char open[DEEPEST][NAME_BYTES], name[NAME_BYTES];
    size_t depth = 0, scripts = 0;
    fuzz_require(length <= PAGE_BYTES_AT_MOST && strlen(text) == length, "the page is small, and has no NUL byte");
    for (const char *at = strchr(text, '<'), *end; at != NULL; at = strchr(end, '<')) {
        bool closes = at[1] == '/', alone = false;
        end = end_of_tag(at);
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1 + closes, " >/\n"), at + 1 + closes);
        if (strcmp(name, "script") == 0 && !closes) { /* up to its end it has no tags */
            const char *begin = end;
            end = strstr(begin, "</script>");
            fuzz_require(end != NULL && strstr(begin, "<!--") == NULL, "a script of the page ends");
            if (++scripts == 1)
                json_object_put(fuzz_json(begin, (size_t)(end - begin)));
            memcpy(open[depth++], name, sizeof(name));
            continue;
        }
        for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); ++i)
            alone = alone || strcmp(name, single[i]) == 0;
        if (end[-2] == '/' || alone)
            continue;
        fuzz_require(closes ? depth > 0 && strcmp(open[depth - 1], name) == 0 : depth < DEEPEST,
                     "the page is well nested");
        if (closes)
            --depth;
        else
            memcpy(open[depth++], name, sizeof(name));
    }
    fuzz_require(scripts == 2, "no name became a script");
    fuzz_require(depth == 0, "all that is open in the page is closed");
}

static void
make_page(const struct trace *trace)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fuzz_require(out != NULL, "there is memory");
    page_write(out, trace);
    fclose(out);
    require_page(text, length);
    json_object *report = report_of_page(text);
    fuzz_require(report != NULL, "the page's report is read");
    json_object_put(report);
    free(text);
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
        make_page(&trace);
        clocks_free(clocks, &trace);
        free(text);
    }
    trace_free(&trace);
}
