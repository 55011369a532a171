/* findings.c - see findings.h. */
#include "tools/doctor/findings.h"

#include "base/printable.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <stdarg.h>

static const struct {
    const char *name, *colour; /* ECMA-48 "select graphic rendition" */
} states[FINDING_STATE_COUNT] = {
    [FINDING_OK] = {"ok", "32"},
    [FINDING_NOTE] = {"note", "36"},
    [FINDING_WARNING] = {"warning", "33"},
    [FINDING_PROBLEM] = {"problem", "31"},
};

/* Prints the text, with what is before it and a newline. */
static void
print_line(FILE *out, const char *before, const char *text)
{
    OWNED char *plain = xstrdup(text);
    printable_make(plain, "");
    fprintf(out, "%s%s\n", before, plain);
}

void
findings_say(struct findings *findings, enum finding_state state, const char *subject, const char *advice,
             const char *format, ...)
{
    enum { STATE_WIDTH = 7 };
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = xstrdup("(no memory to say it)");
    va_end(args);
    if (findings->title != NULL)
        print_line(findings->out, "", findings->title);
    findings->title = NULL;
    if (findings->colour)
        fprintf(findings->out, "  \033[%sm%-*s\033[0m  ", states[state].colour, STATE_WIDTH, states[state].name);
    else
        fprintf(findings->out, "  %-*s  ", STATE_WIDTH, states[state].name);
    fprintf(findings->out, "%s: ", subject);
    print_line(findings->out, "", text);
    if (advice != NULL)
        print_line(findings->out, "           -> ", advice);
    fflush(findings->out);
    findings->counts[state] += 1;
    free(text);
}

void
findings_say_error(struct findings *findings, enum finding_state state, const char *subject, const char *text)
{
    OWNED char *what = xstrdup(text);
    char *todo = strstr(what, "; ");
    if (todo != NULL)
        *todo = '\0';
    findings_say(findings, state, subject, todo != NULL ? todo + 2 : "fix that", "%s", what);
}

void
findings_say_counts(const struct findings *findings)
{
    for (int state = 0; state < FINDING_STATE_COUNT; ++state) {
        int count = findings->counts[state];
        fprintf(findings->out, "%s%d %s%s", state == 0 ? "" : ", ", count, states[state].name,
                count == 1 || state == FINDING_OK ? "" : "s");
    }
    fputc('\n', findings->out);
}
