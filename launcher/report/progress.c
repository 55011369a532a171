/* progress.c - see progress.h. */
#include "launcher/report/progress.h"

#include "base/message.h"
#include "base/printable.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/status_line.h"
#include "launcher/watch/pace.h"
#include "launcher/watch/verdict.h"

#include <ctype.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

enum { TEXT_BYTES = 256 };

#define DRAW_INTERVAL_NS 250000000ull
#define REDRAW_AFTER_NS  2000000000ull  /* also if nothing is new: the program may have cleared its screen */
#define LINE_INTERVAL_NS 10000000000ull /* where there is no terminal */
#define FIRST_AFTER_NS   1000000000ull

struct progress {
    struct status_line line;
    bool on_terminal;
    uint64_t first_step_ns; /* when the first step was seen, or gradients without one; 0: not yet */
    uint64_t drawn_ns;
    char drawn[TEXT_BYTES];
};

struct progress *
progress_new(enum progress_choice choice)
{
    struct progress *progress = xcalloc(1, sizeof(*progress));
    progress->line.fd = -1;
    if (choice != PROGRESS_OFF)
        progress->on_terminal = status_line_open(&progress->line, STDERR_FILENO);
    if (choice == PROGRESS_ON || progress->on_terminal)
        return progress;
    free(progress);
    return NULL;
}

/* No other place averages a value of that name, as of training and validation. */
static bool
is_only(const struct rank_view *rank, const struct mean_view *mean)
{
    bool only = true;
    for (unsigned i = 0; i < rank->mean_count; ++i)
        only = only && (&rank->means[i] == mean || strcmp(rank->means[i].name, mean->name) != 0);
    return only;
}

void
progress_compose(const struct rank_view *ranks, int count, char *text, size_t bytes)
{
    struct pace pace = pace_of(ranks, count, NULL);
    char waiting[WAITING_TEXT_BYTES], ms[32];
    if (verdict_least_steps(ranks, count) > 0)
        snprintf(text, bytes, "step %" PRIu64, verdict_least_steps(ranks, count));
    else
        snprintf(text, bytes, "no DDP_STEP yet");
    if (ranks[0].turn_rounds > 0)
        printable_append(text, bytes, " (rounds of %d batches)", count);
    if (pace.steps_per_s >= 1.0)
        printable_append(text, bytes, ", %.1f steps/s", pace.steps_per_s);
    else if (pace.steps_per_s > 0.0)
        printable_append(text, bytes, ", %.1f s a step", 1.0 / pace.steps_per_s);
    if (pace.sums.count > 0)
        printable_append(text, bytes, ", exposed %s ms", waiting_ms_text((double)pace.exposed_ns * 1e-6, ms));
    if (pace.waited.matters)
        printable_append(text, bytes, ", %s", waiting_text(&pace.waited, 1e6, waiting));
    for (unsigned i = 0; i < ranks[0].mean_count; ++i) {
        const struct mean_view *mean = &ranks[0].means[i];
        printable_append(text, bytes, ", %s", mean->name);
        if (!is_only(&ranks[0], mean))
            printable_append(text, bytes, " (%s)", mean->place);
        printable_append(text, bytes, " %.4g", mean->value);
    }
    for (char *p = text; *p != '\0'; ++p) {
        if (!isprint((unsigned char)*p)) /* names come from the program's source; a terminal obeys such bytes */
            *p = '?';
    }
}

/* Whether stderr takes a line now: the supervisor never waits for a reader. */
static bool
stderr_is_read(void)
{
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&error, 1, 0) == 1 && (error.revents & POLLOUT) != 0;
}

void
progress_show(struct progress *progress, const struct rank_view *ranks, int count, uint64_t now_ns)
{
    if (progress == NULL)
        return;
    uint64_t step = verdict_least_steps(ranks, count);
    if (step == 0 && (count == 1 || ranks[0].gradient_count == 0))
        return;
    if (progress->first_step_ns == 0)
        progress->first_step_ns = progress->drawn_ns = now_ns;
    uint64_t interval_ns = progress->on_terminal ? DRAW_INTERVAL_NS : LINE_INTERVAL_NS;
    if (now_ns - progress->first_step_ns < FIRST_AFTER_NS || now_ns - progress->drawn_ns < interval_ns)
        return;

    char text[TEXT_BYTES];
    progress_compose(ranks, count, text, sizeof(text));
    if (!progress->on_terminal) {
        progress->drawn_ns = now_ns;
        if (stderr_is_read()) /* a line like any other */
            message_line("%s", text);
        return;
    }
    if (strcmp(text, progress->drawn) == 0 && now_ns - progress->drawn_ns < REDRAW_AFTER_NS)
        return;
    char whole[TEXT_BYTES + 16];
    snprintf(whole, sizeof(whole), "ddprun: %s", text);
    status_line_draw(&progress->line, whole);
    memcpy(progress->drawn, text, sizeof(text));
    progress->drawn_ns = now_ns;
}

void
progress_hide(struct progress *progress)
{
    if (progress == NULL)
        return;
    status_line_clear(&progress->line);
    progress->drawn[0] = '\0';
}

void
progress_free(struct progress *progress)
{
    if (progress == NULL)
        return;
    status_line_close(&progress->line);
    free(progress);
}
