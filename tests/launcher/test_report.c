/*
 * test_report.c - what a report says is true of the process and the record that it is made of, and no bytes that a rank
 * leaves behind, and no file that it runs from, lead it astray.
 */
#include "launcher/report/report.h"

#include "base/flight.h"
#include "base/status_page.h"
#include "launcher/watch/local_ranks.h"
#include "launcher/watch/processes.h"

#include "tests/lib/test.h"

#include <sys/epoll.h>
#include <sys/prctl.h>

enum { TEXT_BYTES = 64 << 10 };

static char text[TEXT_BYTES];

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- stacks ---- */

/* Not inlined, not a tail call: they are to be seen. */
static __attribute__((noinline)) void
sit_here_for_ever(void)
{
    for (;;) {
        pause();
        __asm__ volatile("");
    }
}

static void *
run_thread(void *unused)
{
    sit_here_for_ever();
    return unused;
}

static pid_t
start_sitter(int threads)
{
    int ready[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < threads; ++i)
            (void)pthread_create(&thread, NULL, run_thread, NULL);
        (void)!write(ready[1], &byte, 1);
        sit_here_for_ever();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void
end_sitter(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static bool
is_in_state(pid_t pid, const char *states)
{
    struct process process;
    return process_read(pid, 0, &process) && strchr(states, process.state) != NULL &&
           process.is_stopped == (process.state == 'T');
}

static void
wait_for_state(pid_t pid, const char *states)
{
    for (int i = 0; i < 6000 && !is_in_state(pid, states); ++i)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    ck_assert(is_in_state(pid, states));
}

TEST_GROUP(report, .timeout_s = 120);

/* Every thread is shown or counted with one in the same place, and each stack names the function; then it continues. */
TEST(stacks_name_functions)
{
    pid_t pid = start_sitter(3);
    wait_for_state(pid, "S");
    stacks_describe(&(struct stacks_subject){.pid = pid}, 4, text, sizeof(text));
    if (strstr(text, "ptrace is not permitted") != NULL) {
        printf("stacks: %s", text);
    } else {
        char head[64];
        snprintf(head, sizeof(head), "    thread %d (", (int)pid);
        ck_assert_msg(strncmp(text, head, strlen(head)) == 0, "%s", text);
        ck_assert_says(text, "sit_here_for_ever+0x");
        ck_assert_says(text, "main+0x");
    }
    wait_for_state(pid, "S");
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    end_sitter(pid);
    stacks_describe(&(struct stacks_subject){.pid = pid}, 4, text, sizeof(text));
    ck_assert_says(text, "is gone");
}

/* A thread in memory of a file that is no program: the report names the file and the place in it. */
TEST(stacks_name_a_file_that_has_no_functions)
{
    static const unsigned char pauses[] = {0xb8, 34,   0,    0,   0,
                                           0x0f, 0x05, 0xeb, 0xf7}; /* mov $pause, %eax; syscall; again */
    int file = memfd_create("made_code", MFD_CLOEXEC);
    ck_assert_int_eq(pwrite(file, pauses, sizeof(pauses), 16), sizeof(pauses));
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const char *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        ((void (*)(void))(uintptr_t)(code + 16))();
    }
    wait_for_state(pid, "S");
    stacks_describe(&(struct stacks_subject){.pid = pid}, 4, text, sizeof(text));
    ck_assert_msg(strstr(text, "not permitted") != NULL ||
                      strstr(text, "? (memfd:made_code (deleted), at 0x17 of the file)") != NULL,
                  "%s", text);
    end_sitter(pid);
    close(file);
}

TEST(a_stopped_process_stays_stopped)
{
    pid_t pid = start_sitter(1);
    kill(pid, SIGSTOP);
    wait_for_state(pid, "T");
    stacks_describe(&(struct stacks_subject){.pid = pid}, 0, text, sizeof(text));
    ck_assert(strstr(text, "is stopped") != NULL || strstr(text, "not permitted") != NULL);
    wait_for_state(pid, "T");
    kill(pid, SIGCONT);
    wait_for_state(pid, "S");
    end_sitter(pid);
}

/* No system call may fail in a process that is only warned about: epoll_wait would, with EINTR, when its thread is
 * stopped. */
TEST(a_process_that_continues_is_not_interrupted)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct epoll_event event;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(epoll_wait(epoll_create1(0), &event, 1, -1) < 0 ? errno : 0);
    }
    wait_for_state(pid, "S");
    stacks_describe(&(struct stacks_subject){.pid = pid, .continues = true}, 4, text, sizeof(text));
    ck_assert_msg(strstr(text, "would interrupt it") != NULL || strstr(text, "not permitted") != NULL, "%s", text);
    wait_for_state(pid, "S");
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    end_sitter(pid);
}

