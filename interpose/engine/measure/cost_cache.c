/*
 * cost_cache.c - what an all-reduce costs, kept from run to run: one small file for each machine and world in
 * ${XDG_CACHE_HOME:-~/.cache}/ddprun.
 *
 * A file is written beside its place and renamed, so that readers see all of it or nothing. It is believed only if it
 * is whole, of this version and for the same key; anything else counts as not there. --no-cost-cache turns all of it
 * off. Nothing here ever fails the job.
 */
#include "interpose/engine/measure/measure.h"

#include "base/message.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <json-c/json.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CACHE_VERSION = 1, FILE_BYTES_AT_MOST = 16384 };

/* The folder, made if need be, private to the user; false if there can be none. */
static bool
cache_folder(char *path, size_t bytes)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int wanted = 0;
    if (base != NULL && base[0] == '/') /* a relative path is to be ignored (XDG Base Directory Specification) */
        wanted = snprintf(path, bytes, "%s", base);
    else if (home != NULL && home[0] == '/')
        wanted = snprintf(path, bytes, "%s/.cache", home);
    if (wanted <= 0 || (size_t)wanted + sizeof("/ddprun") > bytes)
        return false;
    (void)mkdir(path, 0700);
    memcpy(path + wanted, "/ddprun", sizeof("/ddprun"));
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool
cache_path(const char *key, char *path, size_t bytes)
{
    char folder[PATH_MAX - 64];
    if (!engine_state.options.cost_cache || !cache_folder(folder, sizeof(folder)))
        return false;
    snprintf(path, bytes, "%s/all-reduce-%016llx.json", folder, (unsigned long long)XXH3_64bits(key, strlen(key)));
    return true;
}

/* The file's text, or NULL; NULL without errno when it is too long to be a cache of costs. */
static char *
read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    char *text = calloc(1, FILE_BYTES_AT_MOST + 1);
    size_t length = text != NULL ? fread(text, 1, FILE_BYTES_AT_MOST, file) : 0;
    if (length == FILE_BYTES_AT_MOST)
        text[0] = '\0';
    fclose(file);
    return text;
}

/* One number of a pair. */
static bool
number_at(const json_object *pair, size_t at, int64_t *number_p)
{
    json_object *value = json_object_array_get_idx(pair, at);
    if (!json_object_is_type(value, json_type_int))
        return false;
    *number_p = json_object_get_int64(value);
    return *number_p > 0;
}

static size_t
take_samples(const json_object *list, struct cost_sample *samples)
{
    struct cost ignored;
    size_t count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (count == 0 || count > COST_SAMPLES_AT_MOST)
        return 0;
    for (size_t i = 0; i < count; ++i) {
        json_object *pair = json_object_array_get_idx(list, i);
        int64_t bytes, ns;
        if (!json_object_is_type(pair, json_type_array) || json_object_array_length(pair) != 2 ||
            !number_at(pair, 0, &bytes) || !number_at(pair, 1, &ns))
            return 0;
        samples[i] = (struct cost_sample){(uint64_t)bytes, ns};
    }
    return cost_fit(samples, count, &ignored) ? count : 0;
}

/* How many samples a text holds for the key; 0 if it is not sound. */
static size_t
parse(const char *text, const char *key, struct cost_sample *samples)
{
    json_object *root = json_tokener_parse(text), *version, *of, *list;
    size_t count = 0;
    if (json_object_is_type(root, json_type_object) && json_object_object_get_ex(root, "version", &version) &&
        json_object_object_get_ex(root, "key", &of) && json_object_object_get_ex(root, "samples", &list) &&
        json_object_is_type(version, json_type_int) && json_object_get_int(version) == CACHE_VERSION &&
        json_object_is_type(of, json_type_string) && strcmp(json_object_get_string(of), key) == 0)
        count = take_samples(list, samples);
    json_object_put(root);
    return count;
}

size_t
cost_cache_read(const char *key, struct cost_sample *samples)
{
    char path[PATH_MAX];
    struct cost_sample read[COST_SAMPLES_AT_MOST];
    if (!cache_path(key, path, sizeof(path)))
        return 0;
    char *text = read_file(path);
    if (text == NULL)
        return 0;
    size_t count = parse(text, key, read);
    free(text);
    if (count == 0)
        message_line("%s is not a measurement of this machine and this version: ignored, and measured again", path);
    memcpy(samples, read, count * sizeof(*samples));
    return count;
}

static json_object *
file_object(const char *key, const struct cost_sample *samples, size_t count)
{
    json_object *root = json_object_new_object(), *list = json_object_new_array();
    for (size_t i = 0; i < count; ++i) {
        json_object *pair = json_object_new_array();
        json_object_array_add(pair, json_object_new_int64((int64_t)samples[i].bytes));
        json_object_array_add(pair, json_object_new_int64(samples[i].ns));
        json_object_array_add(list, pair);
    }
    json_object_object_add(root, "version", json_object_new_int(CACHE_VERSION));
    json_object_object_add(root, "key", json_object_new_string(key));
    json_object_object_add(root, "samples", list); /* [bytes, nanoseconds] */
    return root;
}

void
cost_cache_write(const char *key, const struct cost_sample *samples, size_t count)
{
    char path[PATH_MAX], beside[PATH_MAX + 32];
    if (!cache_path(key, path, sizeof(path)))
        return;
    snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
    json_object *root = file_object(key, samples, count);
    FILE *file = fopen(beside, "wxe");
    bool written = file != NULL && fprintf(file, "%s\n", json_object_to_json_string_ext(root, 0)) > 0;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    if (!written || rename(beside, path) != 0) {
        message_line("cannot keep what an all-reduce costs in %s: %s; it is measured in each run", path,
                     strerror(errno));
        (void)unlink(beside);
    }
    json_object_put(root);
}
