/*
 * copies.c - what the program brings from the host to the device in each step, by the call that does it: the reference
 * keeps hashes (struct check_copies), and other runs compare theirs.
 *
 * Memory that kernels read from the host by themselves is not seen. Copies come in any thread; boundaries in one. The
 * lock is held across no call of the driver.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/record/frames.h"
#include "tools/record/inside.h"

#include <xxhash.h>

#include <execinfo.h>
#include <link.h>
#include <unistd.h>

/* ---- which call of the program's is this? The frames of the stack that are the program's: all, for a program may copy
 * everything through functions of functions. The innermost of them are named ---- */

enum { FRAMES_SEEN = 24, FRAMES_KEPT = 4, FRAMES_REMEMBERED = 256 };

/* An address behind a call, and the object that it lies in. dladdr() goes through symbols, so answers are kept. */
static struct frame {
    const void *address;
    const char *object; /* path; NULL: it is not the program's (tools/record/frames.h) */
    uint64_t offset;
} remembered[FRAMES_REMEMBERED]; /* guarded by frames_lock */

static pthread_mutex_t frames_lock = PTHREAD_MUTEX_INITIALIZER;
static char own_path[4096]; /* the same; the program's */

static struct frame
look_up(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    struct frame frame = {.address = address};
    if (dladdr1((const char *)address - 1, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return frame;
    frame.offset = (uintptr_t)address - map->l_addr;
    bool is_program = map->l_name[0] == '\0';
    if ((!is_program && frame_owner_of(map->l_name) != FRAME_PROGRAM) || cudart_holds(map, (const char *)address - 1))
        return frame;
    ssize_t length = own_path[0] == '\0' ? readlink("/proc/self/exe", own_path, sizeof(own_path) - 1) : 0;
    if (length > 0)
        own_path[length] = '\0';
    frame.object = is_program ? own_path : map->l_name;
    return frame;
}

static struct frame
find_frame(const void *address)
{
    struct frame *kept = &remembered[((uintptr_t)address >> 2) % FRAMES_REMEMBERED];
    HOLD(&frames_lock);
    if (kept->address != address)
        *kept = look_up(address);
    return *kept;
}

uint64_t
call_site_find(char *text, size_t bytes)
{
    void *stack[FRAMES_SEEN];
    int depth = backtrace(stack, FRAMES_SEEN), kept = 0;
    uint64_t site = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < depth; ++i) {
        struct frame frame = find_frame(stack[i]);
        if (frame.object == NULL)
            continue;
        const char *name = file_name_of(frame.object);
        site = XXH3_64bits_withSeed(name, strlen(name), site);
        site = XXH3_64bits_withSeed(&frame.offset, sizeof(frame.offset), site);
        if (kept++ >= FRAMES_KEPT)
            continue;
        int wanted = snprintf(text + used, bytes - used, "%s %llx\n", frame.object, (unsigned long long)frame.offset);
        if (wanted < 0 || (size_t)wanted >= bytes - used)
            text[used] = '\0'; /* whole lines only */
        else
            used += (size_t)wanted;
    }
    return site;
}

/* ---- what a call has copied ---- */

enum { SITES_AT_MOST = 64, ASKED_AT_MOST = 4096 };

static struct check_copies sites[SITES_AT_MOST]; /* [site_count]: of this step so far */
static size_t site_count;
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

/* Of whole numbers below 2^23 none is a float but a subnormal one. */
static bool
may_be_float(uint64_t half)
{
    int32_t number = (int32_t)(uint32_t)half;
    return number >= 1 << 23 || number <= -(1 << 23);
}

/* Hash of what may be floats, but for addresses of the driver's memory; 0: nothing may. */
static uint64_t
hash_values(const char *source, size_t bytes)
{
    uint64_t hash = 0;
    size_t from = 0;
    unsigned asked = 0;
    bool any = false;
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        bool is_whole = bytes - at >= sizeof(word);
        memcpy(&word, source + at, is_whole ? sizeof(word) : bytes - at);
        bool may_be_address = is_whole && word >> 32 != 0 && word >> 47 == 0 && asked < ASKED_AT_MOST;
        asked += may_be_address;
        if (may_be_address && device_ask_about(word).begin != 0) {
            hash = XXH3_64bits_withSeed(source + from, at - from, hash);
            from = at + sizeof(word);
        } else {
            any = any || may_be_float(word) || may_be_float(word >> 32);
        }
    }
    return any ? XXH3_64bits_withSeed(source + from, bytes - from, hash) : 0;
}

static struct check_copies *
find_site(uint64_t id, const char *place)
{
    struct check_copies *known = FIND(it, sites, site_count, it->site == id);
    if (known != NULL || site_count == SITES_AT_MOST)
        return known;
    struct check_row row = {.kind = CHECK_ROW_SITE, .value = id};
    snprintf(row.text, sizeof(row.text), "%s", place);
    values_row(&row);
    sites[site_count] = (struct check_copies){.site = id};
    return &sites[site_count++];
}

void
copies_seen(uint64_t id, const char *place, const void *source, size_t bytes, bool is_annotated)
{
    uint64_t values = is_annotated ? 0 : hash_values(source, bytes);
    HOLD(&copies_lock);
    struct check_copies *own = find_site(id, place);
    if (own == NULL)
        return;
    own->values = values != 0 ? XXH3_64bits_withSeed(&values, sizeof(values), own->values) : own->values;
    own->bytes += bytes;
}

/* One rank notes what it does not repeat. */
static void
compare_site(const struct check_copies *own, const struct reference_key *key)
{
    struct check_copies theirs;
    bool any = values_get(key, &theirs, sizeof(theirs)) && theirs.site == own->site;
    if (!any || (engine_state.rendezvous.world_size == 1 && own->values == theirs.values && own->bytes == theirs.bytes))
        return;
    values_row(&(struct check_row){.kind = CHECK_ROW_COPY, .step = key->step, .copy = {*own, theirs}});
}

void
copies_boundary(uint32_t step)
{
    HOLD(&copies_lock);
    FOR_EACH_MUTABLE(own, sites, site_count) {
        const struct reference_key key = {.kind = REFERENCE_COPIES, .step = step, .number = (uint32_t)own->site};
        if (own->bytes > 0 && values_writer() != NULL)
            values_put(&key, own, sizeof(*own));
        else if (own->bytes > 0 && values_reader() != NULL)
            compare_site(own, &key);
        *own = (struct check_copies){.site = own->site};
    }
}
