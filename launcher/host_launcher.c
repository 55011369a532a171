/*
 * host_launcher.c - see hosts.h. What differs between the launchers is this one table: hosts.c uses only
 * options that all of them spell alike.
 *
 * Sources: mpirun(1) of Open MPI 4.1; prterun --help of PRRTE 3, which Open MPI 5 calls under the name of mpirun. What
 * becomes of a lost host was tried (tests/cluster/two_hosts_mpirun.sh, two_hosts_prrte.sh).
 */
#include "launcher/hosts.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/child.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order in which they are preferred. */
static const struct known_launcher {
    const char *program; /* as it is looked for in PATH; other launchers have the name too */
    const char *maker;   /* in the first line of --version: "mpirun (Open MPI) 4.1.4" */
    int least, most;     /* major version that follows */
    struct launcher_traits traits;
} known_launchers[] = {
    {"mpirun", "(Open MPI)", 4, 4, {"--mca", false}},
    {"mpirun", "(Open MPI)", 5, INT_MAX, {"--prtemca", true}},
    {"prterun", "(PRRTE)", 2, INT_MAX, {"--prtemca", true}},
};
enum { KNOWN_COUNT = sizeof(known_launchers) / sizeof(known_launchers[0]) };

const struct launcher_traits *
host_launcher_recognise(const char *program, const char *version)
{
    for (int i = 0; i < KNOWN_COUNT; ++i) {
        const struct known_launcher *known = &known_launchers[i];
        const char *maker = strcmp(known->program, program) == 0 ? strstr(version, known->maker) : NULL;
        int major = maker != NULL ? atoi(maker + strlen(known->maker)) : 0;
        if (major >= known->least && major <= known->most)
            return &known->traits;
    }
    return NULL;
}

/* The first executable file `name` of `path`, malloc'ed; NULL: none. The current folder is never looked into. */
static char *
find_in_path(const char *path, const char *name)
{
    for (const char *at = path; at != NULL; at = strchr(at, ':')) {
        at += *at == ':';
        size_t length = strcspn(at, ":");
        char *file = xasprintf("%.*s/%s", (int)length, at, name);
        struct stat found;
        if (length > 0 && at[0] == '/' && stat(file, &found) == 0 && S_ISREG(found.st_mode) && access(file, X_OK) == 0)
            return file;
        free(file);
    }
    return NULL;
}

/* What `file --version` prints, on either stream; as much as it says in time, or why it cannot be started. Free it. */
static struct child_result *
ask_version(char *file)
{
    enum { LIMIT_S = 20 };
    struct child_result *version = xcalloc(1, sizeof(*version));
    char *const arguments[] = {file, (char[]){"--version"}, NULL};
    child_run(arguments, environ, LIMIT_S, version);
    return version;
}

/* The first line that says something, cut for a message. What has gone wrong stands between lines of dashes. */
static void
keep_first_line(char *text)
{
    enum { LONGEST = 80 };
    size_t blank = strspn(text, " \t\r\n-");
    memmove(text, text + blank, strlen(text + blank) + 1);
    text[strcspn(text, "\r\n")] = '\0';
    if (strlen(text) > LONGEST)
        memcpy(text + LONGEST - 3, "...", sizeof("..."));
    for (char *p = text; *p != '\0'; ++p) {
        if (*p < ' ' || *p > '~')
            *p = '?';
    }
}

bool
host_launcher_find(const char *path, struct host_launcher *launcher, struct error *error)
{
    char *other = NULL; /* another program of the same name */
    for (int i = 0; i < KNOWN_COUNT; ++i) {
        const char *name = known_launchers[i].program;
        bool again = i > 0 && strcmp(name, known_launchers[i - 1].program) == 0;
        char *file = again ? NULL : find_in_path(path, name);
        if (file == NULL)
            continue;
        struct child_result *version = ask_version(file);
        const struct launcher_traits *traits = host_launcher_recognise(name, version->text);
        keep_first_line(version->text);
        if (traits == NULL && other == NULL)
            other = xasprintf(" (%s is another: '%s')", file, version->text);
        free(version);
        if (traits != NULL) {
            free(other);
            *launcher = (struct host_launcher){file, *traits};
            return true;
        }
        free(file);
    }
    error_set(error, DDPRUN_EXIT_USAGE,
              "--hosts needs mpirun of Open MPI 4 or newer, or prterun, and finds neither in PATH%.400s; install one "
              "(Debian: openmpi-bin)",
              other != NULL ? other : "");
    free(other);
    return false;
}
