/* cache.c - see auto.h. */

#include "tools/plan/command/auto.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/output/whole_file.h"
#include "tools/common/owned.h"
#include "tools/plan/format/play_json.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#define CACHE_VERSION "5 " DDPRUN_VERSION

enum { STAMP_BYTES = 64, KEPT = 256 /* plans of all programs */ };

/* ---- what a file is ---- */

/* Size and date; "": it is not there, or no file that has a size. */
static void
stamp_of(const char *path, char stamp[STAMP_BYTES])
{
    struct stat file;
    stamp[0] = '\0';
    if (stat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0)
        snprintf(stamp, STAMP_BYTES, "%ld bytes, %ld.%09ld", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

/* ---- the folder ---- */

static bool
is_own(const struct stat *file)
{
    return file->st_uid == geteuid() && (file->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The error for a folder or file of the cache that others could have written. Returns false. */
static bool
refuse_foreign(const char *path, struct error *error)
{
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "%s, for plans of --plan auto, belongs to another user, is a link, or others may write to it; "
                     "remove it, or name another folder by XDG_CACHE_HOME",
                     path);
}

/* Makes a folder of the cache, or checks that it is the user's own. False, with the error: it is not. */
static bool
check_folder(const char *path, struct error *error)
{
    struct stat folder;
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) || lstat(path, &folder) != 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "cannot make the folder %s, for plans of --plan auto: %s; name another by XDG_CACHE_HOME",
                         path, strerror(errno));
    return (S_ISDIR(folder.st_mode) && is_own(&folder)) || refuse_foreign(path, error);
}

/* Finds the folder of the cache, and makes it. A relative XDG_CACHE_HOME is to be ignored (XDG Base Directory
 * Specification). False, with the error: it cannot be used. */
static bool
open_folder(char **folder, struct error *error)
{
    const char *given = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool is_given = given != NULL && given[0] == '/';
    if (!is_given && (home == NULL || home[0] != '/'))
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "there is no folder to keep plans of --plan auto in; set HOME or XDG_CACHE_HOME");
    OWNED char *caches = xasprintf("%s%s", is_given ? given : home, is_given ? "" : "/.cache");
    OWNED char *own = xasprintf("%s/ddprun", caches);
    (void)mkdir(caches, 0700);
    *folder = xasprintf("%s/plans", own);
    return check_folder(own, error) && check_folder(*folder, error);
}

/* Of what a plan is: the program, its arguments, and where and how it runs. */
static struct json_object *
subject_of(const char *program, char *const *arguments, const char *folder, bool softgpu, const char *conditions)
{
    struct json_object *subject = json_object_new_object(), *list = json_object_new_array();
    OWNED char *real = realpath(program, NULL);
    play_put_text(subject, "version", CACHE_VERSION);
    play_put_text(subject, "program", real != NULL ? real : program);
    play_put_text(subject, "folder", folder);
    play_put_text(subject, "device", softgpu ? "softgpu" : "gpu");
    play_put_text(subject, "conditions", conditions);
    json_object_object_add(subject, "arguments", list);
    for (size_t i = 1; arguments[0] != NULL && arguments[i] != NULL; ++i)
        json_object_array_add(list, json_object_new_string(arguments[i]));
    return subject;
}

bool
plan_cache_open(const char *program, char *const *arguments, const char *folder, bool softgpu, const char *conditions,
                struct plan_cache *cache, struct error *error)
{
    *cache = (struct plan_cache){.subject = subject_of(program, arguments, folder, softgpu, conditions)};
    OWNED char *plans = NULL;
    if (!open_folder(&plans, error))
        return false;
    const char *text = json_object_to_json_string(cache->subject);
    cache->path = xasprintf("%s/%016" PRIx64 ".json", plans, XXH3_64bits(text, strlen(text)));
    return true;
}

/* ---- reading ---- */

/* Whether all files of a list are what they were. */
static bool
are_same(struct json_object *list)
{
    bool same = json_object_is_type(list, json_type_array);
    for (size_t i = 0; same && i < json_object_array_length(list); ++i) {
        struct json_object *item = json_object_array_get_idx(list, i);
        char now[STAMP_BYTES];
        stamp_of(play_text(item, "path"), now);
        same = strcmp(now, play_text(item, "is")) == 0;
    }
    return same;
}

/* Whether a plan of the cache can be read, and is as it was written. */
static bool
is_whole(struct json_object *plan)
{
    struct play play;
    char why[PLAY_WHY_BYTES];
    bool ok = play_json_read(json_object_object_get(plan, "turns"), &play, why) && play_json_damage(plan) == NULL;
    play_free(&play);
    return ok;
}

