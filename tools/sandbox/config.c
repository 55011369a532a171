/*
 * config.c - what the environment asks for, read once: by the first hook, which may be before the constructor has run,
 * for another preloaded library's.
 */
#include "base/protocol.h"
#include "tools/sandbox/overlay.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EXCEPT_MAX = 128, EXCEPT_BYTES = 40960, OTHERS_BYTES = 32768 };
enum { UNDECIDED, DECIDING, DECIDED };

static _Atomic int state = UNDECIDED;

/* Written while state is DECIDING. */
static struct files_config config;
static bool redirects, notes, has_date;
static struct files_date date;
static char others[OTHERS_BYTES];

/* Of others_keep(). */
static __thread const struct files_config *stands_for __attribute__((tls_model("initial-exec")));

/* Prefixes of paths. */
static struct {
    unsigned count;
    size_t used;
    const char *prefix[EXCEPT_MAX];
    bool is_pattern[EXCEPT_MAX]; /* the end is not the end of a name */
    char text[EXCEPT_BYTES];
} except;

/* ---- prefixes ---- */

bool
files_is_excepted(const char *path)
{
    if (files_is_magic(path) || files_below(path, config.dir) != NULL)
        return true;
    for (unsigned i = 0; i < except.count; ++i) {
        const char *prefix = except.prefix[i];
        if (except.is_pattern[i] ? strncmp(path, prefix, strlen(prefix)) == 0 : files_below(path, prefix) != NULL)
            return true;
    }
    return false;
}

/* `length` bytes of path, relative to the current folder if it is so, are a prefix from now on. */
static void
except_add(const char *path, size_t length, bool is_pattern)
{
    char absolute[PATH_MAX], canonical[PATH_MAX];
    size_t at = 0;
    if (length == 0 || except.count == EXCEPT_MAX)
        return;
    if (path[0] != '/') {
        long size = syscall(SYS_getcwd, absolute, sizeof(absolute) - 1);
        if (size <= 0)
            return;
        at = (size_t)size; /* with its end, which becomes the separator */
        absolute[at - 1] = '/';
    }
    if (at + length >= sizeof(absolute))
        return;
    *(char *)mempcpy(absolute + at, path, length) = '\0';
    if (!place_canonical(absolute, canonical))
        return;
    size_t size = strlen(canonical) + 1;
    if (size == 2 || size > sizeof(except.text) - except.used)
        return; /* all files: that would be no check */
    memcpy(except.text + except.used, canonical, size);
    except.is_pattern[except.count] = is_pattern;
    except.prefix[except.count++] = except.text + except.used;
    except.used += size;
}

static void
except_add_list(const char *list)
{
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":");
        if (*list == '/')
            except_add(list, length, false);
        list += length + (list[length] == ':');
    }
}

/* The cache of CUDA's compiler. */
static void
except_add_cuda(void)
{
    const char *cache = getenv("CUDA_CACHE_PATH"), *home = getenv("HOME");
    if (cache != NULL && *cache != '\0') {
        except_add(cache, strlen(cache), false);
    } else if (home != NULL && home[0] == '/') {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof(path), "%s/.nv", home);
        except_add(path, length < PATH_MAX ? (size_t)length : 0, false);
    }
}

/* The cache of the stand-in's NVRTC, where softgpu/nvrtc/cache.c has it. */
static void
except_add_softgpu(void)
{
    const char *chosen = getenv("SOFTGPU_NVRTC_CACHE"), *user = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];
    int length = 0;
    if (chosen != NULL && strcmp(chosen, "0") == 0)
        return;
    if (chosen != NULL && *chosen != '\0')
        length = snprintf(path, sizeof(path), "%s", chosen);
    else if (user != NULL && *user == '/')
        length = snprintf(path, sizeof(path), "%s/softgpu/nvrtc", user);
    else if (home != NULL && *home == '/')
        length = snprintf(path, sizeof(path), "%s/.cache/softgpu/nvrtc", home);
    except_add(path, length < PATH_MAX ? (size_t)length : 0, false);
}

