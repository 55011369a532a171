/*
 * cache.c - results of compilations, kept by content in a folder that all programs of a user share.
 *
 * An entry is a file named after a hash of the request, with the request itself in it: the source, the headers by name,
 * options, name expressions, the compilers, and what of the environment they read. Headers that were found in -I
 * folders stand in it with a hash of what they had; an entry of which one has changed is made anew. Entries are written
 * beside and renamed. The lock is on one byte of one file, a byte for each request: it ends with the process that holds
 * it, and compiles wait only for the same compile. Once the folder holds more than SOFTGPU_NVRTC_CACHE_MB, the entries
 * that were asked for longest ago go.
 *
 * Nothing here is an error to the user: without a folder, programs are compiled each time.
 */
#include "program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGIN      "softgpu-nvrtc 1\n"
#define ENTRY_NAME "%016" PRIx64 ".module"
#define LOCK_FILE  "lock"

/* ---- hashes: FNV-1a of 64 bits. The request is compared too, so that a collision is no hit ---- */

#define HASH_BEGIN 0xcbf29ce484222325u

static uint64_t
hash_more(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; ++i)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

/* False: it cannot be read. */
static bool
hash_file(const char *path, uint64_t *hash_p)
{
    struct buffer text = {NULL, 0, 0, false};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const bool ok = file >= 0 && buffer_add_file(&text, file);
    *hash_p = ok ? hash_more(HASH_BEGIN, text.data, text.length) : 0;
    if (file >= 0)
        close(file);
    buffer_free(&text);
    return ok;
}

/* ---- the request as bytes: parts with their lengths ---- */

static void
add_part(struct buffer *key, const char *name, const void *bytes, size_t length)
{
    buffer_add_format(key, "%s %zu\n", name, length);
    buffer_add(key, bytes, length);
    buffer_add_string(key, "\n");
}

static void
add_text(struct buffer *key, const char *name, const char *text)
{
    add_part(key, name, text, strlen(text));
}

/* A program or a header of the stand-in: its size and its last change. */
static void
add_file_identity(struct buffer *key, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return;
    buffer_add_format(key, "file %s %lld %lld.%09ld\n", path, (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                      info.st_mtim.tv_nsec);
}

/* The compilers, and the headers that the stand-in gives to each source. */
static bool
add_compilers(struct buffer *key)
{
    static const char *const headers[] = {
        "softgpu_prelude.h",       "softgpu/launch.h",  "softgpu/run_kernel.h", "softgpu/kernel_image.h",
        "softgpu/module_kernel.h", "softgpu/shared.h",  "softgpu/symbol.h",     "softgpu/object.h",
        "softgpu/thread.h",        "softgpu/atomic.h",  "softgpu/intrinsics.h", "softgpu/warp.h",
        "softgpu/cast.h",          "softgpu/removed.h", "cooperative_groups.h",
    };
    char *compiler = compile_find_compiler();
    if (compiler == NULL)
        return false;
    add_file_identity(key, compiler);
    const size_t folder_length = (size_t)(strrchr(compiler, '/') - compiler);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); ++i) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%.*s/../lib/softgpu/include/%s", (int)folder_length, compiler, headers[i]);
        add_file_identity(key, path);
    }
    free(compiler);
    const char *chosen = getenv("NVCC_CCBIN");
    char *host = compile_find_program(chosen != NULL && *chosen != '\0' ? chosen : "g++");
    if (host != NULL)
        add_file_identity(key, host);
    free(host);
    return true;
}

/* Where the source, or a header, may include a file of the folder that the process is in. */
static void
add_own_folder(struct buffer *key, const struct _nvrtcProgram *program)
{
    char folder[PATH_MAX];
    bool includes = strstr(program->source, "include") != NULL;
    for (size_t i = 0; i < program->headers.count; ++i)
        includes = includes || strstr(program->headers.items[i], "include") != NULL;
    if (includes && getcwd(folder, sizeof(folder)) != NULL)
        add_text(key, "folder", folder);
}

