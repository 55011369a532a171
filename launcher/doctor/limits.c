/*
 * limits.c - the doctor's look at what the system allows: memory, files, processes, shared memory, tracing, network,
 * and the place of the job's folder.
 */
#include "launcher/doctor/examine.h"
#include "launcher/job_folder.h"
#include "launcher/memory.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB_BYTES (1024.0 * 1024)

/* Two pipes for each rank, PMIx's sockets, and some: what 32 ranks want. Threads of NCCL, PMIx and the trainer count as
 * processes. */
enum { LEAST_FILES = 1024, LEAST_PROCESSES = 4096, LEAST_SHM_MIB = 256, LEAST_LOCKED_MIB = 1024 };

/* The first line of a small file, without its newline; false: it cannot be read. */
static bool
read_line(const char *path, char *line, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool ok = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

static bool
has_entries(const char *folder)
{
    DIR *entries = opendir(folder);
    bool some = false;
    for (struct dirent *entry; entries != NULL && !some && (entry = readdir(entries)) != NULL;)
        some = entry->d_name[0] != '.';
    if (entries != NULL)
        closedir(entries);
    return some;
}

/* An unlimited limit is RLIM_INFINITY, the greatest number. */
static rlim_t
limit_of(int resource)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

static void
examine_files(struct findings *findings)
{
    rlim_t files = limit_of(RLIMIT_NOFILE);
    if (files < LEAST_FILES)
        findings_say(findings, FINDING_WARNING, "open files", "ulimit -n 4096",
                     "at most %llu in a process; many ranks want more", (unsigned long long)files);
    else
        findings_ok(findings, "open files", files == RLIM_INFINITY ? "unlimited" : "at most %llu in a process",
                    (unsigned long long)files);
}

static void
examine_processes(struct findings *findings)
{
    rlim_t processes = limit_of(RLIMIT_NPROC);
    if (processes < LEAST_PROCESSES)
        findings_say(findings, FINDING_WARNING, "processes", "ulimit -u 16384, or ask who runs this machine",
                     "at most %llu processes and threads of yours; each rank has dozens",
                     (unsigned long long)processes);
    else
        findings_ok(findings, "processes", processes == RLIM_INFINITY ? "unlimited" : "at most %llu of yours",
                    (unsigned long long)processes);
}

/* InfiniBand's drivers lock the memory that they send from; without InfiniBand the limit hardly matters. */
static void
examine_locked_memory(struct findings *findings)
{
    rlim_t locked = limit_of(RLIMIT_MEMLOCK);
    bool infiniband = has_entries("/sys/class/infiniband");
    if (infiniband && locked < (rlim_t)LEAST_LOCKED_MIB << 20)
        findings_say(
            findings, FINDING_WARNING, "locked memory",
            "ulimit -l unlimited (under Slurm: LimitMEMLOCK=infinity for slurmd; docker run --ulimit memlock=-1)",
            "at most %.0f MiB; NCCL over the InfiniBand of this machine needs more", (double)locked / MIB_BYTES);
    else if (locked == RLIM_INFINITY)
        findings_ok(findings, "locked memory", "unlimited");
    else
        findings_ok(findings, "locked memory", "at most %.0f MiB%s", (double)locked / MIB_BYTES,
                    infiniband ? "" : ", and no InfiniBand that needs more");
}

static void
examine_core(struct findings *findings)
{
    if (limit_of(RLIMIT_CORE) == 0)
        findings_say(findings, FINDING_NOTE, "core files", "ulimit -c unlimited, before looking into a crash",
                     "a rank that crashes leaves none");
    else
        findings_ok(findings, "core files", "a rank that crashes leaves one");
}

/* NCCL's ranks of one machine exchange through /dev/shm; so do those of the stand-in. */
static void
examine_shared_memory(struct findings *findings)
{
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) != 0 || access("/dev/shm", W_OK | X_OK) != 0) {
        findings_say(findings, FINDING_PROBLEM, "/dev/shm", "mount a tmpfs there, writable for everybody",
                     "cannot be written: %s; ranks of one machine exchange through it", strerror(errno));
        return;
    }
    double size = (double)shm.f_blocks * (double)shm.f_frsize / MIB_BYTES;
    double space = (double)shm.f_bavail * (double)shm.f_frsize / MIB_BYTES;
    if (space < LEAST_SHM_MIB)
        findings_say(findings, FINDING_WARNING, "/dev/shm",
                     "make it larger (docker run --shm-size=1g), or remove what is left there",
                     "%.0f MiB free of %.0f MiB; NCCL may want more for many ranks", space, size);
    else
        findings_ok(findings, "/dev/shm", "%.0f MiB free of %.0f MiB", space, size);
}

