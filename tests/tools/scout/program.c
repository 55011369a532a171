/* program.c - see program.h. The log is written by the writer and read by the reader that are used in earnest. */
#include "tests/tools/scout/program.h"

#include "tests/lib/test.h"

enum { MEMORIES = 64, OPERANDS = 16, ALLOCS = 512, NAMES = 64 };

struct memory {
    char name[24];
    uint64_t elements;
    uint32_t element_bytes, type, alloc;
};

struct operand {
    const struct memory *memory;
    uint64_t lo, hi; /* bytes that the argument reaches */
    uint64_t touched, touched_end;
    bool elementwise, open;
    struct scout_range noted; /* as changed */
};

static struct memory memories[MEMORIES];
static unsigned memory_count;
static char alloc_names[ALLOCS][24];
static uint32_t alloc_count;
static char names[NAMES][32];
static uint32_t name_count;
static struct scout_writer writer;
static uint64_t content;

const char *
program_name(uint32_t alloc)
{
    return alloc < alloc_count ? alloc_names[alloc] : "?";
}

static void
put(enum scout_record kind, const void *record)
{
    ck_assert(scout_writer_put(&writer, kind, record));
}

static uint32_t
name_of(const char *text)
{
    for (uint32_t i = 0; i < name_count; ++i)
        if (strcmp(names[i], text) == 0)
            return i;
    ck_assert_uint_lt(name_count, NAMES);
    snprintf(names[name_count], sizeof(names[0]), "%s", text);
    put(SCOUT_NAME, text);
    return name_count++;
}

static struct memory *
memory_named(const char *text, size_t length)
{
    for (unsigned i = 0; i < memory_count; ++i)
        if (strlen(memories[i].name) == length && strncmp(memories[i].name, text, length) == 0)
            return &memories[i];
    ck_abort_msg("the program names unknown memory: %s", text);
    return NULL;
}

static void
allocate(struct memory *memory)
{
    ck_assert_uint_lt(alloc_count, ALLOCS);
    /* The name's place in the list is the ordinal: unique among those of its size, and the same when made again. */
    put(SCOUT_ALLOC, &(struct scout_alloc){.bytes = memory->elements * memory->element_bytes,
                                           .ordinal = (uint32_t)(memory - memories),
                                           .memory = SCOUT_DEVICE,
                                           .site = SCOUT_NONE});
    memory->alloc = alloc_count;
    snprintf(alloc_names[alloc_count++], sizeof(alloc_names[0]), "%s", memory->name);
}

static void
declare(const char *line)
{
    char type[16] = "";
    struct memory *memory = &memories[memory_count];
    ck_assert_uint_lt(memory_count, MEMORIES);
    memset(memory, 0, sizeof(*memory));
    ck_assert_int_ge(sscanf(line, "%23s %lu %15s", memory->name, &memory->elements, type), 2);
    bool half = strcmp(type, "half") == 0;
    memory->element_bytes = half ? 2 : 4;
    memory->type = half ? SCOUT_FLOAT16 : strcmp(type, "int") == 0 ? SCOUT_INTEGER : SCOUT_FLOAT32;
    memory_count += 1;
    allocate(memory);
}

/* "~x[0:8]", "x{4:5}", "?x" */
static struct operand
operand_of(const char *word)
{
    struct operand operand = {.elementwise = word[0] == '~' || word[0] == '?', .open = word[0] == '?'};
    word += operand.elementwise;
    size_t length = strcspn(word, "[{(");
    operand.memory = memory_named(word, length);
    uint64_t bytes = operand.memory->element_bytes, lo = 0, hi = operand.memory->elements;
    if (word[length] != '\0')
        ck_assert_int_eq(sscanf(word + length + 1, "%lu:%lu", &lo, &hi), 2);
    operand.touched = lo * bytes;
    operand.touched_end = hi * bytes;
    operand.lo = word[length] == '[' ? operand.touched : 0;
    operand.hi = word[length] == '[' ? operand.touched_end : operand.memory->elements * bytes;
    operand.noted = (struct scout_range){operand.touched, operand.touched_end};
    if (word[length] == '(')
        operand.noted = (struct scout_range){operand.lo, operand.hi};
    return operand;
}

/* ---- an effect ---- */

static struct scout_segment segments[OPERANDS];
static struct scout_range modified[OPERANDS], killed[OPERANDS], changed[OPERANDS * OPERANDS];
static struct scout_written written[OPERANDS];
static struct scout_range written_ranges[OPERANDS];
static struct scout_dependence dependences[OPERANDS * OPERANDS];
static struct scout_elementwise maps[OPERANDS * OPERANDS];
static struct scout_argument arguments[OPERANDS];
static struct scout_effect effect;
static struct scout_op launch;

