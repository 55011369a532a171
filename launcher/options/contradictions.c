/*
 * contradictions.c - options that exclude each other, in one table. Pairs that are not in it go together;
 * tests/launcher/test_contradictions.c goes through all of them. Called by options.c, once command line and settings
 * are read.
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"

#include <string.h>

static bool
passes_lines_on(const struct options *options)
{
    return options->output == OUTPUT_FILES ? options->tee : options->output != OUTPUT_NONE;
}

/* Two outputs in one file: the later one would replace the other. Devices such as /dev/null take several. */
static bool
check_files(const struct options *options, struct error *error)
{
    const struct {
        const char *option, *file;
    } all[] = {{"--page", options->page},
               {"--summary-json", options->summary_json},
               {"--metrics", options->metrics},
               {"--failure-report", options->report}};
    const size_t count = sizeof(all) / sizeof(all[0]);
    for (size_t i = 0; i < count; ++i) {
        bool is_file =
            all[i].file != NULL && strcmp(all[i].file, "-") != 0 && strncmp(all[i].file, "/dev/", strlen("/dev/")) != 0;
        for (size_t k = i + 1; k < count && is_file; ++k) {
            if (all[k].file != NULL && strcmp(all[i].file, all[k].file) == 0)
                return error_set(error, DDPRUN_EXIT_USAGE, "%s and %s name one file, %s; give each a file of its own",
                                 all[i].option, all[k].option, all[i].file);
        }
    }
    return true;
}

bool
contradictions_check(const struct options *options, struct error *error)
{
    const struct {
        bool holds;
        const char *text;
    } all[] = {
        {options->quiet && options->verbose, "--quiet and --verbose contradict each other; leave one out"},
        {options->quiet && options->progress == PROGRESS_ON,
         "--quiet and --progress on contradict each other; leave one out"},
        {options->job.verify && options->job.check_every == 0,
         "--verify compares parameters in every step, --check-every 0 in few; leave one out"},
        {options->plan != NULL && options->job.commit == DDPRUN_COMMIT_TRUST,
         "--plan hands results of each step to all ranks, and cannot go on before they are right; leave --commit trust "
         "out"},
        {options->tee && options->output != OUTPUT_FILES,
         "--tee needs --output files=DIR; give both, or leave --tee out"},
        {options->timestamps && !passes_lines_on(options),
         "--timestamps is for lines that ddprun passes on, and --output sends them elsewhere; add --tee, or leave "
         "--timestamps out"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
        if (all[i].holds)
            return error_set(error, DDPRUN_EXIT_USAGE, "%s%s", all[i].text,
                             options->has_settings ? " (DDPRUN_ variables in the environment are options, too)" : "");
    }
    return check_files(options, error);
}
