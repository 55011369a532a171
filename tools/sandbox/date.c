/*
 * date.c - the date and the random bytes that a program sees in a run of `ddprun check`: the same in each (files.h,
 * FILES_ENV_DATE). The hooks ask; nothing here waits or takes a lock.
 */
#include "tools/sandbox/files.h"
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <stdatomic.h>

enum { READINGS_MOST = 10000, US = 1000000, LEAST_BYTE = 16 }; /* the last: AHEAD more or less is no carry */

/* Seconds since 1970 of dates: what monotonic clocks show is below, "never" is above. */
static const int64_t least_date = 1000000000, most_date = 10000000000;

static _Atomic int64_t passed_us; /* up to when the date runs */
static _Atomic int64_t since_us;  /* on the monotonic clock: the date runs from then on; 0: not yet */
static _Atomic uint64_t readings, words;
static _Atomic(const void *) late_reader; /* who has read the date last since it runs */

static int64_t
clock_us(clockid_t clock)
{
    struct timespec now = {0, 0};
    (void)REAL(clock_gettime)(clock, &now);
    return (int64_t)now.tv_sec * US + now.tv_nsec / 1000;
}

static int64_t
begin_us(void)
{
    const struct files_date *date = files_date();
    return date->start_us + date->ahead * FILES_AHEAD_US;
}

static int64_t
now_us(void)
{
    int64_t since = atomic_load(&since_us);
    return begin_us() + atomic_load(&passed_us) + (since > 0 ? clock_us(CLOCK_MONOTONIC) - since : 0);
}

/* From now on the date runs. */
static void
begin_to_run(void)
{
    int64_t none = 0;
    (void)atomic_compare_exchange_strong(&since_us, &none, clock_us(CLOCK_MONOTONIC));
}

void
ddprun_files_steps_begin(void)
{
    const struct files_date *date = files_date();
    if (date == NULL || !date->stands)
        begin_to_run();
}

const void *
ddprun_files_date_reader(void)
{
    return atomic_load(&late_reader);
}

int64_t
date_read_us(const void *caller)
{
    uint64_t before = atomic_fetch_add(&readings, 1);
    if (atomic_load(&since_us) > 0) {
        atomic_store(&late_reader, caller);
        return now_us();
    }
    if (before >= READINGS_MOST)
        begin_to_run();
    return begin_us() + atomic_fetch_add(&passed_us, 1) + 1;
}

/* ---- waits ---- */

void
date_waited(const struct timespec *until)
{
    int64_t target = (int64_t)until->tv_sec * US + until->tv_nsec / 1000 - begin_us(), passed = atomic_load(&passed_us);
    while (atomic_load(&since_us) == 0 && passed < target && !atomic_compare_exchange_weak(&passed_us, &passed, target))
        ;
}

void
date_slept(int64_t us, const void *caller)
{
    static _Atomic uintptr_t last;
    static _Atomic uint64_t last_reading;
    uint64_t reading = atomic_load(&readings), before = atomic_exchange(&last_reading, reading);
    bool is_loop = atomic_exchange(&last, (uintptr_t)caller) == (uintptr_t)caller && reading != before;
    if (is_loop && atomic_load(&since_us) == 0)
        (void)atomic_fetch_add(&passed_us, us);
}

bool
date_make_real(const struct timespec *until, struct timespec *real)
{
    if (until->tv_sec < least_date || until->tv_sec > most_date)
        return false;
    int64_t target = (int64_t)until->tv_sec * US + until->tv_nsec / 1000;
    int64_t real_us = clock_us(CLOCK_REALTIME) + target - now_us();
    *real = (struct timespec){.tv_sec = real_us / US, .tv_nsec = real_us % US * 1000};
    return real_us > 0;
}

/* ---- random bytes ---- */

/* SplitMix64. */
static uint64_t
next_word(void)
{
    uint64_t word = (uint64_t)files_date()->start_us + atomic_fetch_add(&words, 1) * UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

void
date_fill(void *bytes, size_t count)
{
    unsigned char *to = bytes;
    uint64_t word = 0;
    for (size_t i = 0; i < count; ++i, word >>= 8) {
        word = i % sizeof(word) == 0 ? next_word() : word;
        unsigned spread = (unsigned)(word & 255) * (256 - 2 * LEAST_BYTE) / 256;
        to[i] = (unsigned char)(LEAST_BYTE + spread + (unsigned)files_date()->ahead);
    }
}

bool
date_make_random(char path[FILES_PATH_MAX])
{
    char piece[4096];
    snprintf(path, FILES_PATH_MAX, "%s/random-%ld", files_date()->dir, syscall(SYS_gettid));
    (void)raw_unlink(path); /* an earlier one, which stays as long as it is open */
    int fd = raw_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    bool ok = fd >= 0;
    for (size_t at = 0; at < FILES_RANDOM_BYTES && ok; at += sizeof(piece)) {
        date_fill(piece, sizeof(piece));
        ok = write(fd, piece, sizeof(piece)) == (ssize_t)sizeof(piece);
    }
    if (fd >= 0)
        close(fd);
    return ok;
}
