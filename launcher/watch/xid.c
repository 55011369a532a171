/* xid.c - see xid.h. */
#include "launcher/watch/xid.h"

#include "base/message.h"
#include "base/printable.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/nvml.h"
#include "launcher/start/placement.h"

enum { SAID_AT_MOST = 8, TEXT_BYTES = 512 };

struct xid_watch {
    struct nvml *nvml;
    struct nvml_events *events;
    char (*bus_ids)[NVML_TEXT_BYTES]; /* [rank_count] */
    int rank_count, first_rank;
    int said;
    char text[TEXT_BYTES];
};

static const struct {
    unsigned long long xid;
    const char *meaning;
} meanings[] = {
    {13, "a kernel of a program has failed"},
    {31, "a program has used an address that is not there"},
    {43, "a program's work was stopped after a fault"},
    {45, "a program's work was cleaned up after its end"},
    {48, "a memory error that cannot be corrected"},
    {62, "the GPU's own processor has stopped"},
    {63, "a part of its memory is taken out of use"},
    {64, "a part of its memory could not be taken out of use"},
    {74, "NVLink has failed"},
    {79, "the GPU has fallen off the bus"},
    {94, "a memory error that one program has met"},
    {95, "a memory error that has met all programs"},
    {109, "a switch between programs has not ended in time"},
    {119, "the GPU's own firmware does not answer"},
    {120, "the GPU's own firmware has failed"},
};

static const char *
meaning_of(unsigned long long xid)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); ++i) {
        if (meanings[i].xid == xid)
            return meanings[i].meaning;
    }
    return "NVIDIA's list of Xid errors says what it means";
}

struct xid_watch *
xid_watch_new(const struct device_plan *devices, int rank_count, int first_rank)
{
    const char *why;
    if (devices->softgpu || rank_count == 0)
        return NULL;
    struct xid_watch *watch = xcalloc(1, sizeof(*watch));
    watch->rank_count = rank_count;
    watch->first_rank = first_rank;
    watch->bus_ids = xcalloc((size_t)rank_count, sizeof(*watch->bus_ids));
    watch->nvml = placement_find_gpus(devices, rank_count, watch->bus_ids) ? nvml_open(&why) : NULL;
    if (watch->nvml != NULL)
        watch->events = nvml_events_open(watch->nvml, watch->bus_ids, rank_count);
    if (watch->events != NULL)
        return watch;
    xid_watch_free(watch);
    return NULL;
}

/* ", of rank 1", for all ranks that are on the GPU. */
static void
name_ranks(const struct xid_watch *watch, const char *bus_id, char *text, size_t bytes)
{
    int named = 0;
    for (int i = 0; i < watch->rank_count; ++i) {
        if (strcmp(watch->bus_ids[i], bus_id) == 0)
            printable_append(text, bytes, "%s %d", named++ == 0 ? ", of rank" : " and", watch->first_rank + i);
    }
}

void
xid_watch_look(struct xid_watch *watch)
{
    char bus_id[NVML_TEXT_BYTES];
    unsigned long long xid;
    while (watch != NULL && watch->said < SAID_AT_MOST && nvml_events_next(watch->events, bus_id, &xid)) {
        char ranks[TEXT_BYTES / 2] = "";
        const char *meaning = meaning_of(xid), *between = watch->said > 0 ? "; " : "";
        name_ranks(watch, bus_id, ranks, sizeof(ranks));
        message_warning("xid", "the driver reports Xid %llu of GPU %s%s: %s; `dmesg` has its line", xid, bus_id, ranks,
                        meaning);
        printable_append(watch->text, sizeof(watch->text), "%sXid %llu of GPU %s%s: %s", between, xid, bus_id, ranks,
                         meaning);
        ++watch->said;
    }
}

const char *
xid_watch_text(const struct xid_watch *watch)
{
    return watch != NULL ? watch->text : "";
}

void
xid_watch_free(struct xid_watch *watch)
{
    if (watch == NULL)
        return;
    nvml_events_close(watch->events);
    nvml_close(watch->nvml);
    free(watch->bus_ids);
    free(watch);
}
