/*
 * rank_view_wire.c - see rank_view_wire.h. One table says what goes across.
 */
#include "launcher/cluster/rank_view_wire.h"

#include "base/protocol.h"
#include "launcher/cluster/serialize.h"

enum field_kind { FIELD_LONG, FIELD_NUMBER, FIELD_BOOL, FIELD_TEXT };

static const struct view_field {
    enum field_kind kind;
    size_t offset, bytes;
    bool news; /* is sent at once */
} view_fields[] = {
#define ROW(kind, name, news)                                                               \
    {                                                                                       \
        kind, offsetof(struct rank_view, name), sizeof(((struct rank_view *)0)->name), news \
    }
    ROW(FIELD_NUMBER, generation, true),
    ROW(FIELD_NUMBER, stage, true),
    ROW(FIELD_LONG, step, false),
    ROW(FIELD_LONG, overlapped_step, false),
    ROW(FIELD_LONG, batch_count, false),
    ROW(FIELD_LONG, graph_step, false),
    ROW(FIELD_LONG, gradient_count, false),
    ROW(FIELD_LONG, averaged_parameter_count, false),
    ROW(FIELD_LONG, averaged_state_count, false),
    ROW(FIELD_LONG, frees_amid, false),
    ROW(FIELD_LONG, loads_amid, false),
    ROW(FIELD_LONG, sync_count, false),
    ROW(FIELD_LONG, sync_bytes, false),
    ROW(FIELD_LONG, step_bytes, false),
    ROW(FIELD_LONG, outer_bytes, false),
    ROW(FIELD_LONG, gradient_bytes, false),
    ROW(FIELD_LONG, bucket_count, false),
    ROW(FIELD_LONG, gradient_elements, false),
    ROW(FIELD_LONG, parameter_elements, false),
    ROW(FIELD_LONG, check_count, false),
    ROW(FIELD_LONG, checked_step, false),
    ROW(FIELD_LONG, parameter_hash, false),
    ROW(FIELD_LONG, parameter_count, false),
    ROW(FIELD_LONG, launch_count, false),
    ROW(FIELD_LONG, gradient_work, false),
    ROW(FIELD_LONG, changed_count, true),
    ROW(FIELD_LONG, reduce_count, false),
    ROW(FIELD_LONG, reduce_bytes, false),
    ROW(FIELD_BOOL, unannotated, false),
    ROW(FIELD_LONG, exposed_count, false),
    ROW(FIELD_LONG, exposed_ns, false),
    ROW(FIELD_LONG, exposed_bound_ns, false),
    ROW(FIELD_LONG, exposed_planned_ns, false),
    ROW(FIELD_LONG, exposed_steps, false),
    ROW(FIELD_LONG, trial_count, false),
    ROW(FIELD_LONG, slowed_ns, false),
    ROW(FIELD_LONG, overlap_off_step, false),
    ROW(FIELD_LONG, training_us, false),
    ROW(FIELD_BOOL, sums, false),
    ROW(FIELD_LONG, shard_total, false),
    ROW(FIELD_LONG, shard_calls, false),
    ROW(FIELD_NUMBER, nccl_version, false),
    ROW(FIELD_NUMBER, nonfinite, true),
    ROW(FIELD_BOOL, nonfinite_in_part, false),
    ROW(FIELD_LONG, nonfinite_step, false),
    ROW(FIELD_TEXT, nonfinite_what, false),
    ROW(FIELD_BOOL, failure_follows, true),
    ROW(FIELD_BOOL, failure_unclear, true),
    ROW(FIELD_TEXT, failure, true),
    ROW(FIELD_LONG, watch_ns, false),
    ROW(FIELD_NUMBER, wait, false),
    ROW(FIELD_LONG, wait_count, false),
    ROW(FIELD_LONG, wait_step, false),
    ROW(FIELD_LONG, wait_ns, false),
    ROW(FIELD_TEXT, wait_for, false),
    ROW(FIELD_LONG, call_count, false),
    ROW(FIELD_TEXT, call, false),
    ROW(FIELD_BOOL, in_call, false),
    ROW(FIELD_NUMBER, call_thread, false),
    ROW(FIELD_LONG, call_ns, false),
    ROW(FIELD_TEXT, kernel, false),
    ROW(FIELD_TEXT, host, true),
    ROW(FIELD_NUMBER, pid, true),
    ROW(FIELD_TEXT, gpu, true),
    ROW(FIELD_BOOL, stopped, true),
    ROW(FIELD_BOOL, exiting, false),
    ROW(FIELD_BOOL, out_of_memory, true),
    ROW(FIELD_BOOL, ended, true),
    ROW(FIELD_NUMBER, exit_code, true),
    ROW(FIELD_NUMBER, signal, true),
    ROW(FIELD_TEXT, last_line, true),
    ROW(FIELD_BOOL, connected, true),
    ROW(FIELD_BOOL, severed, true),
    ROW(FIELD_BOOL, missed_preload, true),
    ROW(FIELD_NUMBER, preload_suspect, true),
    ROW(FIELD_NUMBER, left_pid, true),
    ROW(FIELD_TEXT, left_name, true),
#undef ROW
};

