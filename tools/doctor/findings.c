/* findings.c - see findings.h. */
#include "tools/doctor/findings.h"

#include "base/printable.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/grown.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct finding {
    enum finding_state state;
    char *title;         /* not NULL: a section begins here */
    const char *subject; /* static */
    char *text;
    char *advice; /* NULL: nothing is to be done */
};

struct findings {
    struct finding *items;
    size_t count;
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
findings_section(struct findings *findings, const char *title)
{
    free(findings->title);
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
    *GROWN(findings->items, findings->count) =
        (struct finding){.state = state, .title = findings->title, .subject = subject, .text = text, .advice = todo};
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
