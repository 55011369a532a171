/*
 * brief.c - see brief.h.
 */
#include "launcher/report/brief.h"

#include "launcher/common/xcalloc.h"
#include "launcher/report/report.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SUSPECT_LINES = 7, OTHERS_LINES = 4, EVENTS_LINES = 3 };

static const char cut_mark[] = "    ...\n";
static const char others_mark[] = "  ...\n";

size_t
brief_count_lines(const char *text)
{
    size_t count = 0;
    for (; text != NULL && (text = strchr(text, '\n')) != NULL; ++text)
        ++count;
    return count;
}

static const char *
line_after(const char *text, size_t lines)
{
    for (size_t i = 0; i < lines && *text != '\0'; ++i)
        text = strchr(text, '\n') + 1;
    return text;
}

/* Appends the first lines of [from, to). Returns how many. */
static size_t
append(char *text, const char *from, const char *to, size_t lines)
{
    const char *end = line_after(from, lines);
    end = end < to ? end : to;
    strncat(text, from, (size_t)(end - from));
    size_t count = 0;
    for (; from < end; from = line_after(from, 1))
        ++count;
    return count;
}

/* Where the heading's line begins; the end of the text if it has none. */
static const char *
find_heading(const char *text, const char *heading)
{
    const char *found = strstr(text, heading);
    return found != NULL ? found : text + strlen(text);
}

/* What the rank does, its last events, and the first stacks as far as they fit. At least one line. */
static void
append_rank(char *text, const char *part, size_t lines)
{
    const char *threads = find_heading(part, REPORT_THREADS), *end = threads + strlen(threads);
    const char *events = find_heading(part, REPORT_EVENTS);
    events = events < threads ? events : threads;
    if (brief_count_lines(part) <= lines) {
        append(text, part, end, lines);
        return;
    }
    --lines; /* for the mark */
    lines -= append(text, part, events, lines);
    const char *last = line_after(events, 1);
    while (last < threads && brief_count_lines(last) > brief_count_lines(threads) + EVENTS_LINES)
        last = line_after(last, 1);
    if (events < threads && lines > EVENTS_LINES + 1) {
        lines -= append(text, events, line_after(events, 1), 1);
        lines -= append(text, last, threads, EVENTS_LINES);
    }
    append(text, threads, end, lines);
    append(text, cut_mark, cut_mark + strlen(cut_mark), 1);
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

char *
brief_make(const char *const parts[BRIEF_PARTS], size_t lines)
{
    size_t counts[BRIEF_PARTS], bytes = sizeof(cut_mark) * BRIEF_PARTS + 1;
    for (int i = 0; i < BRIEF_PARTS; ++i) {
        counts[i] = brief_count_lines(parts[i]);
        bytes += parts[i] != NULL ? strlen(parts[i]) : 0;
    }
    char *text = xcalloc(1, bytes);
    size_t others = least(counts[2], least(lines, OTHERS_LINES));
    others = counts[0] + counts[1] + others < lines ? least(counts[2], lines - counts[0] - counts[1]) : others;
    size_t suspect = least(counts[1], least((lines - others) / 2, SUSPECT_LINES));
    suspect = counts[0] + suspect + others < lines ? least(counts[1], lines - counts[0] - others) : suspect;
    if (parts[0] != NULL)
        append_rank(text, parts[0], lines - others - suspect);
    if (parts[1] != NULL)
        append_rank(text, parts[1], suspect);
    if (parts[2] != NULL && others < counts[2] && others > 0) {
        append(text, parts[2], parts[2] + strlen(parts[2]), others - 1);
        append(text, others_mark, others_mark + strlen(others_mark), 1);
    } else if (parts[2] != NULL) {
        append(text, parts[2], parts[2] + strlen(parts[2]), others);
    }
    return text;
}
