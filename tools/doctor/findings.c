/*
 * findings.c - see findings.h.
 */
#include "tools/doctor/findings.h"

#include "base/printable.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/grown.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Of the JSON form; goes up when a member changes its meaning or is gone. */
enum { JSON_VERSION = 1 };

struct finding {
    enum finding_state state;
    const char *section; /* key, static */
    char *title;         /* not NULL: a section begins here */
    const char *subject; /* static */
    char *text;
    char *advice; /* NULL: nothing is to be done */
};

struct findings {
    struct finding *items;
    size_t count;
    const char *section;
    char *title; /* of the section, until its first finding takes it */
};

static const struct {
    const char *name, *colour; /* ECMA-48 "select graphic rendition" */
} states[FINDING_STATE_COUNT] = {
    [FINDING_OK] = {"ok", "32"},
    [FINDING_NOTE] = {"note", "36"},
    [FINDING_WARNING] = {"warning", "33"},
    [FINDING_PROBLEM] = {"problem", "31"},
};

struct findings *
findings_new(void)
{
    return xcalloc(1, sizeof(struct findings));
}

void
findings_free(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; ++i) {
        free(findings->items[i].title);
        free(findings->items[i].text);
        free(findings->items[i].advice);
    }
    free(findings->items);
    free(findings->title);
    free(findings);
}

void
findings_section(struct findings *findings, const char *key, const char *title)
{
    free(findings->title);
    findings->section = key;
    findings->title = xstrdup(title);
    printable_make(findings->title, "");
}

static void
add_finding(struct findings *findings, enum finding_state state, const char *subject, const char *advice,
            const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = xstrdup("(no memory to say it)");
    printable_make(text, "");
    char *todo = advice != NULL ? xstrdup(advice) : NULL;
    if (todo != NULL)
        printable_make(todo, "");
    *GROWN(findings->items, findings->count) = (struct finding){.state = state,
                                                                .section = findings->section,
                                                                .title = findings->title,
                                                                .subject = subject,
                                                                .text = text,
                                                                .advice = todo};
    findings->title = NULL;
}

void
findings_ok(struct findings *findings, const char *subject, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_finding(findings, FINDING_OK, subject, NULL, format, args);
    va_end(args);
}

void
findings_say(struct findings *findings, enum finding_state state, const char *subject, const char *advice,
             const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_finding(findings, state, subject, advice, format, args);
    va_end(args);
}

void
findings_say_error(struct findings *findings, enum finding_state state, const char *subject, const char *text)
{
    char *what = xstrdup(text);
    char *todo = strstr(what, "; ");
    if (todo != NULL)
        *todo = '\0';
    findings_say(findings, state, subject, todo != NULL ? todo + 2 : "fix that", "%s", what);
    free(what);
}

int
findings_count(const struct findings *findings, enum finding_state state)
{
    int count = 0;
    for (size_t i = 0; i < findings->count; ++i)
        count += findings->items[i].state == state;
    return count;
}

static void
print_one(const struct finding *finding, bool colour, FILE *out)
{
    enum { STATE_WIDTH = 7 };
    const char *name = states[finding->state].name;
    if (finding->title != NULL)
        fprintf(out, "%s\n", finding->title);
    if (colour)
        fprintf(out, "  \033[%sm%-*s\033[0m  ", states[finding->state].colour, STATE_WIDTH, name);
    else
        fprintf(out, "  %-*s  ", STATE_WIDTH, name);
    fprintf(out, "%s: %s\n", finding->subject, finding->text);
    if (finding->advice != NULL)
        fprintf(out, "  %*s  -> %s\n", STATE_WIDTH, "", finding->advice);
}

void
findings_print(const struct findings *findings, bool colour, FILE *out)
{
    for (size_t i = 0; i < findings->count; ++i)
        print_one(&findings->items[i], colour, out);
    for (int state = 0; state < FINDING_STATE_COUNT; ++state) {
        int count = findings_count(findings, (enum finding_state)state);
        fprintf(out, "%s%d %s%s", state == 0 ? "" : ", ", count, states[state].name,
                count == 1 || state == FINDING_OK ? "" : "s");
    }
    fputc('\n', out);
}

static struct json_object *
json_of(const struct finding *finding)
{
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "section", json_object_new_string(finding->section));
    json_object_object_add(object, "subject", json_object_new_string(finding->subject));
    json_object_object_add(object, "state", json_object_new_string(states[finding->state].name));
    json_object_object_add(object, "text", json_object_new_string(finding->text));
    if (finding->advice != NULL)
        json_object_object_add(object, "advice", json_object_new_string(finding->advice));
    return object;
}

void
findings_print_json(const struct findings *findings, const char *program, FILE *out)
{
    struct json_object *whole = json_object_new_object();
    struct json_object *counts = json_object_new_object();
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < findings->count; ++i)
        json_object_array_add(list, json_of(&findings->items[i]));
    for (int state = 0; state < FINDING_STATE_COUNT; ++state)
        json_object_object_add(counts, states[state].name,
                               json_object_new_int(findings_count(findings, (enum finding_state)state)));
    char *printable = program != NULL ? xstrdup(program) : NULL;
    if (printable != NULL)
        printable_make(printable, "");
    json_object_object_add(whole, "version", json_object_new_int(JSON_VERSION));
    json_object_object_add(whole, "program", printable != NULL ? json_object_new_string(printable) : NULL);
    json_object_object_add(whole, "counts", counts);
    json_object_object_add(whole, "findings", list);
    fprintf(out, "%s\n",
            json_object_to_json_string_ext(whole, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(whole);
    free(printable);
}
