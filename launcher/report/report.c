/* report.c - see report.h. */
#include "launcher/report/report.h"

#include "base/assertion.h"
#include "base/clock.h"
#include "base/flight.h"
#include "base/message.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/common/ras.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/whole_file.h"
#include "launcher/watch/processes.h"
#include "launcher/watch/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>

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

/* "after step 7", and how it ended, if it did. */
static void
add_head(const struct report_subject *subject, char *text, size_t bytes)
{
    const struct rank_view *view = subject->view;
    char place[RANK_WORDS_BYTES], step[RANK_STEP_BYTES], end[64] = "";
    if (view->ended && view->signal != 0)
        snprintf(end, sizeof(end), ", ended by SIG%s",
                 sigabbrev_np(view->signal) != NULL ? sigabbrev_np(view->signal) : "?");
    else if (view->ended)
        snprintf(end, sizeof(end), ", ended with exit code %d", view->exit_code);
    add_line(text, bytes, "  rank %d%s%s%s:", subject->rank, rank_describe_place(view, place),
             rank_describe_step(view, step), end);
}

static bool
is_waiting(const struct rank_view *view)
{
    return view->wait == RANK_WAIT_EXCHANGE || (view->wait == RANK_WAIT_COLLECTIVE && !rank_wait_is_over(view));
}

static void
add_activity(const struct rank_view *view, char *text, size_t bytes)
{
    char words[RANK_WORDS_BYTES];
    if (view->ended) {
        if (view->in_call)
            add_line(text, bytes, "    it was in %s, on thread %d", view->call, view->call_thread);
        else if (view->call[0] != '\0')
            add_line(text, bytes, "    its last CUDA call was %s", view->call);
    } else if (view->wait != RANK_WAIT_EXCHANGE) { /* there it does nothing else */
        add_line(text, bytes, "    %s", rank_describe_activity(view, words));
    }
    bool told = !view->ended && (view->in_call || view->wait == RANK_WAIT_DEVICE);
    if (view->call[0] != '\0' && view->kernel[0] != '\0' && !told)
        add_line(text, bytes, "    the last kernel that it launched was `%s`", view->kernel);
    if (!view->ended && is_waiting(view))
        add_line(text, bytes, "    it %s", rank_describe_wait(view, words));
}

static void
add_events(struct rank_status *status, char *text, size_t bytes)
{
    struct flight_entry events[EVENTS_SHOWN];
    size_t count = flight_read(flight_of(status), events, EVENTS_SHOWN);
    uint64_t now = (uint64_t)clock_now_ns();
    if (count > 0)
        add_line(text, bytes, "%s", REPORT_EVENTS);
    for (size_t i = 0; i < count; ++i) {
        char words[160];
        uint64_t age = now > events[i].time_ns ? now - events[i].time_ns : 0;
        flight_describe(&events[i], words, sizeof(words));
        add_line(text, bytes, "      %8.3f s ago, in step %" PRIu64 ": %s", (double)age * 1e-9,
                 events[i].step + (events[i].kind != FLIGHT_BOUNDARY_END), words);
    }
}

void
report_rank(const struct report_subject *subject, char *text, size_t bytes)
{
    const struct rank_view *view = subject->view;
    if (bytes == 0)
        return;
    text[0] = '\0';
    if (view->stage == RANK_STAGE_FAILED && !view->ended) { /* its reason says more than what it does now */
        char place[RANK_WORDS_BYTES], step[RANK_STEP_BYTES];
        add_line(text, bytes, "  rank %d%s stopped the job; position of its program:%s", subject->rank,
                 rank_describe_place(view, place), rank_describe_step(view, step));
        return;
    }
    add_head(subject, text, bytes);
    add_activity(view, text, bytes);
    if (subject->status != NULL && view->stage != RANK_STAGE_FAILED) /* else its reason says more */
        add_events(subject->status, text, bytes);
    if (subject->crash == NULL && (!subject->stacks || view->ended || view->pid <= 0))
        return;
    add_line(text, bytes, "%s", REPORT_THREADS);
    for (const char *at = subject->crash; at != NULL && *at != '\0'; at += strcspn(at, "\n") + 1)
        add_line(text, bytes, "%.*s", (int)strcspn(at, "\n"), at);
    size_t used = strlen(text);
    const struct stacks_subject process = {.pid = view->pid, .continues = subject->continues};
    if (subject->crash == NULL)
        stacks_describe(&process, 6, text + used, bytes - used);
}

