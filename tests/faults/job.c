/* job.c - see job.h. */
#include "tests/faults/job.h"

#include "tests/faults/leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { SMALL_PIPE_BYTES = 4096 };

int64_t
job_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

size_t
read_process(const char *process, const char *name, char *text, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof(path), "/proc/%s/%s", process, name);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(text, 1, bytes - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[length] = '\0';
    return length;
}

static _Noreturn void
give_up(const char *what)
{
    fprintf(stderr, "campaign: %s: %s\n", what, strerror(errno));
    exit(2);
}

static struct rank_record *
make_records(const char *folder)
{
    char path[300];
    size_t bytes = RECORD_RANKS_AT_MOST * sizeof(struct rank_record);
    snprintf(path, sizeof(path), "%s/" JOB_RECORDS, folder);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        give_up(path);
    void *records = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (records == MAP_FAILED)
        give_up("mmap");
    close(fd);
    return records;
}

/* ---- starting ---- */

/* Folders of its own, and the variables that lead there. */
static const struct {
    const char *name, *variable;
} own_folders[] = {{"tmp", "TMPDIR"},
                   {"runtime", "XDG_RUNTIME_DIR"},
                   {"cache", "XDG_CACHE_HOME"},
                   {"config", "XDG_CONFIG_HOME"},
                   {"home", "HOME"}};

enum { OWN_FOLDERS = sizeof(own_folders) / sizeof(own_folders[0]) };

static void
make_folders(const char *folder)
{
    char path[300];
    if (mkdir(folder, 0700) != 0)
        give_up(folder);
    for (int i = 0; i < OWN_FOLDERS; ++i) {
        snprintf(path, sizeof(path), "%s/%s", folder, own_folders[i].name);
        if (mkdir(path, 0700) != 0)
            give_up(path);
    }
}

/* In the child. The mark and the folders of its own go to everything that the run starts. */
static void
set_environment(const struct job *job, const struct job_order *order)
{
    static const char *const cleared[] = {"CUDA_VISIBLE_DEVICES", "SOFTGPU_DEVICES", "NCCL_HOSTID",
                                          "NCCL_SOCKET_IFNAME", "RANK"};
    for (size_t i = 0; i < sizeof(cleared) / sizeof(cleared[0]); ++i)
        unsetenv(cleared[i]);
    setenv(JOB_MARK, job->mark, 1);
    if (order->link != NULL)
        setenv("SOFTGPU_LINK", order->link, 1);
    for (int i = 0; i < OWN_FOLDERS; ++i) {
        char path[300];
        snprintf(path, sizeof(path), "%s/%s", job->folder, own_folders[i].name);
        setenv(own_folders[i].variable, path, 1);
    }
}

static _Noreturn void
become_job(const struct job *job, const struct job_order *order, const int output[2], const int error[2])
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    set_environment(job, order);
    int input = open("/dev/null", O_RDONLY);
    dup2(input, STDIN_FILENO);
    if (order->closed_output) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
    } else {
        dup2(output[1], STDOUT_FILENO);
        dup2(error[1], STDERR_FILENO);
    }
    execvp(order->arguments[0], (char *const *)order->arguments);
    _exit(127);
}

void
job_start(struct job *job, const struct job_order *order, int ranks)
{
    static unsigned number;
    *job = (struct job){.place = order->place, .ranks = ranks, .reads = true};
    snprintf(job->mark, sizeof(job->mark), "%d-%u-%lld", (int)getpid(), ++number, (long long)job_now_ns());
    snprintf(job->folder, sizeof(job->folder), "%s", order->folder);
    make_folders(job->folder);
    job->records = make_records(job->folder);

    int output[2], error[2];
    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0)
        give_up("pipe2");
    if (order->small_pipe)
        fcntl(output[1], F_SETPIPE_SZ, SMALL_PIPE_BYTES);
    fflush(NULL);
    job->begin_ns = job_now_ns();
    job->pid = fork();
    if (job->pid < 0)
        give_up("fork");
    if (job->pid == 0)
        become_job(job, order, output, error);
    close(output[1]);
    close(error[1]);
    job->output = output[0];
    job->error = error[0];
    fcntl(job->output, F_SETFL, O_NONBLOCK);
    fcntl(job->error, F_SETFL, O_NONBLOCK);
    job->pidfd = (int)syscall(SYS_pidfd_open, job->pid, 0);
    if (job->pidfd < 0)
        give_up("pidfd_open");
    fcntl(job->pidfd, F_SETFD, FD_CLOEXEC);
}

/* ---- watching ---- */