TEST(little_room_is_enough)
{
    pid_t pid = start_sitter(2);
    for (size_t room = 1; room < 400; room += 36) {
        memset(text, 'x', sizeof(text));
        stacks_describe(&(struct stacks_subject){.pid = pid}, 2, text, room);
        ck_assert_uint_lt(strlen(text), room);
        ck_assert(text[0] == '\0' || text[strlen(text) - 1] == '\n');
    }
    end_sitter(pid);
}

TEST(descent_is_known)
{
    pid_t pid = start_sitter(0);
    ck_assert(process_descends(pid, getpid()));
    ck_assert(process_descends(pid, pid));
    ck_assert(!process_descends(getppid(), getpid()));
    ck_assert(!process_descends(1, getpid()));
    end_sitter(pid);
}

/* ---- records ---- */

static struct rank_status *
new_record(void)
{
    void *record = NULL;
    ck_assert_int_eq(posix_memalign(&record, 4096, RANK_STATUS_STRIDE), 0);
    memset(record, 0, RANK_STATUS_STRIDE);
    return record;
}

static void
set_call(struct rank_call *call, const char *name, int thread, bool goes_on, uint64_t at_ns)
{
    uint64_t words[RANK_CALL_NAME_WORDS] = {0};
    memcpy(words, name, strlen(name));
    for (int i = 0; i < RANK_CALL_NAME_WORDS; ++i)
        call->name[i] = words[i];
    call->last_thread = thread;
    call->thread = goes_on ? thread : 0;
    call->entered_ns = at_ns;
    call->left_ns = goes_on ? 0 : at_ns;
}

#define SECOND UINT64_C(1000000000)

TEST(a_record_says_what_the_rank_does)
{
    struct rank_status *status = new_record();
    struct rank_view view = {0};
    uint64_t now = 1000 * SECOND;
    rank_record_read(status, now, &view);
    ck_assert(view.call[0] == '\0' && !view.in_call && view.wait == RANK_WAIT_NONE);

    set_call(&status->calls[0], "cuMemcpyDtoH_v2", 11, false, now - 5 * SECOND);
    set_call(&status->calls[1], "cuMemFree_v2", 12, false, now - 7 * SECOND);
    rank_record_read(status, now, &view);
    ck_assert_str_eq(view.call, "cuMemcpyDtoH_v2"); /* the last */
    ck_assert_uint_eq(view.call_ns, 5 * SECOND);
    ck_assert_int_eq(view.call_thread, 11);

    status->launch_count = 3;
    status->launch_ns = now - 2 * SECOND;
    rank_record_read(status, now, &view);
    ck_assert_str_eq(view.call, "a kernel launch");
    ck_assert_uint_eq(view.call_count, 3);

    set_call(&status->calls[2], "cuStreamSynchronize", 13, true, now - 73 * SECOND);
    set_call(&status->calls[3], "cuCtxSynchronize", 14, true, now - 3 * SECOND);
    rank_record_read(status, now, &view);
    ck_assert(view.in_call); /* the longest call in progress */
    ck_assert_str_eq(view.call, "cuStreamSynchronize");
    ck_assert_uint_eq(view.call_ns, 73 * SECOND);

    snprintf(status->place, sizeof(status->place), "DDP_MEAN (train.cu:3)");
    status->waits = 1;
    status->waits_ns = now - 9 * SECOND;
    rank_record_read(status, now, &view);
    ck_assert_int_eq(view.wait, RANK_WAIT_EXCHANGE);
    ck_assert_str_eq(view.wait_for, "DDP_MEAN (train.cu:3)");
    snprintf(status->collective_text, sizeof(status->collective_text), "bucket 1 of step 4");
    status->collective = RANK_COLLECTIVE_BEHIND;
    rank_record_read(status, now, &view); /* of a watch thread that looks no more: not believed */
    ck_assert_int_eq(view.wait, RANK_WAIT_EXCHANGE);
    status->watch_ns = now - SECOND / 10; /* its device counts before its host */
    rank_record_read(status, now, &view);
    ck_assert_int_eq(view.wait, RANK_WAIT_DEVICE);
    ck_assert_str_eq(view.wait_for, "bucket 1 of step 4");
    free(status);
}