char *
report_crash(const struct rank_view *view, struct rank_status *status, bool is_wanted)
{
    uint32_t number = atomic_load(&status->crash);
    if (number == 0 || atomic_load(&status->crash_seen) != 0)
        return NULL;
    char *text = NULL;
    pid_t pid = atomic_load(&status->pid);
    if (is_wanted) {
        struct stacks_subject process = {.pid = process_descends(pid, getpid()) ? pid : view->pid,
                                         .crashed = atomic_load(&status->crash_thread),
                                         .signal = (int)number,
                                         .seen = &status->crash_seen};
        text = xcalloc(1, REPORT_BYTES);
        stacks_describe(&process, 6, text, REPORT_BYTES);
    }
    atomic_store(&status->crash_seen, 1);
    return text;
}

/* ---- where the program was when it crashed ---- */

/* One line of a stack (stacks.c): "step+0x12 (train+0x3456) at train.cu:88", "inner (inlined) at train.cu:7". */
struct frame {
    char function[96], module[96], source[96]; /* module: "": the call is inlined; source: "": not known */
};

/* Up to `end` of the text: what stands before it in the line is put into `part`, without the offset "+0x12". */
static void
take_part(const char *begin, const char *end, char part[96])
{
    snprintf(part, 96, "%.*s", (int)(end - begin), begin);
    part[strcspn(part, "+")] = '\0';
}

/* `line` has no newline. False: it is no frame. */
static bool
parse_frame(const char *line, struct frame *frame)
{
    *frame = (struct frame){0};
    const char *begin = line + strspn(line, " "), *open = strstr(begin, " ("), *at = strstr(begin, ") at ");
    const char *close = open != NULL ? strchr(open, ')') : NULL;
    if (close == NULL)
        return false;
    take_part(begin, open, frame->function);
    if (strncmp(open, " (inlined)", strlen(" (inlined)")) != 0)
        take_part(open + strlen(" ("), close, frame->module);
    if (at != NULL)
        snprintf(frame->source, sizeof(frame->source), "%s", at + strlen(") at "));
    return true;
}

