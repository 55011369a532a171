/*
 * report.c - see report.h.
 */
#include "launcher/report/report.h"

#include "base/flight.h"
#include "base/message.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/common/xcalloc.h"
#include "launcher/report/brief.h"
#include "launcher/report/stacks.h"
#include "launcher/watch/rank_describe.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENTS_SHOWN = 8, RANKS_SHOWN = 16, LINE_BYTES = 512, LEAST_LINES = 12 };

/* Appends a whole line, or nothing. */
static void __attribute__((format(printf, 3, 4))) add_line(char *text, size_t bytes, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    size_t used = strlen(text);
    if (used + strlen(line) + 1 < bytes)
        snprintf(text + used, bytes - used, "%s\n", line);
}

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* "after step 7", and how it ended, if it did. */
static void
add_head(const struct report_subject *subject, char *text, size_t bytes)
{
    const struct rank_view *view = subject->view;
    char place[160], step[48] = "before its first step", end[64] = "";
    rank_describe_place(view, place, sizeof(place));
    if (view->step > 0)
        snprintf(step, sizeof(step), "after step %" PRIu64, view->step);
    if (view->ended && view->signal != 0)
        snprintf(end, sizeof(end), ", ended by SIG%s",
                 sigabbrev_np(view->signal) != NULL ? sigabbrev_np(view->signal) : "?");
    else if (view->ended)
        snprintf(end, sizeof(end), ", ended with exit code %d", view->exit_code);
    add_line(text, bytes, "  rank %d%s %s%s:", subject->rank, place, step, end);
}

static bool
is_waiting(const struct rank_view *view)
{
    return view->wait == RANK_WAIT_EXCHANGE || view->wait == RANK_WAIT_COLLECTIVE;
}

static void
add_activity(const struct rank_view *view, char *text, size_t bytes)
{
    char words[LINE_BYTES - 16];
    if (view->ended) {
        if (view->in_call)
            add_line(text, bytes, "    it was in %s, on thread %d", view->call, view->call_thread);
        else if (view->call[0] != '\0')
            add_line(text, bytes, "    its last call was %s", view->call);
    } else if (view->wait != RANK_WAIT_EXCHANGE) { /* there it does nothing else */
        rank_describe_activity(view, words, sizeof(words));
        add_line(text, bytes, "    %s", words);
    }
    bool told = !view->ended && (view->in_call || view->wait == RANK_WAIT_DEVICE);
    if (view->call[0] != '\0' && view->kernel[0] != '\0' && !told)
        add_line(text, bytes, "    the last kernel that it launched was `%s`", view->kernel);
    if (!view->ended && is_waiting(view)) {
        rank_describe_wait(view, words, sizeof(words));
        add_line(text, bytes, "    it %s", words);
    }
}

static void
add_events(struct rank_status *status, char *text, size_t bytes)
{
    struct flight_entry events[EVENTS_SHOWN];
    size_t count = flight_read(flight_of(status), events, EVENTS_SHOWN);
    uint64_t now = now_ns();
    if (count > 0)
        add_line(text, bytes, "%s", REPORT_EVENTS);
    for (size_t i = 0; i < count; ++i) {
        char words[160];
        uint64_t age = now > events[i].time_ns ? now - events[i].time_ns : 0;
        flight_describe(&events[i], words, sizeof(words));
        add_line(text, bytes, "      %8.3f s ago, in step %" PRIu64 ": %s", (double)age * 1e-9, events[i].step + 1,
                 words);
    }
}

void
report_rank(const struct report_subject *subject, char *text, size_t bytes)
{
    const struct rank_view *view = subject->view;
    if (bytes == 0)
        return;
    text[0] = '\0';
    add_head(subject, text, bytes);
    add_activity(view, text, bytes);
    if (subject->status != NULL)
        add_events(subject->status, text, bytes);
    if (!subject->stacks || view->ended || view->pid <= 0)
        return;
    add_line(text, bytes, "%s", REPORT_THREADS);
    size_t used = strlen(text);
    stacks_describe(view->pid, subject->continues, 6, text + used, bytes - used);
}

