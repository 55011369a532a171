/*
 * test_log.c - what is written to a scout's log is what is read; of a log that was cut anywhere, all whole
 * records are read and no other; a record that refers to what is not there is refused.
 */
#include "tests/lib/test.h"
#include "tools/scout/format/log.h"

static struct scout_writer writer;
static int file;
static uint8_t *copy; /* of the file's bytes */
static size_t bytes;
static struct scout_log found;
static const char *why;

static void
begin(void)
{
    file = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_ge(file, 0);
    ck_assert(scout_writer_open(&writer, NULL, dup(file)));
}

static void
put(enum scout_record kind, const void *record)
{
    ck_assert(scout_writer_put(&writer, kind, record));
}

static void
copy_file(void)
{
    struct stat status;
    ck_assert_int_eq(fstat(file, &status), 0);
    bytes = (size_t)status.st_size;
    copy = malloc(bytes + 1);
    ck_assert_ptr_nonnull(copy);
    ck_assert_int_eq(pread(file, copy, bytes, 0), (ssize_t)bytes);
}

static void
end(void)
{
    free(copy);
    ck_assert(scout_writer_close(&writer));
    close(file);
}

/* A log with a record of each kind. */
static void
begin_with_all(void)
{
    begin();
    put(SCOUT_OBJECT, &(struct scout_object){.path = "./train", .build_id = "ab01"});
    struct scout_frame frames[] = {{.object = 0, .offset = 4711}, {.object = SCOUT_NONE, .offset = 1}};
    put(SCOUT_SITE, &(struct scout_site){.frames = frames, .count = 2});
    put(SCOUT_NAME, "sgd");
    for (uint32_t i = 0; i < 2; ++i)
        put(SCOUT_ALLOC, &(struct scout_alloc){.bytes = 4096, .ordinal = i, .memory = SCOUT_DEVICE, .site = 0});
    put(SCOUT_OP, &(struct scout_op){.kind = SCOUT_COPY,
                                     .name = SCOUT_NONE,
                                     .site = 0,
                                     .to = {.alloc = 0, .offset = 96},
                                     .bytes = 4000,
                                     .rows = 1,
                                     .from = {.alloc = SCOUT_NONE, .offset = 0x7fff12345678},
                                     .content = 99});
    struct scout_argument reach[] = {{.slot = 0, .alloc = 0, .end = 4096},
                                     {.slot = 1, .byte = 8, .alloc = 1, .offset = 4, .end = 8}};
    put(SCOUT_OP, &(struct scout_op){.kind = SCOUT_LAUNCH,
                                     .site = SCOUT_NONE,
                                     .grid = {1, 2, 3},
                                     .block = {4, 5, 6},
                                     .scalars = 7,
                                     .arguments = reach,
                                     .argument_count = 2});
    struct scout_range some[] = {{0, 4}, {8, 4096}}, one[] = {{4, 8}};
    struct scout_segment segments[] = {
        {.alloc = 0, .hi = 4096, .type = SCOUT_FLOAT32, .tested = 1, .modified = {some, 2}},
        {.alloc = 1, .lo = 4, .hi = 8, .type = SCOUT_INTEGER, .tested = 1, .killed = {one, 1}}};
    struct scout_dependence dependence = {.from = 1, .to = 0, .changed = {some, 2}};
    struct scout_elementwise map = {.from = 1, .to = 0, .from_base = 4, .from_bytes = 2, .to_bytes = 4, .samples = 12};
    struct scout_written written = {.alloc = 0, .ranges = {some, 2}};
    put(SCOUT_EFFECT, &(struct scout_effect){.verdict = SCOUT_TOLERANCE,
                                             .why = SCOUT_NONE,
                                             .tests = 5,
                                             .hidden_write = SCOUT_NONE,
                                             .segments = segments,
                                             .segment_count = 2,
                                             .written = &written,
                                             .written_count = 1,
                                             .dependences = &dependence,
                                             .dependence_count = 1,
                                             .elementwise = &map,
                                             .elementwise_count = 1});
    put(SCOUT_FREE, &(uint32_t){1});
    put(SCOUT_FILE, &(struct scout_file){.path = "data.bin", .bytes = 1000});
    put(SCOUT_ANNOTATION, &(struct scout_annotation){.says = SCOUT_SAYS_GRADIENT,
                                                     .alloc = 0,
                                                     .bytes = 4096,
                                                     .type = 1,
                                                     .text = "dw",
                                                     .file = "train.cu",
                                                     .line = 12});
    put(SCOUT_END, "");
    copy_file();
}

