/*
 * written.c - files that several ranks of a run have written (evidence.h): each rank has a private folder, and in it
 * what it has written lies below `written`, by its absolute path.
 */
#include "tools/check/command/evidence.h"

#include "tools/common/each.h"
#include "tools/common/grown.h"

#include <fts.h>

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
