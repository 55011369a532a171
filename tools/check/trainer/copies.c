/*
 * copies.c - what the program brings from the host to the device in each step, by the call that does it, in pieces: the
 * reference keeps their hashes (tools/check/format/copies.h); a rank looks where its own pieces are among them.
 *
 * No content is kept but probes. Memory that kernels read from the host by themselves is not seen. Copies come in any
 * thread; boundaries in one. The lock is held while memory is hashed, and across no call of the driver.
 */
#include "tools/check/trainer/check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    PIECES = 64,
    PROBE_TRIES = 8,
    CANDIDATES = 64,
    SEARCHES_AT_MOST = 64,
    SEARCHED_BYTES = 16 << 20,
    ASKED_AT_MOST = 4096
};

/* What the reference has of a call site. */
struct known_step {
    struct check_copies copies; /* bytes 0: nothing was copied */
    uint64_t *hashes;
    struct check_probe *probes;
};

struct known_piece {
    uint64_t hash;
    uint32_t step, at;
};

struct known {
    bool loaded, steady, moves;
    struct known_step *steps; /* [steps made + 1] */
    struct known_piece *pieces;
    size_t piece_count;
    uint32_t step_count;
};

/* A call site, and what it has copied in this step so far. */
struct site {
    struct check_copies copies;
    struct check_copy own; /* DDP_SHARD, and what a search has found */
    struct check_probe probes[COPIES_PROBES];
    uint64_t *hashes;
    size_t room;
    unsigned searches;
    bool lost;         /* it is too much */
    bool has_items;    /* it made a copy for each item, or several, in the step before */
    bool by_item;      /* a piece is an item */
    bool is_unaligned; /* the search has found it */
    struct known known;
};

static struct {
    struct site *sites[COPIES_SITES_AT_MOST];
    size_t count;
    uint32_t step; /* that is being made */
    struct check_copy shard;
    struct reference_reader reader;
    bool has_reader;
} copies = {.step = 1};

static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the reference ---- */

static void
load_step(struct known *known, uint64_t site, uint32_t step)
{
    struct known_step *it = &known->steps[step];
    const struct reference_key key = {.kind = REFERENCE_COPIES, .step = step, .number = (uint32_t)site};
    const struct reference_entry *entry = reference_find(&copies.reader, &key);
    if (entry == NULL)
        return;
    bool ok = reference_start(&copies.reader, entry) && reference_next(&copies.reader, &it->copies, sizeof(it->copies));
    uint64_t hashes = (uint64_t)it->copies.piece_count * sizeof(uint64_t),
             probes = (uint64_t)it->copies.probe_count * sizeof(struct check_probe);
    if (!ok || entry->record.bytes != sizeof(it->copies) + hashes + probes)
        values_stop_damaged();
    it->hashes = values_room(NULL, it->copies.piece_count * sizeof(uint64_t));
    it->probes = values_room(NULL, it->copies.probe_count * sizeof(struct check_probe));
    if ((hashes > 0 && !reference_next(&copies.reader, it->hashes, hashes)) ||
        (probes > 0 && !reference_next(&copies.reader, it->probes, probes)))
        values_stop_damaged();
    if (it->copies.site != site)
        it->copies.bytes = 0;
}

static int
compare_pieces(const void *a, const void *b)
{
    const struct known_piece *l = a, *r = b;
    if (l->hash != r->hash)
        return l->hash < r->hash ? -1 : 1;
    if (l->step != r->step)
        return l->step < r->step ? -1 : 1;
    return (l->at > r->at) - (l->at < r->at);
}

/* With copies_lock. */
static void
load_known(struct site *site)
{
    struct known *known = &site->known;
    struct reference_reader *reader = values_reader();
    if (known->loaded || reader == NULL)
        return;
    known->loaded = true;
    if (!copies.has_reader) {
        copies.reader = reference_share(reader);
        copies.has_reader = copies.reader.state != NULL;
        if (!copies.has_reader)
            stop_job("out of memory");
    }
    known->step_count = reader->steps_made;
    known->steps = values_room(NULL, (known->step_count + 1) * sizeof(*known->steps));
    memset(known->steps, 0, (known->step_count + 1) * sizeof(*known->steps));
    known->steady = known->step_count > 1;
    for (uint32_t step = 1; step <= known->step_count; ++step) {
        load_step(known, site->copies.site, step);
        const struct known_step *it = &known->steps[step];
        known->steady = known->steady && it->copies.sum == known->steps[1].copies.sum;
        known->moves = known->moves || (step > 2 && it->copies.source != known->steps[2].copies.source);
        known->pieces =
            values_room(known->pieces, (known->piece_count + it->copies.piece_count) * sizeof(struct known_piece));
        for (uint32_t i = 0; i < it->copies.piece_count && it->copies.bytes > 0; ++i)
            known->pieces[known->piece_count++] = (struct known_piece){it->hashes[i], step, i};
    }
    qsort(known->pieces, known->piece_count, sizeof(*known->pieces), compare_pieces);
}