static bool
write_key(struct buffer *key, const struct _nvrtcProgram *program, const struct request *request)
{
    static const char *const variables[] = {"CUDA_HOME", "CPATH", "CPLUS_INCLUDE_PATH", "SOFTGPU_RACES"};
    if (!add_compilers(key))
        return false;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); ++i) {
        const char *value = getenv(variables[i]);
        if (value != NULL)
            add_text(key, variables[i], value);
    }
    add_text(key, "name", program->name);
    add_text(key, "source", program->source);
    for (size_t i = 0; i < program->headers.count; ++i) {
        add_text(key, "header", program->header_names.items[i]);
        add_text(key, "text", program->headers.items[i]);
    }
    for (size_t i = 0; i < program->expressions.count; ++i)
        add_text(key, "expression", program->expressions.items[i]);
    for (size_t i = 0; i < request->arguments.count; ++i)
        add_text(key, "option", request->arguments.items[i]);
    add_part(key, "macros", request->macros.data, request->macros.length);
    buffer_add_string(key, request->has_own_folder ? "own folder\n" : "");
    add_own_folder(key, program);
    return !key->failed;
}

/* ---- the folder ---- */

static bool
make_folder(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return false;
    for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(copy, 0700); /* if it is there, or cannot be made, the last call tells */
        *slash = '/';
    }
    free(copy);
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* What SOFTGPU_NVRTC_CACHE says, or the user's folder for such things; NULL: nothing is kept. */
static char *
find_folder(void)
{
    const char *chosen = getenv("SOFTGPU_NVRTC_CACHE"), *user = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int length = -1;
    if (chosen != NULL && strcmp(chosen, "0") == 0)
        return NULL;
    if (chosen != NULL && *chosen != '\0')
        length = asprintf(&path, "%s", chosen);
    else if (user != NULL && *user == '/')
        length = asprintf(&path, "%s/softgpu/nvrtc", user);
    else if (home != NULL && *home == '/')
        length = asprintf(&path, "%s/.cache/softgpu/nvrtc", home);
    if (length < 0)
        return NULL;
    if (!make_folder(path)) {
        free(path);
        return NULL;
    }
    return path;
}

static int
take_lock(const char *folder, uint64_t hash)
{
    char path[PATH_MAX];
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(hash >> 2), .l_len = 1};
    snprintf(path, sizeof(path), "%s/" LOCK_FILE, folder);
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (file >= 0 && fcntl(file, F_OFD_SETLKW, &byte) != 0 && errno == EINTR)
        continue; /* a file system without locks: two may compile the same */
    return file;
}

/* ---- entries ---- */

/* Takes the next part off: its name of a given kind, and its bytes. False: there is none such here. */
static bool
take_part(const char **at_p, const char *end, const char *name, const char **bytes_p, size_t *length_p)
{
    const char *at = *at_p;
    const size_t name_length = strlen(name);
    char *after;
    if ((size_t)(end - at) < name_length + 2 || memcmp(at, name, name_length) != 0 || at[name_length] != ' ')
        return false;
    const unsigned long long length = strtoull(at + name_length, &after, 10);
    if (*after != '\n' || length >= (size_t)(end - after) - 1)
        return false;
    *bytes_p = after + 1;
    *length_p = (size_t)length;
    *at_p = after + 1 + length + 1; /* and the end of the line */
    return true;
}

/* "HASH PATH": whether the file still has this content. */
static bool
is_unchanged(const char *part, size_t length)
{
    char path[PATH_MAX], *after;
    uint64_t hash;
    const uint64_t kept = strtoull(part, &after, 16);
    const size_t path_length = length - (size_t)(after - part) - 1;
    if (*after != ' ' || path_length >= sizeof(path))
        return false;
    memcpy(path, after + 1, path_length);
    path[path_length] = '\0';
    return hash_file(path, &hash) && hash == kept;
}

