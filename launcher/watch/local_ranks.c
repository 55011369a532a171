/* local_ranks.c - see local_ranks.h. */
#include "launcher/watch/local_ranks.h"

#include "base/clock.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/watch/processes.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- what a rank says of itself ---- */

#define WATCH_DEAD_NS UINT64_C(5000000000) /* it looks every 50 ms, if the machine lets it */

/* Of a text that may be half written, or no text at all. */
static void
copy_text(char *to, size_t to_bytes, const char *from, size_t from_bytes)
{
    size_t length = strnlen(from, from_bytes), at = 0;
    for (; at < length && at + 1 < to_bytes; ++at)
        to[at] = from[at] >= ' ' && from[at] <= '~' ? from[at] : '?';
    to[at] = '\0';
}

static uint64_t
age(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* On the device first: whose device is behind keeps the others waiting, wherever its host is. */
static void
read_wait(const struct rank_status *status, uint64_t now_ns, struct rank_view *view)
{
    uint32_t collective = atomic_load(&status->collective);
    if (age(atomic_load(&status->watch_ns), now_ns) > WATCH_DEAD_NS) /* it hangs itself, perhaps in the driver */
        collective = RANK_COLLECTIVE_NONE;
    bool exchange = atomic_load(&status->waits) != 0;
    view->watch_ns = atomic_load(&status->watch_ns);
    view->wait_count = atomic_load(&status->wait_count);
    view->wait = RANK_WAIT_NONE;
    view->wait_ns = 0;
    view->wait_for[0] = '\0';
    if (collective == RANK_COLLECTIVE_BEHIND || (collective == RANK_COLLECTIVE_WAITS && !exchange)) {
        view->wait = collective == RANK_COLLECTIVE_BEHIND ? RANK_WAIT_DEVICE : RANK_WAIT_COLLECTIVE;
        view->wait_ns = age(atomic_load(&status->collective_ns), now_ns);
        view->wait_step = atomic_load(&status->collective_step);
        copy_text(view->wait_for, sizeof(view->wait_for), status->collective_text, sizeof(status->collective_text));
    } else if (exchange) {
        view->wait = RANK_WAIT_EXCHANGE;
        view->wait_ns = age(atomic_load(&status->waits_ns), now_ns);
        copy_text(view->wait_for, sizeof(view->wait_for), status->place, sizeof(status->place));
    }
}

/* The call that has lasted longest and not returned, else the one that returned last. */
static const struct rank_call *
find_call(const struct rank_status *status, bool *continues)
{
    const struct rank_call *found = NULL;
    *continues = false;
    for (int i = 0; i < RANK_CALLS_AT_ONCE; ++i) {
        const struct rank_call *call = &status->calls[i];
        bool here = atomic_load(&call->thread) != 0;
        uint64_t entered = atomic_load(&call->entered_ns), left = atomic_load(&call->left_ns);
        if (entered == 0 || (*continues && !here))
            continue;
        if (found == NULL || (here && !*continues) || (here && entered < atomic_load(&found->entered_ns)) ||
            (!here && left > atomic_load(&found->left_ns)))
            found = call;
        *continues = *continues || here;
    }
    return found;
}

static void
read_call(const struct rank_status *status, uint64_t now_ns, struct rank_view *view)
{
    const struct rank_call *call = find_call(status, &view->in_call);
    view->call[0] = '\0';
    view->call_ns = 0;
    view->call_thread = 0;
    if (call != NULL) {
        uint64_t words[RANK_CALL_NAME_WORDS];
        for (int i = 0; i < RANK_CALL_NAME_WORDS; ++i)
            words[i] = atomic_load_explicit(&call->name[i], memory_order_relaxed);
        copy_text(view->call, sizeof(view->call), (const char *)words, sizeof(words));
        view->call_thread = atomic_load(&call->last_thread);
        view->call_ns = age(atomic_load(view->in_call ? &call->entered_ns : &call->left_ns), now_ns);
    }
    /* A launch that touches no gradient may have come later: the watch thread knows to within its period. */
    uint64_t launch_ns = atomic_load(&status->launch_ns);
    if (!view->in_call && launch_ns != 0 && (call == NULL || age(launch_ns, now_ns) < view->call_ns)) {
        snprintf(view->call, sizeof(view->call), "a kernel launch");
        view->call_thread = 0;
        view->call_ns = age(launch_ns, now_ns);
    }
    view->call_count = atomic_load(&status->call_count) + atomic_load(&status->launch_count);
    copy_text(view->kernel, sizeof(view->kernel), status->kernel, sizeof(status->kernel));
}

static void
read_means(struct rank_view *view, const struct rank_status *status)
{
    uint32_t count = atomic_load(&status->told.mean_count);
    view->mean_count = count < RANK_MEANS_AT_MOST ? count : RANK_MEANS_AT_MOST;
    for (unsigned i = 0; i < view->mean_count; ++i) {
        const struct rank_mean *mean = &status->told.means[i];
        uint64_t bits = atomic_load(&mean->value);
        memcpy(&view->means[i].value, &bits, sizeof(bits));
        view->means[i].step = atomic_load(&mean->step);
        memcpy(view->means[i].name, mean->name, sizeof(mean->name));
        memcpy(view->means[i].place, mean->place, sizeof(mean->place));
        view->means[i].name[sizeof(mean->name) - 1] = view->means[i].place[sizeof(mean->place) - 1] = '\0';
    }
}

static void
read_warnings(struct warnings *to, const struct warnings *from)
{
    for (int i = 0; i < WARNINGS_AT_MOST; ++i) {
        const struct warning *said = &from->all[i];
        uint64_t count = atomic_load(&said->count);
        if (count > 0) {
            struct warning *warning = &to->all[i];
            warning->step = said->step;
            copy_text(warning->key, sizeof(warning->key), said->key, sizeof(said->key));
            memcpy(warning->text, said->text, sizeof(warning->text) - 1);
            printable_make(warning->text, "");
        }
        to->all[i].count = count;
    }
}

static void
read_longs(uint64_t *to, const _Atomic uint64_t *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(*to); ++i)
        to[i] = atomic_load(&from[i]);
}