/* A library whose frames say where a program's call has led, and not where the program was. */
static bool
is_library(const char *module)
{
    static const char *const names[] = {
        "libc.so",  "libc-",     "libpthread",  "ld-linux",  "libm.so",    "libm-",    "libstdc++",
        "libgcc_s", "libgomp",   "libcuda",     "libcublas", "libcudnn",   "libcufft", "libcurand",
        "libnccl",  "libnvidia", "libopenblas", "libddprun", "libsoftgpu", "[vdso]",   "linux-vdso"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (strncmp(module, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

static void
put_place(const struct frame *frame, const struct frame *around, char *place, size_t bytes)
{
    if (frame->source[0] != '\0')
        snprintf(place, bytes, "%s, in %s()", frame->source, frame->function);
    else
        snprintf(place, bytes, "%s (%s)", frame->function, around->module);
}

void
report_crash_place(const char *crash, char *place, size_t bytes)
{
    char line[LINE_BYTES];
    struct frame frame, inner; /* inner: the innermost of the calls that are inlined into `frame` */
    bool has_inner = false;
    snprintf(place, bytes, "%s", "");
    const char *at = crash + strcspn(crash, "\n"); /* what stands before it names the thread */
    for (at += *at != '\0'; *at != '\0'; at += strcspn(at, "\n"), at += *at != '\0') {
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
        if (strncmp(line + strspn(line, " "), "thread ", strlen("thread ")) == 0 || !parse_frame(line, &frame))
            return; /* the next thread */
        if (frame.module[0] == '\0') {
            inner = has_inner ? inner : frame;
            has_inner = true;
            continue;
        }
        if (!is_library(frame.module)) {
            put_place(has_inner ? &inner : &frame, &frame, place, bytes);
            return;
        }
        has_inner = false;
    }
}

void
report_others(const struct rank_view *views, int count, int but, int nor, char *text, size_t bytes)
{
    int shown = 0, left = 0;
    if (bytes == 0)
        return;
    text[0] = '\0';
    for (int i = 0; i < count; ++i) {
        char place[RANK_WORDS_BYTES], words[RANK_WORDS_BYTES];
        if (i == but || i == nor)
            continue;
        if (shown == RANKS_SHOWN) {
            ++left;
            continue;
        }
        ++shown;
        bool waits = is_waiting(&views[i]);
        add_line(text, bytes, "  rank %d%s, with %" PRIu64 " step%s launched: %s", i,
                 rank_describe_place(&views[i], place), views[i].step, views[i].step == 1 ? "" : "s",
                 views[i].ended ? "has ended"
                 : waits        ? rank_describe_wait(&views[i], words)
                                : rank_describe_activity(&views[i], words));
    }
    if (left > 0)
        add_line(text, bytes, "  and %d ranks more", left);
}

/* ---- of a job ---- */

/* A rank that reported why it failed shows no stacks: its reason says more than they would. */
static char *
take_rank(const struct rank_view *views, int rank, const struct report_sources *sources)
{
    char *text = xcalloc(1, REPORT_BYTES);
    bool is_here = rank < sources->here;
    struct report_subject subject = {.rank = rank,
                                     .view = &views[rank],
                                     .status = is_here ? status_page_rank(sources->page, rank) : NULL,
                                     .continues = sources->continues,
                                     .crash = is_here ? sources->crashes[rank] : NULL,
                                     .stacks = is_here && views[rank].stage != RANK_STAGE_FAILED};
    report_rank(&subject, text, REPORT_BYTES);
    return text;
}

void
report_take(struct report *report, const struct rank_view *views, int count, int rank, int suspect,
            const struct report_sources *sources)
{
    *report = (struct report){.of = {{.rank = -1}, {.rank = -1}}};
    bool lost_reader = rank >= 0 && views[rank].ended && views[rank].signal == SIGPIPE; /* such as `| head` */
    if (lost_reader)
        return;
    bool crashed = rank >= 0 && rank < sources->here && sources->crashes[rank] != NULL;
    if (!crashed && !report_is_worth(views, count))
        return;
    suspect = suspect == rank ? -1 : suspect;
    report->of[0].rank = rank;
    report->of[1].rank = suspect;
    for (int i = 0; i < 2; ++i) {
        if (report->of[i].rank >= 0)
            report->of[i].text = take_rank(views, report->of[i].rank, sources);
    }
    report->others = xcalloc(1, REPORT_BYTES);
    report_others(views, count, rank, suspect, report->others, REPORT_BYTES);
    ras_append(report->others, REPORT_BYTES);
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
    if (whole <= REPORT_LINES || file->failed || (file->wanted != NULL && strcmp(file->wanted, "-") == 0)) {
        print_all(parts);
        return;
    }
    char *text = whole_text(reason, parts);
    const char *path = report_file_add(file, text);
    free(text);
    if (path == NULL) {
        file->failed = true;
        message_line("cannot write the report's file: %s; the report follows (--failure-report names another file)",
                     file_why(errno));
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

/* ---- in brief ---- */

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
    ASSERT(lines >= BRIEF_LEAST_LINES);
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
    ASSERT(brief_count_lines(text) <= lines);
    return text;
}

/* ---- its file ---- */

bool
report_file_check(const char *wanted, struct error *error)
{
    return wanted == NULL || strcmp(wanted, "-") == 0 || whole_file_check(wanted, "--failure-report", error);
}

enum { NAMES_TRIED = 20 };

/* A new file: in a folder that all may write to, one that is there may be a link of another user's. */
static int
open_new(const char *folder, char **path_p)
{
    int fd = -1;
    for (int i = 1; i <= NAMES_TRIED && fd < 0; ++i) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof(number), ".%d", i);
        free(*path_p);
        *path_p = xasprintf("%s%sddprun-report.%d%s.txt", folder, folder[0] != '\0' ? "/" : "", (int)getpid(), number);
        fd = open(*path_p, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

static int
open_file(struct report_file *file)
{
    if (file->path != NULL)
        return open(file->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    const char *folder = getenv("TMPDIR");
    int fd = open_new(file->folder != NULL ? file->folder : "", &file->path);
    return fd >= 0 ? fd : open_new(folder != NULL && folder[0] == '/' ? folder : "/tmp", &file->path);
}

/* A restart keeps what was reported before it. */
static const char *
add_to_wanted(struct report_file *file, const char *text)
{
    bool anew = file->path == NULL && getenv(DDPRUN_ENV_RESTART) == NULL;
    if (!whole_file_append(file->wanted, anew, text))
        return NULL;
    if (file->path == NULL)
        file->path = xstrdup(file->wanted);
    return file->path;
}

const char *
report_file_add(struct report_file *file, const char *text)
{
    if (file->wanted != NULL)
        return add_to_wanted(file, text);
    int fd = open_file(file);
    bool written = fd >= 0 && dprintf(fd, "%s", text) >= 0;
    int cause = errno;
    if (fd >= 0 && close(fd) != 0 && written) { /* some file systems tell only now that there was no room */
        cause = errno;
        written = false;
    }
    if (fd < 0)
        report_file_free(file);
    errno = cause;
    return written ? file->path : NULL;
}

void
report_file_free(struct report_file *file)
{
    free(file->path);
    file->path = NULL;
}