/* Removes a kept plan that cannot be used, and says why; *plan becomes NULL. */
static void
remove_plan(const char *path, const char *what, struct json_object **plan)
{
    message_line("the kept plan %s is %s; it is removed", path, what);
    json_object_put(*plan);
    *plan = NULL;
    unlink(path);
}

/* Reads the kept plan into *plan; NULL: there is none, or it is damaged and was removed. False, with the error: it
 * must not be used. */
static bool
read_plan(const char *path, struct json_object **plan, struct error *error)
{
    struct stat file;
    *plan = NULL;
    OWNED char *text = file_read(path, PLAN_MOST_BYTES, NULL, &file);
    if (text == NULL && errno == ENOENT)
        return true;
    bool own = text != NULL ? is_own(&file) : errno == EFBIG;
    *plan = own && text != NULL ? json_tokener_parse(text) : NULL;
    if (!own)
        return refuse_foreign(path, error);
    if (*plan == NULL || !is_whole(*plan))
        remove_plan(path, "damaged", plan);
    return true;
}

bool
plan_cache_find(const struct plan_cache *cache, struct json_object **plan, struct error *error)
{
    if (!read_plan(cache->path, plan, error))
        return false;
    struct json_object *cached = json_object_object_get(*plan, "cache");
    if (*plan != NULL && !(json_object_equal(json_object_object_get(cached, "subject"), cache->subject) &&
                           are_same(json_object_object_get(cached, "files"))))
        remove_plan(cache->path, "outdated: the program, a file that it reads, or ddprun has changed", plan);
    return true;
}

/* ---- writing ---- */

/* What the plan is of: the objects of the program as the recording has seen them, and the files that it reads. */
static void
put_known(struct json_object *cached, struct json_object *plan)
{
    struct json_object *lists[] = {json_object_object_get(json_object_object_get(plan, "program"), "objects"),
                                   json_object_object_get(plan, "files")},
                       *to = play_put_list(cached, "files");
    for (size_t l = 0; l < 2; ++l) {
        for (size_t i = 0; i < play_length(lists[l]); ++i) {
            struct json_object *file = json_object_array_get_idx(lists[l], i), *item;
            const char *path = play_text(file, "path");
            char is[STAMP_BYTES];
            stamp_of(path, is);
            if (json_object_get_boolean(json_object_object_get(file, "writes")) || is[0] == '\0')
                continue;
            item = play_put_item(to);
            play_put_text(item, "path", path);
            play_put_text(item, "is", is);
        }
    }
}

/* Of more than KEPT plans the oldest. */
static void
remove_oldest(const struct plan_cache *cache)
{
    OWNED char *plans = xasprintf("%.*s", (int)(strrchr(cache->path, '/') - cache->path), cache->path);
    DIR *folder = opendir(plans);
    const struct dirent *found;
    struct stat file;
    char oldest[NAME_MAX + 1] = "";
    time_t made = 0;
    size_t count = 0;
    if (folder == NULL)
        return;
    while ((found = readdir(folder)) != NULL) {
        const char *end = strrchr(found->d_name, '.');
        if (end == NULL || strcmp(end, ".json") != 0 ||
            fstatat(dirfd(folder), found->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (count++ == 0 || file.st_mtim.tv_sec < made) {
            made = file.st_mtim.tv_sec;
            snprintf(oldest, sizeof(oldest), "%s", found->d_name);
        }
    }
    if (count > KEPT)
        (void)unlinkat(dirfd(folder), oldest, 0);
    closedir(folder);
}

bool
plan_cache_keep(const struct plan_cache *cache, struct json_object *plan, struct error *error)
{
    struct json_object *cached = json_object_new_object();
    json_object_object_add(cached, "subject", json_object_get(cache->subject));
    put_known(cached, plan);
    json_object_object_add(plan, "cache", cached);
    mode_t mask = umask(077);
    const char *text = json_object_to_json_string_ext(plan, JSON_C_TO_STRING_PLAIN);
    bool ok = whole_file_write(cache->path, text, strlen(text));
    int cause = errno;
    umask(mask);
    if (!ok)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "cannot write the plan %s: %s; make room there, or name another folder by XDG_CACHE_HOME",
                         cache->path, file_why(cause));
    remove_oldest(cache);
    return true;
}

void
plan_cache_close(struct plan_cache *cache)
{
    free(cache->path);
    json_object_put(cache->subject);
}
