/*
 * execs.c - a program that uses CUDA, started without this library, is noted in the rank's record: it would train
 * alone, and may have ended before the launcher sees it (watch/verdict.c judges).
 *
 * A program uses CUDA whose file names CUDA's libraries or holds kernels. Hooked are all functions of libc that start
 * one, but for system() and popen(), which start a shell. A start that fails is taken back.
 *
 * The rules of this file: it runs between vfork and exec, and in signal handlers. So nothing is allocated, locked or
 * looked up, and other interposers do not see its system calls.
 */
#include "interpose/shim/shim.h"

#include "base/cuda_files.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_ENTRIES = 4096, NAME_BYTES = 32 }; /* of a file; of a name, its beginning */

/* ---- the file ---- */

static bool
read_at(int fd, void *to, size_t bytes, uint64_t at)
{
    return syscall(SYS_pread64, fd, to, bytes, at) == (long)bytes;
}

static const char *
name_at(int fd, char name[NAME_BYTES], uint64_t at)
{
    long got = syscall(SYS_pread64, fd, name, NAME_BYTES - 1, at);
    name[got > 0 ? got : 0] = '\0';
    return name;
}

/* Of CUDA's libraries, libnvrtc and libnvJitLink are compilers, which need no GPU. */
static bool
needs_cuda(int fd, uint64_t entries, uint64_t names)
{
    Elf64_Dyn entry;
    char name[NAME_BYTES];
    for (int i = 0; i < MOST_ENTRIES && read_at(fd, &entry, sizeof(entry), entries + i * sizeof(entry)); ++i) {
        if (entry.d_tag == DT_NEEDED && is_library_of_cuda(name_at(fd, name, names + entry.d_un.d_val)) &&
            strncmp(name, "libnv", 5) != 0)
            return true;
        if (entry.d_tag == DT_NULL)
            return false;
    }
    return false;
}

/* A program that changes rights takes no library from the environment. */
static bool
takes_libraries(int fd)
{
    struct statx file;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_MODE, &file) != 0)
        return false;
    return S_ISREG(file.stx_mode) && (file.stx_mode & (S_ISUID | S_ISGID)) == 0;
}

static bool
read_header(int fd, Elf64_Ehdr *header)
{
    return read_at(fd, header, sizeof(*header), 0) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64;
}

static bool
uses_cuda(int fd)
{
    Elf64_Ehdr header;
    Elf64_Shdr titles, section, names;
    char name[NAME_BYTES];
#define READ(what, index) read_at(fd, &(what), sizeof(what), header.e_shoff + (index) * sizeof(what))
    if (!takes_libraries(fd) || !read_header(fd, &header) || !READ(titles, header.e_shstrndx))
        return false;
    for (unsigned i = 0; i < header.e_shnum && i < MOST_ENTRIES && READ(section, i); ++i) {
        if (section.sh_type == SHT_DYNAMIC
                ? READ(names, section.sh_link) && needs_cuda(fd, section.sh_offset, names.sh_offset)
                : is_section_of_kernels(name_at(fd, name, titles.sh_offset + section.sh_name)))
            return section.sh_type != SHT_NOBITS;
    }
    return false;
}

/* ---- the start ---- */

/* The loader takes the last of several. */
static bool
has_shim(char *const *environment)
{
    bool has = false;
    for (; environment != NULL && *environment != NULL; ++environment) {
        if (strncmp(*environment, "LD_PRELOAD=", strlen("LD_PRELOAD=")) == 0)
            has = strstr(*environment, "/libddprun.so") != NULL;
    }
    return has;
}

