/*
 * test_assertion.c - a false ASSERT ends the process with one line and its exit code, or hands the line to the handler;
 * a true one does nothing, and each condition is looked at once.
 */
#include "base/assertion.h"
#include "base/protocol.h"

#include "tests/lib/test.h"

#include <semaphore.h>

#define THIS_FILE "tests/base/test_assertion.c"

enum { HANDLED = 41 }; /* exit code of a handler */

static int looks;

static bool
look(bool value)
{
    ++looks;
    return value;
}

TEST(true_conditions_are_looked_at_once)
{
    looks = 0;
    ASSERT(look(true));
    ck_assert_int_eq(looks, 1);
    for (int i = 0; i < 2; ASSERT(look(true)), ++i) { /* an expression, as any other */
    }
    ck_assert_int_eq(looks, 3);
}

/* ---- ends ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_locked;

static void
be_false(void)
{
    int rest = 3;
    ASSERT(look(rest == 0));
}

static void *
be_false_with_lock(void *unused)
{
    pthread_mutex_lock(&lock);
    sem_post(&is_locked);
    be_false();
    return unused;
}

static void
be_false_in_thread(void)
{
    pthread_t thread;
    sem_init(&is_locked, 0, 0);
    pthread_create(&thread, NULL, be_false_with_lock, NULL);
    sem_wait(&is_locked);
    pthread_mutex_lock(&lock);
}

/* Runs it in a process of its own: returns its exit code (128 + signal), and what it wrote to stderr in *text. */
static int
end_of(void (*body)(void), char text[2048])
{
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; used < 2047 && (got = read(ends[0], text + used, 2047 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* One line of ddprun's with place and condition, whatever folder the repository was compiled in. */
static void
assert_line(const char *text)
{
    ck_assert_int_eq(
        strncmp(text, "ddprun: internal error: " THIS_FILE ":", strlen("ddprun: internal error: " THIS_FILE ":")), 0);
    ck_assert_says(text, ": look(rest == 0) is false; ", "please report");
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}

TEST(without_a_handler_the_line_is_written)
{
    char text[2048];
    ck_assert_int_eq(end_of(be_false, text), DDPRUN_EXIT_FAILURE);
    assert_line(text);
}

TEST(any_thread_ends_the_process_whatever_it_holds)
{
    char text[2048];
    ck_assert_int_eq(end_of(be_false_in_thread, text), DDPRUN_EXIT_FAILURE);
    assert_line(text);
}

/* ---- handlers ---- */

static void
hand_on(const char *line)
{
    dprintf(STDERR_FILENO, "ddprun: %s\n", line);
    _exit(HANDLED);
}

static void
return_at_once(const char *line)
{
    (void)line;
    dprintf(STDERR_FILENO, "first\n");
}

static void
be_false_handled(void)
{
    assertion_handle(hand_on);
    be_false();
}

static void
be_false_noted(void)
{
    assertion_handle(return_at_once);
    be_false();
}

static void
be_false_forgotten(void)
{
    assertion_handle(hand_on);
    assertion_handle(NULL);
    be_false();
}

TEST(a_handler_ends_the_process_its_own_way)
{
    char text[2048];
    ck_assert_int_eq(end_of(be_false_handled, text), HANDLED);
    assert_line(text);
}

TEST(a_handler_that_returns_leaves_the_end_to_us)
{
    char text[2048];
    ck_assert_int_eq(end_of(be_false_noted, text), DDPRUN_EXIT_FAILURE);
    ck_assert_int_eq(strncmp(text, "first\n", 6), 0);
    assert_line(text + 6);
}

TEST(a_handler_that_is_gone_is_not_called)
{
    char text[2048];
    ck_assert_int_eq(end_of(be_false_forgotten, text), DDPRUN_EXIT_FAILURE);
    assert_line(text);
}

/* A condition that is longer than any line: it is cut, and the advice stays. */
static void
be_false_at_length(void)
{
    char condition[4096];
    memset(condition, 'x', sizeof(condition) - 1);
    condition[sizeof(condition) - 1] = '\0';
    assertion_failed(condition, "elsewhere.c", 7);
}

TEST(long_conditions_are_cut)
{
    char text[2048];
    ck_assert_int_eq(end_of(be_false_at_length, text), DDPRUN_EXIT_FAILURE);
    ck_assert_says(text, "internal error: elsewhere.c:7: xxxx", "please report", "(--trace DIR)\n");
}