/* The types of rank_fields.def, from a record into a view. */
#define READ_LONG(name)   read_longs((uint64_t *)&view->name, (const _Atomic uint64_t *)&status->name, sizeof(view->name))
#define READ_NUMBER(name) view->name = atomic_load(&status->name)
#define READ_FLAG(name)   view->name = atomic_load(&status->name) != 0
#define READ_TEXT(name)   copy_text(view->name, sizeof(view->name), status->name, sizeof(status->name))

void
rank_record_read(const struct rank_status *status, uint64_t now_ns, struct rank_view *view)
{
    view->generation = atomic_load(&status->generation);
    view->stage = atomic_load(&status->stage); /* first: the rest is written before it */
#define FACT(type, name, ...) READ_##type(name);
#include "base/rank_fields.def"
    view->launch_count = view->reported_launch_count + atomic_load(&status->launch_count);
    read_means(view, status);
    read_warnings(&view->warnings, &status->warnings);
    read_wait(status, now_ns, view);
    read_call(status, now_ns, view);
    if (view->stage != RANK_STAGE_FAILED)
        return;
    view->failure_by = atomic_load(&status->failure_follows);
    view->failure_follows = view->failure_by == RANK_FOLLOWS || view->failure_by == RANK_MAY_FOLLOW;
    memcpy(view->failure, status->failure, sizeof(view->failure));
    view->failure[sizeof(view->failure) - 1] = '\0';
}

/* ---- the ranks ---- */

/* For which helpers that a program has left running may end by themselves, before they count as left behind. */
#define LEFT_NS     UINT64_C(1000000000)
#define ENTERING_NS UINT64_C(200000000) /* of these, for a daemon to enter its session */

/* The process that is the rank, if what its record says is a process that was started for it; else that one. */
static pid_t
process_of(const struct rank_status *status, pid_t root)
{
    pid_t pid = atomic_load(&status->pid);
    return pid > 0 && pid != root && process_descends(pid, root) ? pid : root;
}

#define IDLE_CPU_PART 0.002                /* its own watch thread's are up to 0.0005 */
#define IDLE_CALL_NS  UINT64_C(1000000000) /* since its last call; less is not looked at, as it costs more */

/* For how long the main thread, and the one that made the last CUDA call, have waited for other threads or a signal,
 * while no process of the rank has used CPU time: as far as can be seen, they would for ever. Who reads, sleeps, or
 * waits for a process may get what it waits for. */