/* Counts lines of rank 0: those without another rank's number in front. */
static void
take_output(struct job *job, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (bytes[i] != '\n') {
            if (job->line_used < sizeof(job->line) - 1)
                job->line[job->line_used++] = bytes[i];
            continue;
        }
        job->line[job->line_used] = '\0';
        job->output_lines += strncmp(job->line, "step ", 5) == 0;
        job->line_used = 0;
    }
}

static bool
read_stream(struct job *job, int *fd)
{
    char bytes[16384];
    ssize_t got = read(*fd, bytes, sizeof(bytes));
    if (got > 0 && fd == &job->output) {
        take_output(job, bytes, (size_t)got);
    } else if (got > 0) {
        size_t room = sizeof(job->text) - 1 - job->text_used, kept = (size_t)got < room ? (size_t)got : room;
        memcpy(job->text + job->text_used, bytes, kept);
        job->text_used += kept;
    } else if (got == 0 || errno != EAGAIN) {
        close(*fd);
        *fd = -1;
    }
    return got > 0;
}

static void
note_end(struct job *job)
{
    int status;
    if (waitpid(job->pid, &status, WNOHANG) != job->pid)
        return;
    job->end_ns = job_now_ns();
    job->killed = WIFSIGNALED(status);
    job->exit_code = job->killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool
job_poll(struct job *job, int us)
{
    struct pollfd polled[3] = {{.fd = job->reads ? job->output : -1, .events = POLLIN},
                               {.fd = job->error, .events = POLLIN},
                               {.fd = job->end_ns == 0 ? job->pidfd : -1, .events = POLLIN}};
    const struct timespec limit = {us / 1000000, us % 1000000 * 1000L};
    if (ppoll(polled, 3, &limit, NULL) <= 0)
        return job->end_ns != 0;
    if (polled[0].revents != 0)
        read_stream(job, &job->output);
    if (polled[1].revents != 0)
        read_stream(job, &job->error);
    if (polled[2].revents != 0)
        note_end(job);
    return job->end_ns != 0;
}

bool
job_wait(struct job *job, int64_t limit_ns)
{
    int64_t until_ns = job_now_ns() + limit_ns;
    while (!job_poll(job, 20000)) {
        if (job_now_ns() >= until_ns)
            return false;
    }
    return true;
}

/* A process that reads or writes a file for ddprun, and ends with that. Its name comes after it, or the rank's. */
static bool
is_helper(const char *process)
{
    char name[16] = "ddprun\n";
    for (int i = 0; i < 1000 && strcmp(name, "ddprun\n") == 0; ++i) {
        usleep(100);
        read_process(process, "comm", name, sizeof(name));
    }
    return strcmp(name, "ddprun-files\n") == 0;
}

/* The `which`th child of a process, by the order in which they were made, without helpers; 0: no such child. */
static pid_t
child_of(pid_t pid, int which)
{
    char process[32], text[4096];
    snprintf(process, sizeof(process), "%d/task/%d", (int)pid, (int)pid);
    read_process(process, "children", text, sizeof(text));
    for (char *rest, *child = strtok_r(text, " ", &rest); child != NULL; child = strtok_r(NULL, " ", &rest)) {
        if (!is_helper(child) && which-- == 0)
            return atoi(child);
    }
    return 0;
}

static pid_t
parent_of(pid_t pid)
{
    char process[16], text[1024];
    snprintf(process, sizeof(process), "%d", (int)pid);
    read_process(process, "stat", text, sizeof(text));
    const char *behind = strrchr(text, ')');
    int parent;
    return behind != NULL && sscanf(behind, ") %*c %d", &parent) == 1 ? parent : 0;
}

pid_t
job_process(const struct job *job, int rank, enum job_process which)
{
    pid_t own = job->records[rank].pid;
    if (job->place->where == ON_NODE && (own == 0 || which == JOB_PARENT))
        return child_of(job->pid, 1 + rank); /* behind ddprun's guardian */
    return own == 0 || which == JOB_TRAINER ? own : parent_of(own);
}

void
job_close_output(struct job *job)
{
    if (job->output >= 0)
        close(job->output);
    job->output = -1;
}

void
job_release(struct job *job)
{
    leftovers_kill(job->mark);
    if (job->end_ns == 0) {
        kill(job->pid, SIGKILL);
        waitpid(job->pid, NULL, 0);
    }
    for (int *fd = &job->output; fd != NULL; fd = fd == &job->output ? &job->error : NULL) {
        while (*fd >= 0 && read_stream(job, fd)) {
        }
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
    }
    close(job->pidfd);
    munmap(job->records, RECORD_RANKS_AT_MOST * sizeof(struct rank_record));
}
