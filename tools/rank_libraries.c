/* rank_libraries.c - see commands.h. */
#include "tools/commands.h"

#include "base/protocol.h"
#include "tools/check/format/run.h"
#include "tools/common/owned.h"
#include "tools/plan/format/play.h"
#include "tools/sandbox/files.h"
#include "tools/scout/format/run.h"

#include <sys/stat.h>

static bool
is_set(char *const *list, const char *name)
{
    const char *value = environment_get(list, name);
    return value != NULL && value[0] != '\0';
}

static void
set_engine(char ***environment, const char *name)
{
    OWNED char *path = installation_library(name);
    environment_set(environment, DDPRUN_ENV_ENGINE, path);
}

static void
choose(const struct rank_settings *settings, char ***environment)
{
    if (settings->options->plan != NULL) {
        OWNED char *plan = xasprintf("%s/" DDPRUN_PLAN_NAME, settings->job_dir);
        environment_set(environment, DDPRUN_ENV_SCOUT_PLAY, plan);
    }
    bool is_played = is_set(*environment, DDPRUN_ENV_SCOUT_PLAY);
    bool is_scouted = is_set(*environment, DDPRUN_ENV_SCOUT_RUN);
    if (is_set(*environment, DDPRUN_ENV_CHECK_RUN))
        set_engine(environment, "libddprun-check.so");
    if (is_played) /* the player stands in front of it */
        environment_set(environment, DDPRUN_ENV_SCOUT_ENGINE, environment_get(*environment, DDPRUN_ENV_ENGINE));
    if (is_played || is_scouted)
        set_engine(environment, "libddprun-scout.so");
}

/* ---- files ---- */

static bool
make_folder(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* By a plan all ranks see one date, until steps begin. Where a cluster's launcher starts a ddprun for each it is the
 * plan's. */
static void
set_date(const struct rank_settings *settings, char ***environment)
{
    static time_t start;
    struct stat plan;
    if (settings->options->plan == NULL || is_set(*environment, FILES_ENV_DATE))
        return;
    if (start == 0)
        start = time(NULL);
    if (settings->place.rank_count < settings->place.world_size && stat(settings->options->plan, &plan) == 0)
        start = plan.st_mtime;
    OWNED char *date = xasprintf("%lld000000 0", (long long)start);
    environment_set(environment, FILES_ENV_DATE, date);
}

/* The private folder of rank `rank`, in the folder of all. */
static char *
folder_of(const char *all, int rank)
{
    return xasprintf("%s/rank-%d", all, rank);
}

/* Rank 0 keeps what it changes from the other ranks of this host: their folders, separated by colons. They are made
 * here, as rank 0 may be the first to start. "": there are none; NULL: one cannot be made. */
static char *
make_others(const struct rank_settings *settings, const char *all)
{
    char *list = xstrdup("");
    for (int i = 1; i < settings->place.rank_count; ++i) {
        OWNED char *folder = folder_of(all, settings->place.first_rank + i), *before = list;
        OWNED char *written = xasprintf("%s/" FILES_WRITTEN, folder);
        list = xasprintf("%s%s%s", before, before[0] != '\0' ? ":" : "", folder);
        if (make_folder(folder) && make_folder(written))
            continue;
        free(list);
        return NULL;
    }
    return list;
}

/* What ddprun and the engine say to each other is not the program's. Rank 0 of a plan writes the user's files, and so
 * does a program that is scouted: both see a date of their own. */
static bool
redirect_files(const struct rank_settings *settings, int index, char ***environment, struct error *error)
{
    bool is_scouted = is_set(*environment, DDPRUN_ENV_SCOUT_RUN) && !is_set(*environment, DDPRUN_ENV_SCOUT_PLAY);
    bool is_first = settings->options->plan != NULL && settings->place.first_rank + index == 0 &&
                    !is_set(*environment, DDPRUN_ENV_CHECK_RUN);
    bool is_writer = is_first || (is_scouted && !is_set(*environment, DDPRUN_ENV_CHECK_FILES));
    const char *kept = environment_get(*environment, DDPRUN_ENV_CHECK_FILES);
    OWNED char *all = kept != NULL ? xstrdup(kept) : xasprintf("%s/files", settings->job_dir);
    OWNED char *folder = folder_of(all, settings->place.first_rank + index);
    OWNED char *except = xasprintf("%s:%s", settings->job_dir, settings->options->job.trace_dir);
    bool is_made = make_folder(all) && make_folder(folder);
    OWNED char *others = is_made && is_first ? make_others(settings, all) : xstrdup("");
    if (!is_made || others == NULL)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "cannot make %s, for what the program writes: %s; make room there, or set TMPDIR", folder,
                         strerror(errno));
    environment_set(environment, FILES_ENV_DIR, folder);
    environment_set(environment, FILES_ENV_OTHERS, others);
    environment_set(environment, FILES_ENV_EXCEPT, is_writer && others[0] == '\0' ? "/" : except);
    set_date(settings, environment);
    return true;
}

static bool
prepare(const struct rank_settings *settings, int index, char ***environment, struct error *error)
{
    bool is_played = is_set(*environment, DDPRUN_ENV_SCOUT_PLAY),
         is_scouted = is_set(*environment, DDPRUN_ENV_SCOUT_RUN);
    if (!is_played && !is_scouted && !is_set(*environment, DDPRUN_ENV_CHECK_RUN))
        return true;
    if (is_scouted && !is_played)
        environment_set(environment, FILES_ENV_NOTES, "1");
    /* without it a program would write the user's files */
    OWNED char *library = installation_library("libddprun-files.so");
    bool ok = installation_check(library, "the library that keeps a check's files apart", error) &&
              redirect_files(settings, index, environment, error);
    /* In front of the shim, which hooks functions of libc, too: callers are to be the program's. */
    const char *all = environment_get(*environment, "LD_PRELOAD"), *shim = strstr(all, settings->installation->shim);
    OWNED char *both = xasprintf("%.*s%s:%s", (int)(shim - all), all, library, shim);
    if (ok && strstr(all, library) == NULL)
        environment_set(environment, "LD_PRELOAD", both);
    return ok && installation_check(environment_get(*environment, DDPRUN_ENV_ENGINE), "the engine that this run loads",
                                    error);
}

const struct rank_equipment tools_equipment = {.choose = choose, .prepare = prepare};