TEST(a_report_tells_all_of_it)
{
    struct rank_status *status = new_record();
    struct rank_view view = {.pid = 4242, .ended = true, .signal = SIGKILL};
    struct report_subject subject = {.rank = 3, .view = &view, .status = status, .stacks = true};
    status->stage = RANK_STAGE_TRAINING;
    status->step = 7;
    snprintf(view.host, sizeof(view.host), "node7");
    snprintf(view.gpu, sizeof(view.gpu), "GPU 2");
    for (uint64_t i = 0; i < 20; ++i)
        flight_write(flight_of(status), FLIGHT_BUCKET, 7, i, 4096, "early");
    set_call(&status->calls[0], "cuLaunchKernel", 11, true, now_ns());
    rank_record_read(status, now_ns(), &view);
    report_rank(&subject, text, sizeof(text));
    ck_assert_says(text, "  rank 3 (host node7, process 4242, GPU 2) after step 7, ended by SIGKILL:\n",
                   "    it was in cuLaunchKernel, on thread 11\n", "in step 8: sent bucket 19 early, 4096 bytes\n",
                   "in step 8: sent bucket 12 early, 4096 bytes\n");
    ck_assert_ptr_null(strstr(text, "bucket 11 early"));
    ck_assert_ptr_null(strstr(text, "threads"));
    free(status);
}

/* The program's own frame counts, and of calls that are inlined into it the innermost. */
TEST(a_crash_is_placed_in_the_program)
{
    static const struct {
        const char *frames, *place;
    } all[] = {
        {"  raise+0x12 (libc.so.6+0x3bfb2) at raise.c:26\n  inner (inlined) at a.cu:7\n  outer (inlined) at a.cu:20\n"
         "  main+0x29 (train+0x9e75) at a.cu:42\n",
         "a.cu:7, in inner()"},
        {"  raise (inlined) at raise.c:1\n  abort+0x1 (libc.so.6+0x1) at abort.c:9\n  step+0x4 (train+0x5) at b.c:3\n",
         "b.c:3, in step()"},
        {"  memcpy+0x1 (libc.so.6+0x1)\n  dgemm+0x3 (libopenblas.so.0+0x3)\n  step+0x4 (train+0x5)\n  main+0x1 "
         "(train+0x1)"
         " at b.c:3\n",
         "step (train)"},
        {"  step+0x4 (model.so+0x5) at m.cpp:3\n", "m.cpp:3, in step()"},
        {"  raise+0x12 (libc.so.6+0x3bfb2)\nthread 9 (t) sleeps:\n  main+0x1 (train+0x1) at b.c:3\n", ""},
        {"", ""},
    };
    char crash[1024], place[128];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
        snprintf(crash, sizeof(crash), "thread 8 (train) received SIGSEGV:\n%s", all[i].frames);
        report_crash_place(crash, place, sizeof(place));
        ck_assert_str_eq(place, all[i].place);
    }
    report_crash_place("no stacks: ptrace is not permitted\n", place, sizeof(place));
    ck_assert_str_eq(place, "");
}

