/* kinds.c - see kinds.h. */
#include "tests/faults/kinds.h"

#include "tests/faults/inject.h"
#include "tests/faults/judge.h"

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

const struct kind kind_none = {
    .name = "none", .about = "nothing happens", .where = ANYWHERE, .judge = judge_none, .limit_s = 60};

const struct kind kinds[] = {
    {.name = "kill", .where = ANYWHERE, .about = "SIGKILL of a rank", .inject = inject_kill_rank, .judge = judge_kill},
    {.name = "connect",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "SIGKILL of a rank while ranks connect",
     .link = CONNECT_LINK,
     .inject = inject_kill_connecting,
     .judge = judge_kill},
    {.name = "segv",
     .where = ANYWHERE,
     .about = "SIGSEGV of a rank",
     .inject = inject_crash_rank,
     .judge = judge_crash},
    {.name = "stop",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "SIGSTOP of a rank",
     .options = "--hang-timeout 3 --timeout 8",
     .limit_s = 2 + KINDS_TIMEOUT_S,
     .inject = inject_stop_rank,
     .judge = judge_stop},
    {.name = "exit0",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "a rank calls exit(0)",
     .arguments = "exit 0 %d %d",
     .judge = judge_leave},
    {.name = "_exit0",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "a rank calls _exit(0)",
     .arguments = "_exit 0 %d %d",
     .judge = judge_leave},
    {.name = "exit3",
     .where = ANYWHERE,
     .about = "a rank calls exit(3)",
     .arguments = "exit 3 %d %d",
     .judge = judge_exit},
    {.name = "_exit3",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "a rank calls _exit(3)",
     .arguments = "_exit 3 %d %d",
     .judge = judge_exit},
    {.name = "term",
     .where = ANYWHERE,
     .about = "SIGTERM of ddprun or mpirun",
     .inject = inject_terminate_launcher,
     .judge = judge_terminate},
    {.name = "int",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "SIGINT of ddprun or mpirun",
     .inject = inject_interrupt_launcher,
     .judge = judge_interrupt},
    {.name = "launcher",
     .where = ANYWHERE,
     .about = "SIGKILL of ddprun or mpirun",
     .sweeps = true,
     .inject = inject_kill_launcher,
     .judge = judge_launcher_killed},
    {.name = "shell",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "SIGKILL of the shell between",
     .wrapper = true,
     .inject = inject_kill_shell,
     .judge = judge_kill},
    {.name = "memory",
     .where = ON_NODE | UNDER_MPIRUN,
     .about = "no more memory for a rank",
     .inject = inject_limit_memory,
     .judge = judge_memory},
    {.name = "reader",
     .where = ON_NODE,
     .about = "stdout's reader leaves",
     .inject = inject_leave_output,
     .judge = judge_reader_left},
    {.name = "full",
     .where = ON_NODE,
     .about = "SIGKILL of a rank behind a full pipe",
     .arguments = "chat 500",
     .small_pipe = true,
     .inject = inject_kill_behind_full_pipe,
     .judge = judge_kill},
    {.name = "closed",
     .where = ON_NODE,
     .about = "SIGKILL of a rank, stdout closed",
     .closed_output = true,
     .inject = inject_kill_rank,
     .judge = judge_kill},
    {.name = "pause",
     .where = ON_NODE,
     .about = "stdout is not read for a while",
     .arguments = "chat 500",
     .small_pipe = true,
     .limit_s = 60,
     .inject = inject_pause_reading,
     .judge = judge_none},
    {.name = "supervisor",
     .about = "SIGKILL of a rank's ddprun",
     .where = UNDER_MPIRUN | ON_HOSTS,
     .sweeps = true,
     .inject = inject_kill_supervisor,
     .judge = judge_supervisor_killed},
    {.name = "daemon",
     .about = "SIGKILL of mpirun's daemon on the other host",
     .where = ON_HOSTS,
     .inject = inject_kill_daemon,
     .judge = judge_torn},
    {.name = "cut",
     .about = "the link between the hosts goes down",
     .where = ON_HOSTS,
     .options = "--heartbeat-timeout 4",
     .limit_s = 4 + 5,
     .inject = inject_cut,
     .judge = judge_torn},
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
