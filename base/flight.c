/* flight.c - see flight.h. */
#include "base/flight.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define KIND_BITS 8

struct flight_ring *
flight_of(struct rank_status *status)
{
    return (struct flight_ring *)((char *)status + RANK_STATUS_BYTES);
}

/* ---- writing ---- */

static void
write_text(struct flight_event *event, const char *text)
{
    uint64_t words[FLIGHT_TEXT_WORDS] = {0};
    if (text != NULL)
        memcpy(words, text, strnlen(text, FLIGHT_TEXT_BYTES - 1));
    for (int i = 0; i < FLIGHT_TEXT_WORDS; ++i)
        atomic_store_explicit(&event->text[i], words[i], memory_order_release);
}

void
flight_write(struct flight_ring *ring, enum flight_kind kind, uint64_t step, uint64_t number, uint64_t bytes,
             const char *text)
{
    uint64_t n = atomic_fetch_add_explicit(&ring->next, 1, memory_order_relaxed);
    struct flight_event *event = &ring->events[n % FLIGHT_EVENTS];
    uint64_t before = atomic_load_explicit(&event->sequence, memory_order_relaxed);
    if ((before & 1) != 0 || before > 2 * n ||
        !atomic_compare_exchange_strong_explicit(&event->sequence, &before, 2 * n + 1, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return;
    /* Every store releases, so that a reader that sees one of them sees that the slot is being written. */
    atomic_store_explicit(&event->time_ns, (uint64_t)clock_now_ns(), memory_order_release);
    atomic_store_explicit(&event->step, step, memory_order_release);
    atomic_store_explicit(&event->what, (uint64_t)kind | number << KIND_BITS, memory_order_release);
    atomic_store_explicit(&event->bytes, bytes, memory_order_release);
    write_text(event, text);
    atomic_store_explicit(&event->sequence, 2 * n + 2, memory_order_release);
}

/* ---- reading ---- */

static uint64_t
load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static void
read_text(const struct flight_event *event, char text[FLIGHT_TEXT_BYTES])
{
    uint64_t words[FLIGHT_TEXT_WORDS];
    for (int i = 0; i < FLIGHT_TEXT_WORDS; ++i)
        words[i] = load(&event->text[i]);
    memcpy(text, words, FLIGHT_TEXT_BYTES);
    text[FLIGHT_TEXT_BYTES - 1] = '\0';
    for (char *at = text; *at != '\0'; ++at) {
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~') /* it goes to a terminal */
            *at = '?';
    }
}

/* False if the slot holds no event, or not a whole one. */
static bool
read_event(const struct flight_event *event, size_t slot, struct flight_entry *entry)
{
    uint64_t sequence = load(&event->sequence);
    if (sequence == 0 || (sequence & 1) != 0)
        return false;
    uint64_t what = load(&event->what), kind = what & ((1u << KIND_BITS) - 1);
    *entry = (struct flight_entry){.order = sequence / 2 - 1,
                                   .time_ns = load(&event->time_ns),
                                   .step = load(&event->step),
                                   .number = what >> KIND_BITS,
                                   .bytes = load(&event->bytes),
                                   .kind = (enum flight_kind)kind};
    read_text(event, entry->text);
    return load(&event->sequence) == sequence && entry->order % FLIGHT_EVENTS == slot && kind >= FLIGHT_START &&
           kind < FLIGHT_KINDS;
}

size_t
flight_read(const struct flight_ring *ring, struct flight_entry *entries, size_t most)
{
    size_t count = 0;
    for (size_t slot = 0; slot < FLIGHT_EVENTS && most > 0; ++slot) {
        struct flight_entry entry;
        if (!read_event(&ring->events[slot], slot, &entry))
            continue;
        size_t at = count; /* an insertion into a sorted list, of which the oldest falls out */
        while (at > 0 && entries[at - 1].order > entry.order)
            --at;
        if (count < most) {
            memmove(entries + at + 1, entries + at, (count - at) * sizeof(entries[0]));
            ++count;
        } else if (at == 0) {
            continue;
        } else {
            memmove(entries, entries + 1, --at * sizeof(entries[0]));
        }
        entries[at] = entry;
    }
    return count;
}

/* ---- words ---- */

void
flight_describe(const struct flight_entry *entry, char *text, size_t bytes)
{
    const char *more = entry->text;
    switch (entry->kind) {
    case FLIGHT_START:
        snprintf(text, bytes, "started as rank %" PRIu64, entry->number);
        break;
    case FLIGHT_ANNOTATION:
        snprintf(text, bytes, "annotated `%s`, %" PRIu64 " bytes", more, entry->bytes);
        break;
    case FLIGHT_BOUNDARY_BEGIN:
        snprintf(text, bytes, "reached DDP_STEP (%s)", more);
        break;
    case FLIGHT_BOUNDARY_END:
        snprintf(text, bytes, "left DDP_STEP (%s)", more);
        break;
    case FLIGHT_BUCKET:
        snprintf(text, bytes, "sent bucket %" PRIu64 " %s, %" PRIu64 " bytes", entry->number, more, entry->bytes);
        break;
    case FLIGHT_EXCHANGE_BEGIN:
        snprintf(text, bytes, "sent to all ranks: %s", more);
        break;
    case FLIGHT_EXCHANGE_END:
        snprintf(text, bytes, "received from all ranks: %s", more);
        break;
    case FLIGHT_PLAN:
        snprintf(text, bytes, "adopted a plan of %" PRIu64 " bucket%s", entry->number, entry->number == 1 ? "" : "s");
        break;
    case FLIGHT_LATE_TOUCH:
        snprintf(text, bytes, "%s touched a gradient of bucket %" PRIu64 ", which was launched before", more,
                 entry->number);
        break;
    case FLIGHT_REDUCE:
        snprintf(text, bytes, "made call %" PRIu64 " of DDP_REDUCE (%s)", entry->number, more);
        break;
    case FLIGHT_GRAPH_LAUNCH:
        snprintf(text, bytes, "launched a graph (%s)", more);
        break;
    case FLIGHT_STOP:
        snprintf(text, bytes, "stopped the job");
        break;
    case FLIGHT_END:
        snprintf(text, bytes, "exited cleanly");
        break;
    case FLIGHT_KINDS:
        snprintf(text, bytes, "?");
        break;
    }
}
