/*
 * check_files.c - see check_files.h.
 */
#include "launcher/start/check_files.h"

#include "base/check/run.h"
#include "base/protocol.h"
#include "interpose/files/files.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool
make_folder(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* What the engine itself writes: rows, and the reference; of a run that proves a plan, pages beside the plan. */
static char *
exceptions(const struct rank_settings *settings, int rank, const char *run_file, const char *play_file)
{
    static struct check_run run; /* large */
    if (play_file != NULL)
        return xasprintf("%s:%.*s", settings->job_dir, (int)(strrchr(play_file, '/') - play_file), play_file);
    if (!check_run_load(run_file, &run))
        return xstrdup(settings->job_dir);
    return xasprintf("%s:%s-%d:%s", settings->job_dir, run.results, rank, run.reference);
}

bool
check_files_add(const struct rank_settings *settings, int index, char ***environment, struct error *error)
{
    const char *run_file = environment_get(*environment, DDPRUN_ENV_CHECK_RUN);
    const char *play_file = environment_get(*environment, DDPRUN_ENV_SCOUT_PLAY);
    const char *kept = environment_get(*environment, DDPRUN_ENV_CHECK_FILES);
    if (play_file == NULL && kept != NULL) /* scouted for a check */
        play_file = environment_get(*environment, DDPRUN_ENV_SCOUT_RUN);
    if (play_file != NULL && play_file[0] != '/')
        play_file = NULL;
    if ((run_file == NULL || run_file[0] == '\0') && play_file == NULL)
        return true;
    char *all = kept != NULL ? xstrdup(kept) : xasprintf("%s/files", settings->job_dir);
    int rank = settings->place.first_rank + index;
    char *folder = xasprintf("%s/rank-%d", all, rank);
    char *except = exceptions(settings, rank, run_file, play_file);
    bool ok = (make_folder(all) && make_folder(folder)) ||
              error_set(error, DDPRUN_EXIT_FAILURE,
                        "cannot make %s, for what the program writes: %s; make room there, "
                        "or set TMPDIR",
                        folder, strerror(errno));
    if (ok) {
        environment_add_preload(environment, settings->installation->files);
        environment_set(environment, FILES_ENV_DIR, folder);
        environment_set(environment, FILES_ENV_EXCEPT, except);
    }
    free(except);
    free(folder);
    free(all);
    return ok;
}
