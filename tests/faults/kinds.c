/* kinds.c - see kinds.h. */
#include "tests/faults/kinds.h"

#include <signal.h>
#include <string.h>

enum { START_POINTS = 7, MPIRUN_LIMIT_S = 5, USUAL_LIMIT_S = 2 };

/* The first collective, in which ranks connect, lasts longer than inject_kill_connecting() waits. */
#define CONNECT_LINK "latency_us=2000000"

/* ---- choosing ---- */

/* splitmix64 */
static uint64_t
mix(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t
run_random(struct run *run, uint64_t below)
{
    return mix(&run->random) % below;
}

int64_t
run_part(struct run *run, int64_t ns)
{
    return (int64_t)((double)ns * (double)run_random(run, 1000) / 1000.0);
}

/* A quarter of all moments lies before the first step, one in eight after the last. */
static struct moment
choose_moment(struct run *run, const struct pace *pace)
{
    uint64_t part = run_random(run, 8);
    if (part < 2)
        return (struct moment){0, run_part(run, pace->start_ns)};
    if (part == 2)
        return (struct moment){KINDS_STEPS, run_part(run, pace->end_ns)};
    return (struct moment){1 + (uint32_t)run_random(run, KINDS_STEPS - 1), run_part(run, pace->step_ns)};
}

/* Kinds take turns, so that few runs see many. */
static const struct kind *
choose_kind(unsigned number, const struct place *place)
{
    unsigned count = 0;
    for (int i = 0; i < kind_count; ++i)
        count += (kinds[i].where & place->where) != 0;
    unsigned turn = number % count;
    const struct kind *kind = kinds;
    while ((kind->where & place->where) == 0 || turn-- > 0)
        ++kind;
    return kind;
}

int
run_limit_s(const struct run *run, const struct place *place)
{
    int usual = place->where != ON_NODE ? MPIRUN_LIMIT_S : USUAL_LIMIT_S;
    return run->kind->limit_s < usual ? usual : run->kind->limit_s;
}

void
run_choose(struct run *run, uint64_t seed, unsigned number, const struct kind *kind, const struct place *place,
           const struct pace *pace)
{
    *run = (struct run){.number = number, .random = seed * 0x2545f4914f6cdd1d + number};
    run->kind = kind != NULL ? kind : choose_kind(number, place);
    run->ranks = 2 + (int)run_random(run, 3);
    if (place->ranks > 0)
        run->ranks = place->ranks;
    run->target = (int)run_random(run, (uint64_t)run->ranks);
    run->moment = choose_moment(run, pace);
    run->point = 1 + (unsigned)run_random(run, run_random(run, 4) == 0 ? START_POINTS : KINDS_POINTS);
}

#define KIND(name_, where_, about_, judge_, ...)                                      \
    {                                                                                 \
        .name = name_, .about = about_, .where = where_, .judge = judge_, __VA_ARGS__ \
    }

const struct kind kind_none = KIND("none", ANYWHERE, "nothing happens", judge_none, .limit_s = 60);

const struct kind kinds[] = {
    KIND("kill", ANYWHERE, "SIGKILL of a rank", judge_signal, .inject = inject_signal_rank, .signal = SIGKILL),
    KIND("connect", ON_NODE | UNDER_MPIRUN, "SIGKILL of a rank while ranks connect", judge_signal, .link = CONNECT_LINK,
         .inject = inject_kill_connecting, .signal = SIGKILL),
    KIND("segv", ANYWHERE, "SIGSEGV of a rank", judge_signal, .inject = inject_signal_rank, .signal = SIGSEGV),
    KIND("stop", ON_NODE | UNDER_MPIRUN, "SIGSTOP of a rank", judge_stop, .options = "--hang-timeout 3 --timeout 8",
         .limit_s = 2 + KINDS_TIMEOUT_S, .inject = inject_stop_rank, .signal = SIGSTOP),
    KIND("exit0", ON_NODE | UNDER_MPIRUN, "a rank calls exit(0)", judge_leave, .arguments = "exit 0 %d %d"),
    KIND("_exit0", ON_NODE | UNDER_MPIRUN, "a rank calls _exit(0)", judge_leave, .arguments = "_exit 0 %d %d"),
    KIND("exit3", ANYWHERE, "a rank calls exit(3)", judge_exit, .arguments = "exit 3 %d %d"),
    KIND("_exit3", ON_NODE | UNDER_MPIRUN, "a rank calls _exit(3)", judge_exit, .arguments = "_exit 3 %d %d"),
    KIND("term", ANYWHERE, "SIGTERM of ddprun or mpirun", judge_asked, .inject = inject_signal_launcher,
         .signal = SIGTERM),
    KIND("int", ON_NODE | UNDER_MPIRUN, "SIGINT of ddprun or mpirun", judge_asked, .inject = inject_signal_launcher,
         .signal = SIGINT),
    KIND("launcher", ANYWHERE, "SIGKILL of ddprun or mpirun", judge_launcher_killed, .sweeps = true,
         .inject = inject_signal_launcher, .signal = SIGKILL),
    KIND("shell", ON_NODE | UNDER_MPIRUN, "SIGKILL of the shell between", judge_signal, .wrapper = true,
         .inject = inject_signal_rank, .signal = SIGKILL, .whom = JOB_PARENT),
    KIND("memory", ON_NODE | UNDER_MPIRUN, "no more memory for a rank", judge_memory, .inject = inject_limit_memory),
    KIND("reader", ON_NODE, "stdout's reader leaves", judge_reader_left, .inject = inject_leave_output),
    KIND("full", ON_NODE, "SIGKILL of a rank behind a full pipe", judge_signal, .arguments = "chat 500",
         .small_pipe = true, .inject = inject_kill_behind_full_pipe, .signal = SIGKILL),
    KIND("closed", ON_NODE, "SIGKILL of a rank, stdout closed", judge_signal, .closed_output = true,
         .inject = inject_signal_rank, .signal = SIGKILL),
    KIND("pause", ON_NODE, "stdout is not read for a while", judge_none, .arguments = "chat 500", .small_pipe = true,
         .limit_s = 60, .inject = inject_pause_reading),
    KIND("supervisor", UNDER_MPIRUN | ON_HOSTS, "SIGKILL of a rank's ddprun", judge_supervisor_killed, .sweeps = true,
         .inject = inject_signal_rank, .signal = SIGKILL, .whom = JOB_PARENT),
    KIND("daemon", ON_HOSTS, "SIGKILL of mpirun's daemon on the other host", judge_torn, .inject = inject_kill_daemon),
    KIND("cut", ON_HOSTS, "the link between the hosts goes down", judge_torn, .options = "--heartbeat-timeout 4",
         .limit_s = 4 + 5, .inject = inject_cut),
};

const int kind_count = sizeof(kinds) / sizeof(kinds[0]);

const struct kind *
kind_named(const char *name)
{
    for (int i = 0; i < kind_count; ++i) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return strcmp(name, kind_none.name) == 0 ? &kind_none : NULL;
}
