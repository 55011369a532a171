/* inject.c - what is done to a run, for each kind of fault: see kinds.h. */
#include "tests/faults/kinds.h"

#include "tests/faults/leftovers.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#define MS 1000000ll

/* Waits for the moment. False if the run ended before. */
static bool
await_moment(const struct run *run, struct job *job)
{
    const struct rank_record *record = &job->records[run->target];
    while (record->step < run->moment.step) {
        if (job_poll(job, 200))
            return false;
    }
    for (int64_t until_ns = job_now_ns() + run->moment.delay_ns; job_now_ns() < until_ns;) {
        if (job_poll(job, 200))
            return false;
    }
    return true;
}

/* The rank's process, once there is one; 0 if the run ended before. */
static pid_t
await_process(const struct run *run, struct job *job, enum job_process which)
{
    pid_t pid;
    while ((pid = job_process(job, run->target, which)) == 0) {
        if (job_poll(job, 200))
            return 0;
    }
    return pid;
}

/* The kind's signal to a process of the target rank. */
void
inject_signal_rank(struct run *run, struct job *job)
{
    pid_t pid = await_moment(run, job) ? await_process(run, job, run->kind->whom) : 0;
    if (pid != 0 && kill(pid, run->kind->signal) == 0)
        run->fault_ns = job_now_ns();
}

void
inject_signal_launcher(struct run *run, struct job *job)
{
    if (await_moment(run, job) && kill(job->pid, run->kind->signal) == 0)
        run->fault_ns = job_now_ns();
}

/* All ranks have reached the first DDP_PARAMETER, in which NCCL is initialised and its first collective connects. */
void
inject_kill_connecting(struct run *run, struct job *job)
{
    for (int r = 0; r < run->ranks; ++r) {
        while (job->records[r].points < 2) {
            if (job_poll(job, 200))
                return;
        }
    }
    run->moment = (struct moment){0, run_part(run, 1500 * MS)};
    inject_signal_rank(run, job);
}

/* Where no rank waits for the stopped rank any more, its stop is not a failure: the rank is continued. */
void
inject_stop_rank(struct run *run, struct job *job)
{
    while (job->records[run->target].pid == 0 && !job_poll(job, 200)) {
    }
    inject_signal_rank(run, job);
    pid_t pid = job_process(job, run->target, JOB_TRAINER);
    if (run->fault_ns != 0 && pid != 0 && job->records[run->target].done_ns != 0) {
        job_wait(job, 300 * MS);
        kill(pid, SIGCONT);
    }
}

/* mpirun's, on the other host. */
void
inject_kill_daemon(struct run *run, struct job *job)
{
    static const char *const names[] = {"orted", "prted"}; /* of Open MPI 4, of 5 */
    if (!await_moment(run, job))
        return;
    pid_t pid = 0;
    for (size_t i = 0; pid == 0 && i < sizeof(names) / sizeof(names[0]); ++i)
        pid = leftovers_find_process(job->mark, names[i]);
    if (pid != 0 && kill(pid, SIGKILL) == 0)
        run->fault_ns = job_now_ns();
}

/*
 * Once ranks train: before that the link is mpirun's. It waits for its other half until they are joined again; what is
 * ddprun's is gone before.
 */
void
inject_cut(struct run *run, struct job *job)
{
    run->moment.step += run->moment.step == 0;
    if (!await_moment(run, job) || system(job->place->cut) != 0)
        return;
    run->fault_ns = job_now_ns();
    while (job_now_ns() < run->fault_ns + 60 * 1000 * MS &&
           (leftovers_find_process(job->mark, "ddprun") != 0 || leftovers_find_process(job->mark, "trainer") != 0))
        job_poll(job, 20000);
    run->gone_ns = job_now_ns();
    if (system(job->place->restore) != 0)
        run->gone_ns += 3600 * 1000 * MS; /* never in time */
}

/* From now on the rank gets no more memory than it has. */
void
inject_limit_memory(struct run *run, struct job *job)
{
    pid_t pid = await_moment(run, job) ? await_process(run, job, JOB_TRAINER) : 0;
    const struct rlimit limit = {1 << 20, 1 << 20};
    if (pid != 0 && prlimit(pid, RLIMIT_AS, &limit, NULL) == 0)
        run->fault_ns = job_now_ns();
}

void
inject_leave_output(struct run *run, struct job *job)
{
    if (!await_moment(run, job))
        return;
    job_close_output(job);
    run->fault_ns = job_now_ns();
}

/* The reader of stdout stops reading; then a rank dies. All processes must be gone before the reader reads again, but
 * for ddprun and its guardian, which stays until the job folder is removed. */
void
inject_kill_behind_full_pipe(struct run *run, struct job *job)
{
    if (!await_moment(run, job))
        return;
    job->reads = false;
    job_wait(job, run_part(run, 50 * MS));
    pid_t pid = await_process(run, job, JOB_TRAINER);
    if (pid == 0 || kill(pid, SIGKILL) != 0)
        return;
    run->fault_ns = job_now_ns();
    for (int64_t until_ns = job_now_ns() + 60 * 1000 * MS;
         job_now_ns() < until_ns && leftovers_processes(job->mark, job->pid) > 1;)
        job_poll(job, 5000);
    run->gone_ns = job_now_ns();
    job->reads = true;
}

void
inject_pause_reading(struct run *run, struct job *job)
{
    if (!await_moment(run, job))
        return;
    job->reads = false;
    run->fault_ns = job_now_ns();
    job_wait(job, run_part(run, 300 * MS));
    job->reads = true;
}