static uint64_t
find_idle_ns(struct local_ranks *local, int i, uint64_t now)
{
    const struct rank_view *view = &local->views[i];
    struct seen_rank *seen = &local->seen[i];
    struct process_list *all = &local->processes;
    bool may_be = view->stage == RANK_STAGE_TRAINING && view->wait == RANK_WAIT_NONE && !view->in_call &&
                  view->call_ns >= IDLE_CALL_NS && process_thread_waits(view->pid, view->pid) &&
                  (view->call_thread == 0 || process_thread_waits(view->pid, view->call_thread));
    unsigned long long ticks = 0;
    if (may_be)
        process_list_read(all);
    for (size_t k = 0; may_be && k < all->count; ++k)
        ticks += process_list_is_in_tree(all, all->items[k].pid, local->pids[i]) ? all->items[k].cpu_ticks : 0;
    double allowed = 2.0 + IDLE_CPU_PART * 1e-9 * (double)(now - seen->busy_ns) * (double)sysconf(_SC_CLK_TCK);
    if (!may_be || ticks < seen->ticks || (double)(ticks - seen->ticks) > allowed)
        *seen = (struct seen_rank){.ended_ns = seen->ended_ns, .busy_ns = now, .ticks = ticks};
    return now - seen->busy_ns;
}

/* Asks the system about one rank. The ranks take turns, so that many cost no more than one. */
static void
look_at_process(struct local_ranks *local, uint64_t now)
{
    if (local->count == 0)
        return;
    int i = local->look_at;
    local->look_at = (i + 1) % local->count;
    struct rank_view *view = &local->views[i];
    if (view->ended)
        return;
    const struct rank_status *status = status_page_rank(local->status_page, i);
    view->pid = process_of(status, local->pids[i]);
    struct process process = {0};
    bool lives = process_read(view->pid, 0, &process) && !process.is_zombie;
    if (!lives && process_read(local->pids[i], 0, &process)) /* a script that outlives its trainer */
        view->pid = local->pids[i];
    view->stopped = process.is_stopped;
    /* A wrapper that continues after the rank may have much to do; a program that has ended, only its exit handlers. */
    view->exiting = lives && atomic_load(&status->stage) == RANK_STAGE_ENDED && atomic_load(&status->pid) == view->pid;
    view->idle_ns = find_idle_ns(local, i, now);
}

/* Whose end is a rank's, and whose number is that of a group of processes (processes.h). */
static bool
is_kept(const struct local_ranks *local, pid_t pid)
{
    for (int i = 0; i < local->count; ++i) {
        if (pid == local->pids[i])
            return true;
    }
    return false;
}

static bool
may_be_left(const struct local_ranks *local, const struct process *process)
{
    return !is_kept(local, process->pid) && !process->is_zombie;
}

/* Whether a process that rank i has left is in a session of its own: it has fallen to us, and its environment names the
 * rank. */
static bool
has_left_session(const struct process *process, int i)
{
    char variable[64];
    if (process->parent != getpid())
        return false;
    snprintf(variable, sizeof(variable), DDPRUN_ENV_STATUS_INDEX "=%d", i);
    return process_has_variable(process->pid, variable);
}

/* The process that the status page names as the trainer of rank i, if it is a live one of ours; else 0. */
static pid_t
find_named_trainer(pid_t trainer)
{
    struct process process;
    bool lives = process_descends(trainer, getpid()) && process_read(trainer, 0, &process) && !process.is_zombie;
    return lives ? trainer : 0;
}

/* Whether a process is a copy of the trainer of rank i, called `name`, that the trainer has left in a session of its
 * own, as daemon(3) does, or that may be about to enter one. */
static bool
is_copy(const struct local_ranks *local, int i, const struct process *process, const char *name, uint64_t now)
{
    uint64_t ended_ns = local->seen[i].ended_ns;
    bool may_enter = ended_ns == 0 || now - ended_ns < ENTERING_NS;
    if (process->parent != getpid() || strcmp(process->name, name) != 0)
        return false;
    return may_enter || getsid(process->pid) != getsid(0);
}

/* A copy of the trainer of rank i, whose process has ended in the middle of its training; 0: none. */
static pid_t
find_copy(const struct local_ranks *local, int i, const struct process_list *all, uint64_t now)
{
    struct process own;
    pid_t left = 0;
    if (!process_read(local->pids[i], 0, &own))
        return 0;
    for (size_t k = 0; k < all->count; ++k) {
        const struct process *other = &all->items[k];
        if (may_be_left(local, other) && is_copy(local, i, other, own.name, now))
            left = other->pid;
    }
    return left;
}