/* In the middle of backward every device is behind: what is known is said, once, and no cause is guessed. */
TEST(a_device_at_work_is_not_accused)
{
    struct rank_view view = {
        .stage = RANK_STAGE_TRAINING, .step = 7, .wait = RANK_WAIT_DEVICE, .wait_ns = SECOND / 250};
    struct report_subject subject = {.rank = 3, .view = &view};
    snprintf(view.wait_for, sizeof(view.wait_for), "bucket 0 of step 8");
    snprintf(view.call, sizeof(view.call), "cuLaunchKernel");
    snprintf(view.kernel, sizeof(view.kernel), "backward");
    report_rank(&subject, text, sizeof(text));
    ck_assert_str_eq(text,
                     "  rank 3 after step 7:\n    its GPU has not finished the work before bucket 0 of step 8; last "
                     "kernel launched: `backward`\n");
}

LOOP_TEST(any_record_makes_a_report, 0, 3)
{
    struct rank_status *status = new_record();
    unsigned long long random = (unsigned long long)_i + 1;
    for (int turn = 0; turn < 100; ++turn) {
        struct rank_view views[2] = {{.stage = RANK_STAGE_TRAINING}, {.stage = RANK_STAGE_TRAINING}};
        for (size_t i = 0; i < RANK_STATUS_STRIDE; ++i) {
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            ((unsigned char *)status)[i] = (unsigned char)(random >> 56);
        }
        status->waits = turn & 1;
        status->collective = (uint32_t)turn % 5;
        rank_record_read(status, now_ns(), &views[0]);
        views[0].ended = turn % 3 == 0;
        struct report_subject subject = {.rank = 0, .view = &views[0], .status = status};
        report_rank(&subject, text, turn % 7 == 0 ? 100 : sizeof(text));
        report_others(views, 2, 1, -1, text + strlen(text), sizeof(text) - strlen(text));
        for (const char *at = text; *at != '\0'; ++at)
            ck_assert(*at == '\n' || (*at >= ' ' && *at <= '~'));
    }
    free(status);
}

TEST(many_others_are_counted)
{
    static struct rank_view views[300];
    for (int i = 0; i < 300; ++i) {
        views[i] = (struct rank_view){.stage = RANK_STAGE_TRAINING, .step = 2, .wait = RANK_WAIT_COLLECTIVE};
        snprintf(views[i].wait_for, sizeof(views[i].wait_for), "bucket 0 of step 3");
    }
    report_others(views, 300, 5, -1, text, sizeof(text));
    ck_assert_says(text, "  rank 16, with 2 steps launched: waits for bucket 0 of step 3");
    ck_assert_ptr_null(strstr(text, "  rank 5,"));
    ck_assert_ptr_null(strstr(text, "  rank 17,"));
    ck_assert_says(text, "  and 283 ranks more\n");
    ck_assert(!report_is_worth(views, 1));
    ck_assert(report_is_worth(views, 2));
    views[1].stage = RANK_STAGE_GATE;
    ck_assert(report_is_worth(views, 2));
    views[0].stage = RANK_STAGE_GATE;
    ck_assert(report_is_worth(views, 2)); /* it waits at the start */
    views[0].wait = views[1].wait = RANK_WAIT_NONE;
    ck_assert(!report_is_worth(views, 2));
}

/* ---- the beginning of a long report ---- */

static char parts[BRIEF_PARTS][4096];

static void
add_lines(char *part, const char *format, int count)
{
    for (int i = 0; i < count; ++i) {
        size_t used = strlen(part);
        snprintf(part + used, sizeof(parts[0]) - used, format, i);
    }
}

