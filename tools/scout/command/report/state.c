/*
 * state.c - see proofs.h: of turns by state, which class all memory has that stays.
 */
#include "tools/scout/command/report/proofs.h"

#include "tools/scout/command/report/site.h"

#include <inttypes.h>

static const char *const classes[] = {
    [PLAY_CHANGES] = "state", [PLAY_STREAM] = "stream",     [PLAY_SUM] = "sum",
    [PLAY_LAST] = "last",     [PLAY_PER_RANK] = "per rank", [PLAY_UNWRITTEN] = "constant"};

static const char *
type_text(const struct by_state_range *range)
{
    if (range->role == PLAY_CHANGES || range->role == PLAY_PER_RANK)
        return scout_type_name(range->type); /* of floats the numbers are the same */
    return range->role == PLAY_SUM ? "integer" : "";
}

static void
print_class(FILE *out, const struct scout_log *log, const struct by_state *by_state, enum play_role role,
            struct sites *sites)
{
    char place[256], memory[64];
    for (uint32_t i = 0; i < by_state->range_count; ++i) {
        const struct by_state_range *range = &by_state->ranges[i];
        if (range->role != role)
            continue;
        snprintf(memory, sizeof(memory), "a%" PRIu32 "[%" PRIu64 ":%" PRIu64 "]", range->alloc, range->lo, range->hi);
        (void)sites_text(sites, log->allocs[range->alloc].site, place, sizeof(place));
        fprintf(out, "  %-12s %-9s %12" PRIu64 "  %-26s %s\n", classes[role], type_text(range), range->hi - range->lo,
                memory, place);
    }
}

void
by_state_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
               const struct by_state *by_state)
{
    static const enum play_role order[] = {PLAY_CHANGES, PLAY_PER_RANK, PLAY_SUM,
                                           PLAY_STREAM,  PLAY_LAST,     PLAY_UNWRITTEN};
    char name[SCOUT_NAME_BYTES];
    uint32_t turn = 0;
    struct sites *sites = sites_open(log);
    for (uint32_t i = 0; i < finding->period; ++i)
        turn += by_state->parts[i] != PLAY_BY_ALL;
    fprintf(out, "a step is %" PRIu32 " operations, of which ranks make %" PRIu32 " by turns; it begins with %s\n",
            finding->period, turn, scout_op_name(log, &log->ops[finding->first], name));
    fprintf(out, "  %-12s %-9s %12s  %-26s %s\n", "class", "type", "bytes", "memory", "allocated at");
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); ++i)
        print_class(out, log, by_state, order[i], sites);
    sites_close(sites);
}