/* Whether the entry answers this request; then the program has what it holds. */
static bool
read_entry(const struct buffer *entry, const struct buffer *key, struct _nvrtcProgram *program)
{
    const char *at = entry->data + strlen(BEGIN), *end = entry->data + entry->length, *bytes;
    size_t length;
    if (entry->length < strlen(BEGIN) || memcmp(entry->data, BEGIN, strlen(BEGIN)) != 0)
        return false;
    if (!take_part(&at, end, "key", &bytes, &length) || length != key->length || memcmp(bytes, key->data, length) != 0)
        return false;
    while (take_part(&at, end, "depend", &bytes, &length)) {
        if (!is_unchanged(bytes, length))
            return false;
    }
    while (take_part(&at, end, "lowered", &bytes, &length))
        strings_add_format(&program->lowered, "%.*s", (int)length, bytes);
    if (take_part(&at, end, "log", &bytes, &length))
        buffer_add(&program->log, bytes, length);
    if (take_part(&at, end, "module", &bytes, &length))
        buffer_add(&program->module, bytes, length);
    const bool is_whole = program->module.length > 0 && program->lowered.count == program->expressions.count;
    if (is_whole && !program->module.failed && !program->log.failed && !program->lowered.failed)
        return true;
    buffer_free(&program->module);
    buffer_free(&program->log);
    strings_free(&program->lowered);
    return false;
}

static bool
open_entry(const struct cache *cache, struct _nvrtcProgram *program)
{
    struct buffer entry = {NULL, 0, 0, false};
    const int file = open(cache->path, O_RDONLY | O_CLOEXEC);
    const bool found = file >= 0 && buffer_add_file(&entry, file) && read_entry(&entry, &cache->key, program);
    if (found)
        futimens(file, NULL); /* asked for now */
    if (file >= 0)
        close(file);
    buffer_free(&entry);
    return found;
}

bool
cache_find(struct cache *cache, struct _nvrtcProgram *program, const struct request *request)
{
    *cache = (struct cache){.lock = -1};
    char *folder = request->uses_cache ? find_folder() : NULL;
    if (folder == NULL || !write_key(&cache->key, program, request)) {
        free(folder);
        return false;
    }
    const uint64_t hash = hash_more(HASH_BEGIN, cache->key.data, cache->key.length);
    if (asprintf(&cache->path, "%s/" ENTRY_NAME, folder, hash) < 0)
        cache->path = NULL;
    bool found = cache->path != NULL && open_entry(cache, program);
    if (!found && cache->path != NULL) {
        cache->lock = take_lock(folder, hash);
        found = open_entry(cache, program); /* another process has compiled it in the meantime */
    }
    free(folder);
    if (found)
        cache_close(cache);
    return found;
}

void
cache_close(struct cache *cache)
{
    if (cache->lock >= 0)
        close(cache->lock);
    buffer_free(&cache->key);
    free(cache->path);
    *cache = (struct cache){.lock = -1};
}

/* ---- keeping ---- */

/* Headers of the host compiler, and of softgpu-cc, which the request names already. */
static bool
is_of_compiler(const char *path)
{
    static const char *const folders[] = {"/usr/include/", "/usr/lib/", "/lib/softgpu/include/"};
    bool is = false;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); ++i)
        is = is || strstr(path, folders[i]) != NULL;
    return is;
}

/* The files of a make rule, "target: a.cu dir/b.h \", but for those of the private folder, which is gone. */
static bool
add_depends(struct buffer *entry, const char *rule)
{
    const char *at = strchr(rule, ':');
    while (at != NULL && *at != '\0') {
        at += strspn(at, ": \t\n\\");
        struct buffer path = {NULL, 0, 0, false};
        buffer_add_string(&path, "");
        for (; *at != '\0' && *at != ' ' && *at != '\n'; ++at) {
            if (*at == '\\' && at[1] == '\n')
                break;
            if (*at == '\\' && at[1] == ' ') /* a blank of the name */
                ++at;
            buffer_add(&path, at, 1);
        }
        uint64_t hash;
        const bool is_there = path.length > 0 && !is_of_compiler(path.data) && access(path.data, F_OK) == 0;
        const bool ok = !path.failed && (!is_there || hash_file(path.data, &hash));
        if (ok && is_there) {
            struct buffer part = {NULL, 0, 0, false};
            buffer_add_format(&part, "%016" PRIx64 " %s", hash, path.data);
            add_part(entry, "depend", part.data, part.length);
            buffer_free(&part);
        }
        buffer_free(&path);
        if (!ok)
            return false;
    }
    return !entry->failed;
}

