/* dates.c - see dates.h. */
#include "tools/scout/command/dates.h"

#include "tools/common/owned.h"
#include "tools/scout/command/analysis/rules.h"
#include "tools/scout/command/report/lines.h"

#include <unistd.h>

/* What is compared: operations of the recorded run, as far as the others make the same calls. */
struct comparison {
    const struct scout_log *log;
    struct scout_finding *finding;
    const char *place; /* where the program reads the date or random bytes */
    bool *differs;     /* [count]: an operation has other contents, or other numbers */
    uint32_t count;
    bool parts; /* with another date the program goes on with other calls after `count` operations */
};

/* ---- where the program reads them ---- */

/* The frames of a line "OFFSET,OUTER,OUTER NAME PATH", of the object at PATH; returns their number. */
static uint32_t
read_frames(const struct scout_log *log, const char *line, const char *path, struct scout_frame *frames, uint32_t most)
{
    const struct scout_object *object = FIND(it, log->objects, log->object_count, strcmp(it->path, path) == 0);
    uint32_t count = 0;
    char *rest = NULL;
    for (const char *at = line; object != NULL && count < most; at = rest + 1) {
        frames[count++] = (struct scout_frame){(uint32_t)(object - log->objects), strtoull(at, &rest, 16)};
        if (*rest != ',')
            break;
    }
    return count;
}

/* "train.cu:31 (time)" of a line, which is cut; the call's name where its place is not known. */
static char *
name_reading(const struct scout_log *log, char *line)
{
    enum { FRAMES = 16 };
    struct scout_frame frames[FRAMES];
    char text[256], *rest, *name;
    (void)strtok_r(line, " ", &rest);
    name = strtok_r(NULL, " ", &rest);
    if (name == NULL)
        return xstrdup("a place that is not known");
    struct scout_site site = {frames, read_frames(log, line, rest, frames, FRAMES)};
    if (site.count == 0)
        return xstrdup(name);
    struct scout_log one = *log;
    one.sites = &site;
    one.site_count = 1;
    struct sites *sites = sites_open(&one);
    char *place = xasprintf("%s (%s)", sites_text(sites, 0, text, sizeof(text)), name);
    sites_close(sites);
    return place;
}

/* The first places of all lines: "train.cu:31 (time), net.cu:12 (std::random_device)". */
static char *
name_readings(const struct scout_log *log, const char *readings)
{
    enum { PLACES_SHOWN = 3 };
    OWNED char *lines = xstrdup(readings);
    char *rest, *places = xstrdup("");
    uint32_t count = 0;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        OWNED char *place = name_reading(log, line);
        if (count == PLACES_SHOWN || strstr(places, place) != NULL)
            continue;
        OWNED char *before = places;
        places = xasprintf("%s%s%s", before, count > 0 ? ", " : "", place);
        ++count;
    }
    return places;
}

/* ---- operations ---- */

static bool
is_from_host(const struct scout_op *op)
{
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE;
}

/* Whether operations of two runs are one call on the same memory. */
static bool
are_one_call(const struct scout_log *a, const struct scout_op *one, const struct scout_log *b,
             const struct scout_op *other)
{
    const bool is_launch = one->kind == SCOUT_LAUNCH;
    if (one->kind != other->kind || strcmp(scout_log_name(a, one->name), scout_log_name(b, other->name)) != 0)
        return false;
    if (is_launch)
        return one->argument_count == other->argument_count;
    return one->to.alloc == other->to.alloc && one->from.alloc == other->from.alloc && one->bytes == other->bytes;
}

/* Whether an operation brings other data from the host, or gets other numbers, than in the run with another date. */
static bool
is_other(const struct scout_op *one, const struct scout_op *other)
{
    if (is_from_host(one))
        return one->content != other->content;
    return one->kind != SCOUT_COPY && one->scalars != other->scalars;
}

/* Marks in `marks` the operations that differ in the log of another run. Returns how many operations are the same
 * calls; 0: there is no log. */
static uint32_t
compare_with(const struct comparison *it, const char *path, bool *marks)
{
    struct scout_log other;
    const char *why;
    uint32_t i = 0;
    if (!scout_log_open(path, &other, &why))
        return 0;
    for (; i < it->count && i < other.op_count; ++i) {
        if (!are_one_call(it->log, &it->log->ops[i], &other, &other.ops[i]))
            break;
        marks[i] = is_other(&it->log->ops[i], &other.ops[i]);
    }
    scout_log_free(&other);
    return i;
}

/* ---- what differs ---- */

/* Whether the operation's call makes operations of the period, too: it is no preparation. */
static bool
is_of_step(const struct comparison *it, uint32_t op)
{
    const struct scout_op *ops = it->log->ops;
    return ANY_NUMBER(k, it->finding->first, it->finding->first + it->finding->period,
                      scout_is_same_call(&ops[k], &ops[op]));
}

