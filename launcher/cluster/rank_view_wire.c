/*
 * rank_view_wire.c - see peer_link.h. One table says what goes across.
 */
#include "launcher/cluster/peer_link.h"

#include "base/protocol.h"
#include "launcher/cluster/serialize.h"

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

/* Those that there are, and a 0 behind the last. */
static void
put_warnings(struct serialize_buffer *to, const struct warnings *warnings)
{
    for (int i = 0; i < WARNINGS_AT_MOST; ++i) {
        if (warnings->all[i].count == 0)
            continue;
        serialize_put_long(to, warnings->all[i].count);
        serialize_put_long(to, warnings->all[i].step);
        serialize_put_text(to, warnings->all[i].key);
        serialize_put_text(to, warnings->all[i].text);
    }
    serialize_put_long(to, 0);
}

static void
get_warnings(struct serialize_buffer *from, struct warnings *warnings)
{
    *warnings = (struct warnings){0};
    uint64_t count = serialize_get_long(from);
    for (int i = 0; i < WARNINGS_AT_MOST && count > 0; ++i) {
        struct warning *warning = &warnings->all[i];
        warning->count = count;
        warning->step = serialize_get_long(from);
        serialize_get_text(from, warning->key, sizeof(warning->key));
        serialize_get_text(from, warning->text, sizeof(warning->text));
        count = serialize_get_long(from);
    }
    from->failed = from->failed || count > 0;
}

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
    put_warnings(&to, &view->warnings);
    return to.at;
}

static void
get_field(struct serialize_buffer *from, const struct view_field *field, char *at)
{
    unsigned char flag;
    if (field->kind == FIELD_TEXT) {
        serialize_get_text(from, at, field->bytes);
    } else if (field->kind == FIELD_FLAG) { /* any other byte in a bool is undefined behaviour */
        serialize_get_bytes(from, &flag, 1);
        *(bool *)at = flag != 0;
    } else {
        serialize_get_bytes(from, at, field->bytes);
    }
}

bool
rank_view_decode(const void *bytes, size_t count, struct rank_view *view_p)
{
    struct rank_view view = *view_p;
    struct serialize_buffer from = {.bytes = (unsigned char *)(uintptr_t)bytes, .size = count};
    for (size_t i = 0; i < FIELD_COUNT; ++i)
        get_field(&from, &view_fields[i], (char *)&view + view_fields[i].offset);
    get_warnings(&from, &view.warnings);
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
        if (view_fields[i].when != NEWS)
            continue;
        if (view_fields[i].kind == FIELD_TEXT ? strcmp(a, b) != 0 : memcmp(a, b, view_fields[i].bytes) != 0)
            return true;
    }
    return false;
}
