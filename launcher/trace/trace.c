/*
 * trace.c - see trace.h.
 */
#include "launcher/trace/trace.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/close_stdout.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/whole_file.h"
#include "launcher/trace/chrome.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct request {
    const char *folder, *file; /* file: "-" is standard output */
    bool help;
};

bool
trace_is_asked(const struct options *options)
{
    return strcmp(options->program[0], "trace") == 0;
}

/* ---- the command line ---- */

static void
print_help(void)
{
    fputs("Usage: ddprun trace DIR -o FILE\n\n"
          "Makes a timeline of what ddprun --trace DIR has written: a file of Chrome's trace\n"
          "events, which https://ui.perfetto.dev and chrome://tracing open. It has a process for\n"
          "each rank, with tracks for steps and backward, collectives, and what the host waits\n"
          "for; all ranks on one clock.\n\n"
          "  -o, --output FILE   write the timeline to FILE; -: to standard output\n"
          "  --help              print this\n\n"
          "Exit codes: 0: written, with a line for each file that is missing or not whole;\n"
          "1: there is no trace that can be read, or FILE cannot be written; 2: wrong options.\n",
          stdout);
}

static bool
take_word(struct request *request, char *const **words, struct error *error)
{
    const char *word = **words;
    const char *joined = strncmp(word, "--output=", 9) == 0 ? word + 9 : NULL;
    if (strcmp(word, "--help") == 0) {
        request->help = true;
    } else if (joined != NULL) {
        request->file = joined;
    } else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0) {
        if ((*words)[1] == NULL)
            return error_set(error, DDPRUN_EXIT_USAGE, "option %s wants a file; see ddprun trace --help", word);
        request->file = *++*words;
    } else if (word[0] == '-') {
        return error_set(error, DDPRUN_EXIT_USAGE, "unknown option %s of trace; see ddprun trace --help", word);
    } else if (request->folder != NULL) {
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "trace takes one folder, and gets %s and %s; see ddprun trace --help", request->folder, word);
    } else {
        request->folder = word;
    }
    return true;
}

static bool
parse(char *const *words, struct request *request, struct error *error)
{
    *request = (struct request){0};
    for (++words; *words != NULL && !request->help; ++words) {
        if (!take_word(request, &words, error))
            return false;
    }
    if (request->help)
        return true;
    if (request->folder == NULL)
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "no folder given, after trace; write for example: ddprun trace DIR -o timeline.json (see ddprun "
            "trace --help)");
    if (request->file == NULL || request->file[0] == '\0')
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "no file for the timeline; write for example: ddprun trace %s -o timeline.json",
                         request->folder);
    return strcmp(request->file, "-") == 0 || whole_file_check(request->file, "-o", error);
}

/* ---- the timeline ---- */

static size_t
steps_of(const struct trace *trace)
{
    size_t steps = 0;
    for (size_t i = 0; i < trace->run_count; ++i)
        steps += trace->runs[i].step_count;
    return steps;
}

static void
say_remarks(const struct trace *trace, const struct run_clock *clocks)
{
    int64_t error_ns = 0, device_ns = 0;
    for (size_t i = 0; i < trace->remark_count; ++i)
        message_line("trace: %s", trace->remarks[i]);
    for (size_t i = 0; i < trace->run_count; ++i) {
        if (clocks[i].error_ns == INT64_MAX)
            message_line("trace: the clock of rank %d is not compared with that of the others", trace->runs[i].rank);
        else
            error_ns = clocks[i].error_ns > error_ns ? clocks[i].error_ns : error_ns;
    }
    for (size_t i = 0; i < trace->run_count; ++i) {
        for (size_t k = 0; k < trace->runs[i].step_count; ++k)
            device_ns = trace->runs[i].steps[k].error_ns > device_ns ? trace->runs[i].steps[k].error_ns : device_ns;
    }
    message_line("trace: the ranks' clocks are aligned within %.3f ms, each device's with its host's within %.3f ms",
                 (double)error_ns / 1e6, (double)device_ns / 1e6);
}

static bool
write_timeline(const char *file, const struct trace *trace, const struct run_clock *clocks, struct error *error)
{
    char *text = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory != NULL)
        chrome_write(memory, trace, clocks);
    bool ok = memory != NULL && !ferror(memory);
    ok = memory != NULL && fclose(memory) == 0 && ok;
    mode_t mask = umask(077);
    if (ok && strcmp(file, "-") == 0)
        ok = fwrite(text, 1, bytes, stdout) == bytes;
    else
        ok = ok && whole_file_write_bytes(file, text, bytes);
    int cause = errno;
    umask(mask);
    free(text);
    return ok || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s, in -o: %s", file, strerror(cause));
}

int
trace_command(const struct options *options)
{
    struct request request;
    struct error error;
    struct trace trace = {0};
    bool ok = parse(options->program, &request, &error);
    if (ok && request.help) {
        print_help();
        return close_stdout(stdout);
    }
    ok = ok && request.file != NULL && trace_read(request.folder, &trace, &error);
    if (ok && steps_of(&trace) == 0)
        ok = error_set(&error, DDPRUN_EXIT_FAILURE,
                       "the trace in %s has no steps: a job of one rank has none, nor has one that ended before its "
                       "first DDP_STEP",
                       request.folder);
    if (ok) {
        struct run_clock *clocks = clocks_align(&trace);
        say_remarks(&trace, clocks);
        ok = write_timeline(request.file, &trace, clocks, &error);
        clocks_free(clocks, &trace);
    }
    trace_free(&trace);
    if (!ok) {
        message_line("%s", error.text);
        return error.exit_code;
    }
    return close_stdout(stdout);
}
