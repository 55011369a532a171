/*
 * options.c - see options.h: ddprun's own command line, with its settings. The options themselves are in options.def.
 */
#include "launcher/options/option_table.h"

#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

enum { DEFAULT_HEARTBEAT_TIMEOUT_S = 15 };

static enum options_result
refuse_nothing(const struct options *options, bool any, struct error *error)
{
    if (options->mixed)
        error_set(error, DDPRUN_EXIT_USAGE, "no program given, after %s; write for example: %s (see ddprun %s --help)",
                  option_mixed->name, option_mixed->example, option_mixed->name);
    else
        error_set(error, DDPRUN_EXIT_USAGE,
                  any ? "no program given, after the options; write for example: ddprun -n 2 "
                        "./train (see ddprun --help)"
                      : "no program given; ddprun trains a single-GPU CUDA program on several GPUs\n"
                        "  ddprun -n 8 ./train    eight ranks on eight GPUs\n"
                        "  ddprun --help          options and commands");
    return OPTIONS_BAD;
}

static enum options_result
parse_all(int argc, char **argv, struct options *options, struct error *error)
{
    int rest = 0;
    bool any = argc > 1;
    if (option_mixed != NULL)
        option_mixed->reset();
    enum options_result result = command_parse(&ddprun_command, argc, argv, options, &rest, error);
    bool mixes = option_mixed != NULL && rest < argc && strcmp(argv[rest], option_mixed->name) == 0;
    if (result == OPTIONS_RUN && mixes) { /* more options are after it */
        options->mixed = true;
        argc -= rest;
        argv += rest;
        result = command_parse(&ddprun_command, argc, argv, options, &rest, error);
        if (result == OPTIONS_HELP || result == OPTIONS_HELP_ALL)
            return OPTIONS_HELP_MIXED;
    }
    if (result != OPTIONS_RUN)
        return result;
    if (rest >= argc)
        return refuse_nothing(options, any, error);
    options->program = argv + rest;
    return OPTIONS_RUN;
}

static struct options
default_options(void)
{
    return (struct options){
        .job = {.protocol = DDPRUN_PROTOCOL_VERSION,
                .overlap = true,
                .check_every = DDPRUN_DEFAULT_CHECK_EVERY,
                .grace_s = DDPRUN_DEFAULT_GRACE_S,
                .nccl = DDPRUN_DEFAULT_NCCL},
        .timeout_s = DDPRUN_DEFAULT_TIMEOUT_S,
        .heartbeat_timeout_s = DEFAULT_HEARTBEAT_TIMEOUT_S,
        .hang_timeout_s = OPTIONS_DEFAULT_HANG_TIMEOUT_S,
    };
}

static bool
check_mixed(const struct options *options, struct error *error)
{
    return options->mixed || options->mixed_given == NULL ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "--%s is an option of ddprun %s (see ddprun %s --help); the program's own options stand after the "
                     "program: ddprun -n N PROGRAM OPTIONS",
                     options->mixed_given, option_mixed->name, option_mixed->name);
}

/* What the environment says counts only where the command line is right. */
enum options_result
options_parse(int argc, char **argv, struct options *options_p, struct error *error)
{
    struct options options = default_options();
    enum options_result result = parse_all(argc, argv, &options, error);
    if (result == OPTIONS_RUN &&
        !(settings_apply(&options, error) && check_mixed(&options, error) && contradictions_check(&options, error)))
        result = OPTIONS_BAD;
    if (result == OPTIONS_BAD) {
        options.program = NULL;
        options.node_count = options.mixed ? 0 : options.node_count; /* `ddprun check` has no other hosts */
        options.summary_json = NULL; /* it may be the program, where its value was left out */
    }
    *options_p = options;
    return result;
}

/* Unless the user says, longer than it takes until a hang ends the job. */
static unsigned
rank_timeout_s(const struct options *options)
{
    unsigned later = options->hang_timeout_s + (DDPRUN_DEFAULT_TIMEOUT_S - OPTIONS_DEFAULT_HANG_TIMEOUT_S);
    bool given = options->timeout_s != DDPRUN_DEFAULT_TIMEOUT_S;
    return given || later < options->timeout_s ? options->timeout_s : later;
}

void
options_settle_job(const struct options *options, struct job_options *job)
{
    *job = options->job;
    job->timeout_s = rank_timeout_s(options);
}

unsigned
options_hang_warning_s(const struct options *options)
{
    unsigned timeout_s = options->hang_timeout_s != 0 ? options->hang_timeout_s : OPTIONS_DEFAULT_HANG_TIMEOUT_S;
    return timeout_s < 20 ? 1 : timeout_s / 10;
}

void
options_free(struct options *options)
{
    words_free(options->gpus.list);
    words_free(options->given.list);
    words_free(options->owned.list);
    *options = (struct options){0};
}

/* ---- options by their names ---- */

void
terms_write(const struct options *options, bool softgpu, char *terms, size_t bytes)
{
    enum { EXACT = 17 };
    char text[64];
    snprintf(terms, bytes, "ddprun's version " DDPRUN_VERSION "\n--device %s\n--plan %s\n", softgpu ? "softgpu" : "gpu",
             options->plan != NULL ? "given" : "left out"); /* rank 0's is that of all */
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        if ((row->flags & TERM) == 0)
            continue;
        option_value_text(row, options, EXACT, text, sizeof(text));
        printable_append(terms, bytes, "--%s %s\n", row->name, text);
    }
}