static bool
write_entry(const char *path, const struct buffer *entry)
{
    char *beside = NULL;
    if (asprintf(&beside, "%s.XXXXXX", path) < 0)
        return false;
    const int file = mkostemp(beside, O_CLOEXEC);
    bool ok = file >= 0;
    for (size_t done = 0; ok && done < entry->length;) {
        const ssize_t wrote = write(file, entry->data + done, entry->length - done);
        ok = wrote > 0 || (wrote < 0 && errno == EINTR);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (file >= 0)
        ok = close(file) == 0 && ok;
    ok = ok && rename(beside, path) == 0;
    if (file >= 0 && !ok)
        unlink(beside);
    free(beside);
    return ok;
}

/* ---- the bound ---- */

struct kept {
    char name[64];
    off_t bytes;
    struct timespec used;
};

static int
by_use(const void *a, const void *b)
{
    const struct timespec x = ((const struct kept *)a)->used, y = ((const struct kept *)b)->used;
    if (x.tv_sec != y.tv_sec)
        return x.tv_sec < y.tv_sec ? -1 : 1;
    if (x.tv_nsec != y.tv_nsec)
        return x.tv_nsec < y.tv_nsec ? -1 : 1;
    return 0;
}

static off_t
bound(void)
{
    enum { DEFAULT_MB = 256 };
    const char *text = getenv("SOFTGPU_NVRTC_CACHE_MB");
    char *end;
    const long long chosen = text != NULL ? strtoll(text, &end, 10) : 0;
    const bool is_number = text != NULL && *text != '\0' && *end == '\0' && chosen > 0 && chosen < (1 << 30);
    return (off_t)(is_number ? chosen : DEFAULT_MB) << 20;
}

/* Every file of the folder but the lock; also what a process that died has left half written. */
static size_t
list_kept(DIR *folder, struct kept **kept_p, off_t *total_p)
{
    struct kept *kept = NULL;
    size_t count = 0, room = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct stat info;
        if (strstr(entry->d_name, ".module") == NULL || strlen(entry->d_name) >= sizeof(kept->name) ||
            fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (count == room) {
            room = 2 * room + 64;
            struct kept *grown = realloc(kept, room * sizeof(*grown));
            if (grown == NULL)
                break;
            kept = grown;
        }
        struct kept *const next = &kept[count++];
        memcpy(next->name, entry->d_name, strlen(entry->d_name) + 1);
        next->bytes = info.st_size;
        next->used = info.st_mtim;
        *total_p += info.st_size;
    }
    *kept_p = kept;
    return count;
}

static void
hold_bound(const char *path)
{
    char folder_path[PATH_MAX];
    struct kept *kept = NULL;
    off_t total = 0;
    snprintf(folder_path, sizeof(folder_path), "%.*s", (int)(strrchr(path, '/') - path), path);
    DIR *folder = opendir(folder_path);
    if (folder == NULL)
        return;
    const size_t count = list_kept(folder, &kept, &total);
    if (total > bound()) {
        qsort(kept, count, sizeof(*kept), by_use);
        for (size_t i = 0; i < count && total > bound(); ++i) {
            unlinkat(dirfd(folder), kept[i].name, 0);
            total -= kept[i].bytes;
        }
    }
    free(kept);
    closedir(folder);
}

void
cache_keep(struct cache *cache, const struct _nvrtcProgram *program, const char *depends)
{
    struct buffer entry = {NULL, 0, 0, false};
    if (cache->path != NULL) {
        buffer_add_string(&entry, BEGIN);
        add_part(&entry, "key", cache->key.data, cache->key.length);
        const bool ok = add_depends(&entry, depends);
        for (size_t i = 0; i < program->lowered.count; ++i)
            add_text(&entry, "lowered", program->lowered.items[i]);
        add_part(&entry, "log", program->log.data, program->log.length);
        add_part(&entry, "module", program->module.data, program->module.length);
        if (ok && !entry.failed && write_entry(cache->path, &entry))
            hold_bound(cache->path);
    }
    buffer_free(&entry);
    cache_close(cache);
}
