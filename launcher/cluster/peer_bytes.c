/*
 * peer_bytes.c - see peer_bytes.h. One table says what goes across of a view.
 */
#include "launcher/cluster/peer_bytes.h"

#include "base/protocol.h"
#include "launcher/cluster/serialize.h"

/* ---- orders ---- */

static void
order_fields(struct serialize_buffer *with, struct peer_order *order)
{
    serialize_int(with, &order->exit_code);
    serialize_int(with, &order->signal);
    serialize_int(with, &order->grace_ms);
    serialize_int(with, &order->asked);
    serialize_int(with, &order->final);
    serialize_text(with, order->text, sizeof(order->text));
}

size_t
peer_order_encode(const struct peer_order *order, unsigned char *bytes, size_t room)
{
    struct peer_order copy = *order;
    struct serialize_buffer to = {.bytes = bytes, .size = room};
    order_fields(&to, &copy);
    return to.at;
}

/* Or 0. */
static bool
is_signal(int number)
{
    return number >= 0 && number <= 64;
}

bool
peer_order_decode(const void *bytes, size_t count, struct peer_order *order_p)
{
    struct peer_order order;
    struct serialize_buffer from = serialize_reader(bytes, count);
    order_fields(&from, &order);
    bool is_known = order.final >= JOB_MAY_BEGIN_AGAIN && order.final <= JOB_STEP_WAS_WRONG;
    bool is_right = is_known && order.exit_code >= 0 && order.exit_code <= 255 && is_signal(order.signal) &&
                    is_signal(order.asked) && order.grace_ms >= 0;
    if (!serialize_is_complete(&from) || !is_right || order.grace_ms > DDPRUN_LONGEST_GRACE_S * 1000)
        return false;
    *order_p = order;
    return true;
}

void
peer_order_send(struct peer_link *link, enum frame_kind kind, const struct peer_order *order)
{
    unsigned char bytes[sizeof(*order) + 64];
    peer_link_send(link, kind, bytes, peer_order_encode(order, bytes, sizeof(bytes)));
}

void
supervisor_link_open(struct peer_link *link, int fd, const unsigned char key[SEAL_HASH_BYTES], bool is_root)
{
    peer_link_open(link, fd, key, is_root, FRAME_BYTES_AT_MOST);
    peer_link_wake_late(link);
}

/* ---- views ---- */

enum field_kind { FIELD_LONG, FIELD_NUMBER, FIELD_FLAG, FIELD_INT, FIELD_TEXT };
enum field_when { LATER, NEWS };

static const struct view_field {
    enum field_kind kind;
    size_t offset, bytes;
    enum field_when when; /* NEWS: is sent at once */
} view_fields[] = {
#define FACT(type, name, array, when) \
    {FIELD_##type, offsetof(struct rank_view, name), sizeof(((struct rank_view *)0)->name), when},
#define VIEW FACT
#include "base/rank_fields.def"
};

enum { FIELD_COUNT = sizeof(view_fields) / sizeof(view_fields[0]) };

_Static_assert(sizeof(bool) == 1 && sizeof(int) == 4 && sizeof(unsigned) == 4, "kinds of fields have these sizes");

/* Those that there are, and a 0 after the last. */
static void
warning_fields(struct serialize_buffer *with, struct warnings *warnings)
{
    uint64_t count;
    for (int i = 0; i < WARNINGS_AT_MOST; ++i) {
        struct warning *warning = &warnings->all[i];
        count = warning->count;
        if (!with->reads && count == 0)
            continue;
        serialize_bytes(with, &count, sizeof(count));
        if (count == 0)
            return;
        if (with->reads)
            warning->count = count;
        serialize_bytes(with, &warning->step, sizeof(warning->step));
        serialize_text(with, warning->key, sizeof(warning->key));
        serialize_text(with, warning->text, sizeof(warning->text));
    }
    count = 0;
    serialize_bytes(with, &count, sizeof(count));
    with->failed = with->failed || count != 0;
}

static void
view_fields_with(struct serialize_buffer *with, struct rank_view *view)
{
    for (size_t i = 0; i < FIELD_COUNT; ++i) {
        const struct view_field *field = &view_fields[i];
        char *at = (char *)view + field->offset;
        unsigned char flag = 0;
        if (field->kind == FIELD_TEXT) {
            serialize_text(with, at, field->bytes);
        } else if (field->kind == FIELD_FLAG && with->reads) { /* any other byte in a bool is undefined behaviour */
            serialize_bytes(with, &flag, 1);
            *(bool *)at = flag != 0;
        } else {
            serialize_bytes(with, at, field->bytes);
        }
    }
    warning_fields(with, &view->warnings);
}

size_t
rank_view_encode(const struct rank_view *view, unsigned char *bytes)
{
    struct serialize_buffer to = {.bytes = bytes, .size = RANK_VIEW_BYTES_AT_MOST};
    view_fields_with(&to, (struct rank_view *)(uintptr_t)view);
    return to.at;
}

static bool
is_possible(const struct rank_view *view)
{
    bool has_states = view->stage <= RANK_STAGE_FAILED && view->wait <= RANK_WAIT_DEVICE &&
                      view->nonfinite <= RANK_NONFINITE_ENDS && view->killed <= RANK_KILLED_LATE;
    bool has_end = view->exit_code >= 0 && view->exit_code <= 255 && is_signal(view->signal);
    return has_states && has_end;
}

bool
rank_view_decode(const void *bytes, size_t count, struct rank_view *view_p)
{
    struct rank_view view = *view_p;
    struct serialize_buffer from = serialize_reader(bytes, count);
    view.warnings = (struct warnings){0};
    view_fields_with(&from, &view);
    if (!serialize_is_complete(&from) || !is_possible(&view))
        return false;
    *view_p = view;
    return true;
}

bool
rank_view_is_urgent(const struct rank_view *before, const struct rank_view *after)
{
    for (size_t i = 0; i < FIELD_COUNT; ++i) {
        const char *a = (const char *)before + view_fields[i].offset, *b = (const char *)after + view_fields[i].offset;
        if (view_fields[i].when != NEWS)
            continue;
        if (view_fields[i].kind == FIELD_TEXT ? strcmp(a, b) != 0 : memcmp(a, b, view_fields[i].bytes) != 0)
            return true;
    }
    return false;
}
