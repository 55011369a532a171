/*
 * limits.c - the doctor's look at what the system allows: memory, files, processes, shared memory, tracing,
 * and the place of the job's folder. Of a limit that is wide enough nothing is said.
 */
#include "launcher/start/job_folder.h"
#include "tools/common/room.h"
#include "tools/doctor/examine.h"

#include <glob.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define MIB_BYTES (1024.0 * 1024)

/* Two pipes and a socket for each rank, and some: what 32 ranks want. Threads of NCCL and the trainer count as
 * processes. */
enum { LEAST_FILES = 1024, LEAST_PROCESSES = 4096, LEAST_SHM_MIB = 256, LEAST_LOCKED_MIB = 1024 };

/* An unlimited limit is RLIM_INFINITY, the greatest number. */
static rlim_t
limit_of(int resource)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* `what`: of what there are too few. */
static void
examine_count(struct examination *it, int resource, rlim_t least, const char *subject, const char *advice,
              const char *what)
{
    rlim_t most = limit_of(resource);
    if (most < least)
        findings_say(it, FINDING_WARNING, subject, advice, "at most %llu %s", (unsigned long long)most, what);
}

/* InfiniBand's drivers lock the memory that they send from; without InfiniBand the limit hardly matters. */
static void
examine_locked_memory(struct examination *it)
{
    rlim_t locked = limit_of(RLIMIT_MEMLOCK);
    glob_t adapters = {0};
    bool infiniband = glob("/sys/class/infiniband/*", GLOB_NOSORT, NULL, &adapters) == 0;
    globfree(&adapters);
    if (infiniband && locked < (rlim_t)LEAST_LOCKED_MIB << 20)
        findings_say(
            it, FINDING_WARNING, "locked memory",
            "ulimit -l unlimited (under Slurm: LimitMEMLOCK=infinity for slurmd; docker run --ulimit memlock=-1)",
            "at most %.0f MiB; NCCL over the InfiniBand of this machine needs more", (double)locked / MIB_BYTES);
}

/* NCCL's ranks of one machine exchange through /dev/shm; so do those of the stand-in. */
static void
examine_shared_memory(struct examination *it)
{
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) != 0 || access("/dev/shm", W_OK | X_OK) != 0) {
        findings_say(it, FINDING_PROBLEM, "/dev/shm", "mount a tmpfs there, writable by every user",
                     "cannot be written: %s; ranks of one machine exchange through it", strerror(errno));
        return;
    }
    double size = (double)shm.f_blocks * (double)shm.f_frsize / MIB_BYTES;
    double space = (double)shm.f_bavail * (double)shm.f_frsize / MIB_BYTES;
    if (space < LEAST_SHM_MIB)
        findings_say(it, FINDING_WARNING, "/dev/shm",
                     "make it larger (docker run --shm-size=1g), or remove files from it",
                     "%.0f MiB free of %.0f MiB; NCCL may want more for many ranks", space, size);
    else
        findings_ok(it, "/dev/shm", "%.0f MiB free of %.0f MiB", space, size);
}

/* Of this container or job, which all its ranks share. */
static void
examine_cgroup(struct examination *it)
{
    uint64_t processes = room_limit("pids.max");
    if (processes < LEAST_PROCESSES)
        findings_say(it, FINDING_WARNING, "cgroup",
                     "raise the limit of the container or the job, if ranks cannot start threads",
                     "%llu processes, for all ranks of this machine together", (unsigned long long)processes);
}

/* The report of a hang reads the stacks of ranks, which are children of ddprun (yama: 0 and 1 allow that). */
static void
examine_tracing(struct examination *it)
{
    uint64_t scope = 0;
    (void)room_number("/proc/sys/kernel/yama/ptrace_scope", "", &scope);
    if (scope >= 3 || (scope == 2 && geteuid() != 0))
        findings_say(it, FINDING_WARNING, "stacks of ranks", "set kernel.yama.ptrace_scope to 1, as root",
                     "kernel.yama.ptrace_scope is %d: a report about hung ranks cannot show their stacks", (int)scope);
}

/* Made and removed for real: this finds a full disk too. */
static void
examine_job_folder(struct examination *it)
{
    struct job_folder folder;
    struct error error;
    if (!job_folder_make(&folder, &error)) {
        findings_say_error(it, FINDING_PROBLEM, "job folder", error.text);
        return;
    }
    const char *slash = strrchr(folder.path, '/');
    findings_ok(it, "job folder", "can be made in %.*s", slash == folder.path ? 1 : (int)(slash - folder.path),
                folder.path);
    job_folder_remove(&folder);
}

void
examine_limits(struct examination *it)
{
    examine_job_folder(it);
    examine_shared_memory(it);
    examine_locked_memory(it);
    examine_count(it, RLIMIT_NOFILE, LEAST_FILES, "open files", "ulimit -n 4096", "in a process; many ranks need more");
    examine_count(it, RLIMIT_NPROC, LEAST_PROCESSES, "processes", "ulimit -u 16384, or ask the administrator",
                  "processes and threads of yours; each rank has dozens");
    examine_cgroup(it);
    examine_tracing(it);
}
