/*
 * command.c - see command.h.
 */
#include "launcher/tools/predict/command.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/close_stdout.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/command.h"
#include "launcher/start/job_folder.h"
#include "launcher/tools/common/inner_run.h"
#include "launcher/tools/predict/model.h"
#include "launcher/tools/predict/rehearse.h"

#include <stdio.h>
#include <stdlib.h>

static bool
refuse(const struct options *options, struct error *error)
{
    if (options->rank_count > 0 && options->ranks_setting == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "-n before predict says nothing: write ddprun predict -n %d,... program", options->rank_count);
    return options_refuse(options_set(options, NO_PREDICT), "predict", error);
}

/* ---- what is printed ---- */

static void
print_link(const struct model *model, const struct link *link)
{
    if (link != NULL) {
        printf("- all-reduce: a ring of n ranks, each link %g MB/s and %g us: 2 (n - 1) latencies and\n"
               "  2 (n - 1) / n times the bytes over the bandwidth; the same link between all ranks.\n",
               link->bytes_per_us, link->latency_us);
        return;
    }
    struct cost cost;
    if (!model_cost(model, model->ranks, NULL, &cost))
        return;
    double small_us = (double)cost_fs(&cost, 4096) / 1e9, large_us = (double)cost_fs(&cost, model->bytes) / 1e9;
    printf("- all-reduce: %s on %u ranks: %.1f us for 4 KiB, %.1f us for all %.2f MB; on n ranks as rings\n"
           "  have it: 2 (n - 1) latencies, 2 (n - 1) / n times the bytes. The same link between all ranks: for a\n"
           "  job on several hosts give --link.\n",
           model->cost_measured ? "measured" : "fitted to the buckets' times", model->ranks, small_us, large_us,
           (double)model->bytes / 1e6);
}

static void
print_assumptions(const struct model *model, const struct link *link)
{
    printf("\nAssumptions:\n"
           "- without averaging a step takes %.3f ms: median of %zu steps of %u rank%s (%s); each rank has a batch as\n"
           "  large as it has here, and all are equally fast%s.\n"
           "- gradients: %zu, of %.2f MB; %s.\n",
           (model->own_us - model->slowed_us) / 1e3, model->step_count, model->ranks, model->ranks == 1 ? "" : "s",
           model->of_rank[0].host, model->straggler != NULL ? ": the straggler in the trace is left out" : "",
           model->gradient_count, (double)model->bytes / 1e6,
           !model->overlapped       ? "steps do not overlap here: all of them are sent after backward"
           : model->ready_by_bucket ? "when each is ready is known of buckets, and spread over their gradients by bytes"
                                    : "when each is ready is measured");
    print_link(model, link);
    printf("- buckets are planned for each number of ranks; one all-reduce at a time; checks cost nothing.\n");
    if (model->busy > 1000)
        printf("- beside backward an all-reduce takes %.2f times as long, as measured; backward is as fast as here.\n",
               model->busy / 1e3);
    else if (model->slowed_us > 0.0)
        printf("- all-reduces beside backward make a step %.3f ms longer, on all numbers of ranks as here.\n",
               model->slowed_us / 1e3);
    else
        printf("- backward and all-reduces do not slow each other down more than here.\n");
}

static void
print_losses(const struct model *model)
{
    struct loss losses[8];
    size_t count = model_losses(model, losses, sizeof(losses) / sizeof(losses[0]));
    if (count > 0)
        printf("\nWhat a step loses on these %u ranks:\n", model->ranks);
    for (size_t i = 0; i < count; ++i)
        printf("- %s;\n  %.3f ms of a step would be saved: %s.\n", losses[i].what, losses[i].gain_us / 1e3,
               losses[i].advice);
}