static uint32_t
segment_of(const struct operand *operand)
{
    for (uint32_t i = 0; i < effect.segment_count; ++i)
        if (segments[i].alloc == operand->memory->alloc && segments[i].lo == operand->lo &&
            segments[i].hi == operand->hi)
            return i;
    ck_assert_uint_lt(effect.segment_count, OPERANDS);
    segments[effect.segment_count] = (struct scout_segment){.alloc = operand->memory->alloc,
                                                            .lo = operand->lo,
                                                            .hi = operand->hi,
                                                            .type = operand->memory->type,
                                                            .tested = 1};
    arguments[effect.segment_count] = (struct scout_argument){
        .slot = effect.segment_count, .alloc = operand->memory->alloc, .offset = operand->lo, .end = operand->hi};
    return effect.segment_count++;
}

static void
add_map(const struct operand *from, const struct operand *to)
{
    maps[effect.elementwise_count++] = (struct scout_elementwise){.from = from->memory->alloc,
                                                                  .to = to->memory->alloc,
                                                                  .from_base = from->lo,
                                                                  .to_base = to->lo,
                                                                  .from_bytes = from->memory->element_bytes,
                                                                  .to_bytes = to->memory->element_bytes,
                                                                  .samples = from->open ? 0 : 12};
}

static void
add_output(const struct operand *out, char how)
{
    uint32_t number = segment_of(out);
    struct scout_range touched = {out->touched, out->touched_end};
    if (how == '=') {
        killed[number] = touched;
        segments[number].killed = (struct scout_ranges){&killed[number], 1};
    } else {
        modified[number] = touched;
        segments[number].modified = (struct scout_ranges){&modified[number], 1};
        if (how == '+' || out->open)
            add_map(out, out);
    }
    written_ranges[effect.written_count] = out->noted;
    written[effect.written_count] =
        (struct scout_written){.alloc = out->memory->alloc, .ranges = {&written_ranges[effect.written_count], 1}};
    effect.written_count += 1;
}

static void
add_input(const struct operand *in, const struct operand *out)
{
    uint32_t from = segment_of(in);
    struct scout_range *range = &changed[effect.dependence_count];
    *range = out->noted;
    dependences[effect.dependence_count++] =
        (struct scout_dependence){.from = from, .to = out->memory->alloc, .changed = {range, 1}};
    if (in->elementwise)
        add_map(in, out);
}

/* "y = x ~z" */
static void
add_clause(char *clause)
{
    char *rest, *word = strtok_r(clause, " ", &rest);
    if (word == NULL)
        return;
    struct operand out = operand_of(word);
    const char *sign = strtok_r(NULL, " ", &rest);
    ck_assert_ptr_nonnull(sign);
    add_output(&out, sign[0]);
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        struct operand in = operand_of(word);
        add_input(&in, &out);
    }
}

static void
put_launch(char *line, bool deep)
{
    char *text = strchr(line, ':'), *rest;
    ck_assert_ptr_nonnull(text);
    *text++ = '\0';
    char *flag = strchr(line, '!');
    if (flag != NULL)
        *flag++ = '\0';
    effect = (struct scout_effect){.why = SCOUT_NONE, .hidden_write = SCOUT_NONE, .tests = 9};
    for (char *clause = strtok_r(text, ";", &rest); clause != NULL; clause = strtok_r(NULL, ";", &rest))
        add_clause(clause);
    if (flag != NULL) {
        effect.hidden_read = strcmp(flag, "hidden") == 0;
        effect.verdict = strcmp(flag, "differs") == 0    ? SCOUT_DIFFERS
                         : strcmp(flag, "excluded") == 0 ? SCOUT_EXCLUDED
                                                         : 0;
        effect.why = effect.verdict == SCOUT_EXCLUDED ? name_of("it is a cooperative launch") : SCOUT_NONE;
    }
    effect.segments = segments;
    effect.written = written;
    effect.dependences = dependences;
    effect.elementwise = maps;
    launch = (struct scout_op){.kind = SCOUT_LAUNCH,
                               .name = name_of(line),
                               .site = SCOUT_NONE,
                               .grid = {1, 1, 1},
                               .block = {64, 1, 1},
                               .arguments = arguments,
                               .argument_count = effect.segment_count};
    put(SCOUT_OP, &launch);
    if (deep)
        put(SCOUT_EFFECT, &effect);
}

