/*
 * test_flight.c - the flight recorder gives back whole events in their order, whichever threads write meanwhile, and
 * makes sense of any bytes.
 */
#include "base/flight.h"
#include "base/printable.h"

#include "tests/lib/test.h"

enum { WRITERS = 2, WRITES = 300000, MANY = 2 * FLIGHT_EVENTS };

static struct flight_ring *
new_ring(void)
{
    struct flight_ring *ring = aligned_alloc(64, (sizeof(*ring) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(ring);
    memset(ring, 0, sizeof(*ring));
    return ring;
}

TEST_GROUP(flight, .timeout_s = 120);

TEST(newest_events_come_back_in_order)
{
    struct flight_ring *ring = new_ring();
    struct flight_entry entries[MANY];
    ck_assert_uint_eq(flight_read(ring, entries, MANY), 0);
    for (uint64_t n = 1; n <= MANY + 7; ++n) {
        flight_write(ring, FLIGHT_BUCKET, n / 10, n, 3 * n, "early");
        size_t kept = n < FLIGHT_EVENTS ? n : FLIGHT_EVENTS;
        ck_assert_uint_eq(flight_read(ring, entries, MANY), kept);
        for (size_t i = 0; i < kept; ++i) {
            uint64_t of = n - kept + 1 + i;
            ck_assert_uint_eq(entries[i].order, of - 1);
            ck_assert_uint_eq(entries[i].number, of);
            ck_assert_uint_eq(entries[i].bytes, 3 * of);
            ck_assert_uint_eq(entries[i].step, of / 10);
            ck_assert_int_eq(entries[i].kind, FLIGHT_BUCKET);
            ck_assert_str_eq(entries[i].text, "early");
        }
        size_t few = flight_read(ring, entries, 8);
        ck_assert_uint_eq(few, n < 8 ? n : 8);
        ck_assert_uint_eq(entries[few - 1].number, n);
        ck_assert_uint_eq(entries[0].number, n - few + 1);
    }
    free(ring);
}

TEST(texts_are_cut_and_printable)
{
    struct flight_ring *ring = new_ring();
    struct flight_entry entry;
    char text[256], again[256];
    flight_write(ring, FLIGHT_ANNOTATION, 0, 0, 64,
                 "a\x1b[31mred\nline that is much longer than the event has room for it");
    flight_write(ring, FLIGHT_START, 0, 5, 0, NULL);
    ck_assert_uint_eq(flight_read(ring, &entry, 1), 1);
    flight_describe(&entry, text, sizeof(text));
    ck_assert_str_eq(text, "started as rank 5");
    struct flight_entry both[2];
    ck_assert_uint_eq(flight_read(ring, both, 2), 2);
    ck_assert_uint_eq(strlen(both[0].text), FLIGHT_TEXT_BYTES - 1);
    ck_assert_int_eq(strncmp(both[0].text, "a?[31mred?line", 14), 0);
    for (int kind = FLIGHT_START; kind < FLIGHT_KINDS; ++kind) { /* all have words of their own */
        entry.kind = (enum flight_kind)kind;
        flight_describe(&entry, again, sizeof(again));
        ck_assert_str_ne(again, kind == FLIGHT_START ? "" : text);
        memcpy(text, again, sizeof(text));
    }
    free(ring);
}

/* An event that its writer did not finish, because it was killed, is left out; the others stay. */
TEST(torn_events_are_left_out)
{
    struct flight_ring *ring = new_ring();
    struct flight_entry entries[4];
    for (uint64_t n = 0; n < 3; ++n)
        flight_write(ring, FLIGHT_BUCKET, 0, n, 0, NULL);
    ring->events[1].sequence -= 1;
    ck_assert_uint_eq(flight_read(ring, entries, 4), 2);
    ck_assert_uint_eq(entries[0].number, 0);
    ck_assert_uint_eq(entries[1].number, 2);
    /* And its slot stays with it: a later writer, a turn on, does not write into it. */
    for (uint64_t n = 3; n < 2 * FLIGHT_EVENTS; ++n)
        flight_write(ring, FLIGHT_BUCKET, 0, n, 0, NULL);
    struct flight_entry all[FLIGHT_EVENTS];
    ck_assert_uint_eq(flight_read(ring, all, FLIGHT_EVENTS), FLIGHT_EVENTS - 1);
    free(ring);
}

/* ---- writers and a reader at once ---- */

static struct flight_ring *shared;
static _Atomic int writing;

/* Each event says the same thing four times, so that a mixture of two would show. */
static void *
write_many(void *argument)
{
    uint64_t writer = (uint64_t)(uintptr_t)argument;
    for (uint64_t n = 0; n < WRITES; ++n) {
        uint64_t value = writer * WRITES + n;
        char text[32];
        snprintf(text, sizeof(text), "%" PRIu64, value);
        flight_write(shared, FLIGHT_BUCKET, value, value, value, text);
    }
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

TEST(events_are_never_mixed)
{
    struct flight_entry entries[FLIGHT_EVENTS];
    pthread_t threads[WRITERS];
    size_t seen = 0;
    shared = new_ring();
    atomic_store(&writing, WRITERS);
    for (uintptr_t i = 0; i < WRITERS; ++i)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_many, (void *)i), 0);
    bool last;
    do {
        last = atomic_load(&writing) == 0;
        size_t count = flight_read(shared, entries, FLIGHT_EVENTS);
        for (size_t i = 0; i < count; ++i) { /* quickly: most of the time is to be spent reading */
            const struct flight_entry *entry = &entries[i];
            bool whole = entry->bytes == entry->number && entry->step == entry->number &&
                         strtoull(entry->text, NULL, 10) == entry->number;
            if (!whole)
                ck_abort_msg("event %zu says %zu, %zu, %zu and %s", (size_t)entry->order, (size_t)entry->number,
                             (size_t)entry->bytes, (size_t)entry->step, entry->text);
            if (i > 0 && entry->order <= entries[i - 1].order)
                ck_abort_msg("events are not in order");
        }
        seen += count;
    } while (!last);
    for (int i = 0; i < WRITERS; ++i)
        pthread_join(threads[i], NULL);
    ck_assert_uint_gt(seen, 0);
    free(shared);
}

LOOP_TEST(any_bytes_are_read, 0, 3)
{
    struct flight_ring *ring = new_ring();
    struct flight_entry entries[FLIGHT_EVENTS];
    unsigned long long random = (unsigned long long)_i + 1;
    for (int turn = 0; turn < 200; ++turn) {
        for (size_t i = 0; i < sizeof(*ring); ++i) {
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            ((unsigned char *)ring)[i] = (unsigned char)(random >> 56);
        }
        for (int i = 0; i < FLIGHT_EVENTS; ++i) { /* plausible enough to be taken */
            if (turn % 2 == 0)
                ring->events[i].sequence = 2 * (uint64_t)(i + 1 + FLIGHT_EVENTS * (turn % 5));
        }
        size_t count = flight_read(ring, entries, FLIGHT_EVENTS);
        for (size_t i = 0; i < count; ++i) {
            char text[256];
            flight_describe(&entries[i], text, sizeof(text));
            for (const char *at = text; *at != '\0'; ++at)
                ck_assert(*at >= ' ' && *at <= '~');
        }
    }
    free(ring);
}

static const char *const linked[][2] = {{"_Z3sgd5Tableff", "sgd"},
                                        {"_ZN3net3sgdEPf", "sgd"},
                                        {"_ZN12_GLOBAL__N_13sgdEPf", "sgd"},
                                        {"_Z3sgdIfEvPT_5Table", "sgd"},
                                        {"_ZL3sgdPf", "sgd"},
                                        {"plain", "plain"},
                                        {"_ZN3net3sgd17h0123456789abcdefE", "sgd"},
                                        {"_ZN3net3sgd28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "sgd"},
                                        {"_ZN3net17h0123456789abcdeEPf", "h0123456789abcd"}};

TABLE_TEST(a_function_has_its_last_word, linked)
{
    char text[16];
    ck_assert_str_eq(plain_name(linked[_i][0], text, sizeof(text)), linked[_i][1]);
}