/* A file of NCCL's; what follows a % differs from process to process. */
static void
except_add_nccl(const char *variable)
{
    const char *path = getenv(variable);
    if (path == NULL)
        return;
    size_t length = strcspn(path, "%");
    except_add(path, length, path[length] == '%');
}

/* ---- the environment ---- */

/* A decimal number at *text, which is moved after it. Not strtoll(), which is another function in newer glibcs. */
static int64_t
read_number(const char **text)
{
    int64_t number = 0;
    *text += strspn(*text, " ");
    bool is_negative = **text == '-';
    for (*text += is_negative; **text >= '0' && **text <= '9'; ++*text)
        number = 10 * number + (**text - '0');
    return is_negative ? -number : number;
}

static void
read_date(const char *text)
{
    has_date = text != NULL && *text != '\0';
    if (!has_date)
        return;
    const char *rank = getenv(DDPRUN_ENV_RANK);
    date.start_us = read_number(&text);
    date.ahead = read_number(&text) * (rank != NULL ? read_number(&rank) : 0);
    date.stands = read_number(&text) != 0;
}

/* `canonical` is shorter than a folder may be. */
static void
set_folders(struct files_config *set, const char *canonical)
{
    (void)stpcpy(set->dir, canonical);
    (void)stpcpy(stpcpy(set->written, canonical), "/" FILES_WRITTEN);
    (void)stpcpy(stpcpy(set->removed, canonical), "/" FILES_REMOVED);
    (void)stpcpy(stpcpy(set->copies, canonical), "/" FILES_COPIES);
    set->written_length = strlen(set->written);
}

/* Whether it is one that set_folders() can take. */
static bool
is_folder(const char *canonical)
{
    return strlen(canonical) + sizeof("/" FILES_WRITTEN) <= FILES_DIR_MAX;
}

static void
read_environment(void)
{
    const char *dir = getenv(FILES_ENV_DIR), *excepted = getenv(FILES_ENV_EXCEPT), *kept = getenv(FILES_ENV_OTHERS);
    char canonical[PATH_MAX];
    notes = getenv(FILES_ENV_NOTES) != NULL;
    if (dir == NULL || *dir == '\0')
        return;
    read_date(getenv(FILES_ENV_DATE));
    if (kept != NULL && strlen(kept) < sizeof(others))
        (void)stpcpy(others, kept);
    redirects = others[0] == '\0' && (excepted == NULL || strcmp(excepted, "/") != 0);
    /* A folder that cannot be one must not mean that the user's files are written: then every write fails. */
    if (*dir != '/' || !place_canonical(dir, canonical) || !is_folder(canonical))
        (void)stpcpy(canonical, "/proc/self/none");
    set_folders(&config, canonical);
    date.dir = config.dir;
    except_add_list(excepted);
    except_add_cuda();
    except_add_softgpu();
    except_add_nccl("NCCL_DEBUG_FILE");
    except_add_nccl("NCCL_GRAPH_DUMP_FILE");
    except_add_nccl("NCCL_TOPO_DUMP_FILE");
}

static bool
is_decided(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (now == DECIDED)
        return true;
    if (environ == NULL) /* it is too early */
        return false;
    int saved = errno;
    if (now == UNDECIDED && atomic_compare_exchange_strong(&state, &now, DECIDING)) {
        read_environment();
        atomic_store_explicit(&state, DECIDED, memory_order_release);
    }
    while (atomic_load_explicit(&state, memory_order_acquire) == DECIDING)
        sched_yield(); /* a few system calls of another thread, which waits for nothing */
    errno = saved;
    return true;
}

const struct files_config *
files_config(void)
{
    if (stands_for != NULL)
        return stands_for;
    return is_decided() && redirects ? &config : NULL;
}

bool
files_stand_for(const char *dir, struct files_config *stands)
{
    stands_for = NULL;
    if (dir == NULL)
        return true;
    if (!is_folder(dir))
        return false;
    set_folders(stands, dir);
    stands_for = stands;
    return true;
}

const char *
files_others(void)
{
    return is_decided() ? others : "";
}

bool
files_notes(void)
{
    return is_decided() && notes;
}

const struct files_date *
files_date(void)
{
    return is_decided() && has_date ? &date : NULL;
}
