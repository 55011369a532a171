/*
 * fake_trainer.c - a program that does what its arguments say, to play all the trainers that the launcher may meet.
 *
 * It plays the engine's part as well: it writes the status page itself. Started by run.sh under ddprun; must not need
 * anything but libc, because a sanitizer's runtime may not come after a preloaded library.
 *
 *     fake_trainer stage 3 step 10 @1 exit 3 @all hang
 *
 * The words are done in order; "@R" makes what follows count for rank R only, up to the next "@". Each VERB is
 * one.
 */
#include "base/flight.h"
#include "base/status_page.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

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

/* What a word does, with so many words after it, words[0] and so on. */
struct verb {
    const char *name;
    int words;
    void (*run)(char **words);
    const struct verb *next;
};
static const struct verb *verbs;

#define VERB(verb_name, word_count)                                                                 \
    static void do_##verb_name(char **words);                                                       \
    __attribute__((constructor)) static void add_##verb_name(void)                                  \
    {                                                                                               \
        static struct verb verb = {.name = #verb_name, .words = word_count, .run = do_##verb_name}; \
        verb.next = verbs;                                                                          \
        verbs = &verb;                                                                              \
    }                                                                                               \
    static void do_##verb_name(char **words __attribute__((unused)))

/* A verb of one statement. */
#define ACTS(verb_name, word_count, ...) \
    VERB(verb_name, word_count)          \
    {                                    \
        __VA_ARGS__;                     \
    }

VERB(stage, 1)
{
    atomic_store(&status->protocol, DDPRUN_PROTOCOL_VERSION);
    atomic_store(&status->pid, getpid());
    atomic_store(&status->stage, (uint32_t)number(words[0]));
}

ACTS(step, 1, atomic_store(&status->step, number(words[0])))
ACTS(overlapped, 1, atomic_store(&status->overlapped_step, number(words[0])))

ACTS(wrong, 1, atomic_store(&status->wrong_step, number(words[0])))

VERB(gradients, 3)
{
    atomic_store(&status->gradient_count, number(words[0]));
    atomic_store(&status->gradient_bytes, number(words[1]));
    atomic_store(&status->bucket_count, number(words[2]));
}

/* elements GRADIENTS PARAMETERS */
VERB(elements, 2)
{
    atomic_store(&status->gradient_elements, number(words[0]));
    atomic_store(&status->parameter_elements, number(words[1]));
}

VERB(check, 3)
{
    atomic_store(&status->check_count, number(words[0]));
    atomic_store(&status->checked_step, number(words[1]));
    atomic_store(&status->parameter_hash, number(words[2]));
}

/* exposed STEPS NS BOUND_NS: so long in each of the steps 1 to STEPS; planned was half as long */
VERB(exposed, 3)
{
    atomic_store(&status->exposed_planned_ns, number(words[1]) / 2);
    atomic_store(&status->exposed_bound_ns, number(words[2]));
    for (uint64_t step = 1; step <= number(words[0]); ++step)
        atomic_store(&status->exposed_steps[rank_exposed_place(step)], rank_exposed_pack(step, number(words[1])));
}

/* tried NS OFF_STEP: collectives slow a step's own work so much; overlap is off since that step, 0: it is not. */
VERB(tried, 2)
{
    atomic_store(&status->slowed_ns, number(words[0]));
    atomic_store(&status->overlap_off_step, number(words[1]));
    atomic_store(&status->trial_count, 1);
}

/* training US: since the first step. */
ACTS(training, 1, atomic_store(&status->training_us, number(words[0])))

/* events COUNT: buckets that it sent, in its flight recorder. */
VERB(events, 1)
{
    for (uint64_t i = 0; i < number(words[0]); ++i)
        flight_write(flight_of(status), FLIGHT_BUCKET, 7, i, 4096, "early");
}

/* mean NAME VALUE: at one more place of the program. */
VERB(mean, 2)
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

VERB(shard, 1)
{
    atomic_store(&status->shard_total, number(words[0]));
    atomic_store(&status->shard_calls, atomic_load(&status->step));
}

/* wait PLACE: as if for the other ranks there. */
VERB(wait, 1)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(status->place, sizeof(status->place), "%s", words[0]);
    atomic_store(&status->waits_ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    atomic_store(&status->waits, 1);
    atomic_fetch_add(&status->wait_count, 1);
}

ACTS(nccl, 1, atomic_store(&status->nccl_version, (uint32_t)number(words[0])))

VERB(fail, 1)
{
    snprintf(status->failure, sizeof(status->failure), "%s", words[0]);
    atomic_store(&status->stage, RANK_STAGE_FAILED);
}

VERB(follow, 1)
{
    atomic_store(&status->failure_follows, RANK_FOLLOWS);
    do_fail(words);
}

VERB(say, 1)
{
    fputs(words[0], stdout);
    fflush(stdout);
}

ACTS(complain, 1, fputs(words[0], stderr))
ACTS(sleep, 1, pause_ms(number(words[0])))

VERB(hang, 0)
{
    for (;;)
        pause();
}

ACTS(exit, 1, _exit((int)number(words[0])))
ACTS(kill, 1, raise((int)number(words[0])))
ACTS(ignore, 1, signal((int)number(words[0]), SIG_IGN))

/* catch NUMBER FILE: makes FILE once the signal can come, and waits for it. */
static volatile sig_atomic_t caught;

static void
note_signal(int number)
{
    caught = number;
}

VERB(catch, 2)
{
    int number_of_signal = (int)number(words[0]);
    signal(number_of_signal, note_signal);
    FILE *ready = fopen(words[1], "w");
    if (ready != NULL)
        fclose(ready);
    while (caught != number_of_signal)
        pause_ms(10);
}

/* dwell NUMBER GO FILE: from now on its handler of the signal waits for GO, makes FILE and leaves with exit code 0, as
 * one that saves. */
static const char *dwell_go, *dwell_file;

static void
dwell(int number_of_signal)
{
    (void)number_of_signal;
    while (access(dwell_go, F_OK) != 0)
        pause_ms(10);
    int fd = open(dwell_file, O_WRONLY | O_CREAT, 0600);
    _exit(fd < 0);
}

VERB(dwell, 3)
{
    dwell_go = words[1];
    dwell_file = words[2];
    signal((int)number(words[0]), dwell);
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

ACTS(pid, 1, write_pid(words[0], "rank", getpid()))

VERB(await, 1)
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

ACTS(child, 1, start_child(words[0], "child", 0))
ACTS(daemon, 1, start_child(words[0], "daemon", 1))

VERB(load, 1)
{
    if (dlopen(words[0], RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(98);
    }
}

/* flood LINES: numbered lines of about 60 bytes. */
VERB(flood, 1)
{
    uint64_t lines = number(words[0]);
    for (uint64_t i = 0; i < lines; ++i)
        printf("line %010" PRIu64 " of a rank that has a great deal to say\n", i);
    fflush(stdout);
}

/* longline BYTES: one line of that length, with every byte but newline in it. */
VERB(longline, 1)
{
    uint64_t bytes = number(words[0]);
    for (uint64_t i = 0; i < bytes; ++i) {
        int byte = (int)(i % 251);
        putchar(byte == '\n' ? 0 : byte);
    }
    putchar('\n');
    fflush(stdout);
}

VERB(cat, 0)
{
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
VERB(env, 1)
{
    const char *value = getenv(words[0]);
    printf("%s%s%s\n", words[0], value != NULL ? "=" : " unset", value != NULL ? value : "");
    fflush(stdout);
}

/* options: what the launcher wants of the engine, one NAME=VALUE a line. */
VERB(options, 0)
{
    printf("protocol=%u\nbucket_bytes=%llu\noverlap=%u\ncheck_every=%llu\nverify=%u\nstop_on_nan=%u\nunannotated=%u\n"
           "timeout_s=%u\nreduction=%u\ncompression=%u\nnccl=%s\nkernels=%s\ntrace_dir=%s\n",
           options->protocol, (unsigned long long)options->bucket_bytes, options->overlap,
           (unsigned long long)options->check_every, options->verify, options->stop_on_nan, options->unannotated,
           options->timeout_s, options->reduction, options->compression, options->nccl, options->kernels,
           options->trace_dir);
    fflush(stdout);
}

static const struct verb *
find_verb(const char *name)
{
    for (const struct verb *verb = verbs; verb != NULL; verb = verb->next) {
        if (strcmp(verb->name, name) == 0)
            return verb;
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
