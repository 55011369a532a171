/*
 * fake_trainer.c - a program that does what its arguments say, to play all the trainers that the launcher may meet.
 *
 * It plays the engine's part as well: it writes the status page itself. Started by run.sh under ddprun; must not need
 * anything but libc, because a sanitizer's runtime may not come behind a preloaded library.
 *
 *     fake_trainer stage 3 step 10 @1 exit 3 @all hang
 *
 * The words are done in order; "@R" makes what follows count for rank R only, up to the next "@". See `verbs` for all
 * of them.
 */
#include "base/flight.h"
#include "base/status_page.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct rank_status *status;
static const struct job_options *options;
static int rank;

static uint64_t
number(const char *text)
{
    return strtoull(text, NULL, 0);
}

static void
pause_ms(uint64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static void
do_stage(char **words)
{
    atomic_store(&status->protocol, DDPRUN_PROTOCOL_VERSION);
    atomic_store(&status->pid, getpid());
    atomic_store(&status->stage, (uint32_t)number(words[0]));
}

static void
do_step(char **words)
{
    atomic_store(&status->step, number(words[0]));
}

static void
do_overlapped(char **words)
{
    atomic_store(&status->overlapped_step, number(words[0]));
}

static void
do_gradients(char **words)
{
    atomic_store(&status->gradient_count, number(words[0]));
    atomic_store(&status->gradient_bytes, number(words[1]));
    atomic_store(&status->bucket_count, number(words[2]));
}

/* elements GRADIENTS PARAMETERS */
static void
do_elements(char **words)
{
    atomic_store(&status->gradient_elements, number(words[0]));
    atomic_store(&status->parameter_elements, number(words[1]));
}

static void
do_check(char **words)
{
    atomic_store(&status->check_count, number(words[0]));
    atomic_store(&status->checked_step, number(words[1]));
    atomic_store(&status->parameter_hash, number(words[2]));
}

/* exposed STEPS NS BOUND_NS: so long in each of the steps 1 to STEPS */
static void
do_exposed(char **words)
{
    atomic_store(&status->exposed_bound_ns, number(words[2]));
    for (uint64_t step = 1; step <= number(words[0]); ++step)
        atomic_store(&status->exposed_steps[rank_exposed_place(step)], rank_exposed_pack(step, number(words[1])));
}

/* tried NS OFF_STEP: collectives slow a step's own work so much; overlap is off since that step, 0: it is not. */
static void
do_tried(char **words)
{
    atomic_store(&status->slowed_ns, number(words[0]));
    atomic_store(&status->overlap_off_step, number(words[1]));
    atomic_store(&status->trial_count, 1);
}

/* training US: since the first step. */
static void
do_training(char **words)
{
    atomic_store(&status->training_us, number(words[0]));
}

/* events COUNT: buckets that it sent, in its flight recorder. */
static void
do_events(char **words)
{
    for (uint64_t i = 0; i < number(words[0]); ++i)
        flight_write(flight_of(status), FLIGHT_BUCKET, 7, i, 4096, "early");
}

/* mean NAME VALUE: at one more place of the program. */
static void
do_mean(char **words)
{
    struct rank_told *told = &status->told;
    uint32_t place = atomic_load(&told->mean_count);
    double value = strtod(words[1], NULL);
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    snprintf(told->means[place].name, sizeof(told->means[place].name), "%s", words[0]);
    snprintf(told->means[place].place, sizeof(told->means[place].place), "fake.c:%u", place + 1);
    atomic_store(&told->means[place].value, bits);
    atomic_store(&told->means[place].step, atomic_load(&status->step));
    atomic_store(&told->mean_count, place + 1);
}

static void
do_shard(char **words)
{
    atomic_store(&status->shard_total, number(words[0]));
    atomic_store(&status->shard_calls, atomic_load(&status->step));
}

/* wait PLACE: as if for the other ranks there. */
static void
do_wait(char **words)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(status->place, sizeof(status->place), "%s", words[0]);
    atomic_store(&status->waits_ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    atomic_store(&status->waits, 1);
    atomic_fetch_add(&status->wait_count, 1);
}

static void
do_nccl(char **words)
{
    atomic_store(&status->nccl_version, (uint32_t)number(words[0]));
}

static void
do_fail(char **words)
{
    snprintf(status->failure, sizeof(status->failure), "%s", words[0]);
    atomic_store(&status->stage, RANK_STAGE_FAILED);
}

static void
do_follow(char **words)
{
    atomic_store(&status->failure_follows, RANK_FOLLOWS);
    do_fail(words);
}

static void
do_say(char **words)
{
    fputs(words[0], stdout);
    fflush(stdout);
}

static void
do_complain(char **words)
{
    fputs(words[0], stderr);
}

static void
do_sleep(char **words)
{
    pause_ms(number(words[0]));
}

static void
do_hang(char **words)
{
    (void)words;
    for (;;)
        pause();
}

static void
do_exit(char **words)
{
    _exit((int)number(words[0]));
}

static void
do_kill(char **words)
{
    raise((int)number(words[0]));
}

static void
do_ignore(char **words)
{
    signal((int)number(words[0]), SIG_IGN);
}

/* catch NUMBER FILE: makes FILE once the signal can come, and waits for it. */
static volatile sig_atomic_t caught;

static void
note_signal(int number)
{
    caught = number;
}

static void
do_catch(char **words)
{
    int number_of_signal = (int)number(words[0]);
    signal(number_of_signal, note_signal);
    FILE *ready = fopen(words[1], "w");
    if (ready != NULL)
        fclose(ready);
    while (caught != number_of_signal)
        pause_ms(10);
}

static void
write_pid(const char *folder, const char *name, pid_t pid)
{
    char path[4096], done[4200];
    snprintf(path, sizeof(path), "%s/%s%d", folder, name, rank);
    snprintf(done, sizeof(done), "%s.new", path);
    FILE *file = fopen(done, "w");
    if (file == NULL) {
        perror(done);
        _exit(99);
    }
    fprintf(file, "%d\n", (int)pid);
    fclose(file);
    rename(done, path); /* a process that waits for the file finds it whole */
}

static void
do_pid(char **words)
{
    write_pid(words[0], "rank", getpid());
}

static void
do_await(char **words)
{
    while (access(words[0], F_OK) != 0)
        pause_ms(10);
}

static void
start_child(const char *folder, const char *name, int own_session)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (own_session) {
            pause_ms(50); /* its parent may end before */
            setsid();
        }
        signal(SIGTERM, SIG_IGN);
        do_hang(NULL);
    }
    write_pid(folder, name, pid);
}

