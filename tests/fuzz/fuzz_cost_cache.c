/*
 * fuzz_cost_cache.c - target: the file in which the cost of an all-reduce is kept from run to run.
 *
 * Required: what is read is a cost that plans can be made with, or nothing was read.
 */
#include "tests/fuzz/fuzz.h"

#include "interpose/engine/measure/measure.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct engine_state engine_state; /* of which the cache only asks whether it is wanted */

static const char key[] = "fuzz";

/* The cache's own name for the file, found by having it write one. */
static const char *
cache_file(void)
{
    static char path[512];
    if (path[0] != '\0')
        return path;
    engine_state.options.cost_cache = true;
    const struct cost_kept kept = {{{1000, 1000}, {2000, 2000}}, 2};
    cost_cache_write(key, &kept);
    char folder[256];
    snprintf(folder, sizeof(folder), "%s/ddprun", fuzz_folder());
    DIR *entries = opendir(folder);
    fuzz_require(entries != NULL, "the cache has a folder");
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    }
    closedir(entries);
    struct cost_kept read;
    cost_cache_read(key, &read);
    fuzz_require(read.count == 2 && read.samples[1].ns == 2000, "what is written is read");
    return path;
}

/* The last line, in place of "end", with the hash of all before it: FNV-1a. */
static size_t
print_end(char *end, size_t room, const uint8_t *bytes, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; ++i)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    return (size_t)snprintf(end, room, "end %016" PRIx64 "\n", hash);
}

/* What is read is of use, or nothing was read. */
void
fuzz_cost_cache(const uint8_t *bytes, size_t count)
{
    int fd = open(cache_file(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_require(fd >= 0 && write(fd, bytes, count) == (ssize_t)count, "the file can be written");
    if (count >= 4 && memcmp(bytes + count - 4, "end\n", 4) == 0) {
        char end[32];
        size_t length = print_end(end, sizeof(end), bytes, count - 4);
        fuzz_require(pwrite(fd, end, length, (off_t)count - 4) == (ssize_t)length, "the file can be written");
    }
    close(fd);
    struct cost_kept read;
    struct cost cost;
    cost_cache_read(key, &read);
    fuzz_require(read.count <= COST_SAMPLES_AT_MOST, "there is room for all samples");
    if (read.count == 0)
        return;
    fuzz_require(cost_fit(read.samples, read.count, &cost), "samples fit a cost");
    int64_t before = 0;
    for (uint64_t size = 1; size < (uint64_t)1 << 50; size *= 4) {
        int64_t now = cost_fs(&cost, size);
        fuzz_require(now >= before && now <= COST_MOST_FS, "more bytes never cost less, nor too much");
        before = now;
    }
}
