/*
 * hooks_trees.c - what libc offers above opendir(): inside, it calls its own, which sees directories as they are on the
 * disk.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <glob.h>

/* Of a directory that is really there the real entries, without the run's own. */
typedef int scandir_filter(const struct dirent *entry);
typedef int scandir_order(const struct dirent **a, const struct dirent **b);

HOOK_PATH(int, scandir, PLACE_FOLLOW,
          (const char *path, struct dirent ***list, scandir_filter *filter, scandir_order *order),
          (path, list, filter, order))
ALSO(scandir64, scandir)

/* ---- glob: with the program's functions for directories, or else the hooks ---- */

static void *
glob_opendir(const char *path)
{
    return opendir(path);
}

static void
glob_closedir(void *stream)
{
    (void)closedir(stream);
}

static struct dirent *
glob_readdir(void *stream)
{
    return readdir(stream);
}

int
glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found)
{
    if (files_config() == NULL || (flags & GLOB_ALTDIRFUNC) != 0)
        return REAL(glob)(pattern, flags, failed, found);
    found->gl_opendir = glob_opendir;
    found->gl_closedir = glob_closedir;
    found->gl_readdir = glob_readdir;
    found->gl_stat = stat;
    found->gl_lstat = lstat;
    int result = REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
    found->gl_flags &= ~GLOB_ALTDIRFUNC;
    return result;
}
ALSO(glob64, glob)