void
report_others(const struct rank_view *views, int count, int but, int nor, char *text, size_t bytes)
{
    int shown = 0, left = 0;
    if (bytes == 0)
        return;
    text[0] = '\0';
    for (int i = 0; i < count; ++i) {
        char place[160], words[LINE_BYTES - 200];
        if (i == but || i == nor)
            continue;
        if (shown == RANKS_SHOWN) {
            ++left;
            continue;
        }
        ++shown;
        rank_describe_place(&views[i], place, sizeof(place));
        if (views[i].ended)
            snprintf(words, sizeof(words), "has ended");
        else if (is_waiting(&views[i]))
            rank_describe_wait(&views[i], words, sizeof(words));
        else
            rank_describe_activity(&views[i], words, sizeof(words));
        add_line(text, bytes, "  rank %d%s, after %" PRIu64 " step%s%s %s", i, place, views[i].step,
                 views[i].step == 1 ? "" : "s", views[i].ended || is_waiting(&views[i]) ? "," : ":", words);
    }
    if (left > 0)
        add_line(text, bytes, "  and %d ranks more", left);
}

/* ---- of a job ---- */

/* A rank that reported why it failed shows no stacks: its reason says more than they would. */
static char *
take_rank(const struct rank_view *views, int rank, int here, void *page, bool continues)
{
    char *text = xcalloc(1, REPORT_BYTES);
    bool is_here = rank < here;
    struct report_subject subject = {.rank = rank,
                                     .view = &views[rank],
                                     .status = is_here ? status_page_rank(page, rank) : NULL,
                                     .continues = continues,
                                     .stacks = is_here && views[rank].stage != RANK_STAGE_FAILED};
    report_rank(&subject, text, REPORT_BYTES);
    return text;
}

void
report_take(struct report *report, const struct rank_view *views, int count, int here, int rank, int suspect,
            void *page, bool continues)
{
    *report = (struct report){.of = {{.rank = -1}, {.rank = -1}}};
    if (!report_is_worth(views, count))
        return;
    suspect = suspect == rank ? -1 : suspect;
    report->of[0].rank = rank;
    report->of[1].rank = suspect;
    for (int i = 0; i < 2; ++i) {
        if (report->of[i].rank >= 0)
            report->of[i].text = take_rank(views, report->of[i].rank, here, page, continues);
    }
    report->others = xcalloc(1, REPORT_BYTES);
    report_others(views, count, rank, suspect, report->others, REPORT_BYTES);
}

void
report_free(struct report *report)
{
    free(report->of[0].text);
    free(report->of[1].text);
    free(report->others);
    *report = (struct report){.of = {{.rank = -1}, {.rank = -1}}};
}

void
report_put(struct report *report, int rank, const char *text)
{
    for (int i = 0; i < 2; ++i) {
        if (rank < 0 || report->of[i].rank != rank || text[0] == '\0')
            continue;
        free(report->of[i].text);
        report->of[i].text = xstrdup(text);
    }
}

/* The reason and all parts, as a text for the file; malloc'ed. */
static char *
whole_text(const char *reason, const char *const parts[BRIEF_PARTS])
{
    char *text = xasprintf("ddprun: %s\n%s%s%s\n", reason, parts[0] != NULL ? parts[0] : "",
                           parts[1] != NULL ? parts[1] : "", parts[2] != NULL ? parts[2] : "");
    printable_make(text, "\n\t");
    return text;
}

static void
print_all(const char *const parts[BRIEF_PARTS])
{
    for (int i = 0; i < BRIEF_PARTS; ++i) {
        if (parts[i] != NULL)
            message_text(parts[i]);
    }
}

static void
print_brief(const char *const parts[BRIEF_PARTS], size_t lines)
{
    char *brief = brief_make(parts, lines);
    message_text(brief);
    free(brief);
}

void
report_print(const struct report *report, const char *reason, struct report_file *file)
{
    const char *const parts[BRIEF_PARTS] = {report->of[0].text, report->of[1].text, report->others};
    size_t above = brief_count_lines(reason) + 1, whole = above;
    for (int i = 0; i < BRIEF_PARTS; ++i)
        whole += brief_count_lines(parts[i]);
    if (whole <= REPORT_LINES || (file->wanted != NULL && strcmp(file->wanted, "-") == 0)) {
        print_all(parts);
        return;
    }
    char *text = whole_text(reason, parts);
    const char *path = report_file_add(file, text);
    free(text);
    if (path == NULL) {
        message_line("cannot write the report's file: %s; the whole report follows (--report names another file)",
                     strerror(errno));
        print_all(parts);
        return;
    }
    print_brief(parts, above + LEAST_LINES < REPORT_LINES ? REPORT_LINES - 1 - above : LEAST_LINES);
    message_line("the whole report, %zu lines: %s", whole, path);
}

bool
report_is_worth(const struct rank_view *views, int count)
{
    for (int i = 0; count > 1 && i < count; ++i) {
        if (views[i].stage >= RANK_STAGE_RANK || views[i].wait != RANK_WAIT_NONE)
            return true;
    }
    return false;
}