/* The type that launches of a step read memory as; SCOUT_UNKNOWN: none reads it, or as what is not known. */
static uint32_t
type_read(const struct comparison *it, const struct scout_place *to)
{
    for (uint32_t op = it->finding->first; op < it->finding->end; ++op) {
        const struct scout_effect *effect = it->log->ops[op].effect;
        if (effect == NULL)
            continue;
        FOR_EACH(segment, effect->segments, effect->segment_count)
            if (segment->alloc == to->alloc && segment->type != SCOUT_UNKNOWN)
                return segment->type;
    }
    return SCOUT_UNKNOWN;
}

/* Whether steps write an allocation, or it holds what has a role: then it has a line, or needs none. */
static bool
is_known(const struct comparison *it, uint32_t alloc)
{
    const struct scout_finding *finding = it->finding;
    if (ANY(tensor, finding->tensors, finding->tensor_count, tensor->alloc == alloc))
        return true;
    for (uint32_t op = finding->first; op < finding->end; ++op) {
        const struct scout_effect *effect = it->log->ops[op].effect;
        if (effect != NULL && ANY(written, effect->written, effect->written_count, written->alloc == alloc))
            return true;
    }
    return false;
}

/* Notes the first operation of the steps that differs in a run with another date: the program must give all ranks one
 * seed. */
static void
leave_by_hand(struct comparison *it, uint32_t op)
{
    char name[SCOUT_NAME_BYTES], place[256];
    const struct scout_op *at = &it->log->ops[op];
    if (it->finding->by_hand != NULL)
        return;
    struct sites *sites = sites_open(it->log);
    it->finding->by_hand =
        xasprintf("%s at %s %s in a run that reads another date or other random bytes at %s, as each rank does: give "
                  "all ranks one "
                  "seed, a constant or an option",
                  scout_op_name(it->log, at, name), sites_text(sites, at->site, place, sizeof(place)),
                  is_from_host(at) ? "brings other data" : "gets other numbers", it->place);
    sites_close(sites);
}

/* A copy before the steps that brings other contents. */
static void
add_input(struct comparison *it, uint32_t op)
{
    const struct scout_op *at = &it->log->ops[op];
    const uint32_t type = type_read(it, &at->to);
    if (is_known(it, at->to.alloc) || type == SCOUT_UNKNOWN)
        return;
    if (type == SCOUT_INTEGER) {
        leave_by_hand(it, op);
        return;
    }
    struct scout_range range = {at->to.offset, at->to.offset + at->bytes * at->rows};
    (void)gradients_add_tensor(it->finding, ROLE_INPUT, at->to.alloc, range, type, PAIR_NONE, op);
}

/* What follows from the operations that differ in the run with another date: by hand, inputs to annotate, or a note. */
static void
judge(struct comparison *it)
{
    bool is_any = it->parts;
    for (uint32_t op = 0; op < it->count; ++op) {
        if (!it->differs[op])
            continue;
        is_any = true;
        if (is_of_step(it, op))
            leave_by_hand(it, op);
        else if (is_from_host(&it->log->ops[op]))
            add_input(it, op);
    }
    if (is_any && it->finding->by_hand == NULL)
        note_add(
            it->finding,
            "each rank reads another date or other random bytes at %s: what is computed from them before the steps "
            "is rank 0's on all ranks, by DDP_PARAMETER and DDP_STATE",
            it->place);
}

void
dates_compare(const struct scout_order *order, const char *readings, const struct scout_log *log,
              struct scout_finding *finding)
{
    const uint32_t end = finding->end < log->op_count ? finding->end : log->op_count;
    OWNED char *path = xasprintf("%s/again.log", order->folder);
    OWNED bool *same_date = xcalloc(end + 1, sizeof(*same_date)), *other_date = xcalloc(end + 1, sizeof(*other_date));
    struct comparison it = {.log = log, .finding = finding, .differs = other_date, .count = end};
    if (readings[0] == '\0' || !scout_run_again(order, path, end, true))
        return;
    const uint32_t with_other = compare_with(&it, path, other_date);
    const bool is_alike = with_other == end && !ANY_NUMBER(i, 0, end, other_date[i]);
    (void)unlink(path);
    if (is_alike || !scout_run_again(order, path, end, false))
        return;
    it.count = compare_with(&it, path, same_date); /* what differs with the same date has another cause */
    (void)unlink(path);
    it.parts = it.count == end && with_other < end;
    it.count = with_other < it.count ? with_other : it.count;
    for (uint32_t i = 0; i < it.count; ++i)
        other_date[i] = other_date[i] && !same_date[i];
    OWNED char *place = name_readings(log, readings);
    it.place = place;
    judge(&it);
}
