/*
 * test_pmix_member.c - the members of a job, each a process, learn their places, get what each has published, whatever
 * its length, come together at a fence that blocks and at one that is waited for beside other things, and get an error
 * when a member does not come, when what was published is of another form, and when there is no server.
 *
 * Without arguments it is the launcher, with ddprun's own server; with the argument "member" or "alone" it is one.
 */
#include "base/pmix/member.h"
#include "launcher/start/environment.h"
#include "launcher/start/job_folder.h"
#include "launcher/start/pmix_server.h"

#include "tests/test.h"

#include <fcntl.h>
#include <pmix.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 3, LIMIT_S = 60, LONGEST = 100000 };

extern char **environ;

/* ---- a member ---- */

/* Check's own assertions want its runner around them. */
#define HOLDS(condition) ((condition) ? (void)0 : does_not_hold(#condition, __LINE__))

static void __attribute__((noreturn)) does_not_hold(const char *what, int line)
{
    fprintf(stderr, "rank %s: line %d: %s does not hold\n", getenv("PMIX_RANK"), line, what);
    _exit(1);
}

static int wake_pipe[2];

static void
wake(void)
{
    HOLDS(write(wake_pipe[1], "x", 1) == 1);
}

static size_t
length_of(int rank)
{
    return rank == 0 ? LONGEST : (size_t)rank;
}

static unsigned char
byte_of(int rank, size_t i)
{
    return (unsigned char)(31 * (size_t)rank + 7 * i);
}

static void
publish_mine(const char *key, int rank)
{
    static unsigned char mine[LONGEST];
    struct member_failure failure;
    for (size_t i = 0; i < length_of(rank); ++i)
        mine[i] = byte_of(rank, i);
    HOLDS(member_publish(key, mine, length_of(rank), &failure));
    memset(mine, 0xee, sizeof(mine)); /* the bytes were the caller's again when it returned */
}

static void
check_others(const char *key)
{
    for (int rank = 0; rank < MEMBERS; ++rank) {
        struct member_bytes bytes;
        struct member_failure failure;
        HOLDS(member_fetch(rank, key, &bytes, &failure));
        HOLDS(bytes.count == length_of(rank));
        for (size_t i = 0; i < bytes.count; ++i)
            HOLDS(((const unsigned char *)bytes.bytes)[i] == byte_of(rank, i));
        member_release(&bytes);
        HOLDS(bytes.value == NULL);
    }
}

/* Something else than bytes is refused, and the output left as it was. */
static void
check_other_form(int rank)
{
    struct member_failure failure;
    struct member_bytes bytes = {.count = 77};
    pmix_value_t text = {.type = PMIX_STRING, .data.string = (char[]){"not bytes"}};
    if (rank == 0)
        HOLDS(PMIx_Put(PMIX_GLOBAL, "text", &text) == PMIX_SUCCESS);
    publish_mine("beside it", rank);
    HOLDS(member_fence(LIMIT_S, &failure));
    HOLDS(!member_fetch(0, "text", &bytes, &failure));
    HOLDS(failure.reason == MEMBER_NO_BYTES);
    HOLDS(bytes.count == 77);
}

/* Rank 0 comes when the others have seen that it is missed: its stdin is what they write to stdout. */
static void
check_begun_fence(int rank)
{
    struct member_failure failure;
    char seen;
    publish_mine("begun", rank);
    for (int other = 1; rank == 0 && other < MEMBERS; ++other)
        HOLDS(read(STDIN_FILENO, &seen, 1) == 1);
    HOLDS(member_fence_begin(&failure));
    if (rank != 0)
        HOLDS(!member_fence_is_over() && write(STDOUT_FILENO, "x", 1) == 1);
    while (!member_fence_is_over()) {
        struct pollfd woken = {.fd = wake_pipe[0], .events = POLLIN};
        HOLDS(poll(&woken, 1, LIMIT_S * 1000) == 1);
        char byte;
        HOLDS(read(wake_pipe[0], &byte, 1) == 1);
    }
    HOLDS(member_fence_end(&failure));
    check_others("begun");
}

/* Rank 0 does not come until the others have ended, and its stdin with them. */
static void
check_late(int rank)
{
    struct member_failure failure;
    char byte;
    if (rank == 0) {
        HOLDS(read(STDIN_FILENO, &byte, 1) == 0);
        return;
    }
    HOLDS(!member_fence(1, &failure));
    HOLDS(failure.reason == MEMBER_LATE);
}