static void
make_rank(char *part, int events, int frames)
{
    snprintf(part, sizeof(parts[0]), "  rank 3 after step 7:\n    it is in a call\n%s\n", REPORT_EVENTS);
    add_lines(part, "      0.1 s ago: event %d\n", events);
    add_lines(part, frames > 0 ? REPORT_THREADS "\n" : "", 1);
    add_lines(part, "        frame %d+0x12\n", frames);
}

/* Whatever the parts are, the lines are few and whole, and what fits is not cut. */
TEST(a_brief_report_has_its_lines)
{
    const char *const all[BRIEF_PARTS] = {parts[0], parts[1], parts[2]};
    for (int turn = 0; turn < 2000; ++turn) {
        memset(parts, 0, sizeof(parts));
        make_rank(parts[0], turn % 9, turn / 9 % 40);
        if (turn % 2 == 1)
            make_rank(parts[1], turn / 2 % 9, turn / 7 % 40);
        add_lines(parts[2], "  rank %d waits\n", turn % 18);
        size_t room = 12 + (size_t)turn % 13, count = 0;
        for (int i = 0; i < BRIEF_PARTS; ++i)
            count += brief_count_lines(parts[i]);
        char *brief = brief_make(all, room);
        ck_assert_uint_le(brief_count_lines(brief), room);
        ck_assert_msg(brief[strlen(brief) - 1] == '\n', "%s", brief);
        ck_assert_msg(strncmp(brief, "  rank 3 after step 7:\n    it is in a call\n", 40) == 0, "%s", brief);
        ck_assert((count > room) == (strstr(brief, "...") != NULL));
        free(brief);
    }
}

TEST(a_brief_report_shows_the_last_events_and_the_innermost_frames)
{
    const char *const all[BRIEF_PARTS] = {parts[0], NULL, parts[2]};
    memset(parts, 0, sizeof(parts));
    make_rank(parts[0], 8, 30);
    add_lines(parts[2], "  rank %d waits\n", 16);
    char *brief = brief_make(all, 23);
    ck_assert_uint_eq(brief_count_lines(brief), 23);
    ck_assert_ptr_null(strstr(brief, "event 4\n"));
    ck_assert_says(brief, "event 5\n      0.1 s ago: event 6\n      0.1 s ago: event 7\n",
                   REPORT_THREADS "\n        frame 0+0x12\n",
                   "    ...\n  rank 0 waits\n  rank 1 waits\n  rank 2 waits\n  ...\n");
    free(brief);
}

/* ---- want of memory ---- */

static char root[64];

static void
write_file(const char *name, const char *content)
{
    char path[PATH_MAX];
    for (const char *slash = name; (slash = strchr(slash + 1, '/')) != NULL;) {
        snprintf(path, sizeof(path), "%s%.*s", root, (int)(slash - name), name);
        ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
    snprintf(path, sizeof(path), "%s%s", root, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(content, file);
    fclose(file);
}

TEST(kills_are_counted_where_they_are_to_be_seen)
{
    snprintf(root, sizeof(root), "/tmp/ddprun-report-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_uint_eq(out_of_memory_kills(root), 0);
    write_file("/proc/vmstat", "pgfault 7\noom_kill 5\n");
    ck_assert_uint_eq(out_of_memory_kills(root), 5);
    write_file("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/7\n0::/\n");
    write_file("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 11\n");
    ck_assert_uint_eq(out_of_memory_kills(root), 11); /* a container's own root */
    write_file("/sys/fs/cgroup/memory/job/7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 12\n");
    ck_assert_uint_eq(out_of_memory_kills(root), 12);
    write_file("/proc/self/cgroup", "0::/user/job\n");
    write_file("/sys/fs/cgroup/user/job/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 13\noom_group_kill 0\n");
    ck_assert_uint_eq(out_of_memory_kills(root), 13);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}
