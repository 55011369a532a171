/*
 * rank.c - does this process become the rank?
 *
 * A rank's process tree holds shells, data loaders and helpers that all have the shim. The one that trains is the first
 * to annotate, to allocate device memory or to launch a kernel. It claims the rank by a lock on a file in the job
 * folder, which the kernel releases with the process; every other process stays passive, for the rank has one place
 * among the others. In a forked child the hooks are plain jumps.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

const struct ddp_site shim_question = {"", "ddprun.h", 0};

/* The process whose thread decides now, or 0. No mutex: the decision loads the engine and everything that it needs, so
 * it waits for the loader's lock, and the thread that has that lock may be in a library's constructor that allocates
 * device memory. Such a thread must not wait for the decision, and need not (see shim_become_rank). A forked child
 * finds its parent's number here and knows that no thread decides any more. */
static _Atomic int decider;

/* This thread is inside the decision: what the engine's start-up calls is not the trainer's doing. */
static __thread int in_decision __attribute__((tls_model("initial-exec")));

enum { DECISION_WAIT_MS = 120000 };

static void
after_fork_in_child(void)
{
    if (shim.engine != NULL)
        shim.engine->after_fork_in_child();
    atomic_store(&shim.mode, SHIM_PASSIVE);
    if (shim.lock_fd >= 0)
        close(shim.lock_fd);
    shim.lock_fd = -1;
    shim_depth = 0;
    crash_watch_no_more();
}

