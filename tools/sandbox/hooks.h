/*
 * hooks.h - the pointers to the next definition of every function that the library replaces, and the declarations that
 * libc's headers do not have.
 */
#ifndef DDPRUN_TOOLS_SANDBOX_HOOKS_H
#define DDPRUN_TOOLS_SANDBOX_HOOKS_H

#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* What programs call that were built with _FORTIFY_SOURCE, or with a glibc before 2.33. */
int __open_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __xstat(int version, const char *path, struct stat *found);
int __lxstat(int version, const char *path, struct stat *found);
int __fxstatat(int version, int dirfd, const char *path, struct stat *found, int flags);
int __xmknod(int version, const char *path, mode_t mode, dev_t *device);
int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device);
ssize_t __readlink_chk(const char *path, char *target, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *target, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);
char *__getcwd_chk(char *path, size_t size, size_t room);
char *__getwd_chk(char *path, size_t room);
/* What a newer glibc than the build's may have. */
uint32_t arc4random(void);
void arc4random_buf(void *bytes, size_t count);
uint32_t arc4random_uniform(uint32_t bound);
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until);

/* Every hook, by number. */
enum real_name {
#define HOOK(name) REAL_##name,
#include "tools/sandbox/hooks.def"
#undef HOOK
    REAL_COUNT
};

/* The definition behind this library's, looked up at the first call. A function that this libc does not have is one
 * that returns -1 with ENOSYS. */
void *real_function(enum real_name name);
#define REAL(name) ((__typeof__(&(name)))real_function(REAL_##name))

/* A hook for large files too: on 64-bit machines it is the same function, with the same types. */
#define ALSO(other, name) __asm__(".globl " #other "\n.set " #other ", " #name);

/* A hook that reads what `path` names, from the folder `from`; the call behind it gets the folder `at`. With overlay.h,
 * as the next ones. */
#define HOOK_AT(type, name, from, follow, declared, given)                                \
    type name declared                                                                    \
    {                                                                                     \
        struct place place;                                                               \
        int at = from;                                                                    \
        return place_read(&at, &path, follow, &place) != 0 ? (type)-1 : REAL(name) given; \
    }
#define HOOK_PATH(type, name, ...) HOOK_AT(type, name, AT_FDCWD, __VA_ARGS__)

#define FOLLOWS(flags) PLACE_FOLLOW_UNLESS(((flags)&AT_SYMLINK_NOFOLLOW) != 0)

#endif
