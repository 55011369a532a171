/*
 * test_process_signals.c - what /proc says about a process and a signal: caught, ignored, blocked, or its death; of
 * text as the kernel writes it, and of real processes. And that a process has ended when its last thread has.
 */
#include "launcher/watch/local_ranks.h"
#include "launcher/watch/processes.h"

#include "tests/lib/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static const char status_text[] = "Name:\tSigCgt:\tffff\nUmask:\t0022\nState:\tS (sleeping)\nSigQ:\t0/31\n"
                                  "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"
                                  "SigBlk:\t0000000000000800\nSigIgn:\t8000000000001000\nSigCgt:\t0000000000004202\n";

TEST(sets_are_read_from_their_lines)
{
    struct process_signals signals = {0};
    ck_assert(process_signals_parse(status_text, &signals));
    ck_assert_uint_eq(signals.blocked, 0x800);
    ck_assert_uint_eq(signals.ignored, UINT64_C(0x8000000000001000));
    ck_assert_uint_eq(signals.caught, 0x4202);
    ck_assert(process_signal_is_in(signals.caught, SIGUSR1) && !process_signal_is_in(signals.caught, SIGUSR2));
    ck_assert(process_signal_is_in(signals.blocked, SIGUSR2) && process_signal_is_in(signals.ignored, 64));
}

TEST(what_is_cut_short_is_refused_and_changes_nothing)
{
    char text[sizeof(status_text)];
    struct process_signals signals = {.caught = 7};
    for (size_t i = 0; i < (size_t)(strstr(status_text, "\nSigCgt:") - status_text) + strlen("\nSigCgt:\t"); ++i) {
        snprintf(text, sizeof(text), "%.*s", (int)i, status_text);
        ck_assert(!process_signals_parse(text, &signals));
    }
    ck_assert_uint_eq(signals.caught, 7);
}

static void
note(int number)
{
    (void)number;
}

static void
block(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

enum way { LEAVES, CATCHES, IGNORES, BLOCKS };

static const struct {
    const char *what;
    enum way way;
    bool survives;
} ways[] = {
    {"no handler", LEAVES, false}, {"a handler", CATCHES, true}, {"ignored", IGNORES, true}, {"blocked", BLOCKS, true}};

static void
prepare(enum way way)
{
    signal(SIGUSR1, way == CATCHES ? note : SIG_DFL);
    if (way == IGNORES)
        signal(SIGUSR1, SIG_IGN);
    if (way == BLOCKS)
        block(SIGUSR1);
}

TABLE_TEST(a_process_survives_what_it_does_not_leave_to_the_system, ways)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prepare(ways[_i].way);
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    bool survives = process_survives(pid, SIGUSR1), other = process_survives(pid, SIGUSR2);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_msg(survives == ways[_i].survives, "%s", ways[_i].what);
    ck_assert(!other);
    ck_assert(!process_survives(pid, SIGUSR1)); /* there is none */
}

/* What is left of ranks that have ended gets less time than a rank. */
TEST(a_rank_whose_trainer_outlives_its_script_has_not_ended)
{
    struct rank_view views[2] = {{.ended = true}, {.ended = true, .outlived = true}};
    struct local_ranks local = {.count = 2, .views = views};
    ck_assert(!local_ranks_all_ended(&local));
    local_ranks_note_late(&local);
    ck_assert_uint_eq(views[0].killed, RANK_KILLED_NOT);
    ck_assert_uint_eq(views[1].killed, RANK_KILLED_LATE);
    views[1].outlived = false;
    ck_assert(local_ranks_all_ended(&local));
}

/* Until the test closes the pipe. */
static void *
read_to_end(void *fd)
{
    char byte;
    while (read(*(int *)fd, &byte, 1) > 0)
        ;
    _exit(7);
}

static bool
is_in_state(pid_t pid, char state, struct process *process)
{
    for (int i = 0; i < 6000; ++i) {
        if (process_read(pid, 0, process) && process->state == state)
            return true;
        usleep(10000);
    }
    return false;
}

TEST(a_process_whose_main_thread_has_ended_has_not)
{
    static int held[2];
    ck_assert_int_eq(pipe(held), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pthread_t thread;
        close(held[1]);
        if (pthread_create(&thread, NULL, read_to_end, &held[0]) == 0)
            pthread_exit(NULL);
        _exit(1);
    }
    close(held[0]);
    struct process process;
    ck_assert(is_in_state(pid, 'Z', &process));
    ck_assert(!process.is_zombie);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
    close(held[1]);
    siginfo_t end;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
    ck_assert(process_read(pid, 0, &process) && process.is_zombie);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
}
