/*
 * daemons.c FORM DELAY_MS - a trainer that goes into the background: its first process starts another one, by FORM, and
 * ends with code 0; the other one waits so long, and trains. Plain C over the runtime, no kernel.
 *
 * FORM: plain (the first process trains), daemon (daemon(3)), setsid (fork and setsid), double (fork, setsid, and fork
 * again), fork (the first process leaves by _exit), spawn and spawn-session (posix_spawn), system and system-session
 * (a shell's `&`), or closed (as setsid, with /dev/null in place of stdin, stdout and stderr).
 *
 * Where DAEMONS_DONE is a path, each rank appends a byte to that file after its last step.
 */
#include "../lib/trainer.h"

#include <cuda_runtime_api.h>
#include <ddprun.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20, COUNT = 64 };

static const char *delay = "0";

/* ---- training ---- */

static void
leave_mark(void)
{
    const char *path = getenv("DAEMONS_DONE");
    if (path == NULL)
        return;
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    REQUIRE(file >= 0 && write(file, "+", 1) == 1 && close(file) == 0);
}

static void
train(void)
{
    float host[COUNT] = {0}, *parameter, *gradient;
    usleep((useconds_t)atoi(delay) * 1000);
    CHECK(cudaMalloc((void **)&parameter, sizeof(host)));
    CHECK(cudaMalloc((void **)&gradient, sizeof(host)));
    CHECK(cudaMemcpy(parameter, host, sizeof(host), cudaMemcpyHostToDevice));
    DDP_PARAMETER(parameter, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gradient, COUNT, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < COUNT; ++i)
            host[i] = (float)(i * step + DDP_RANK());
        CHECK(cudaMemcpy(gradient, host, sizeof(host), cudaMemcpyHostToDevice));
        DDP_STEP(0);
        CHECK(cudaMemcpy(parameter, gradient, sizeof(host), cudaMemcpyDeviceToDevice));
    }
    CHECK(cudaDeviceSynchronize());
    leave_mark();
}

/* ---- ways into the background ---- */

/* Returns in the process that trains; the other one ends. */
static void
go_on_in_child(bool in_session)
{
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child > 0)
        _exit(0);
    REQUIRE(!in_session || setsid() > 0);
}

static void
become_daemon(void)
{
    REQUIRE(daemon(1, 1) == 0);
}

static void
fork_once(void)
{
    go_on_in_child(false);
}

static void
fork_and_enter_session(void)
{
    go_on_in_child(true);
}

static void
fork_twice(void)
{
    go_on_in_child(true);
    go_on_in_child(false);
}

static void
close_all(void)
{
    go_on_in_child(true);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int number = 0; number <= 2; ++number)
        REQUIRE(dup2(nothing, number) == number);
}

static const char *
path_of_self(void)
{
    static char path[PATH_MAX];
    REQUIRE(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    return path;
}

/* In this process nothing is left to do. */
static void
spawn_with(short flags)
{
    extern char **environ;
    posix_spawnattr_t attributes;
    pid_t child;
    char *const words[] = {(char *)path_of_self(), (char *)"plain", (char *)delay, NULL};
    REQUIRE(posix_spawnattr_init(&attributes) == 0 && posix_spawnattr_setflags(&attributes, flags) == 0);
    REQUIRE(posix_spawn(&child, words[0], NULL, &attributes, words, environ) == 0);
    exit(0);
}

static void
spawn(void)
{
    spawn_with(0);
}

static void
spawn_in_session(void)
{
    spawn_with(POSIX_SPAWN_SETSID);
}

static void
start_by_shell(const char *before)
{
    char command[PATH_MAX + 64];
    snprintf(command, sizeof(command), "%s '%s' plain %s &", before, path_of_self(), delay);
    REQUIRE(system(command) == 0);
    exit(0);
}

static void
start_in_background(void)
{
    start_by_shell("");
}

static void
start_in_session(void)
{
    start_by_shell("setsid");
}

static void
stay(void)
{
}

static const struct {
    const char *name;
    void (*enter)(void);
} forms[] = {
    {"plain", stay},
    {"daemon", become_daemon},
    {"setsid", fork_and_enter_session},
    {"double", fork_twice},
    {"fork", fork_once},
    {"spawn", spawn},
    {"spawn-session", spawn_in_session},
    {"system", start_in_background},
    {"system-session", start_in_session},
    {"closed", close_all},
};

int
main(int argc, char **argv)
{
    const char *form = argc > 1 ? argv[1] : "plain";
    delay = argc > 2 ? argv[2] : delay;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); ++i) {
        if (strcmp(forms[i].name, form) != 0)
            continue;
        forms[i].enter();
        train();
        return 0;
    }
    fprintf(stderr, "daemons: %s is no form\n", form);
    return 2;
}
