/*
 * notes.c - what a finding says: notes, and the reason of a refusal.
 */
#include "tools/scout/command/analysis/rules.h"

#include "launcher/common/xcalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __attribute__((format(printf, 2, 3))) note_add(struct scout_finding *finding, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < finding->note_count; ++i)
        if (strcmp(finding->notes[i], text) == 0)
            return;
    finding->notes = xrealloc(finding->notes, (finding->note_count + 1) * sizeof(*finding->notes));
    finding->notes[finding->note_count++] = xstrdup(text);
}

enum roles_verdict __attribute__((format(printf, 3, 4)))
note_refuse(struct scout_finding *finding, enum roles_verdict verdict, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    free(finding->reason);
    finding->reason = xstrdup(text);
    return verdict;
}