TEST(all_records_come_back_as_they_were)
{
    begin_with_all();
    ck_assert(scout_log_read(copy, bytes, &found, &why));
    ck_assert(found.whole && found.has_end && found.used == bytes);
    ck_assert_uint_eq(found.sites[0].frames[1].object, SCOUT_NONE);
    ck_assert_uint_eq(found.sites[0].frames[0].offset, 4711);
    ck_assert_uint_eq(found.allocs[1].ordinal, 1);
    ck_assert_uint_eq(found.allocs[1].freed_at, 2);
    ck_assert_uint_eq(found.allocs[0].freed_at, UINT64_MAX);
    ck_assert_uint_eq(found.ops[0].from.offset, 0x7fff12345678);
    ck_assert_uint_eq(found.ops[0].content, 99);
    ck_assert_ptr_null(found.ops[0].effect);
    ck_assert_uint_eq(found.ops[1].block[2], 6);
    ck_assert_uint_eq(found.ops[1].arguments[1].byte, 8);
    ck_assert_str_eq(scout_log_name(&found, found.ops[1].name), "sgd");
    const struct scout_effect *effect = found.ops[1].effect;
    ck_assert_ptr_nonnull(effect);
    ck_assert_uint_eq(effect->verdict, SCOUT_TOLERANCE);
    ck_assert_uint_eq(effect->hidden_write, SCOUT_NONE);
    ck_assert_uint_eq(effect->segments[0].modified.items[1].hi, 4096);
    ck_assert_uint_eq(effect->segments[1].killed.items[0].lo, 4);
    ck_assert_uint_eq(effect->dependences[0].changed.items[1].lo, 8);
    ck_assert_uint_eq(effect->elementwise[0].from_bytes, 2);
    ck_assert_uint_eq(effect->written[0].ranges.count, 2);
    ck_assert_str_eq(found.files[0].path, "data.bin");
    ck_assert_uint_eq(found.annotations[0].operations_before, 2);
    ck_assert_str_eq(found.annotations[0].file, "train.cu");
    scout_log_free(&found);
    end();
}

/* Records found. */
static unsigned
records(void)
{
    unsigned effects = 0, frees = 0;
    for (uint32_t i = 0; i < found.op_count; ++i)
        effects += found.ops[i].effect != NULL;
    for (uint32_t i = 0; i < found.alloc_count; ++i)
        frees += found.allocs[i].freed_at != UINT64_MAX;
    return found.has_end + found.name_count + found.object_count + found.site_count + found.alloc_count +
           found.op_count + found.file_count + found.annotation_count + effects + frees;
}

TEST(of_a_log_that_was_cut_the_whole_records_are_read)
{
    begin_with_all();
    unsigned before = 0;
    for (size_t cut = 8; cut <= bytes; ++cut) {
        ck_assert(scout_log_read(copy, cut, &found, &why));
        ck_assert_uint_le(found.used, cut);
        ck_assert(found.whole == (found.used == cut));
        unsigned now = records();
        ck_assert_uint_ge(now, before);
        ck_assert_uint_le(now, before + 1);
        before = now;
        scout_log_free(&found);
    }
    ck_assert_uint_eq(before, 12);
    end();
}

TEST(a_damaged_record_ends_the_log)
{
    begin_with_all();
    for (size_t at = 8; at < bytes; ++at) {
        copy[at] ^= 0x10;
        ck_assert(scout_log_read(copy, bytes, &found, &why));
        ck_assert(!found.whole && !found.has_end && found.used <= at);
        scout_log_free(&found);
        copy[at] ^= 0x10;
    }
    end();
}

