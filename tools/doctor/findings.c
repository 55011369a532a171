/* findings.c - see examine.h: what is printed. */
#include "tools/doctor/examine.h"

#include "base/printable.h"
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
findings_say(struct examination *it, enum finding_state state, const char *subject, const char *advice,
             const char *format, ...)
{
    enum { STATE_WIDTH = 7 };
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = xstrdup("(no memory to say it)");
    va_end(args);
    if (it->title != NULL)
        print_line(it->out, "", it->title);
    it->title = NULL;
    if (it->colour)
        fprintf(it->out, "  \033[%sm%-*s\033[0m  ", states[state].colour, STATE_WIDTH, states[state].name);
    else
        fprintf(it->out, "  %-*s  ", STATE_WIDTH, states[state].name);
    fprintf(it->out, "%s: ", subject);
    print_line(it->out, "", text);
    if (advice != NULL)
        print_line(it->out, "           -> ", advice);
    fflush(it->out);
    it->counts[state] += 1;
    free(text);
}

void
findings_say_error(struct examination *it, enum finding_state state, const char *subject, const char *text)
{
    OWNED char *what = xstrdup(text);
    char *todo = strstr(what, "; ");
    if (todo != NULL)
        *todo = '\0';
    findings_say(it, state, subject, todo != NULL ? todo + 2 : "fix that", "%s", what);
}

void
findings_say_counts(const struct examination *it)
{
    for (int state = 0; state < FINDING_STATE_COUNT; ++state) {
        int count = it->counts[state];
        fprintf(it->out, "%s%d %s%s", state == 0 ? "" : ", ", count, states[state].name,
                count == 1 || state == FINDING_OK ? "" : "s");
    }
    fputc('\n', it->out);
}
