/*
 * workers.c - SOFTGPU_WORKERS: several threads share the blocks of one launch.
 *
 * With one worker (the default) the stream's own thread runs all blocks in order, so results repeat bit for bit. With
 * more, blocks go out in small portions; sums that kernels make with float atomics then differ in the last digits from
 * run to run.
 *
 * With SOFTGPU_UNRULY they go out one by one, in the order of a window (unruly.c). A kernel may wait in one block for
 * lower ones; where none goes out for WATCH_MS, another thread takes those.
 */
#include "driver.h"

#include "softgpu/private_calls.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_MS = 250 };

struct job {
    struct job *next;
    struct context *context;
    const struct softgpu_image *image;
    const struct softgpu_launch *launch;
    uint64_t block_count, portion;
    _Atomic uint64_t next_block;
    struct window *window; /* SOFTGPU_UNRULY: where blocks come from; NULL: next_block */
    unsigned helpers;      /* guarded by pool.lock: helpers that are inside */
    struct timed_launch timed;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* a job came */
    pthread_cond_t leave; /* a helper left a job */
    struct job *jobs;
    bool started;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false};

/* The launch that the calling thread works on, for softgpuLaunchFailed(). */
static _Thread_local struct job *current_job;

const char *
workers_kernel(void)
{
    return current_job != NULL ? current_job->image->name : NULL;
}

void
softgpuLaunchFailed(int result, const char *what)
{
    if (current_job == NULL) {
        say("a failure outside of a kernel: %s", what);
        return;
    }
    char text[900];
    snprintf(text, sizeof text, "kernel %.*s: %s", KERNEL_NAME_SHOWN, current_job->image->name, what);
    context_fail(current_job->context, (CUresult)result, text);
}

/* ---- launches that cannot continue ---- */

/* A thread that sleeps for ever in a kernel. On that thread's stack. */
struct abandoned {
    struct abandoned *next;
    struct job *job;
    struct stream *stream; /* NULL: a helper */
};

static _Atomic(struct abandoned *) abandoned;
static sem_t abandoned_count;
static pthread_once_t rescue_once = PTHREAD_ONCE_INIT;

static void end_job(struct job *job);
static void *helper(void *unused);

/* The stream's new thread. It waits for the helpers, some of which may have to be rescued themselves. */
static void *
take_over(void *argument)
{
    struct abandoned *lost = argument;
    struct job *job = lost->job;
    end_job(job);
    strict_end((job->image->flags & SOFTGPU_IMAGE_WHOLE_GRID) != 0, job->context, job->image->name);
    stream_resume(lost->stream);
    return NULL;
}

static void
rescue(struct abandoned *lost)
{
    struct job *job = lost->job;
    atomic_store(&job->next_block, job->block_count);
    if (job->window != NULL) {
        window_close(job->window);
    }
    if (lost->stream != NULL) {
        if (!driver_thread(take_over, lost, "softgpu-stream")) {
            abort(); /* the stream would never end; the failure has been said */
        }
        return;
    }
    pthread_mutex_lock(&pool.lock);
    --job->helpers;
    pthread_cond_broadcast(&pool.leave);
    pthread_mutex_unlock(&pool.lock);
    (void)!driver_thread(helper, NULL, "softgpu-worker");
}

/* Waits for such threads: they must not take locks or memory themselves, for their code may have been in there. */
static void *
rescuer(void *unused)
{
    (void)unused;
    for (;;) {
        while (sem_wait(&abandoned_count) != 0) {
        }
        struct abandoned *lost = atomic_exchange(&abandoned, NULL);
        while (lost != NULL) {
            struct abandoned *next = lost->next;
            rescue(lost);
            lost = next;
        }
    }
    return NULL;
}

static void
start_rescuer(void)
{
    sem_init(&abandoned_count, 0, 0);
    if (!driver_thread(rescuer, NULL, "softgpu-rescue")) {
        say("a kernel that fails may leave its stream waiting for ever");
    }
}

void
softgpuLaunchAbandon(int result, const char *what)
{
    softgpuLaunchFailed(result, what);
    if (current_job == NULL) {
        abort();
    }
    struct abandoned me = {.job = current_job, .stream = stream_of_thread()};
    me.next = atomic_load(&abandoned);
    while (!atomic_compare_exchange_weak(&abandoned, &me.next, &me)) {
    }
    sem_post(&abandoned_count);
    for (;;) {
        pause();
    }
}