TEST(a_file_of_another_kind_or_version_is_refused)
{
    ck_assert(!scout_log_read("ddpscou", 7, &found, &why));
    ck_assert_str_eq(why, "it is not a scout's log");
    ck_assert(!scout_log_read("ddpscou\x7f", 8, &found, &why));
    ck_assert_str_eq(why, "it is of another version of ddprun");
    ck_assert(!scout_log_open("/nonexistent", &found, &why));
    ck_assert(!scout_log_open("/", &found, &why));
}

/* Each refers to something that is not there, or reaches beyond it. */
static const struct wrong {
    enum scout_record kind;
    struct scout_op op;
    uint32_t alloc;
    struct scout_range range;
} wrongs[] = {
    {.kind = SCOUT_OP, .op = {.kind = SCOUT_FILL, .site = SCOUT_NONE, .to = {.alloc = 3}, .bytes = 4, .rows = 1}},
    {.kind = SCOUT_OP, .op = {.kind = SCOUT_FILL, .site = SCOUT_NONE, .to = {.offset = 4}, .bytes = 4096, .rows = 1}},
    {.kind = SCOUT_OP, .op = {.kind = SCOUT_FILL, .site = SCOUT_NONE, .to = {.pitch = 2048}, .bytes = 2048, .rows = 3}},
    {.kind = SCOUT_OP, .op = {.kind = SCOUT_FILL, .site = SCOUT_NONE, .to = {.pitch = 4}, .bytes = 8, .rows = 2}},
    {.kind = SCOUT_OP, .op = {.kind = SCOUT_FILL, .site = 8}},
    {.kind = SCOUT_FREE, .alloc = 1},
    {.kind = SCOUT_EFFECT, .range = {4, 5000}},
    {.kind = SCOUT_EFFECT, .range = {4, 4}},
};

TABLE_TEST(what_refers_to_nothing_is_refused, wrongs)
{
    const struct wrong *wrong = &wrongs[_i];
    begin();
    struct scout_op good = {.kind = SCOUT_FILL, .site = SCOUT_NONE, .to = {.pitch = 2048}, .bytes = 2048, .rows = 2};
    struct scout_alloc alloc = {.bytes = 4096, .site = SCOUT_NONE};
    struct scout_range range = wrong->range;
    struct scout_segment segment = {.hi = 4096, .killed = {&range, 1}};
    struct scout_effect effect = {
        .why = SCOUT_NONE, .hidden_write = SCOUT_NONE, .segments = &segment, .segment_count = 1};
    put(SCOUT_NAME, "memset");
    put(SCOUT_ALLOC, &alloc);
    put(SCOUT_OP, &good);
    if (wrong->kind == SCOUT_OP)
        put(SCOUT_OP, &wrong->op);
    else if (wrong->kind == SCOUT_FREE)
        put(SCOUT_FREE, &wrong->alloc);
    else
        put(SCOUT_EFFECT, &effect);
    copy_file();
    ck_assert(scout_log_read(copy, bytes, &found, &why));
    ck_assert(!found.whole);
    ck_assert_uint_eq(found.op_count, 1);
    ck_assert_ptr_null(found.ops[0].effect);
    scout_log_free(&found);
    end();
}

TEST(the_file_is_for_its_owner_only)
{
    char path[] = "/tmp/ddprun-test-log-XXXXXX";
    int made = mkstemp(path);
    ck_assert_int_ge(made, 0);
    close(made);
    unlink(path);
    ck_assert(scout_writer_open(&writer, path, -1));
    put(SCOUT_NAME, "x");
    ck_assert(scout_writer_close(&writer));
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    ck_assert(scout_log_open(path, &found, &why));
    ck_assert_str_eq(scout_log_name(&found, 0), "x");
    ck_assert_str_eq(scout_log_name(&found, SCOUT_NONE), "?");
    scout_log_free(&found);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert(!scout_log_open(path, &found, &why));
    unlink(path);
}
