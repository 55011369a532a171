/*
 * command.c - `ddprun trace DIR -o FILE`: what `ddprun --trace DIR` has written, for a viewer of timelines (picture.h).
 */
#include "tools/trace/picture.h"

#include "launcher/options/options.h"

/* And says how far clocks can be believed. */
static void
write_timeline(FILE *out, const struct trace *trace)
{
    struct run_clock *clocks = clocks_align(trace);
    int64_t error_ns = 0, device_ns = 0;
    FOR_EACH(run, trace->runs, trace->run_count) {
        int64_t own_ns = clocks[NUMBER_OF(run)].error_ns;
        if (own_ns == INT64_MAX)
            message_line("trace: the clock of rank %d was not compared with the other clocks; its times may be shifted",
                         run->rank);
        else
            error_ns = own_ns > error_ns ? own_ns : error_ns;
        FOR_EACH(step, run->steps, run->step_count)
            device_ns = step->error_ns > device_ns ? step->error_ns : device_ns;
    }
    message_line("trace: the ranks' clocks are aligned within %.3f ms, each device's with its host's within %.3f ms",
                 (double)error_ns / 1e6, (double)device_ns / 1e6);
    chrome_write(out, trace, clocks);
    clocks_free(clocks, trace);
}

static const struct picture timeline = {.command = "trace", .name = "timeline", .write = write_timeline};

static int
run_trace(const struct command *command, const struct options *options)
{
    return picture_run(&timeline, command, options->program);
}

const struct command trace_command = {
    .name = "trace",
    .brief = "make a timeline from the trace in a folder",
    .usage = "Usage: ddprun trace DIR -o FILE\n\n"
             "Makes a timeline from the trace that ddprun --trace DIR wrote: a file of Chrome trace\n"
             "events, which https://ui.perfetto.dev opens. It shows each rank as a process, with\n"
             "tracks for steps and backward, collectives, and waits of the host. All ranks are on\n"
             "one clock.\n",
    .notes = "Exit codes: 0: written; a line names each file that is missing or incomplete;\n"
             "1: no readable trace, or FILE cannot be written; 2: wrong options.\n",
    .wants = "folder",
    .example = "ddprun trace DIR -o timeline.json",
    .mixes = true,
    .rows = picture_rows,
    .run = run_trace,
};
