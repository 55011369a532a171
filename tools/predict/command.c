/* command.c - see request.h. */
#include "tools/predict/request.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/start/job_folder.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"
#include "tools/predict/model.h"

static bool
refuse(const struct options *options, struct error *error)
{
    if (options->rank_count > 0 && !options->ranks_by_setting)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "-n before predict has no effect; put it after predict: ddprun predict -n %d,... program",
                         options->rank_count);
    if (getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL && getenv(DDPRUN_ENV_JOB_DIR) == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "ddprun predict starts its own ranks, but another launcher has started several of it: start "
                         "it once, without srun or mpirun, in a shell of the allocation");
    static const char *const refused[] = {"dry-run", NULL};
    return options_refuse(options_set(options, refused), "predict", error);
}

/* ---- where the trace comes from ---- */

/* A model of the trace in `folder`, or NULL with the error. Remarks on the trace are printed if the user has named it.
 */
static struct model *
model_from(const char *folder, const struct predict_request *request, struct error *error)
{
    struct trace trace = {0};
    char why[200];
    struct model *model = NULL;
    bool ok = trace_read(folder, &trace, error);
    if (ok)
        model = model_of_trace(&trace, why, sizeof(why));
    if (ok && model == NULL && request->folder != NULL)
        error_set(error, DDPRUN_EXIT_FAILURE, "the trace in %s has no usable steps: %s", folder, why);
    else if (ok && model == NULL)
        error_set(error, DDPRUN_EXIT_FAILURE, "the program's steps cannot be measured: %s", why);
    for (size_t i = 0; model != NULL && request->folder != NULL && i < trace.remark_count; ++i)
        message_line("predict: %s", trace.remarks[i]);
    trace_free(&trace);
    return model;
}

static bool
predict_from(const struct predict_request *request, struct error *error)
{
    struct model *model = model_from(request->folder, request, error);
    struct forecasts forecasts = {.request = request, .kept = model, .shares = model != NULL ? model->ranks : 1};
    bool ok = model != NULL && table_print(&forecasts, error);
    model_free(model);
    return ok;
}

static void
say_rehearsal(const struct rehearsal *rehearsal)
{
    if (rehearsal->options->quiet)
        return;
    if (rehearsal->shares == 1)
        message_line("predict: runs the program for %u steps on %s", rehearsal->request->steps,
                     rehearsal->request->has_link ? "one rank" : "two ranks");
    else
        message_line("predict: runs the program with the share of the batch for %u ranks", rehearsal->shares);
}

/* The program's model where DDP_SHARD gives the share of one of so many ranks. Once more where no step counts. */
static struct model *
rehearse_share(struct rehearsal *rehearsal, unsigned shares, struct error *error)
{
    struct model *model = NULL;
    bool ran = true;
    rehearsal->shares = shares;
    say_rehearsal(rehearsal);
    for (int attempt = 0; attempt < 2 && ran && model == NULL; ++attempt) {
        OWNED char *trace = xasprintf("%s/trace-%u-%d", rehearsal->folder, shares, attempt);
        rehearsal->trace = trace;
        ran = rehearse(rehearsal, error);
        model = ran ? model_from(trace, rehearsal->request, error) : NULL;
    }
    return model;
}

/* Once with the whole batch, and where the program shares it out and an all-reduce has a cost, once for each number of
 * ranks that it is enough for. */
static bool
rehearse_all(struct rehearsal *rehearsal, struct forecasts *forecasts, struct error *error)
{
    const struct predict_request *request = rehearsal->request;
    forecasts->kept = rehearse_share(rehearsal, 1, error);
    bool ok = forecasts->kept != NULL, has_cost = request->has_link || (ok && forecasts->kept->sample_count > 0);
    for (size_t i = 0; ok && has_cost && i < request->count_count; ++i) {
        unsigned ranks = request->counts[i];
        if (ranks < 2 || ranks > forecasts->kept->batch)
            continue;
        forecasts->shared[i] = rehearse_share(rehearsal, ranks, error);
        ok = forecasts->shared[i] != NULL;
    }
    return ok;
}

static bool
predict_by_run(const struct options *options, const struct predict_request *request, struct error *error)
{
    struct job_folder folder = {.fd = -1};
    struct rehearsal rehearsal = {.options = options, .request = request};
    struct forecasts forecasts = {.request = request, .shares = 1};
    inner_run_block_signals(&rehearsal.old_mask);
    if (!job_folder_make(&folder, error))
        return false;
    rehearsal.folder = folder.path;
    bool ok = rehearse_all(&rehearsal, &forecasts, error) && table_print(&forecasts, error);
    for (size_t i = 0; i < request->count_count; ++i)
        model_free(forecasts.shared[i]);
    model_free(forecasts.kept);
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
    bool ok = refuse(options, &error) &&
              (request.folder != NULL ? predict_from(&request, &error) : predict_by_run(options, &request, &error));
    return command_end(ok, &error);
}

const struct command predict_command = {
    .name = "predict",
    .brief = "predict step time and efficiency on other numbers of ranks",
    .starts_ranks = true,
    .usage = "Usage: ddprun [options] predict [options] program [arguments...]\n"
             "       ddprun predict [options] DIR\n\n"
             "Predicts the step time on other numbers of ranks. It runs the program for some steps\n"
             "on two ranks, to measure when gradients are ready and the time of an all-reduce; with\n"
             "--link it needs one rank and one GPU. If the program calls DDP_SHARD, it is run again\n"
             "with the share of the batch for each number of ranks. With DIR no program runs: the\n"
             "times are those of the trace that ddprun --trace DIR wrote. Prints one table with the\n"
             "batch divided among ranks, one with the same batch on each, and the assumptions.\n",
    .notes = "Exit codes: 0: printed; 1: the program failed, neither it nor the trace has steps,\n"
             "or they vary too much for any prediction (the reason is printed); 2: wrong options.\n",
    .wants = "program",
    .example = "ddprun predict -n 2,4,8 ./train",
    .rows = predict_rows,
    .run = run_predict,
};