static void
do_child(char **words)
{
    start_child(words[0], "child", 0);
}

static void
do_daemon(char **words)
{
    start_child(words[0], "daemon", 1);
}

static void
do_load(char **words)
{
    if (dlopen(words[0], RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(98);
    }
}

/* flood LINES: numbered lines of about 60 bytes. */
static void
do_flood(char **words)
{
    uint64_t lines = number(words[0]);
    for (uint64_t i = 0; i < lines; ++i)
        printf("line %010" PRIu64 " of a rank that has a great deal to say\n", i);
    fflush(stdout);
}

/* longline BYTES: one line of that length, with every byte but newline in it. */
static void
do_longline(char **words)
{
    uint64_t bytes = number(words[0]);
    for (uint64_t i = 0; i < bytes; ++i) {
        int byte = (int)(i % 251);
        putchar(byte == '\n' ? 0 : byte);
    }
    putchar('\n');
    fflush(stdout);
}

static void
do_cat(char **words)
{
    (void)words;
    char bytes[4096];
    ssize_t got;
    printf("<");
    fflush(stdout);
    while ((got = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0)
        fwrite(bytes, 1, (size_t)got, stdout);
    printf(">\n");
    fflush(stdout);
}

/* env NAME: prints NAME=value, or NAME unset. */
static void
do_env(char **words)
{
    const char *value = getenv(words[0]);
    printf("%s%s%s\n", words[0], value != NULL ? "=" : " unset", value != NULL ? value : "");
    fflush(stdout);
}

/* options: what the launcher wants of the engine, one NAME=VALUE a line. */
static void
do_options(char **words)
{
    (void)words;
    printf("protocol=%u\nbucket_bytes=%llu\noverlap=%u\ncheck_every=%llu\nverify=%u\nunannotated=%u\n"
           "timeout_s=%u\nreduction=%u\ncompression=%u\nnccl=%s\nkernels=%s\ntrace_dir=%s\n",
           options->protocol, (unsigned long long)options->bucket_bytes, options->overlap,
           (unsigned long long)options->check_every, options->verify, options->unannotated, options->timeout_s,
           options->reduction, options->compression, options->nccl, options->kernels, options->trace_dir);
    fflush(stdout);
}

static const struct verb {
    const char *name;
    int words;
    void (*run)(char **words);
} verbs[] = {
    {"stage", 1, do_stage},
    {"step", 1, do_step},
    {"overlapped", 1, do_overlapped},
    {"check", 3, do_check},
    {"gradients", 3, do_gradients},
    {"elements", 2, do_elements},
    {"exposed", 3, do_exposed},
    {"tried", 2, do_tried},
    {"training", 1, do_training},
    {"events", 1, do_events},
    {"mean", 2, do_mean},
    {"shard", 1, do_shard},
    {"nccl", 1, do_nccl},
    {"wait", 1, do_wait},
    {"fail", 1, do_fail},
    {"follow", 1, do_follow},
    {"say", 1, do_say},
    {"complain", 1, do_complain},
    {"sleep", 1, do_sleep},
    {"hang", 0, do_hang},
    {"exit", 1, do_exit},
    {"kill", 1, do_kill},
    {"ignore", 1, do_ignore},
    {"catch", 2, do_catch},
    {"pid", 1, do_pid},
    {"await", 1, do_await},
    {"child", 1, do_child},
    {"daemon", 1, do_daemon},
    {"load", 1, do_load},
    {"flood", 1, do_flood},
    {"longline", 1, do_longline},
    {"cat", 0, do_cat},
    {"env", 1, do_env},
    {"options", 0, do_options},
};

static const struct verb *
find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); ++i) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    fprintf(stderr, "fake_trainer: no such verb: %s\n", name);
    _exit(97);
}

static int
environment_number(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? atoi(value) : 0;
}

int
main(int argc, char **argv)
{
    const char *dir = getenv(DDPRUN_ENV_JOB_DIR);
    rank = environment_number(DDPRUN_ENV_RANK);
    void *page = dir == NULL ? NULL : status_page_map(dir, environment_number(DDPRUN_ENV_STATUS_COUNT), false);
    if (page == NULL) {
        fprintf(stderr, "fake_trainer: no status page\n");
        return 96;
    }
    status = status_page_rank(page, environment_number(DDPRUN_ENV_STATUS_INDEX));
    options = status_page_options(page, environment_number(DDPRUN_ENV_STATUS_COUNT));

    int mine = 1;
    for (int i = 1; i < argc; ++i) {
        if (argv[i][0] == '@') {
            mine = strcmp(argv[i], "@all") == 0 || atoi(argv[i] + 1) == rank;
            continue;
        }
        const struct verb *verb = find_verb(argv[i]);
        if (i + verb->words >= argc)
            return 95;
        if (mine)
            verb->run(argv + i + 1);
        i += verb->words;
    }
    return 0;
}
