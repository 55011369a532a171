/*
 * run.c - see run.h.
 */
#include "tools/scout/format/run.h"

#include "tools/common/direct.h"

bool
scout_run_save(const char *path, const struct scout_run_settings *settings)
{
    return direct_save(path, settings, sizeof(*settings));
}

bool
scout_run_load(const char *path, struct scout_run_settings *settings)
{
    if (!direct_load(path, settings, sizeof(*settings)))
        return false;
    settings->log[sizeof(settings->log) - 1] = settings->progress[sizeof(settings->progress) - 1] = '\0';
    return true;
}

struct scout_progress *
scout_progress_map(const char *path, bool create)
{
    return direct_map(path, sizeof(struct scout_progress), create);
}
