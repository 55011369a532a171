/*
 * written.c - files that several ranks of a run have written (evidence.h): each rank has a private folder, and in it
 * what it has written lies below `written`, by its absolute path.
 */
#include "tools/check/evidence/evidence.h"

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
add_copy(struct copies *copies, const char *path, int rank)
{
    *GROWN(copies->list, copies->count) = (struct copy){xstrdup(path), rank};
}

/* Adds each file of the tree, by its path below `root`, as written by the rank. */
static void
add_tree(struct copies *copies, FTS *tree, const char *root, int rank)
{
    FTSENT *entry;
    while ((entry = fts_read(tree)) != NULL) {
        const char *path = entry->fts_path + strlen(root);
        switch (entry->fts_info) {
        case FTS_D:
            if (strcmp(entry->fts_name, "__pycache__") == 0)
                (void)fts_set(tree, entry, FTS_SKIP);
            break;
        case FTS_F:
        case FTS_SL:
        case FTS_SLNONE:
            add_copy(copies, path, rank);
            break;
        default:
            break;
        }
    }
}

/* Adds all files that the rank has written in its copy of the folder. */
static void
add_rank(struct copies *copies, const char *folder, int rank)
{
    char *root = xasprintf("%s/rank-%d/written", folder, rank), *roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (tree != NULL) {
        add_tree(copies, tree, root, rank);
        fts_close(tree);
    }
    free(root);
}

COMPARES(compare_copies, struct copy, strcmp(a->path, b->path) != 0 ? strcmp(a->path, b->path) : a->rank - b->rank)

/* How many copies from the first on, in the order of paths, have its path. */
static size_t
count_alike(const struct copy *first, const struct copy *end)
{
    const struct copy *next = first + 1;
    while (next < end && strcmp(next->path, first->path) == 0)
        ++next;
    return (size_t)(next - first);
}

/* A file with the ranks that have written it: copies[count], all of its path. */
static struct written_file
make_file(const struct copy *copies, size_t count)
{
    struct written_file file = {.path = xstrdup(copies->path), .ranks = xcalloc(count, sizeof(int))};
    for (size_t i = 0; i < count; ++i)
        file.ranks[file.rank_count++] = copies[i].rank;
    return file;
}

struct written
written_find(const char *folder, int ranks)
{
    struct copies copies = {0};
    for (int rank = 0; rank < ranks; ++rank)
        add_rank(&copies, folder, rank);
    SORT(copies.list, copies.count, compare_copies);
    struct written written = {.files = xcalloc(copies.count / 2 + 1, sizeof(*written.files))};
    size_t i = 0;
    while (i < copies.count) {
        size_t alike = count_alike(copies.list + i, copies.list + copies.count);
        if (alike > 1)
            written.files[written.count++] = make_file(copies.list + i, alike);
        i += alike;
    }
    for (i = 0; i < copies.count; ++i)
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
