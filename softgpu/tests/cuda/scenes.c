/* scenes.c - see scenes.h. */
#include "scenes.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static const struct scene *scenes;

void
scene_add(struct scene *scene)
{
    scene->next = scenes;
    scenes = scene;
}

int
play_scene(const char *name)
{
    for (const struct scene *scene = scenes; scene != NULL; scene = scene->next) {
        if (strcmp(name, scene->name) == 0)
            return scene->run();
    }
    return 99;
}

enum { DEADLINE_S = 60 };

/* Reads the child's stderr to its end; false if the deadline passed first. */
static bool
read_all(int from, char *output)
{
    struct timespec start, now;
    size_t used = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        int left_ms = (int)(DEADLINE_S - (now.tv_sec - start.tv_sec)) * 1000;
        struct pollfd poll_fd = {.fd = from, .events = POLLIN};
        if (left_ms <= 0 || poll(&poll_fd, 1, left_ms) <= 0)
            return false;
        ssize_t n = read(from, output + used, OUTPUT_BYTES - 1 - used);
        if (n <= 0 || used + (size_t)n == OUTPUT_BYTES - 1) {
            output[used + (n > 0 ? (size_t)n : 0)] = '\0';
            return true;
        }
        used += (size_t)n;
    }
}

int
run_scene(const char *name, const char *const settings[], char *output)
{
    int pipes[2], status = -1;
    pid_t child;
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); /* what the scene forks ends with it */
    size_t count = 0, extra = 0;
    while (environ[count] != NULL)
        ++count;
    char **variables = calloc(count + 8, sizeof *variables);
    for (; settings != NULL && settings[extra] != NULL; ++extra)
        variables[extra] = (char *)settings[extra];
    memcpy(variables + extra, environ, count * sizeof *variables);
    char *arguments[] = {"scene", (char *)name, NULL};
    ck_assert_int_eq(posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments, variables), 0);
    close(pipes[1]);
    bool ended = read_all(pipes[0], output);
    close(pipes[0]);
    if (!ended)
        kill(-child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(variables);
    ck_assert_msg(ended, "%s did not end within %d s", name, DEADLINE_S);
    return status;
}

void
expect_scene(const struct scene_row *row)
{
    char output[OUTPUT_BYTES];
    const int status = run_scene(row->scene, row->settings, output);
    const bool by_signal = (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) || strstr(output, "Sanitizer") != NULL;
    const bool by_code = WIFEXITED(status) && (WEXITSTATUS(status) != 0) == (row->ending == FAILS);
    ck_assert_msg(row->ending == DIES ? by_signal : by_code, "%s ended with status %#x: %s", row->scene, status,
                  output);
    /* A sanitizer may have its own remarks on a forked child; the stand-in has none. */
    const bool is_quiet = row->ending == FINE || (row->ending == DIES && row->said[0] == NULL);
    ck_assert_msg(!is_quiet || strstr(output, "softgpu: ") == NULL, "%s said: %s", row->scene, output);
    for (const char *const *said = row->said; *said != NULL; ++said)
        ck_assert_msg(strstr(output, *said) != NULL, "%s did not say \"%s\" but: %s", row->scene, *said, output);
}
