/* leftovers.c - see leftovers.h. */
#include "tests/faults/leftovers.h"

#include "base/printable.h"
#include "tests/faults/job.h"

#include <ctype.h>
#include <dirent.h>
#include <ftw.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static bool isolated;

static bool
raise_loopback(void)
{
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    memcpy(request.ifr_name, "lo", sizeof("lo"));
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return done;
}

bool
leftovers_isolate(bool network)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!network)
        return true;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") != 0)
        return false;
    isolated = unshare(CLONE_NEWNET) == 0;
    if (isolated && !raise_loopback()) {
        fprintf(stderr, "campaign: the loopback of the campaign's network namespace does not come up\n");
        exit(2);
    }
    return isolated;
}

/* ---- processes ---- */

/* Whether the environment of a process holds the mark. A process that has ended has none. */
static bool
carries(const char *process, const char *mark)
{
    static char text[1 << 18];
    char wanted[128];
    size_t length = (size_t)snprintf(wanted, sizeof(wanted), "%s=%s", JOB_MARK, mark) + 1; /* with its NUL */
    return memmem(text, read_process(process, "environ", text, sizeof(text)), wanted, length) != NULL;
}

/* The next process that carries the mark; NULL, and the folder closed, after the last. */
static const char *
next_marked(DIR *processes, const char *mark)
{
    for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
        if (isdigit((unsigned char)entry->d_name[0]) && carries(entry->d_name, mark))
            return entry->d_name;
    }
    if (processes != NULL)
        closedir(processes);
    return NULL;
}

/* Calls kill(2) with `number` for each that carries the mark, and says how many there are. */
static size_t
signal_marked(const char *mark, pid_t but, int number, char *names, size_t bytes)
{
    size_t count = 0;
    DIR *processes = opendir("/proc");
    for (const char *process; (process = next_marked(processes, mark)) != NULL;) {
        if (atoi(process) == but)
            continue;
        ++count;
        if (number != 0)
            kill(atoi(process), number);
        printable_append(names, bytes, " %s", process);
    }
    return count;
}

size_t
leftovers_processes(const char *mark, pid_t but)
{
    char names[256] = "";
    while (but == 0 && waitpid(-1, NULL, WNOHANG) > 0) { /* orphans that we inherited */
    }
    return signal_marked(mark, but, 0, names, sizeof(names));
}

pid_t
leftovers_find_process(const char *mark, const char *name)
{
    pid_t found = 0;
    DIR *processes = opendir("/proc");
    for (const char *process; (process = next_marked(processes, mark)) != NULL;) {
        char text[64];
        read_process(process, "comm", text, sizeof(text));
        text[strcspn(text, "\n")] = '\0';
        found = found == 0 && strcmp(text, name) == 0 ? atoi(process) : found;
    }
    return found;
}

void
leftovers_kill(const char *mark)
{
    char names[256] = "";
    signal_marked(mark, 0, SIGKILL, names, sizeof(names));
}

/* ---- files, sockets, shared memory ---- */

/* What Open MPI and PMIx leave when they are killed is not ours. */
static bool
is_of_mpirun(const char *name)
{
    static const char *const beginnings[] = {"ompi.", "openmpi-", "prte", "pmix", "vader_segment", "sm_segment"};
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); ++i) {
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    }
    return false;
}

/* What is measured is kept in whole files only: "NAME.json", never "NAME.json.123". */
static bool
is_whole_file(const char *name)
{
    const char *end = strrchr(name, '.');
    return end != NULL && strcmp(end, ".json") == 0;
}

/* In the folder there are not more than so many entries, but for those that may be there. */
static void
find_in_folder(const char *folder, const char *name, size_t allowed, bool (*may_be)(const char *name), char *text,
               size_t bytes)
{
    char path[400];
    snprintf(path, sizeof(path), "%s%s%s", folder, name[0] != '\0' ? "/" : "", name);
    DIR *entries = opendir(path);
    if (entries == NULL) {
        printable_append(text, bytes, "no folder %s; ", path);
        return;
    }
    char found[512] = "";
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || may_be(entry->d_name))
            continue;
        ++count;
        printable_append(found, sizeof(found), " %s", entry->d_name);
    }
    closedir(entries);
    if (count > allowed)
        printable_append(text, bytes, "in %s:%s; ", path, found);
}

/* Those with a name: others are known by descriptors only, and go with the last process that holds one. */
static void
find_sockets(const char *process, const char *name, char *text, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%s/net/unix", process);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    char line[512];
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *last = strrchr(line, ' ');
        if (strncmp(line, "Num ", 4) == 0 || last == NULL || (last[1] != '@' && last[1] != '/') ||
            strstr(last, name) == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        printable_append(text, bytes, "a socket: %s; ", line);
    }
    fclose(file);
}

static void
find_on_host(const struct place_host *host, bool swept_later, char *text, size_t bytes)
{
    char process[16], path[64];
    snprintf(process, sizeof(process), "%d", (int)host->keeper);
    snprintf(path, sizeof(path), "/proc/%s/root/dev/shm", process);
    find_in_folder(host->tmp, "", swept_later ? 2 : 0, is_of_mpirun, text, bytes);
    find_in_folder(path, "", 0, is_of_mpirun, text, bytes);
    find_sockets(process, "ddprun", text, bytes);
    find_sockets(process, "softgpu", text, bytes);
}

void
leftovers_find(const struct place *place, const char *mark, const char *folder, bool swept_later, char *text,
               size_t bytes)
{
    char names[256] = "", cache[400];
    text[0] = '\0';
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    size_t count = signal_marked(mark, 0, 0, names, sizeof(names));
    if (count > 0)
        printable_append(text, bytes, "%zu processes:%s; ", count, names);
    find_in_folder(folder, "tmp", swept_later, is_of_mpirun, text, bytes);
    find_in_folder(folder, "runtime", swept_later, is_of_mpirun, text, bytes);
    find_in_folder(folder, "config", 0, is_of_mpirun, text, bytes);
    find_in_folder(folder, "home", 0, is_of_mpirun, text, bytes);
    snprintf(cache, sizeof(cache), "%s/cache/ddprun", folder);
    if (access(cache, F_OK) == 0)
        find_in_folder(cache, "", 0, is_whole_file, text, bytes);
    for (int i = 0; i < place->host_count; ++i)
        find_on_host(&place->hosts[i], swept_later, text, bytes);
    if (!isolated)
        return;
    find_sockets("self", place->where == ON_NODE ? "" : "ddprun", text, bytes);
    find_in_folder("/dev/shm", "", 0, is_of_mpirun, text, bytes);
}

static int
remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

void
leftovers_remove_folder(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
