/*
 * timeout.c - SOFTGPU_TIMEOUT_S=SECONDS: a kernel that runs longer ends the program, with a line that names the kernel
 * and its launch. So a test whose kernel never ends fails in a known time.
 *
 * A thread counts the ticks of each launch that runs. While the process is stopped, as by a debugger, nothing counts.
 *
 * Called by: workers.c.
 */
#include "driver.h"

#include <stdlib.h>
#include <time.h>

enum { TICKS_PER_SECOND = 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static struct timed_launch *running;
static uint64_t launch_count;

static void __attribute__((noreturn)) end_program(const struct timed_launch *timed)
{
    const unsigned *grid = timed->launch->grid, *block = timed->launch->block;
    say("kernel %.*s, grid (%u,%u,%u), block (%u,%u,%u), launch %llu of this process: it has run for %llu s, the limit "
        "that SOFTGPU_TIMEOUT_S sets. The program ends",
        KERNEL_NAME_SHOWN, timed->kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2],
        (unsigned long long)timed->number, (unsigned long long)driver.timeout_s);
    abort();
}

static void
count_tick(void)
{
    for (struct timed_launch *timed = running; timed != NULL; timed = timed->next) {
        if (++timed->ticks > driver.timeout_s * TICKS_PER_SECOND) {
            end_program(timed);
        }
    }
}

static void *
count_ticks(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (running == NULL) {
            pthread_cond_wait(&begun, &lock);
        }
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){.tv_nsec = 1000000000L / TICKS_PER_SECOND}, NULL);
        pthread_mutex_lock(&lock);
        count_tick();
    }
    return NULL;
}

static void
start_thread(void)
{
    if (!driver_thread(count_ticks, NULL, "softgpu-timeout")) {
        say("SOFTGPU_TIMEOUT_S: without that thread no kernel is ended");
    }
}

void
timeout_begin(struct timed_launch *timed, const struct softgpu_image *image, const struct softgpu_launch *launch)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (driver.timeout_s == 0) {
        return;
    }
    pthread_once(&once, start_thread);
    pthread_mutex_lock(&lock);
    *timed = (struct timed_launch){.next = running, .kernel = image->name, .launch = launch, .number = ++launch_count};
    running = timed;
    pthread_cond_signal(&begun);
    pthread_mutex_unlock(&lock);
}

void
timeout_end(struct timed_launch *timed)
{
    if (driver.timeout_s == 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    struct timed_launch **link = &running;
    while (*link != timed) {
        link = &(*link)->next;
    }
    *link = timed->next;
    pthread_mutex_unlock(&lock);
}