/* The caller's signal mask is its own again. */
static void
check_mask(void)
{
    sigset_t now;
    HOLDS(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
    HOLDS(!sigismember(&now, SIGTERM));
}

static int
be_member(void)
{
    struct member_failure failure;
    HOLDS(pipe(wake_pipe) == 0);
    HOLDS(member_join(wake, &failure));
    check_mask();
    struct member_place place = member_place();
    HOLDS(place.rank == atoi(getenv("PMIX_RANK")));
    HOLDS(place.local_rank == place.rank);
    HOLDS(place.world_size == MEMBERS);
    HOLDS(place.local_size == MEMBERS);

    publish_mine("first", place.rank);
    HOLDS(member_fence(LIMIT_S, &failure));
    check_others("first");
    check_other_form(place.rank);
    check_begun_fence(place.rank);
    check_late(place.rank);
    HOLDS(!member_server_is_gone());
    if (place.rank == 0)
        member_abort(42, "enough");
    else
        member_leave();
    return 0;
}

static int
be_alone(void)
{
    struct member_failure failure;
    HOLDS(!member_join(NULL, &failure));
    HOLDS(failure.reason == MEMBER_REFUSED);
    HOLDS(failure.words != NULL && failure.words[0] != '\0');
    check_mask();
    return 0;
}

/* ---- the launcher ---- */

static pid_t
start(const char *role, char *const *environment, const posix_spawn_file_actions_t *actions)
{
    pid_t pid;
    ck_assert_int_eq(
        posix_spawn(&pid, "/proc/self/exe", actions, NULL, (char *[]){"member", (char *)role, NULL}, environment), 0);
    return pid;
}

static void
expect_success(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

TEST_GROUP(members, .timeout_s = 4 * LIMIT_S);

static void
serve_members(void)
{
    struct job_folder folder;
    struct error error = {0};
    struct pmix_server *server;
    int held[2];
    pid_t pids[MEMBERS];
    posix_spawn_file_actions_t first, other;
    ck_assert_int_eq(pipe2(held, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&first);
    posix_spawn_file_actions_adddup2(&first, held[0], STDIN_FILENO);
    posix_spawn_file_actions_init(&other);
    posix_spawn_file_actions_adddup2(&other, held[1], STDOUT_FILENO);

    ck_assert_msg(job_folder_make(&folder, &error), "%s", error.text);
    char **inherited = environment_copy(environ);
    ck_assert_msg(pmix_server_start(folder.path, MEMBERS, &server, &error), "%s", error.text);
    for (int rank = 0; rank < MEMBERS; ++rank) {
        char **environment = environment_copy(inherited);
        ck_assert_msg(pmix_server_add_environment(server, rank, &environment, &error), "%s", error.text);
        pids[rank] = start("member", environment, rank == 0 ? &first : &other);
        environment_free(environment);
    }
    close(held[0]);
    close(held[1]);
    for (int rank = MEMBERS - 1; rank >= 0; --rank)
        expect_success(pids[rank]);

    struct pmix_server_abort abort;
    ck_assert(pmix_server_next_abort(server, &abort));
    ck_assert_int_eq(abort.rank, 0);
    ck_assert_int_eq(abort.status, 42);
    ck_assert_str_eq(abort.message, "enough");
    ck_assert(!pmix_server_is_connected(server, 1));
    job_folder_remove(&folder);
    environment_free(inherited);
    posix_spawn_file_actions_destroy(&first);
    posix_spawn_file_actions_destroy(&other);
}

TEST(members_exchange)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        serve_members();
        _exit(EXIT_SUCCESS); /* as ddprun does: pmix_server.h */
    }
    expect_success(child);
}

TEST(without_a_server_no_member_joins)
{
    char **environment = environment_copy(environ);
    environment_unset(environment, "PMIX_NAMESPACE");
    environment_unset(environment, "PMIX_RANK");
    expect_success(start("alone", environment, NULL));
    environment_free(environment);
}

int
main(int argc, char **argv)
{
    if (argc == 2)
        return strcmp(argv[1], "member") == 0 ? be_member() : be_alone();
    return tests_run();
}
