/*
 * fuzz_scout.c - target: the log of a scouted run, which the trainer's process writes, and the analysis of what it
 * says.
 *
 * No random bytes have the checksums that records have. So the first byte of the input says whether they are put right
 * before it is read. Required: what is read refers only to what is there, and the analysis ends with roles that lie
 * within their allocations, or with a reason of one line.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/format/log.h"

#include <stdlib.h>
#include <string.h>

struct header {
    uint32_t bytes, kind, check;
};

/* Lengths that fit, and the checksums that they should have. */
static void
put_checks_right(uint8_t *bytes, size_t count)
{
    for (size_t at = 8; count - at >= sizeof(struct header) && at < count;) {
        struct header header;
        memcpy(&header, bytes + at, sizeof(header));
        size_t behind = count - at - sizeof(header);
        header.bytes %= behind < 512 ? (uint32_t)behind + 1 : 512;
        header.kind = header.kind % 16;
        header.check = 2166136261u ^ header.kind;
        for (uint32_t i = 0; i < header.bytes; ++i)
            header.check = (header.check ^ bytes[at + sizeof(header) + i]) * 16777619u;
        memcpy(bytes + at, &header, sizeof(header));
        at += sizeof(header) + header.bytes;
    }
}

static void
require_ranges(const struct scout_ranges *ranges, uint64_t limit)
{
    for (uint32_t i = 0; i < ranges->count; ++i) {
        fuzz_require(ranges->items[i].lo < ranges->items[i].hi && ranges->items[i].hi <= limit, "a range has bytes");
        fuzz_require(i == 0 || ranges->items[i - 1].hi <= ranges->items[i].lo, "ranges are sorted");
    }
}

static void
require_effect(const struct scout_log *log, const struct scout_effect *effect)
{
    for (uint32_t i = 0; i < effect->segment_count; ++i) {
        const struct scout_segment *segment = &effect->segments[i];
        fuzz_require(segment->alloc < log->alloc_count && segment->hi <= log->allocs[segment->alloc].bytes,
                     "a segment lies in an allocation");
        require_ranges(&segment->killed, segment->hi);
        require_ranges(&segment->modified, segment->hi);
    }
    for (uint32_t i = 0; i < effect->dependence_count; ++i) {
        fuzz_require(effect->dependences[i].from < effect->segment_count &&
                         effect->dependences[i].to < log->alloc_count,
                     "a dependence is between what is there");
        require_ranges(&effect->dependences[i].changed, log->allocs[effect->dependences[i].to].bytes);
    }
}

static void
analyse(const struct scout_log *log)
{
    struct scout_finding finding;
    scout_find(log, NULL, &finding);
    fuzz_require(finding.found == (finding.reason == NULL) || finding.found, "what is not found has a reason");
    for (uint32_t i = 0; i < finding.tensor_count && finding.found; ++i) {
        const struct scout_tensor *tensor = &finding.tensors[i];
        fuzz_require(tensor->alloc < log->alloc_count && tensor->lo <= tensor->hi &&
                         tensor->hi <= log->allocs[tensor->alloc].bytes,
                     "a tensor lies in its allocation");
        fuzz_require(tensor->pair == PAIR_NONE || tensor->pair < finding.tensor_count, "a pair is a tensor");
        fuzz_require(tensor->group == GROUP_NONE || tensor->group < finding.group_count, "a group is one");
    }
    scout_finding_free(&finding);
}

void
fuzz_scout(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return;
    uint8_t *copy = fuzz_copy(bytes + 1, count - 1);
    if ((bytes[0] & 1) != 0)
        put_checks_right(copy, count - 1);
    struct scout_log log;
    const char *why = NULL;
    if (scout_log_read(copy, count - 1, &log, &why)) {
        fuzz_require(log.used <= count - 1 && (log.whole == (log.used == count - 1)), "what was read is in the file");
        uint64_t ranges = 0;
        for (uint32_t i = 0; i < log.op_count; ++i)
            if (log.ops[i].effect != NULL)
                require_effect(&log, log.ops[i].effect);
        for (uint32_t i = 0; i < log.op_count; ++i)
            ranges += log.ops[i].rows;
        if (ranges < 100000)
            analyse(&log);
        scout_log_free(&log);
    } else {
        fuzz_require(why != NULL && strchr(why, '\n') == NULL, "a refused file has a reason");
    }
    free(copy);
}