bool
execs_file_uses_cuda(int folder, const char *path)
{
    char itself[NAME_BYTES];
    snprintf(itself, sizeof(itself), "/proc/self/fd/%d", folder);
    int fd =
        (int)syscall(SYS_openat, folder, *path != '\0' ? path : itself, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool uses = fd >= 0 && uses_cuda(fd);
    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    return uses;
}

/* Before `path` is started; "": the file `folder` itself. Returns the record in which it was noted, or NULL. */
static struct rank_status *
note(int folder, const char *path, char *const *environment)
{
    struct rank_status *status = atomic_load(&shim.status);
    if (status == NULL || path == NULL || has_shim(environment))
        return NULL;
    const bool uses = execs_file_uses_cuda(folder, path);
    if (uses)
        atomic_fetch_add(&status->missed_preload, 1);
    return uses ? status : NULL;
}

/* The same of a program that is looked for in PATH, as execvp(3) has it. */
static struct rank_status *
note_found(const char *file, char *const *environment)
{
    char path[PATH_MAX];
    const char *folders = getenv("PATH");
    if (file == NULL || *file == '\0' || strchr(file, '/') != NULL)
        return note(AT_FDCWD, file, environment);
    for (folders = folders != NULL ? folders : "/bin:/usr/bin";; ++folders) {
        int length = (int)strcspn(folders, ":");
        snprintf(path, sizeof(path), "%.*s%s%s", length, folders, length > 0 ? "/" : "", file);
        if (syscall(SYS_faccessat, AT_FDCWD, path, X_OK) == 0)
            return note(AT_FDCWD, path, environment);
        folders += length;
        if (*folders == '\0')
            return NULL;
    }
}

/* ---- the hooks ---- */

void *
libc_next(enum libc_function function)
{
#define NAME(fn) [LIBC_##fn] = #fn,
    static const char *const names[LIBC_COUNT] = {LIBC_FUNCTIONS(NAME)};
    static _Atomic(void *) found[LIBC_COUNT];
    if (atomic_load(&found[function]) == NULL)
        atomic_store(&found[function], shim_real_dlsym(RTLD_NEXT, names[function]));
    return atomic_load(&found[function]);
}

void
execs_begin(void)
{
    if (!shim_in_job() || shim_number_from(DDPRUN_ENV_PROTOCOL) != DDPRUN_PROTOCOL_VERSION)
        return;
    (void)shim_map_status();
    for (int i = 0; i < LIBC_COUNT; ++i)
        (void)libc_next((enum libc_function)i);
}

#define SHOWN __attribute__((visibility("default"))) int

/* Where the program was started, `next` returns 0, or not at all. */
#define HOOK(fn, parameters, noted, next, arguments)      \
    SHOWN fn parameters                                   \
    {                                                     \
        struct rank_status *status = noted;               \
        int result = next arguments;                      \
        if (status != NULL && result != 0)                \
            atomic_fetch_sub(&status->missed_preload, 1); \
        return result;                                    \
    }

HOOK(execve, (const char *path, char *const words[], char *const environment[]), note(AT_FDCWD, path, environment),
     NEXT(execve), (path, words, environment))
HOOK(execvpe, (const char *file, char *const words[], char *const environment[]), note_found(file, environment),
     NEXT(execvpe), (file, words, environment))
HOOK(fexecve, (int fd, char *const words[], char *const environment[]), note(fd, "", environment), NEXT(fexecve),
     (fd, words, environment))
/* Newer than the glibc that the shim asks for, and no more than this there. */
HOOK(execveat, (int folder, const char *path, char *const words[], char *const environment[], int flags),
     note(folder, path, environment), (int)syscall, (SYS_execveat, folder, path, words, environment, flags))
#define SPAWN(fn, noted)                                                                        \
    HOOK(fn,                                                                                    \
         (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,             \
          const posix_spawnattr_t *attributes, char *const words[], char *const environment[]), \
         noted, NEXT(fn), (pid, path, actions, attributes, words, environment))
SPAWN(posix_spawn, note(AT_FDCWD, path, environment))
SPAWN(posix_spawnp, note_found(path, environment))
HOOK(execv, (const char *path, char *const words[]), NULL, execve, (path, words, environ))
HOOK(execvp, (const char *file, char *const words[]), NULL, execvpe, (file, words, environ))

#define HOOK_LIST(fn, next, environment)                                                \
    SHOWN fn(const char *path, const char *first, ...)                                  \
    {                                                                                   \
        va_list list;                                                                   \
        int count = 1;                                                                  \
        va_start(list, first);                                                          \
        for (const char *word = first; word != NULL; word = va_arg(list, const char *)) \
            ++count;                                                                    \
        va_end(list);                                                                   \
        char **words = __builtin_alloca((size_t)count * sizeof(*words));                \
        words[0] = (char *)first;                                                       \
        va_start(list, first);                                                          \
        for (int i = 1; i < count; ++i)                                                 \
            words[i] = va_arg(list, char *);                                            \
        int result = next(path, words, environment);                                    \
        va_end(list);                                                                   \
        return result;                                                                  \
    }
HOOK_LIST(execl, execve, environ)
HOOK_LIST(execlp, execvpe, environ)
HOOK_LIST(execle, execve, va_arg(list, char *const *))
