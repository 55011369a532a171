/*
 * option_table.c - ddprun's own options as a table (options.def), the values that no kind of command.h describes, and
 * the command that takes them.
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/option_rows.h"

#include <stdlib.h>
#include <string.h>

static bool
take_gpus(const struct option_row *row, void *target, const char *value, struct error *error)
{
    struct options *options = target;
    (void)row;
    words_free(options->gpus.list);
    options->gpus = (struct word_list){0};
    return gpu_list_parse(value, &options->gpus, error);
}

/* torchrun's words ask for the default. */
static bool
take_ranks(const struct option_row *row, void *target, const char *value, struct error *error)
{
    struct options *options = target;
    unsigned long count = 0;
    bool is_default = strcmp(value, "auto") == 0 || strcmp(value, "gpu") == 0;
    if (!is_default && !option_whole_number(value, 1, OPTIONS_MOST_RANKS, &count))
        return option_bad_value(row, "", value, error);
    options->rank_count = (int)count;
    return true;
}

static bool
take_interface(const struct option_row *row, void *target, const char *value, struct error *error)
{
    struct options *options = target;
    struct network network;
    if (value[0] == '\0' || (strchr(value, '/') != NULL && !network_parse(value, &network)))
        return option_bad_value(row, "", value, error);
    options->interface = value;
    return true;
}

static bool
take_output(const struct option_row *row, void *target, const char *value, struct error *error)
{
    static const char *const names[] = {[OUTPUT_TAGGED] = "tagged", [OUTPUT_RANK0] = "rank0", [OUTPUT_NONE] = "none"};
    struct options *options = target;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (names[i] != NULL && strcmp(value, names[i]) == 0) {
            options->output = (enum output_choice)i;
            return true;
        }
    }
    if (strcmp(value, "rank0-all") == 0) /* for one version */
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "'rank0-all' is gone, in --output; rank0 prints only rank 0's output, and the end of a failed "
                         "rank's stderr");
    if (strncmp(value, "files=", 6) != 0 || value[6] == '\0')
        return option_bad_value(row, "", value, error);
    options->output = OUTPUT_FILES;
    options->output_dir = value + 6;
    return true;
}

#define OPTION_TARGET struct options
#define OPTION(name_, argument_, group_, flags_, ...) \
    {.name = name_, .argument = argument_, .group = GROUP_##group_, .flags = flags_, __VA_ARGS__},
struct option_row option_rows[OPTION_ROWS_AT_MOST + 1] = {
#include "launcher/options/options.def"
    {0}};

void
options_mix(const struct command *command, const struct option_row *rows)
{
    struct option_row *end = option_rows;
    while (end->name != NULL)
        ++end;
    for (; rows->name != NULL && end < option_rows + OPTION_ROWS_AT_MOST; ++rows)
        *end++ = *rows;
    option_mixed = command;
}

const char *
option_keep(struct options *options, const char *text)
{
    word_list_add(&options->owned, xstrdup(text));
    return options->owned.list[options->owned.count - 1];
}

/* ---- the command ---- */

static void
note_option(void *target, const struct option_row *row, const char *value, const char *written)
{
    struct options *options = target;
    if (row->letter == 'n')
        options->ranks_per_host = written != NULL && strncmp(written, "nproc", 5) == 0;
    if (row->group == GROUP_MIXED && (row->flags & OF_JOBS_TOO) == 0 && options->mixed_given == NULL)
        options->mixed_given = row->name;
    word_list_add(&options->given,
                  value != NULL ? xasprintf("--%s=%s", row->name, value) : xasprintf("--%s", row->name));
}

static const struct option_synonym synonyms[] = {
    {"np", "ranks"}, {"nproc-per-node", "ranks"}, {"nproc_per_node", "ranks"}, {"report", "failure-report"}, {0}};

const struct command ddprun_command = {.name = "", .rows = option_rows, .synonyms = synonyms, .note = note_option};

const struct option_row *
option_row_of_given(const char *given)
{
    char *name = xasprintf("%.*s", (int)strcspn(given + 2, "="), given + 2);
    const struct option_row *row = option_row_named(&ddprun_command, name);
    free(name);
    return row;
}