/* ---- the work ---- */

/* The next blocks to run; false: none is left. */
static bool
take_blocks(struct job *job, struct softgpu_launch *launch)
{
    uint64_t begin;
    if (job->window != NULL) {
        if (!window_take(job->window, &begin)) {
            return false;
        }
        launch->block_begin = begin;
        launch->block_end = begin + 1;
        return true;
    }
    begin = atomic_fetch_add(&job->next_block, job->portion);
    if (begin >= job->block_count) {
        return false;
    }
    launch->block_begin = begin;
    launch->block_end = job->block_count - begin < job->portion ? job->block_count : begin + job->portion;
    return true;
}

static void
work_on(struct job *job)
{
    struct softgpu_launch launch = *job->launch;
    current_job = job;
    while (take_blocks(job, &launch)) {
        job->image->run(&launch);
    }
    current_job = NULL;
}

static bool
has_work(struct job *job)
{
    return job->window != NULL ? window_is_open(job->window) : atomic_load(&job->next_block) < job->block_count;
}

/* With pool.lock held. */
static struct job *
find_job(bool (*is_wanted)(struct job *))
{
    for (struct job *job = pool.jobs; job != NULL; job = job->next) {
        if (is_wanted(job)) {
            return job;
        }
    }
    return NULL;
}

/* With pool.lock held, which it gives back while it helps. */
static void
help(struct job *job)
{
    ++job->helpers;
    pthread_mutex_unlock(&pool.lock);
    mapping_open(true);
    work_on(job);
    mapping_open(false);
    pthread_mutex_lock(&pool.lock);
    --job->helpers;
    pthread_cond_broadcast(&pool.leave);
}

static void *
helper(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        struct job *job = find_job(has_work);
        if (job != NULL) {
            help(job);
        } else {
            pthread_cond_wait(&pool.work, &pool.lock);
        }
    }
    return NULL;
}

static bool
is_stuck(struct job *job)
{
    return job->window != NULL && window_is_stuck(job->window);
}

static void *
watcher(void *unused)
{
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = WATCH_MS * 1000000L}, NULL);
        pthread_mutex_lock(&pool.lock);
        struct job *job = find_job(is_stuck);
        if (job != NULL) {
            help(job);
        }
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

/* With pool.lock held. Fewer helpers than asked for only make launches slower. */
static void
start_helpers(void)
{
    if (driver.unruly && !driver_thread(watcher, NULL, "softgpu-watch")) {
        say("SOFTGPU_UNRULY: a kernel whose blocks wait for lower ones may wait for ever");
    }
    for (unsigned have = 1; have < driver.worker_count; ++have) {
        if (!driver_thread(helper, NULL, "softgpu-worker")) {
            say("SOFTGPU_WORKERS=%u: only %u of them can be had", driver.worker_count, have);
            return;
        }
    }
}

/* No helper comes any more, and those inside have left. A launch that had none is not in the list. */
static void
end_job(struct job *job)
{
    pthread_mutex_lock(&pool.lock);
    struct job **link = &pool.jobs;
    while (*link != NULL && *link != job) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = job->next;
    }
    while (job->helpers > 0) {
        pthread_cond_wait(&pool.leave, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
    timeout_end(&job->timed);
}

void
workers_run(struct context *context, const struct softgpu_image *image, const struct softgpu_launch *launch,
            uint64_t block_count)
{
    struct job job = {
        .context = context, .image = image, .launch = launch, .block_count = block_count, .portion = block_count};
    pthread_once(&rescue_once, start_rescuer);
    timeout_begin(&job.timed, image, launch);
    if ((image->flags & SOFTGPU_IMAGE_WHOLE_GRID) != 0 || block_count == 1 || launch->group[0] != 0 ||
        (driver.worker_count == 1 && launch->draw == 0)) {
        work_on(&job);
        timeout_end(&job.timed);
        return;
    }
    struct window window;
    if (launch->draw != 0) {
        window_open(&window, image, launch->draw, block_count);
        job.window = &window;
    }
    job.portion = block_count / (driver.worker_count * 8u);
    job.portion += job.portion == 0;
    pthread_mutex_lock(&pool.lock);
    if (!pool.started) {
        pool.started = true;
        start_helpers();
    }
    job.next = pool.jobs;
    pool.jobs = &job;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);

    work_on(&job);
    end_job(&job);
}
