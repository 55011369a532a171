/* evidence.c - see evidence.h. */
#include "tools/check/command/evidence.h"

#include "tools/common/each.h"
#include "tools/common/grown.h"

#include <fts.h>

/* ---- rows ---- */

void
check_rows_append(struct check_rows *rows, const char *results, int rank)
{
    size_t count;
    struct check_row *more = check_rows_load(results, rank, &count);
    if (more == NULL)
        return;
    rows->rows = xrealloc(rows->rows, (rows->count + count) * sizeof(*rows->rows));
    memcpy(rows->rows + rows->count, more, count * sizeof(*more));
    rows->count += count;
    free(more);
}

void
check_rows_free(struct check_rows *rows)
{
    free(rows->rows);
    *rows = (struct check_rows){0};
}

const struct check_row *
check_rows_find(const struct check_rows *rows, enum check_row_kind kind)
{
    return check_rows_next(rows, kind, NULL);
}

const struct check_row *
check_rows_next(const struct check_rows *rows, enum check_row_kind kind, const struct check_row *row)
{
    row = row != NULL ? row + 1 : rows->rows;
    return FIND(it, row, rows->rows + rows->count - row, it->kind == (uint32_t)kind);
}

const struct check_row *
check_rows_next_of(const struct check_rows *rows, enum check_role role, const struct check_row *row)
{
    do
        row = check_rows_next(rows, CHECK_ROW_TENSOR, row);
    while (row != NULL && row->tensor.role != (uint32_t)role);
    return row;
}

bool
check_same_tensor(const struct check_tensor *tensor, const struct check_tensor *other)
{
    bool is_call = tensor->role == CHECK_MEAN; /* of which each has a number: all of one place are one */
    return tensor->role == other->role &&
           (is_call ? tensor->line == other->line && strcmp(tensor->text, other->text) == 0
                    : tensor->number == other->number);
}

bool
check_evidence_same_bits(const struct check_evidence *evidence)
{
    return ANY(rows, evidence->ranked, evidence->ranks, check_rows_find(rows, CHECK_ROW_TENSOR) != NULL) &&
           !ANY(rows, evidence->ranked, evidence->ranks,
                ANY(row, rows->rows, rows->count, row->kind == CHECK_ROW_TENSOR && !row->same_bits));
}

double
check_evidence_units(const struct check_evidence *evidence)
{
    bool is_any =
        ANY(row, evidence->again.rows, evidence->again.count, /* order of parts that are added */
            row->kind == CHECK_ROW_TENSOR && row->tensor.role == CHECK_PARAMETER && row->of_change && !row->same_bits);
    return is_any ? 8 : 1;
}

bool
check_evidence_is_forced(const struct check_evidence *evidence)
{
    return evidence->forced &&
           (evidence->ranks == 0 || check_rows_find(&evidence->ranked[0], CHECK_ROW_GRAPHS) == NULL);
}

bool
check_evidence_in_rounds(const struct check_evidence *evidence)
{
    return check_rows_find(evidence->ranks > 0 ? &evidence->ranked[0] : &evidence->alone, CHECK_ROW_ROUNDS) != NULL;
}

bool
check_evidence_weighs(const struct check_evidence *evidence)
{
    return ANY(rows, evidence->ranked, evidence->ranks, check_rows_find(rows, CHECK_ROW_WEIGHT) != NULL);
}

/* ---- where the program reads the date or random bytes ---- */

static enum check_reading
kind_of(const struct check_row *row)
{
    static const char *const random[] = {"/dev/", "getrandom", "getentropy", "arc4random", "std::random_device"};
    return ANY(it, random, sizeof(random) / sizeof(random[0]), strncmp(row->text, *it, strlen(*it)) == 0)
               ? CHECK_READS_RANDOM
               : CHECK_READS_DATE;
}

/* "`time` (train.cu:12)". Places without a line in a source file, as those of a shell that starts the program, count
 * where there are no others. */
static void
name_places(struct check_evidence *evidence, const struct check_rows *rows, bool with_line)
{
    EACH_ROW(row, rows, CHECK_ROW_READING) {
        char place[80], frame[600], name[160];
        char *text = evidence->reading_places;
        size_t call = strcspn(row->text, " "), length = strlen(text);
        evidence->readings |= kind_of(row);
        snprintf(frame, sizeof(frame), "%s %llx", row->text + call + 1, (unsigned long long)row->value);
        snprintf(name, sizeof(name), "`%.*s` (%s)", (int)call, row->text, place_name(frame, place, sizeof(place)));
        if ((strchr(place, ':') != NULL) == with_line && strstr(text, name) == NULL &&
            length + strlen(name) + 2 < sizeof(evidence->reading_places))
            snprintf(text + length, sizeof(evidence->reading_places) - length, "%s%s", length > 0 ? ", " : "", name);
    }
}

void
readings_describe(struct check_evidence *evidence)
{
    evidence->reading_places[0] = '\0';
    for (int pass = 0; pass < 2 && evidence->reading_places[0] == '\0'; ++pass) {
        name_places(evidence, &evidence->alone, pass == 0);
        for (int r = 0; r < evidence->ranks; ++r)
            name_places(evidence, &evidence->ranked[r], pass == 0);
    }
}

/* ---- what ranks have written: in the private folder of each, below `written`, by its absolute path ---- */

/* A file of one rank. */
struct copy {
    char *path;
    int rank;
};

struct copies {
    struct copy *list;
    size_t count;
};

static void
add_rank(struct copies *copies, const char *folder, int rank)
{
    char *root = xasprintf("%s/rank-%d/written", folder, rank), *roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry; tree != NULL && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_info == FTS_D && strcmp(entry->fts_name, "__pycache__") == 0)
            (void)fts_set(tree, entry, FTS_SKIP);
        if (entry->fts_info == FTS_F || entry->fts_info == FTS_SL || entry->fts_info == FTS_SLNONE)
            *GROWN(copies->list, copies->count) = (struct copy){xstrdup(entry->fts_path + strlen(root)), rank};
    }
    if (tree != NULL)
        fts_close(tree);
    free(root);
}

COMPARES(compare_copies, struct copy, strcmp(a->path, b->path) != 0 ? strcmp(a->path, b->path) : a->rank - b->rank)

struct written
written_find(const char *folder, int ranks)
{
    struct copies copies = {0};
    for (int rank = 0; rank < ranks; ++rank)
        add_rank(&copies, folder, rank);
    SORT(copies.list, copies.count, compare_copies);
    struct written written = {.files = xcalloc(copies.count / 2 + 1, sizeof(*written.files))};
    for (size_t i = 0, next; i < copies.count; i = next) {
        for (next = i + 1; next < copies.count && strcmp(copies.list[next].path, copies.list[i].path) == 0;)
            ++next;
        if (next - i < 2)
            continue;
        struct written_file *file = &written.files[written.count++];
        *file = (struct written_file){.path = xstrdup(copies.list[i].path), .ranks = xcalloc(next - i, sizeof(int))};
        for (size_t k = i; k < next; ++k)
            file->ranks[file->rank_count++] = copies.list[k].rank;
    }
    for (size_t i = 0; i < copies.count; ++i)
        free(copies.list[i].path);
    free(copies.list);
    return written;
}

void
written_free(struct written *written)
{
    for (size_t i = 0; i < written->count; ++i) {
        free(written->files[i].path);
        free(written->files[i].ranks);
    }
    free(written->files);
    *written = (struct written){0};
}
