/*
 * user_metrics.c - what the program says of itself, by DDP_MEAN and DDP_SHARD, in this rank's status record: for the
 * progress line and for reports.
 *
 * Costs a few stores; nothing here can fail.
 */
#include "interpose/engine/core/core.h"

#include <ctype.h>

/* The places that have a record, by the address of their annotation; NULL: known by its label. */
static const struct ddp_site *known_sites[RANK_MEANS_AT_MOST];

static void
describe_mean(struct rank_mean *mean, const char *label, const struct ddp_site *site)
{
    const char *text = site->text;
    while (*text == '&' || isspace((unsigned char)*text))
        ++text;
    snprintf(mean->name, sizeof(mean->name), "%.31s", label != NULL ? label : text);
    printable_make(mean->name, ""); /* a label may hold anything */
    snprintf(mean->place, sizeof(mean->place), "%.36s:%d", file_name_of(site->file), site->line);
}

/* The record of a label, or else of a place; NULL for those that come after RANK_MEANS_AT_MOST others. */
static struct rank_mean *
mean_of(const char *label, const struct ddp_site *site)
{
    struct rank_told *told = &engine_state.status->told;
    const struct ddp_site *known = label == NULL ? site : NULL;
    struct rank_mean wanted = {.step = 0};
    describe_mean(&wanted, label, site);
    uint32_t count = atomic_load(&told->mean_count);
    for (uint32_t i = 0; i < count; ++i) {
        if (known_sites[i] == known && (known != NULL || strcmp(told->means[i].name, wanted.name) == 0))
            return &told->means[i];
    }
    if (count == RANK_MEANS_AT_MOST)
        return NULL;
    known_sites[count] = known;
    memcpy(told->means[count].name, wanted.name, sizeof(wanted.name));
    memcpy(told->means[count].place, wanted.place, sizeof(wanted.place));
    return &told->means[count];
}

void
user_metrics_mean(double value, const char *label, const struct ddp_site *site)
{
    struct rank_mean *mean = mean_of(label, site);
    if (mean == NULL)
        return;
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    atomic_store(&mean->step, engine_state.boundary_count);
    atomic_store(&mean->value, bits);
    uint32_t place = (uint32_t)(mean - engine_state.status->told.means);
    if (place == atomic_load(&engine_state.status->told.mean_count))
        atomic_store(&engine_state.status->told.mean_count, place + 1); /* last: it is whole */
}