/* A process of the group of rank i, or one that has left it, where nothing has trained; 0: none. */
static pid_t
find_untrained(const struct local_ranks *local, int i, const struct process_list *all)
{
    pid_t left = 0;
    for (size_t k = 0; k < all->count; ++k) {
        const struct process *other = &all->items[k];
        bool is_of_rank = other->group == local->pids[i] || has_left_session(other, i);
        if (may_be_left(local, other) && is_of_rank)
            left = other->pid;
    }
    return left;
}

/* A process of rank i that may be its trainer and lives although the rank's own has ended. The status page names the
 * trainer, once there is one. 0: no such process. */
static pid_t
find_left(const struct local_ranks *local, int i, uint64_t now)
{
    const struct rank_status *status = status_page_rank(local->status_page, i);
    unsigned stage = atomic_load(&status->stage);
    pid_t trainer = atomic_load(&status->pid);
    if (stage >= RANK_STAGE_ENDED)
        return 0;
    const bool midway = stage >= RANK_STAGE_RANK;
    if (midway && trainer != local->pids[i])
        return find_named_trainer(trainer);
    struct process_list all = {0};
    process_list_read(&all);
    pid_t left = midway ? find_copy(local, i, &all, now) : find_untrained(local, i, &all);
    process_list_free(&all);
    return left;
}

/* Whether the end of rank i, with exit code 0, is not noted yet: what it has left running has a moment to end. */
static bool
waits_for_left(struct local_ranks *local, int i, uint64_t now)
{
    struct rank_view *view = &local->views[i];
    pid_t left = find_left(local, i, now);
    if (left == 0)
        return false;
    if (local->seen[i].ended_ns == 0)
        local->seen[i].ended_ns = now;
    if (now - local->seen[i].ended_ns < LEFT_NS)
        return true;
    struct process process;
    bool named = process_read(left, 0, &process);
    view->left_pid = left;
    snprintf(view->left_name, sizeof(view->left_name), "%s", named ? process.name : "?");
    return false;
}

static void
note_end(struct local_ranks *local, int i, uint64_t now)
{
    struct rank_view *view = &local->views[i];
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)local->pids[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != local->pids[i])
        return;
    if (info.si_code == CLD_EXITED && info.si_status == 0 && waits_for_left(local, i, now))
        return;
    view->ended = true;
    view->order = local->order;
    if (info.si_code == CLD_EXITED)
        view->exit_code = info.si_status;
    else
        view->signal = info.si_status;
}

void
local_ranks_place(struct local_ranks *local, const char *const *gpus, bool softgpu)
{
    local->kills_before = out_of_memory_kills("");
    local->seen = xcalloc((size_t)local->count, sizeof(*local->seen));
    for (int i = 0; i < local->count; ++i) {
        struct rank_view *view = &local->views[i];
        const char *gpu = gpus != NULL ? gpus[i] : NULL;
        snprintf(view->host, sizeof(view->host), "%.63s", host_name());
        view->pid = local->pids[i];
        if (gpu == NULL && softgpu)
            snprintf(view->gpu, sizeof(view->gpu), "a device of the stand-in");
        else if (gpu != NULL)
            snprintf(view->gpu, sizeof(view->gpu), softgpu ? "device %.40s of the stand-in" : "GPU %.50s", gpu);
    }
}

/* A child of the launcher that has ended, 0: no child has. One call, in the long time in which no child has ended. */
static pid_t
find_ended(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 ? info.si_pid : 0;
}

/* Takes away what has fallen to us and ended: in a job of days, helpers of the ranks would use up the numbers. The
 * system tells of one ended child only, and may always tell of one that is kept; after it, all children are asked. */
static void
reap_orphans(const struct local_ranks *local)
{
    pid_t ended;
    while ((ended = find_ended()) != 0 && !is_kept(local, ended))
        waitpid(ended, NULL, WNOHANG);
    if (ended == 0)
        return;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid()); /* orphans fall to the first thread */
    FILE *children = fopen(path, "re");
    for (int pid; children != NULL && fscanf(children, "%d", &pid) == 1;) {
        if (!is_kept(local, pid))
            waitpid(pid, NULL, WNOHANG);
    }
    if (children != NULL)
        fclose(children);
}

static void
look_at_end(struct local_ranks *local, int i, bool ended, uint64_t now)
{
    struct rank_view *view = &local->views[i];
    if (view->ended)
        return;
    if (ended)
        note_end(local, i, now);
    if (view->ended && view->signal == SIGKILL)
        view->out_of_memory = out_of_memory_kills("") > local->kills_before;
}

