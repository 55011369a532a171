/*
 * copies.c - what the program brings from the host to the device in each step, by the call that does it
 * (call_site.c): the reference keeps hashes (struct check_copies), and other runs compare theirs.
 *
 * Memory that kernels read from the host by themselves is not seen. Copies come in any thread; boundaries in one. The
 * lock is held across no call of the driver.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"

#include <xxhash.h>

enum { SITES_AT_MOST = 64, ASKED_AT_MOST = 4096 };

static struct check_copies sites[SITES_AT_MOST]; /* [site_count]: of this step so far */
static size_t site_count;
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether four bytes may be a float: of whole numbers below 2^23 none is but a subnormal one. */
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

/* What this step has copied by the call site `id`, which is added, with a row of its place; NULL: there is no room. */
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

const void *
copies_host_source(const struct operation *operation, size_t *bytes_p)
{
    *bytes_p = operation->host_bytes;
    bool is_known =
        operation->host_source != NULL || operation->operand_count != 2 || operation->operands[1].argument != 1;
    bool is_plain = strncmp(operation->name, "cuMemcpy", 8) == 0 &&
                    (operation->name[8] == '\0' || operation->name[8] == '_' || operation->name[8] == 'A');
    if (is_known || !is_plain || device_ask_about(operation->operands[0].address).type != CU_MEMORYTYPE_DEVICE ||
        device_ask_about(operation->operands[1].address).type == CU_MEMORYTYPE_DEVICE)
        return operation->host_source;
    *bytes_p = operation->operands[1].bytes;
    return (const void *)(uintptr_t)operation->operands[1].address;
}