static struct scout_place
place_of(const struct operand *operand)
{
    return (struct scout_place){.alloc = operand->memory->alloc, .offset = operand->lo};
}

static void
put_transfer(const char *word, const char *first, const char *second, bool deep)
{
    struct operand to = operand_of(first);
    struct scout_place host = {.alloc = SCOUT_NONE, .offset = 0x7f0000000000};
    struct scout_op op = {.kind = SCOUT_COPY,
                          .name = SCOUT_NONE,
                          .site = SCOUT_NONE,
                          .to = place_of(&to),
                          .from = host,
                          .bytes = to.hi - to.lo,
                          .rows = 1};
    if (strcmp(word, "fill") == 0)
        op.kind = SCOUT_FILL;
    if (word[0] == 'h')
        op.content = word[3] == '=' ? 1 : 1000 + content++;
    if (strcmp(word, "d2h") == 0) {
        op.from = op.to;
        op.to = host;
    } else if (strcmp(word, "copy") == 0) {
        struct operand from = operand_of(second);
        op.from = place_of(&from);
    }
    put(SCOUT_OP, &op);
    if (deep)
        put(SCOUT_EFFECT, &(struct scout_effect){.why = SCOUT_NONE, .hidden_write = SCOUT_NONE});
}

static void
put_line(const char *text, size_t length, bool deep)
{
    char line[256], word[32] = "", first[64] = "", second[64] = "";
    ck_assert_uint_lt(length, sizeof(line));
    memcpy(line, text, length);
    line[length] = '\0';
    if (strchr(line, ':') != NULL && strstr(line, "h2d") != line && strstr(line, "copy ") != line &&
        strstr(line, "fill ") != line && strstr(line, "d2h ") != line) {
        put_launch(line, deep);
        return;
    }
    if (sscanf(line, "%31s %63s %63s", word, first, second) < 2)
        return;
    if (strcmp(word, "new") == 0) {
        struct memory *memory = memory_named(first, strlen(first));
        put(SCOUT_FREE, &memory->alloc);
        allocate(memory);
        return;
    }
    put_transfer(word, first, second, deep);
}

void
program_record(const char *text, unsigned steps, struct scout_log *log)
{
    int file = memfd_create("log", MFD_CLOEXEC);
    ck_assert(file >= 0 && scout_writer_open(&writer, NULL, dup(file)));
    memory_count = alloc_count = name_count = 0;
    content = 0;
    const char *at = text;
    for (; *at != '\0' && strncmp(at, "step\n", 5) != 0; at += strcspn(at, "\n") + 1)
        if (at[0] != '\n')
            declare(at);
    ck_assert_int_eq(strncmp(at, "step\n", 5), 0);
    for (unsigned step = 0; step < steps + 1; ++step) /* the first is of the light pass */
        for (const char *line = at + 5; *line != '\0'; line += strcspn(line, "\n") + (strchr(line, '\n') != NULL)) {
            bool marked = *line == '<' || *line == '>';
            if (!marked || (*line == '>') == (step == steps))
                put_line(line + marked, strcspn(line + marked, "\n"), step > 0);
        }
    put(SCOUT_END, "");
    ck_assert(scout_writer_close(&writer));
    struct stat status;
    ck_assert_int_eq(fstat(file, &status), 0);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    const char *why = "";
    ck_assert_msg(scout_log_open(path, log, &why), "%s", why);
    ck_assert(log->whole);
    close(file);
}

void
analysed_make(struct analysed *it, const struct row *row, unsigned steps,
              void (*prepare)(struct scout_log *log, const struct row *row))
{
    program_record(row->program, steps, &it->log);
    if (prepare != NULL)
        prepare(&it->log, row);
    scout_find(&it->log, NULL, &it->finding);
}

void
analysed_free(struct analysed *it)
{
    scout_finding_free(&it->finding);
    scout_log_free(&it->log);
}

void
row_require(const struct row *row, row_saying *say)
{
    unsetenv("DDPRUN_MUTANT");
    const char *text = say(row);
    ck_assert_msg(strcmp(text, row->expected) == 0, "%s\n    found:    %s\n    expected: %s", row->name, text,
                  row->expected);
}

void
rows_require_seen(const struct row *rows, size_t count, row_saying *say, const char *mutant)
{
    unsigned seen = 0;
    setenv("DDPRUN_MUTANT", mutant, 1);
    for (size_t i = 0; i < count; ++i)
        seen += strcmp(say(&rows[i]), rows[i].expected) != 0;
    unsetenv("DDPRUN_MUTANT");
    ck_assert_msg(seen > 0, "%s passes every row", mutant);
}