/* What the reference has of the step; NULL: nothing. */
static const struct known_step *
known_now(const struct site *site)
{
    const struct known *known = &site->known;
    bool any = known->loaded && copies.step <= known->step_count && known->steps[copies.step].copies.bytes > 0;
    return any ? &known->steps[copies.step] : NULL;
}

/* The first of known pieces that is not before this one. */
static size_t
find_piece(const struct known *known, uint64_t hash, uint32_t step)
{
    size_t low = 0, high = known->piece_count;
    const struct known_piece wanted = {hash, step, 0};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_pieces(&known->pieces[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- what is copied ---- */

static struct site *
find_site(uint64_t id, const char *place)
{
    for (size_t i = 0; i < copies.count; ++i) {
        if (copies.sites[i]->copies.site == id)
            return copies.sites[i];
    }
    if (copies.count == COPIES_SITES_AT_MOST)
        return NULL;
    struct site *site = values_room(NULL, sizeof(*site));
    *site = (struct site){.copies = {.site = id}, .own = {.begins = -1}};
    copies.sites[copies.count++] = site;
    load_known(site);
    struct check_row row = {.kind = CHECK_ROW_SITE, .value = id};
    snprintf(row.text, sizeof(row.text), "%s", place);
    values_row(&row);
    return site;
}

/* The first copy of the step says what a piece is. */
static void
choose_piece(struct site *site, const void *source, size_t bytes)
{
    const struct known_step *known = known_now(site);
    struct check_copies *own = &site->copies;
    uint64_t items = copies.shard.items;
    site->own = copies.shard;
    site->own.begins = -1;
    own->source = (uint64_t)(uintptr_t)source;
    site->by_item = items > 0 && bytes % items == 0 && bytes >= items && !site->has_items;
    if (values_reader() != NULL)
        own->piece_bytes = known != NULL ? known->copies.piece_bytes : bytes;
    else if (site->by_item)
        own->piece_bytes = bytes / items;
    else
        own->piece_bytes = site->has_items ? bytes : (bytes / PIECES / 4 + 1) * 4;
}

/* Of the bytes a window that is not all alike, if there is one. */
static bool
choose_probe(const char *content, size_t bytes, struct check_probe *probe)
{
    size_t length = bytes < COPIES_PROBE_BYTES ? bytes : COPIES_PROBE_BYTES;
    if (length < COPIES_PROBE_LEAST)
        return false;
    for (size_t k = 0; k < PROBE_TRIES; ++k) {
        size_t at = (bytes - length) / PROBE_TRIES * ((k + PROBE_TRIES / 2) % PROBE_TRIES);
        unsigned changes = 0;
        for (size_t i = 1; i < length; ++i)
            changes += content[at + i] != content[at + i - 1];
        if (changes < length / 4)
            continue;
        *probe = (struct check_probe){.at = at, .bytes = (uint32_t)length};
        memcpy(probe->content, content + at, length);
        return true;
    }
    return false;
}

/* In the reference's run: probes in pieces that are spread over the copy. */
static void
keep_probes(struct site *site, const char *source, size_t bytes)
{
    struct check_copies *own = &site->copies;
    size_t each = own->piece_bytes, count = bytes / each, every = (count + COPIES_PROBES - 1) / COPIES_PROBES;
    for (size_t i = 0; i < count && own->probe_count < COPIES_PROBES; i += every) {
        struct check_probe *probe = &site->probes[own->probe_count];
        if (!choose_probe(source + i * each, each, probe))
            continue;
        probe->at += own->bytes + i * each;
        ++own->probe_count;
    }
}

/* How many of the reference's pieces the copy holds, if it begins `begins` bytes into them. *of_p: of how many. */
static uint64_t
count_pieces_at(const struct known_step *known, const char *source, size_t bytes, uint64_t begins, uint64_t *of_p)
{
    uint64_t each = known->copies.piece_bytes, at = (begins + each - 1) / each, same = 0;
    *of_p = 0;
    for (; (at + 1) * each <= begins + bytes && (at + 1) * each <= known->copies.bytes; ++at, ++*of_p)
        same += XXH3_64bits(source + (at * each - begins), each) == known->hashes[at];
    return same;
}

/* Where the copy begins among the reference's bytes, which need not be where a piece begins. */
static void
search_known_step(struct site *site, const struct known_step *known, const char *source, size_t bytes)
{
    if (known->copies.calls > 1 && known->copies.bytes % known->copies.piece_bytes != 0)
        return; /* the places of pieces are not known */
    if (engine_state.rendezvous.world_size == 1 || bytes > SEARCHED_BYTES || site->searches >= SEARCHES_AT_MOST)
        return;
    ++site->searches;
    for (const struct check_probe *probe = known->probes; probe < known->probes + known->copies.probe_count; ++probe) {
        const char *found = memmem(source, bytes, probe->content, probe->bytes);
        uint64_t of, behind = found != NULL ? (uint64_t)(found - source) : 0;
        if (found == NULL || behind > probe->at)
            continue;
        uint64_t same = count_pieces_at(known, source, bytes, probe->at - behind, &of);
        if (same < of)
            continue;
        site->own.begins = (int64_t)(probe->at - behind);
        site->own.run = site->own.here = same;
        site->own.total = of;
        site->is_unaligned = true;
        return;
    }
}

static void
add_pieces(struct site *site, const char *source, size_t bytes)
{
    struct check_copies *own = &site->copies;
    const struct known_step *known = known_now(site);
    size_t first = own->piece_count;
    for (size_t at = 0; at < bytes; at += own->piece_bytes) {
        size_t here = bytes - at < own->piece_bytes ? bytes - at : own->piece_bytes;
        if (own->piece_count == site->room) {
            site->room = site->room > 0 ? 2 * site->room : 64;
            site->hashes = values_room(site->hashes, site->room * sizeof(*site->hashes));
        }
        uint64_t hash = XXH3_64bits(source + at, here);
        site->hashes[own->piece_count++] = hash;
        own->sum += hash;
        own->chain = XXH3_64bits_withSeed(&hash, sizeof(hash), own->chain);
    }
    if (known != NULL && own->calls == 0) {
        size_t at = find_piece(&site->known, site->hashes[first], copies.step);
        bool is_here = at < site->known.piece_count && site->known.pieces[at].hash == site->hashes[first] &&
                       site->known.pieces[at].step == copies.step;
        if (!is_here)
            search_known_step(site, known, source, bytes);
    }
}

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

void
copies_seen(uint64_t id, const char *place, const void *source, size_t bytes, bool is_annotated)
{
    uint64_t values = is_annotated ? 0 : hash_values(source, bytes);
    pthread_mutex_lock(&copies_lock);
    struct site *site = find_site(id, place);
    if (site != NULL && !site->lost) {
        struct check_copies *own = &site->copies;
        if (own->calls == 0)
            choose_piece(site, source, bytes);
        site->lost = own->bytes + bytes > COPIES_BYTES_AT_MOST ||
                     own->piece_count + bytes / own->piece_bytes + 1 > COPIES_PIECES_AT_MOST;
        if (!site->lost) {
            if (values_writer() != NULL)
                keep_probes(site, source, bytes);
            add_pieces(site, source, bytes);
            own->values = values != 0 ? XXH3_64bits_withSeed(&values, sizeof(values), own->values) : own->values;
            own->bytes += bytes;
            ++own->calls;
        }
    }
    pthread_mutex_unlock(&copies_lock);
}

void
copies_shard(size_t total, size_t first, size_t count, const struct ddp_site *site)
{
    pthread_mutex_lock(&copies_lock);
    copies.shard =
        (struct check_copy){.items = total, .first = first, .count = count, .shard_line = (int32_t)site->line};
    snprintf(copies.shard.shard_file, sizeof(copies.shard.shard_file), "%s", file_name_of(site->file));
    pthread_mutex_unlock(&copies_lock);
}

/* ---- the end of a step ---- */

/* Bytes of an item: of a piece, or of each copy, or what is left if all are divided. */
static uint64_t
find_record(const struct site *site)
{
    const struct check_copies *own = &site->copies;
    uint64_t items = site->own.items;
    if (items == 0)
        return 0;
    if (own->calls % items == 0 && own->bytes % own->calls == 0)
        return own->bytes / own->calls;
    if (site->by_item)
        return own->piece_bytes;
    return own->bytes % items == 0 ? own->bytes / items : 0;
}

static void
write_site(struct reference_writer *writer, struct site *site, uint32_t step)
{
    struct check_copies *own = &site->copies;
    const struct reference_key key = {.kind = REFERENCE_COPIES, .step = step, .number = (uint32_t)own->site};
    own->record = find_record(site);
    bool ok = reference_begin(writer, &key) && reference_append(writer, own, sizeof(*own)) &&
              reference_append(writer, site->hashes, own->piece_count * sizeof(*site->hashes)) &&
              reference_append(writer, site->probes, own->probe_count * sizeof(site->probes[0])) &&
              reference_end(writer);
    if (!ok)
        values_stop_writing();
}

/* So many pieces from the first on are the reference's from `at` on. */
static uint32_t
run_from(const struct site *site, const struct known_step *known, uint64_t at)
{
    uint32_t run = 0;
    while (run < site->copies.piece_count && at + run < known->copies.piece_count &&
           site->hashes[run] == known->hashes[at + run])
        ++run;
    return run;
}

/* Where the first pieces are in the reference: where the share begins, if they are there; else where most follow, of
 * which the beginning of an item counts twice. */
static void
find_begin(struct site *site, const struct known_step *known)
{
    struct check_copy *own = &site->own;
    uint64_t each = known->copies.piece_bytes, expected = own->first * known->copies.record / each;
    size_t i = find_piece(&site->known, site->hashes[0], copies.step);
    uint64_t record = known->copies.record, begins = expected;
    uint32_t longest = record > 0 ? 2 * run_from(site, known, expected) : 0;
    for (size_t k = 0; k < CANDIDATES && i + k < site->known.piece_count; ++k) {
        const struct known_piece *piece = &site->known.pieces[i + k];
        if (piece->hash != site->hashes[0] || piece->step != copies.step)
            break;
        bool is_item = record > 0 && piece->at * each % record == 0;
        uint32_t run = run_from(site, known, piece->at) << is_item;
        if (run > longest) {
            longest = run;
            begins = piece->at;
        }
    }
    own->run = run_from(site, known, begins);
    own->begins = own->run > 0 ? (int64_t)(begins * each) : -1;
}

static bool
is_distinct(const struct known *known, uint32_t step)
{
    for (size_t i = 1; i < known->piece_count; ++i) {
        if (known->pieces[i].step == step && known->pieces[i - 1].step == step &&
            known->pieces[i].hash == known->pieces[i - 1].hash)
            return false;
    }
    return true;
}

static void
look_up_pieces(struct site *site, const struct known_step *known)
{
    struct check_copy *own = &site->own;
    uint64_t each = known->copies.piece_bytes, at = 0, share = own->first * known->copies.record / each;
    own->total = site->copies.piece_count;
    own->total -= own->total > 0 && site->copies.calls == 1 && site->copies.bytes % each != 0;
    own->here = own->elsewhere = own->in_place = 0;
    for (; at < own->total; ++at) {
        size_t i = find_piece(&site->known, site->hashes[at], copies.step);
        const struct known_piece *piece = &site->known.pieces[i], *end = site->known.pieces + site->known.piece_count;
        bool follows = piece < end && piece->hash == site->hashes[at];
        own->in_place += share + at < known->copies.piece_count && known->hashes[share + at] == site->hashes[at];
        if (follows && piece->step == copies.step) {
            ++own->here;
        } else if (follows || (i > 0 && piece[-1].hash == site->hashes[at])) {
            ++own->elsewhere;
            own->elsewhere_step = follows ? piece->step : piece[-1].step;
        }
    }
    find_begin(site, known);
}

static void
compare_site(struct site *site, uint32_t step)
{
    const struct known_step *known = known_now(site);
    struct check_copies *mine = &site->copies;
    bool is_equal = known != NULL && mine->chain == known->copies.chain && mine->bytes == known->copies.bytes;
    if (known == NULL || (engine_state.rendezvous.world_size == 1 && is_equal))
        return;
    if (!site->is_unaligned)
        look_up_pieces(site, known);
    struct check_row row = {.kind = CHECK_ROW_COPY, .step = step};
    row.copy = site->own;
    row.copy.site = mine->site;
    row.copy.bytes = mine->bytes;
    row.copy.whole = known->copies.bytes;
    row.copy.record = known->copies.record;
    row.copy.chain = mine->chain;
    row.copy.sum = mine->sum;
    row.copy.whole_sum = known->copies.sum;
    row.copy.values = mine->values;
    row.copy.whole_values = known->copies.values;
    row.copy.steady = site->known.steady;
    row.copy.is_data_set = site->known.moves;
    row.copy.distinct = is_distinct(&site->known, step);
    values_row(&row);
}

void
copies_boundary(uint32_t step)
{
    struct reference_writer *writer = values_writer();
    pthread_mutex_lock(&copies_lock);
    for (size_t i = 0; i < copies.count; ++i) {
        struct site *site = copies.sites[i];
        struct check_copies *own = &site->copies;
        if (own->calls > 0 && !site->lost && writer != NULL)
            write_site(writer, site, step);
        else if (own->calls > 0 && !site->lost && values_reader() != NULL)
            compare_site(site, step);
        if (own->calls > 0)
            site->has_items = site->own.items > 0 && own->calls > 1 && own->calls % site->own.items == 0;
        site->lost = site->is_unaligned = false;
        *own = (struct check_copies){.site = own->site};
    }
    copies.step = step + 1;
    pthread_mutex_unlock(&copies_lock);
}