static bool
print_table(const struct model *model, const struct predict_request *request, struct error *error)
{
    const struct link *link = request->has_link ? &request->link : NULL;
    struct prediction rows[PREDICT_MOST_COUNTS];
    for (size_t i = 0; i < request->count_count; ++i) {
        if (link == NULL && request->counts[i] > 1 && model->sample_count == 0)
            return error_set(error, DDPRUN_EXIT_FAILURE,
                             "the trace does not show what an all-reduce costs: give --link BANDWIDTH,LATENCY");
        if (!model_predict(model, request->counts[i], link, &rows[i]))
            return error_set(error, DDPRUN_EXIT_FAILURE, "a step of %u ranks would take longer than half an hour",
                             request->counts[i]);
    }
    printf("%8s %12s %12s %12s\n", "ranks", "step ms", "exposed ms", "efficiency");
    for (size_t i = 0; i < request->count_count; ++i)
        printf("%8u %12.3f %12.3f %12.3f\n", rows[i].ranks, rows[i].step_us / 1e3, rows[i].exposed_us / 1e3,
               rows[i].efficiency);
    print_assumptions(model, link);
    print_losses(model);
    return true;
}

/* ---- where the trace comes from ---- */

static bool
predict_from(const char *folder, const struct predict_request *request, struct error *error)
{
    struct trace trace = {0};
    char why[200];
    struct model *model = NULL;
    bool ok = trace_read(folder, &trace, error);
    if (ok)
        model = model_of_trace(&trace, why, sizeof(why));
    if (ok && model == NULL && request->folder != NULL)
        ok = error_set(error, DDPRUN_EXIT_FAILURE, "the trace in %s does not show a step: %s", folder, why);
    else if (ok && model == NULL)
        ok = error_set(error, DDPRUN_EXIT_FAILURE, "the program's steps cannot be looked at: %s", why);
    ok = ok && model != NULL && print_table(model, request, error);
    for (size_t i = 0; ok && request->folder != NULL && i < trace.remark_count; ++i)
        message_line("predict: %s", trace.remarks[i]);
    model_free(model);
    trace_free(&trace);
    return ok;
}

static bool
predict_by_run(const struct options *options, const struct predict_request *request, struct error *error)
{
    struct job_folder folder = {.fd = -1};
    struct rehearsal rehearsal = {.options = options, .request = request};
    inner_run_block_signals(&rehearsal.old_mask);
    if (!job_folder_make(&folder, error))
        return false;
    char *trace = xasprintf("%s/trace", folder.path);
    rehearsal.folder = folder.path;
    rehearsal.trace = trace;
    if (!options->quiet)
        message_line("predict: runs the program for %u steps on %s", request->steps,
                     request->has_link ? "one rank" : "two ranks");
    bool ok = rehearse(&rehearsal, error) && predict_from(trace, request, error);
    free(trace);
    job_folder_remove(&folder);
    return ok;
}

static int
run_predict(const struct command *command, const struct options *options)
{
    struct predict_request request = predict_usual();
    struct error error;
    char **words;
    int exit_code;
    if (!command_begin(command, options->program, &request, &words, &exit_code))
        return exit_code;
    predict_take_program(&request, words);
    bool ok = refuse(options, &error) && (request.folder != NULL ? predict_from(request.folder, &request, &error)
                                                                 : predict_by_run(options, &request, &error));
    if (!ok) {
        message_line("%s", error.text);
        return error.exit_code;
    }
    return close_stdout(stdout);
}

const struct command predict_command = {
    .name = "predict",
    .brief = "what a step would take on other numbers of ranks",
    .usage = "Usage: ddprun [options] predict [options] program [arguments...]\n"
             "       ddprun predict [options] DIR\n\n"
             "Predicts what a step takes on other numbers of ranks. Runs the program for some steps\n"
             "on two ranks, to see when gradients are ready and what an all-reduce costs; with\n"
             "--link on one rank, which needs one GPU. Or takes that from the trace in DIR, written\n"
             "by ddprun --trace DIR. Prints step time, exposed communication and efficiency for\n"
             "each number of ranks, and what it assumes.\n",
    .notes = "Exit codes: 0: printed; 1: the program failed or made no steps, or the trace has none,\n"
             "with the reason; 2: wrong options.\n",
    .wants = "program",
    .example = "ddprun predict -n 2,4,8 ./train",
    .rows = predict_rows,
    .run = run_predict,
};
