/*
 * dates.c START AHEAD OTHER [STANDS] - reads the date behind libddprun-files.so, with FILES_ENV_DATE "START AHEAD
 * [STANDS]", and prints random bytes. OTHER is libfiles_late.so in a folder that is not this program's: another's
 * library.
 *
 * Property (tools/sandbox/files.h): the i-th reading is START + i us, whatever the call, until the steps begin,
 * and clocks run from then on, unless they stand; a wait until a date ends when it is reached; the other library's
 * calls, and clocks that are no date, are the system's.
 */
#include "tools/sandbox/files.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/time.h>

enum { US = 1000000, LONG_AGO_S = 1500000000, WAIT_US = 20000 };

static void
require(int condition, const char *what)
{
    if (condition)
        return;
    printf("%s\n", what);
    exit(1);
}

static int64_t
us_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * US + time->tv_nsec / 1000;
}

static int64_t
clock_us(clockid_t clock)
{
    struct timespec now;
    require(clock_gettime(clock, &now) == 0, "clock_gettime");
    return us_of(&now);
}

static void
read_all(int64_t start)
{
    struct timeval us;
    struct timespec ns;
    time_t now;
    require(clock_us(CLOCK_REALTIME) == start + 1, "the first reading");
    require(clock_us(CLOCK_REALTIME_COARSE) == start + 2, "the coarse clock");
    require(gettimeofday(&us, NULL) == 0 && (int64_t)us.tv_sec * US + us.tv_usec == start + 3, "gettimeofday");
    require(timespec_get(&ns, TIME_UTC) == TIME_UTC && us_of(&ns) == start + 4, "timespec_get");
    require(time(&now) == start / US && now == start / US, "time");
    require(clock_us(CLOCK_REALTIME) == start + 6, "the sixth reading");
    require(clock_us(CLOCK_MONOTONIC) != start + 7 && clock_us(CLOCK_REALTIME) == start + 7, "another clock counts");
}

static void
ask_other(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    require(handle != NULL, "dlopen");
    time_t (*ask)(void) = (time_t(*)(void))dlsym(handle, "late_date");
    require(ask != NULL && ask() > LONG_AGO_S, "the other library has the system's date");
    unsigned (*number)(void) = (unsigned (*)(void))dlsym(handle, "late_random");
    require(number != NULL, "dlsym");
    unsigned first = number();
    require(first != number() || first != number(), "and random numbers that differ");
}

/* A wait for WAIT_US, which has to take as long, and the date then is what was waited for. */
#define WAIT(call, name)                                                                    \
    do {                                                                                    \
        int64_t begin = clock_us(CLOCK_MONOTONIC), to = clock_us(CLOCK_REALTIME) + WAIT_US; \
        struct timespec until = {.tv_sec = to / US, .tv_nsec = to % US * 1000};             \
        require(call, name);                                                                \
        require(clock_us(CLOCK_MONOTONIC) - begin >= WAIT_US, name ": too short");          \
        require(clock_us(CLOCK_REALTIME) > to, name ": the date is not there");             \
    } while (0)

static void
wait_all(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    static sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    pthread_mutex_lock(&mutex);
    WAIT(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT, "pthread_cond_timedwait");
    WAIT(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT, "pthread_mutex_timedlock");
    WAIT(sem_timedwait(&semaphore, &until) != 0 && errno == ETIMEDOUT, "sem_timedwait");
    WAIT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == 0, "clock_nanosleep");
    struct timespec no_date = {.tv_sec = 1, .tv_nsec = 0}; /* as of a monotonic clock: passed */
    require(pthread_cond_timedwait(&condition, &mutex, &no_date) == ETIMEDOUT, "a deadline that is no date");
}

static void
print_random(void)
{
    unsigned char bytes[32];
    require(getrandom(bytes, 16, 0) == 16, "getrandom");
    FILE *file = fopen("/dev/urandom", "rb");
    require(file != NULL && fread(bytes + 16, 16, 1, file) == 1, "/dev/urandom");
    fclose(file);
    for (int i = 0; i < 32; ++i)
        printf("%d%s", bytes[i], i < 31 ? " " : "\n");
}

int
main(int argc, char **argv)
{
    require(argc == 4 || argc == 5, "usage: dates START AHEAD OTHER [STANDS]");
    int64_t start = atoll(argv[1]) + atoll(argv[2]) * FILES_AHEAD_US;
    read_all(start);
    ask_other(argv[3]);
    wait_all();
    print_random();
    int64_t before = clock_us(CLOCK_REALTIME);
    require(before - start < 2 * 4 * WAIT_US, "it stands until the steps begin");
    require(ddprun_files_steps_begin != NULL, "no library");
    require(ddprun_files_date_reader() == NULL, "no reading counts before the steps begin");
    ddprun_files_steps_begin();
    if (argc == 5) {
        int64_t now = clock_us(CLOCK_REALTIME);
        require(now == before + 1 && clock_us(CLOCK_REALTIME) == now + 1, "it stands when the steps have begun");
        return 0;
    }
    WAIT(clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 2 * WAIT_US * 1000}, &until) == 0,
         "it runs");
    require(clock_us(CLOCK_REALTIME) - before < (int64_t)3600 * US, "from where it stood");
    Dl_info own, reader;
    require(dladdr((const void *)clock_us, &own) != 0 && dladdr(ddprun_files_date_reader(), &reader) != 0 &&
                own.dli_fbase == reader.dli_fbase,
            "the program has read it last");
    return 0;
}
