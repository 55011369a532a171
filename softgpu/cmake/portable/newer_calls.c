/*
 * newer_calls.c - the functions that glibc has had only since 2.29, by those of an older one, for what is linked by
 * old_glibc.sh's folder. Each is as its manual page says, but for the waits until a time of another clock than the old
 * function's: these wait in pieces, so that a change of the date ends or lengthens none by more than a piece.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_OF_SECOND = 1000000000, NS_OF_PIECE = 100000000 };

/* ---- before 2.33 the functions of stat(2) had another name, and a number for the layout of the struct ---- */

#ifdef __x86_64__
enum { STAT_LAYOUT = 1 };
#else
enum { STAT_LAYOUT = 0 };
#endif
extern int __xstat(int layout, const char *path, struct stat *status);
extern int __lxstat(int layout, const char *path, struct stat *status);
extern int __fxstat(int layout, int fd, struct stat *status);
extern int __fxstatat(int layout, int folder, const char *path, struct stat *status, int flags);

int
stat(const char *path, struct stat *status)
{
    return __xstat(STAT_LAYOUT, path, status);
}

int
lstat(const char *path, struct stat *status)
{
    return __lxstat(STAT_LAYOUT, path, status);
}

int
fstat(int fd, struct stat *status)
{
    return __fxstat(STAT_LAYOUT, fd, status);
}

int
fstatat(int folder, const char *path, struct stat *status, int flags)
{
    return __fxstatat(STAT_LAYOUT, folder, path, status, flags);
}

/* ---- calls of the kernel ---- */

pid_t
gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

ssize_t
getdents64(int folder, void *entries, size_t bytes)
{
    return syscall(SYS_getdents64, folder, entries, bytes);
}

/* Kernels before 5.9 have no such call: there each descriptor is closed, to the process's limit. */
int
close_range(unsigned first, unsigned last, int flags)
{
    if (syscall(SYS_close_range, first, last, flags) == 0)
        return 0;
    if (errno != ENOSYS || flags != 0)
        return -1;
    long limit = sysconf(_SC_OPEN_MAX);
    for (unsigned fd = first; fd <= last && fd < (unsigned long)limit; ++fd)
        close((int)fd);
    return 0;
}

/* ---- names of signals ---- */

const char *
sigabbrev_np(int number)
{
#define NAMED(name) [SIG##name] = #name
    static const char *const names[] = {
        NAMED(HUP),  NAMED(INT),    NAMED(QUIT), NAMED(ILL),   NAMED(TRAP), NAMED(ABRT), NAMED(BUS),  NAMED(FPE),
        NAMED(KILL), NAMED(USR1),   NAMED(SEGV), NAMED(USR2),  NAMED(PIPE), NAMED(ALRM), NAMED(TERM), NAMED(STKFLT),
        NAMED(CHLD), NAMED(CONT),   NAMED(STOP), NAMED(TSTP),  NAMED(TTIN), NAMED(TTOU), NAMED(URG),  NAMED(XCPU),
        NAMED(XFSZ), NAMED(VTALRM), NAMED(PROF), NAMED(WINCH), NAMED(POLL), NAMED(PWR),  NAMED(SYS),
    };
    return number >= 0 && (size_t)number < sizeof(names) / sizeof(names[0]) ? names[number] : NULL;
}

/* In English, as ddprun sets no locale. */
const char *
sigdescr_np(int number)
{
    return sigabbrev_np(number) != NULL ? strsignal(number) : NULL;
}

/* ---- waits until a time of a clock ---- */

/* The time of CLOCK_REALTIME to wait until: when it is `until` by the clock, at most a piece from now. False: it is
 * past. */
static int
next_piece(clockid_t clock, const struct timespec *until, struct timespec *piece)
{
    struct timespec now;
    clock_gettime(clock, &now);
    int64_t left = (until->tv_sec - now.tv_sec) * (int64_t)NS_OF_SECOND + until->tv_nsec - now.tv_nsec;
    if (left <= 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, piece);
    int64_t ns = piece->tv_nsec + (left < NS_OF_PIECE ? left : NS_OF_PIECE);
    piece->tv_sec += ns / NS_OF_SECOND;
    piece->tv_nsec = ns % NS_OF_SECOND;
    return 1;
}

/* The end of a piece is a wake-up without a reason, which callers have to expect. */
int
pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *lock, clockid_t clock, const struct timespec *until)
{
    struct timespec piece;
    if (!next_piece(clock, until, &piece))
        return ETIMEDOUT;
    int result = pthread_cond_timedwait(condition, lock, &piece);
    return result == ETIMEDOUT ? 0 : result;
}

int
pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until)
{
    struct timespec piece;
    int result = pthread_tryjoin_np(thread, value);
    while ((result == EBUSY || result == ETIMEDOUT) && next_piece(clock, until, &piece))
        result = pthread_timedjoin_np(thread, value, &piece);
    return result == EBUSY ? ETIMEDOUT : result;
}

int
sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    struct timespec piece;
    int result = sem_trywait(semaphore);
    while (result != 0 && (errno == EAGAIN || errno == ETIMEDOUT) && next_piece(clock, until, &piece))
        result = sem_timedwait(semaphore, &piece);
    if (result != 0 && errno == EAGAIN)
        errno = ETIMEDOUT;
    return result;
}

/* ---- udev, of which there is no static library: hwloc reads the files of the system in its place ---- */

struct udev *udev_new(void);
struct udev *udev_unref(struct udev *udev);
struct udev_device *udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem, const char *name);
struct udev_device *udev_device_unref(struct udev_device *device);
const char *udev_device_get_property_value(struct udev_device *device, const char *name);

struct udev *
udev_new(void)
{
    return NULL;
}

struct udev *
udev_unref(struct udev *udev)
{
    return udev;
}

struct udev_device *
udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem, const char *name)
{
    (void)udev, (void)subsystem, (void)name;
    return NULL;
}

struct udev_device *
udev_device_unref(struct udev_device *device)
{
    return device;
}

const char *
udev_device_get_property_value(struct udev_device *device, const char *name)
{
    (void)device, (void)name;
    return NULL;
}
