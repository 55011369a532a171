/*
 * test_preload_watch.c - a process of a rank that has the driver mapped and not our library is found within the first
 * looks, and named once it has stayed for five seconds; also after one that asked for the driver through our library;
 * never once a process has become the rank.
 *
 * Real processes with files of those names mapped, and a synthetic clock.
 */
#include "launcher/watch/local_ranks.h"

#include "tests/lib/test.h"

#define MS UINT64_C(1000000)

static char folder[] = "/tmp/preload_watch_XXXXXX";
static pid_t child;
static uint64_t now_ns;
static struct preload_watch *watch;
static struct process_list processes;
static struct rank_view view;

static void
map_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        _exit(1);
    close(fd);
    unlink(path);
}

/* A process that has the files mapped when this returns. */
static pid_t
start_process(const char *first, const char *second)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        map_file(first);
        if (second != NULL)
            map_file(second);
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void
end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void
begin(const char *first, const char *second)
{
    child = start_process(first, second);
    now_ns = 5000 * MS;
    watch = preload_watch_new(1, now_ns);
    view = (struct rank_view){0};
}

static void
finish(void)
{
    end_process(child);
    preload_watch_free(watch);
    process_list_free(&processes);
}

/* Looks as often as a supervisor does. Returns after how many ms the process was named, 0 if it was not. */
static int
named_after(int ms)
{
    for (int passed = 100; passed <= ms; passed += 100) {
        now_ns += 100 * MS;
        preload_watch_look(watch, &processes, &child, &view, now_ns);
        if (view.preload_suspect == child)
            return passed;
        ck_assert_int_eq(view.preload_suspect, 0);
    }
    return 0;
}

TEST_GROUP(looks, .timeout_s = 60);

TEST(who_stays_is_named)
{
    begin("libcuda.so.1", NULL);
    ck_assert_int_eq(named_after(5000), 0);
    ck_assert(view.missed_preload);
    ck_assert_int_ne(named_after(2000), 0);
    finish();
}

TEST(a_probe_before_it_hides_no_process)
{
    begin("libcuda.so.1", NULL);
    view.stage = RANK_STAGE_GATE;
    ck_assert_int_eq(named_after(5000), 0);
    ck_assert_int_ne(named_after(11000), 0);
    finish();
}

TEST(a_probe_that_is_seen_hides_no_process)
{
    begin("no_driver.so", NULL);
    view.stage = RANK_STAGE_GATE;
    ck_assert_int_eq(named_after(3000), 0);
    end_process(child);
    child = start_process("libcuda.so.1", NULL);
    ck_assert_int_ne(named_after(16000), 0);
    finish();
}

TEST(with_ddpruns_library_no_process_is_named)
{
    begin("libcuda.so.1", "libddprun.so");
    ck_assert_int_eq(named_after(30000), 0);
    ck_assert(!view.missed_preload);
    finish();
}

TEST(beside_the_rank_no_process_is_looked_for)
{
    begin("libcuda.so.1", NULL);
    view.stage = RANK_STAGE_RANK;
    ck_assert_int_eq(named_after(30000), 0);
    ck_assert(!view.missed_preload);
    finish();
}

int
main(void)
{
    if (mkdtemp(folder) == NULL)
        return 1;
    int status = tests_run();
    rmdir(folder);
    return status;
}