/* ---- once ranks are asked to stop ---- */

/* The trainer, as far as it has told its process; a script around it may have ended. 0: it does not live. */
static pid_t
find_trainer(const struct local_ranks *local, int i)
{
    pid_t pid = local->views[i].ended ? atomic_load(&status_page_rank(local->status_page, i)->pid)
                                      : process_of(status_page_rank(local->status_page, i), local->pids[i]);
    struct process process;
    bool lives = pid > 0 && process_read(pid, 0, &process) && !process.is_zombie;
    return lives && process_descends(pid, getpid()) ? pid : 0;
}

/* Whether the main thread blocks the signal, as it does in its handler. */
static bool
blocks(pid_t pid, int number)
{
    struct process_signals signals;
    return pid > 0 && process_signals_read(pid, &signals) && process_signal_is_in(signals.blocked, number);
}

static void
look_at_stopping(struct local_ranks *local)
{
    for (int i = 0; i < local->count; ++i) {
        struct rank_view *view = &local->views[i];
        pid_t trainer = find_trainer(local, i);
        if (view->killed != RANK_KILLED_LATE) /* else as it was then */
            view->outlived = view->ended && trainer != 0;
        if (view->killed == RANK_KILLED_NOT)
            view->in_handler = !local->seen[i].blocked && blocks(trainer, local->expected);
    }
}

/* Ends and aborts first: what a rank wrote before is then seen with them. */
void
local_ranks_look(struct local_ranks *local)
{
    uint64_t now = (uint64_t)clock_now_ns();
    bool ended = find_ended() != 0;
    ++local->order;
    if (local->count == 0)
        return;
    look_at_process(local, now);
    for (int i = 0; i < local->count; ++i)
        look_at_end(local, i, ended, now);
    if (ended)
        reap_orphans(local);
    local->hear_engines(local->data, local->views, local->count);
    for (int i = 0; i < local->count; ++i)
        rank_record_read(status_page_rank(local->status_page, i), now, &local->views[i]);
    if (local->expected != 0)
        look_at_stopping(local);
    preload_watch_look(local->watch, &local->processes, local->pids, local->views, now);
}

void
local_ranks_expect(struct local_ranks *local, int number)
{
    local->expected = number;
    for (int i = 0; i < local->count; ++i)
        local->seen[i].blocked = blocks(find_trainer(local, i), number);
}

#define ANCESTRY_LIMIT 64 /* scripts around a trainer, one in another */

/* The trainer, its parent, and so on, up to the process that was started for the rank; at most `limit`. Returns how
 * many. */
static int
find_ancestry(pid_t trainer, pid_t root, pid_t *pids, int limit)
{
    struct process process;
    int count = 0;
    for (pid_t pid = trainer; count < limit && pid > 1 && pid != getpid(); pid = process.parent) {
        if (!process_read(pid, 0, &process) || process.is_zombie)
            break;
        pids[count++] = pid;
        if (pid == root)
            break;
    }
    return count;
}

/* The outermost first: a script that waits for its trainer has the signal before the trainer ends. */
pid_t
local_ranks_signal(const struct local_ranks *local, int i, int number)
{
    pid_t trainer = find_trainer(local, i);
    pid_t ancestry[ANCESTRY_LIMIT];
    bool is_left_out = trainer != 0 && !process_survives(trainer, number);
    for (int k = find_ancestry(trainer, local->pids[i], ancestry, ANCESTRY_LIMIT) - 1; k >= 0; --k)
        if (process_survives(ancestry[k], number))
            kill(ancestry[k], number);
    return is_left_out ? trainer : 0;
}

void
local_ranks_end(struct local_ranks *local, int i, enum rank_killed why)
{
    pid_t trainer = find_trainer(local, i);
    local->views[i].killed = why;
    if (trainer != 0)
        processes_kill_tree(&local->processes, trainer);
}

void
local_ranks_note_late(struct local_ranks *local)
{
    for (int i = 0; i < local->count; ++i) {
        struct rank_view *view = &local->views[i];
        if (view->killed == RANK_KILLED_NOT && (!view->ended || view->outlived))
            view->killed = RANK_KILLED_LATE;
    }
}

bool
local_ranks_all_ended(const struct local_ranks *local)
{
    for (int i = 0; i < local->count; ++i) {
        if (!local->views[i].ended || local->views[i].outlived)
            return false;
    }
    return true;
}