enum { FIELD_COUNT = sizeof(view_fields) / sizeof(view_fields[0]) };

_Static_assert(sizeof(bool) == 1 && sizeof(int) == 4 && sizeof(unsigned) == 4 && sizeof(enum rank_wait) == 4,
               "kinds of fields have these sizes");

size_t
rank_view_encode(const struct rank_view *view, unsigned char *bytes)
{
    struct serialize_buffer to = {.bytes = bytes, .size = RANK_VIEW_BYTES_AT_MOST};
    for (size_t i = 0; i < FIELD_COUNT; ++i) {
        const char *at = (const char *)view + view_fields[i].offset;
        if (view_fields[i].kind == FIELD_TEXT)
            serialize_put_text(&to, at);
        else
            serialize_put_bytes(&to, at, view_fields[i].bytes);
    }
    return to.at;
}

static void
get_field(struct serialize_buffer *from, const struct view_field *field, char *at)
{
    unsigned char flag;
    switch (field->kind) {
    case FIELD_TEXT:
        serialize_get_text(from, at, field->bytes);
        break;
    case FIELD_BOOL: /* any other byte in a bool is undefined behaviour */
        serialize_get_bytes(from, &flag, 1);
        *(bool *)at = flag != 0;
        break;
    case FIELD_LONG:
    case FIELD_NUMBER:
        serialize_get_bytes(from, at, field->bytes);
        break;
    }
}

bool
rank_view_decode(const void *bytes, size_t count, struct rank_view *view_p)
{
    struct rank_view view = *view_p;
    struct serialize_buffer from = {.bytes = (unsigned char *)(uintptr_t)bytes, .size = count};
    for (size_t i = 0; i < FIELD_COUNT; ++i)
        get_field(&from, &view_fields[i], (char *)&view + view_fields[i].offset);
    if (!serialize_is_complete(&from) || view.stage > RANK_STAGE_FAILED || view.wait > RANK_WAIT_DEVICE ||
        view.nonfinite > RANK_NONFINITE_STAYS || view.exit_code < 0 || view.exit_code > 255 || view.signal < 0 ||
        view.signal > 64)
        return false;
    *view_p = view;
    return true;
}

bool
rank_view_is_urgent(const struct rank_view *before, const struct rank_view *after)
{
    for (size_t i = 0; i < FIELD_COUNT; ++i) {
        const char *a = (const char *)before + view_fields[i].offset, *b = (const char *)after + view_fields[i].offset;
        if (!view_fields[i].news)
            continue;
        if (view_fields[i].kind == FIELD_TEXT ? strcmp(a, b) != 0 : memcmp(a, b, view_fields[i].bytes) != 0)
            return true;
    }
    return false;
}