/* cgroup 2: limits of this container or job, in the folder that /proc/self/cgroup names; "max" is none. */
static void
examine_cgroup(struct findings *findings)
{
    char line[512], value[128];
    if (!read_line("/proc/self/cgroup", line, sizeof(line)) || strncmp(line, "0::", 3) != 0)
        return;
    char *said = NULL;
    static const char *const names[] = {"memory.max", "pids.max", "cpu.max"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        char *path = memory_format("/sys/fs/cgroup%s/%s", line + 3, names[i]);
        if (read_line(path, value, sizeof(value)) && strncmp(value, "max", 3) != 0) {
            char *before = said;
            said =
                memory_format("%s%s%s %s", before != NULL ? before : "", before != NULL ? ", " : "", names[i], value);
            free(before);
        }
        free(path);
    }
    if (said != NULL)
        findings_say(findings, FINDING_NOTE, "cgroup", "give the container or the job more, if ranks are ended for it",
                     "%s, for all ranks together", said);
    else
        findings_ok(findings, "cgroup", "sets no limit of its own to memory, processes or processors");
    free(said);
}

/* The report of a hang reads the stacks of ranks, which are children of ddprun (yama: 0 and 1 allow that). */
static void
examine_tracing(struct findings *findings)
{
    char value[32];
    int scope = read_line("/proc/sys/kernel/yama/ptrace_scope", value, sizeof(value)) ? atoi(value) : 0;
    if (scope >= 3 || (scope == 2 && geteuid() != 0))
        findings_say(findings, FINDING_WARNING, "stacks of ranks", "set kernel.yama.ptrace_scope to 1, as root",
                     "kernel.yama.ptrace_scope is %d: a report of ranks that hang cannot show where", scope);
    else
        findings_ok(findings, "stacks of ranks", "can be read for a report (ptrace_scope %d)", scope);
}

static void
examine_network(struct findings *findings)
{
    struct ifaddrs *all = NULL;
    char *names = NULL;
    if (getifaddrs(&all) != 0)
        all = NULL;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        bool is_address =
            one->ifa_addr != NULL && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6);
        if (!is_address || (one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0 ||
            (names != NULL && strstr(names, one->ifa_name) != NULL))
            continue;
        char *before = names;
        names = memory_format("%s%s%s", before != NULL ? before : "", before != NULL ? ", " : "", one->ifa_name);
        free(before);
    }
    if (names != NULL)
        findings_ok(findings, "network", "%s", names);
    else
        findings_say(findings, FINDING_NOTE, "network",
                     "nothing, on one machine; if NCCL finds no interface, set "
                     "NCCL_SOCKET_IFNAME=lo",
                     "no interface is up but the loopback");
    free(names);
    if (all != NULL)
        freeifaddrs(all);
}

/* Made and removed for real: this finds a full disk too. */
static void
examine_job_folder(struct findings *findings)
{
    struct job_folder folder;
    struct problem problem;
    if (!job_folder_make(&folder, &problem)) {
        examine_add_problem(findings, FINDING_PROBLEM, "job folder", problem.text);
        return;
    }
    const char *slash = strrchr(folder.path, '/');
    findings_ok(findings, "job folder", "can be made in %.*s", slash == folder.path ? 1 : (int)(slash - folder.path),
                folder.path);
    job_folder_remove(&folder);
}

void
examine_limits(struct examination *examination)
{
    struct findings *findings = examination->findings;
    examine_job_folder(findings);
    examine_shared_memory(findings);
    examine_locked_memory(findings);
    examine_files(findings);
    examine_processes(findings);
    examine_cgroup(findings);
    examine_core(findings);
    examine_tracing(findings);
    examine_network(findings);
}
