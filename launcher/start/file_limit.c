/* file_limit.c - see file_limit.h. */
#include "launcher/start/file_limit.h"

#include "base/protocol.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/resource.h>

static struct rlimit before; /* rlim_max is 0: nothing was raised */

static rlim_t
count_open(void)
{
    enum { NOT_COUNTED = 3 }; /* ".", "..", and the folder itself */
    DIR *folder = opendir("/proc/self/fd");
    rlim_t entries = 0;
    while (folder != NULL && readdir(folder) != NULL)
        ++entries;
    if (folder != NULL)
        closedir(folder);
    return entries > NOT_COUNTED ? entries - NOT_COUNTED : 0;
}

bool
file_limit_raise(unsigned wanted, unsigned needed, struct error *error)
{
    struct rlimit limit;
    rlim_t open = count_open();
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    struct rlimit raised = limit;
    if (raised.rlim_cur < open + wanted)
        raised.rlim_cur = open + wanted < limit.rlim_max ? open + wanted : limit.rlim_max;
    if (raised.rlim_cur < open + needed)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "ddprun needs to open %u files for these ranks, and may open %llu, with %llu open already; "
                         "raise the limit of open files (ulimit -Hn)",
                         needed, (unsigned long long)raised.rlim_cur, (unsigned long long)open);
    if (raised.rlim_cur != limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &raised) == 0 && before.rlim_max == 0)
        before = limit;
    return true;
}

void
file_limit_give_back(void)
{
    if (before.rlim_max != 0)
        (void)setrlimit(RLIMIT_NOFILE, &before);
}