/* Takes the lock that makes this process the rank. Returns its descriptor, -1 if another process has it. */
static int
claim_rank(void)
{
    char path[PATH_MAX];
    int used = snprintf(path, sizeof(path), "%s/" DDPRUN_RANK_LOCK_FORMAT, getenv(DDPRUN_ENV_JOB_DIR),
                        shim_number_from(DDPRUN_ENV_STATUS_INDEX));
    if (used < 0 || used >= (int)sizeof(path))
        shim_stop("the job folder's path is too long: %s", getenv(DDPRUN_ENV_JOB_DIR));

    /* What the program prints to a descriptor that it has closed must not reach a connection that is opened now. */
    for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; ++standard) {
        if (fcntl(standard, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
            shim_stop("cannot open /dev/null: %s", strerror(errno));
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        shim_stop("cannot open %s: %s; is the launcher still running?", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static const struct engine *
start_engine(struct rank_status *status)
{
    static const struct shim_services services = {
        .abi = ENGINE_ABI,
        .driver_function = gate_driver_function,
        .load_driver = shim_load_driver,
        .exempt_library = exempt_add,
        .inside_nccl = threads_inside_nccl,
        .unknown_calls = recorder_calls,
        .filter = &shim_filter,
        .launches = &shim_launches,
        .library_types = &shim_library_types,
    };
    const char *path = getenv(DDPRUN_ENV_ENGINE);
    if (path == NULL)
        shim_stop("%s is not set; start the program with ddprun", DDPRUN_ENV_ENGINE);

    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        shim_stop("rank %d cannot load its engine: %s", shim_number_from(DDPRUN_ENV_RANK), dlerror());
    engine_start_fn start = (engine_start_fn)shim_real_dlsym(library, ENGINE_ENTRY);
    if (start == NULL)
        shim_stop("%s is not a ddprun engine", path);
    return start(&services, status);
}

/* The lock has been another process's before: a script that trains several times. The record begins anew, or the next
 * training would be counted on top of the last. What ranks say to each other is distinguished by the generation, which
 * is the same on all of them as long as each program exited cleanly, for that is where all ranks meet. */
static void
follow_program(struct rank_status *status)
{
    uint32_t stage = atomic_load(&status->stage);
    if (stage < RANK_STAGE_RANK)
        return;
    if (stage == RANK_STAGE_FAILED) /* the launcher is about to say why, and to end the job */
        _exit(DDPRUN_EXIT_FAILURE);
    if (stage != RANK_STAGE_ENDED && shim_number_from(DDPRUN_ENV_WORLD_SIZE) != 1)
        shim_stop("process %d follows process %d in this rank, which did not exit cleanly (exec, _exit "
                  "or a failure), so the ranks cannot train once more; start each training by a ddprun of its own",
                  (int)getpid(), (int)atomic_load(&status->pid));
    atomic_store(&status->stage, RANK_STAGE_GATE);
    memset((char *)status + offsetof(struct rank_status, step), 0,
           sizeof(*status) - offsetof(struct rank_status, step));
    atomic_fetch_add(&status->generation, 1);
}

/* Beside a process that is the rank, or becomes it just now: the record is that one's. */
static void __attribute__((noreturn)) stop_second(const struct ddp_site *site, struct rank_status *status)
{
    atomic_fetch_add(&status->refusal_count, 1);
    char place[512] = "annotates";
    if (site->line > 0)
        snprintf(place, sizeof(place), "annotates at %.450s:%d", site->file, site->line);
    message_line("process %d %s, but process %d already is rank %d; start one trainer for each rank", (int)getpid(),
                 place, (int)atomic_load(&status->pid), shim_number_from(DDPRUN_ENV_RANK));
    _exit(DDPRUN_EXIT_FAILURE);
}

static bool
is_annotation(const struct ddp_site *site)
{
    return site != NULL && site != &shim_question;
}

/* Whether the process may become the rank now. One that is not the rank may by an annotation, where the rank before it
 * has ended; by a question it stays what it is: it may outlive the rank. */
static bool
is_open(int mode, const struct ddp_site *site)
{
    return mode == SHIM_UNDECIDED || (mode == SHIM_PASSIVE && is_annotation(site));
}

/* As the decider: what this process is. */
static enum shim_mode
decide(const struct ddp_site *site)
{
    if (!shim_in_job())
        return SHIM_PASSIVE;
    if (getenv(DDPRUN_ENV_PROTOCOL) == NULL)
        shim_stop(
            "the program has removed _DDPRUN_* from its environment; keep these variables until its first CUDA call");
    if (shim_number_from(DDPRUN_ENV_PROTOCOL) != DDPRUN_PROTOCOL_VERSION)
        shim_stop("launcher and shim are of different versions (%s and %d); reinstall ddprun",
                  getenv(DDPRUN_ENV_PROTOCOL), DDPRUN_PROTOCOL_VERSION);

    struct rank_status *status = shim_map_status();
    if (status == NULL)
        shim_stop("rank %d cannot map the status page in %s: %s", shim_number_from(DDPRUN_ENV_RANK),
                  getenv(DDPRUN_ENV_JOB_DIR), strerror(errno));

    int fd = claim_rank();
    if (fd < 0) {
        if (is_annotation(site))
            stop_second(site, status);
        return SHIM_PASSIVE;
    }

    shim.lock_fd = fd;
    follow_program(status);
    shim_note_gate(); /* without a look-up, too: by an annotation or a question before the first call of CUDA */
    atomic_store(&status->pid, (int)getpid());
    if (pthread_atfork(NULL, NULL, after_fork_in_child) != 0)
        shim_stop("rank %d: out of memory", shim_number_from(DDPRUN_ENV_RANK));
    crash_watch();
    const struct engine *engine = start_engine(status);
    if (engine == NULL || engine->abi != ENGINE_ABI)
        shim_stop("shim and engine are of different versions; reinstall ddprun");
    shim.engine = engine;
    return engine->watching ? SHIM_RANK : SHIM_ALONE;
}

static bool
is_rank(int mode)
{
    return mode == SHIM_RANK || mode == SHIM_ALONE;
}

/* An annotation waits for the thread that decides: its memory must be known before the next call touches it. */
static void
wait_for_decision(const struct ddp_site *site)
{
    for (int waited_ms = 0; atomic_load(&decider) != 0; ++waited_ms) {
        struct rank_status *status = atomic_load(&shim.status);
        if (status != NULL && atomic_load(&status->waits) != 0) /* for other ranks, which has a limit of its own */
            waited_ms = 0;
        if (waited_ms == DECISION_WAIT_MS)
            shim_stop("rank %d: the annotation at %s:%d waits for another thread that starts ddprun's engine, and "
                      "that thread does not finish; do not annotate in a library's constructor",
                      shim_number_from(DDPRUN_ENV_RANK), site->file, site->line);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

bool
shim_become_rank(const struct ddp_site *site)
{
    int mode = atomic_load_explicit(&shim.mode, memory_order_acquire);
    if (!is_open(mode, site))
        return is_rank(mode);
    if (in_decision > 0)
        return false;

    int none = 0, me = (int)getpid();
    while (!atomic_compare_exchange_strong(&decider, &none, me)) {
        if (none != me) { /* this process was forked while its parent's thread decided */
            atomic_store(&shim.mode, SHIM_PASSIVE);
            return false;
        }
        if (site == NULL)
            return false; /* the call continues: nothing is tracked before the first annotation */
        wait_for_decision(site);
        none = 0;
    }

    ++in_decision;
    ++shim_depth;
    mode = atomic_load(&shim.mode);
    if (is_open(mode, site)) {
        mode = (int)decide(site);
        atomic_store_explicit(&shim.mode, mode, memory_order_release);
    }
    --shim_depth;
    --in_decision;
    atomic_store(&decider, 0);
    return is_rank(mode);
}
