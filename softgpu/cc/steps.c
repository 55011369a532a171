/*
 * steps.c - see steps.h: what the steps of compile.c and link.c share.
 */
#include "steps.h"

#include "process.h"

int
step_run(const struct driver *driver, struct list *command)
{
    if (driver->options->verbose || driver->options->dry_run)
        process_show(command);
    const int status = driver->options->dry_run ? 0 : process_run(command, NULL);
    list_free(command);
    return status;
}

char *
step_output(const struct options *options, const char *name)
{
    if (options->output != NULL)
        return text_format("%s", options->output);
    return options->output_dir != NULL ? text_format("%s/%s", options->output_dir, name) : text_format("%s", name);
}
