/*
 * grown.c - the reference of --batch-grows (session.h): what N ranks do, but for gradients, which are the mean of those
 * that one rank computes of each rank's batch.
 *
 * The ranks write the reference, and repeat it. Then one process after the other is rank r of N to the program, alone:
 * each of its steps begins from the reference, and it keeps its own gradients. What the ranks have averaged goes on as
 * it was (REFERENCE_GOES_ON), so that their updates stay the same bit for bit.
 */
#include "tools/check/command/session.h"

#include "launcher/start/environment.h"
#include "tools/check/format/element.h"
#include "tools/check/format/reference.h"

enum { PIECE_BYTES = 1 << 12 };

/* ---- the mean of the turns ---- */

static size_t
piece_at(uint64_t at, uint64_t bytes)
{
    return bytes - at < PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
}

/* Of its elements; 0: not known. */
static int
type_of(struct reference_reader *reader, const struct reference_key *key)
{
    struct reference_key described = {.kind = REFERENCE_TENSOR, .role = key->role, .number = key->number};
    struct check_tensor tensor = {.type = 0};
    const struct reference_entry *entry = reference_find(reader, &described);
    bool ok = entry != NULL && reference_get(reader, entry, &tensor, sizeof(tensor));
    return ok && element_bytes((int)tensor.type) > 0 ? (int)tensor.type : 0;
}

/* False: the files cannot be read, or have no such tensor at that step. */
static bool
put_mean(struct reference_writer *writer, const struct reference_entry *entry, struct reference_reader *turns,
         int count, int type)
{
    char bytes[PIECE_BYTES];
    size_t each = element_size(type);
    bool ok = type > 0 && reference_begin(writer, &entry->record.key);
    for (int r = 0; r < count && ok; ++r)
        ok = reference_start_of(&turns[r], &entry->record.key, entry->record.bytes);
    for (uint64_t at = 0; at < entry->record.bytes && ok; at += PIECE_BYTES) {
        size_t here = piece_at(at, entry->record.bytes);
        double mean[PIECE_BYTES] = {0};
        for (int r = 0; r < count && ok; ++r)
            ok = reference_add(&turns[r], type, here / each, 1.0 / count, mean);
        for (size_t i = 0; i < here / each; ++i)
            element_put(type, bytes, i, mean[i]);
        ok = ok && reference_append(writer, bytes, here);
    }
    return ok && reference_end(writer);
}

static bool
put_copy(struct reference_writer *writer, struct reference_reader *reader, const struct reference_entry *entry,
         const struct reference_key *key)
{
    char bytes[PIECE_BYTES];
    bool ok = reference_begin(writer, key) && reference_start(reader, entry);
    for (uint64_t at = 0; at < entry->record.bytes && ok; at += PIECE_BYTES) {
        size_t here = piece_at(at, entry->record.bytes);
        ok = reference_next(reader, bytes, here) && reference_append(writer, bytes, here);
    }
    return ok && reference_end(writer);
}

/* What is averaged: gradients, and what the turns have kept besides. */
static bool
is_averaged(const struct reference_key *key, const struct reference_reader *turn)
{
    return key->kind == REFERENCE_VALUES && (key->role == CHECK_GRADIENT || reference_find(turn, key) != NULL);
}

static bool
write_mean(const char *path, struct reference_reader *ranks, struct reference_reader *turns, int count)
{
    struct reference_writer writer;
    bool ok = reference_create(path, &ranks->header, &writer);
    for (const struct reference_entry *entry = ranks->entries; entry < ranks->entries + ranks->count && ok; ++entry) {
        struct reference_key key = entry->record.key;
        bool averaged = is_averaged(&key, &turns[0]);
        ok = averaged ? put_mean(&writer, entry, turns, count, type_of(ranks, &key))
                      : put_copy(&writer, ranks, entry, &key);
        key.step |= REFERENCE_GOES_ON;
        ok = ok && (!averaged || key.role != CHECK_GRADIENT || put_copy(&writer, ranks, entry, &key));
    }
    return reference_close(&writer) && ok;
}

/* The first step of rank 0 beside that of one rank alone, which has the same batch: a gradient, or what an update makes
 * of a parameter that is averaged. */
static bool
compare_first(struct reference_reader *ranks, struct reference_reader *turn, struct reference_reader *alone,
              const struct reference_key *key, struct check_row *row)
{
    struct reference_key before = *key;
    int type = type_of(ranks, key);
    bool of_change = key->role != CHECK_GRADIENT;
    const struct reference_entry *own = reference_find(turn, key);
    uint64_t total = own != NULL ? own->record.bytes : 0;
    struct norms *norms = xcalloc(1, sizeof(*norms));
    before.step = 0;
    bool ok = type > 0 && own != NULL && reference_start(turn, own) && reference_start_of(alone, key, total) &&
              (!of_change || reference_start_of(ranks, &before, total));
    norms_begin(norms, ok ? total / element_size(type) : 0);
    for (uint64_t at = 0; ok && at < total; at += PIECE_BYTES) {
        double mine[PIECE_BYTES] = {0}, theirs[PIECE_BYTES] = {0}, old[PIECE_BYTES] = {0};
        size_t here = piece_at(at, total) / element_size(type);
        ok = (!of_change || reference_add(ranks, type, here, 1, old)) && reference_add(turn, type, here, 1, mine) &&
             reference_add(alone, type, here, 1, theirs);
        for (size_t i = 0; i < here && of_change; ++i) {
            mine[i] -= old[i];
            theirs[i] -= old[i];
        }
        norms_add(norms, ELEMENT_FLOAT64, mine, theirs, ok ? here : 0);
    }
    *row = (struct check_row){.kind = CHECK_ROW_TENSOR,
                              .step = 1,
                              .averaged = of_change,
                              .tensor = {.role = CHECK_GRADIENT, .number = key->number},
                              .norms = norms_end(norms)};
    free(norms);
    return ok;
}

/* What the file of one rank alone has, which made one step. */
static bool
compare_all_first(struct reference_reader *ranks, struct reference_reader *turn, struct reference_reader *alone,
                  struct check_rows *rows)
{
    bool ok = true;
    rows->rows = xcalloc(alone->count + 1, sizeof(*rows->rows));
    for (size_t i = 0; i < alone->count && ok; ++i) {
        const struct reference_key *key = &alone->entries[i].record.key;
        if (key->kind == REFERENCE_VALUES && (key->role == CHECK_GRADIENT || key->role == CHECK_PARAMETER))
            ok = compare_first(ranks, turn, alone, key, &rows->rows[rows->count++]);
    }
    return ok;
}

static bool
average_ranks(struct check *check, char *const *files, const char *path)
{
    const char *why;
    int count = check->ranks;
    struct reference_reader ranks, *turns = xcalloc((size_t)count + 1, sizeof(*turns));
    bool ok = reference_open(check->reference, &ranks, &why);
    int open = 0;
    for (; ok && open <= count; ++open)
        ok = reference_open(files[open], &turns[open], &why);
    ok = ok && write_mean(path, &ranks, turns, count) &&
         compare_all_first(&ranks, &turns[0], &turns[count], &check->evidence.grown);
    for (int r = 0; r < open; ++r)
        reference_free(&turns[r]);
    if (open > 0)
        reference_free(&ranks);
    free(turns);
    return ok;
}

/* ---- the runs ---- */

/* The ranks by themselves; each has written a reference, and rank 0's is the one. */
static bool
run_ranks(struct check *check, struct error *error)
{
    struct check_order first = session_order(check, "one", "the ranks", CHECK_WRITES);
    struct check_evidence *evidence = &check->evidence;
    first.run.keeps_start = true;
    bool ok = session_run_alone(check, &first, &evidence->alone, error);
    for (int r = 1; r < check->ranks; ++r) {
        char *other = xasprintf("%s-%d", check->reference, r);
        unlink(other);
        free(other);
    }
    if (ok && (check_evidence_in_rounds(evidence) || check_rows_find(&evidence->alone, CHECK_ROW_GRAPHS) != NULL))
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--batch-grows compares gradients at DDP_STEP, and here %s; leave it out",
                         check_evidence_in_rounds(evidence) ? "there is no DDP_STEP" : "DDP_STEP is captured");
    return ok && session_run_floor(check, error);
}

/* Ranks that share a batch in each step make no larger one; a share of all records, once, is a batch of one's own. */
static bool
rank_grows(const struct check *check, const struct check_rows *rank, const struct check_rows *alone,
           struct error *error)
{
    const struct check_row *whole = check_rows_find(alone, CHECK_ROW_SHARD), *row = NULL;
    uint64_t share = 0, steps = 0;
    while ((row = check_rows_next(rank, CHECK_ROW_SHARD, row)) != NULL) {
        share = row->value / (uint64_t)check->ranks;
        steps += row->step == steps;
    }
    if (whole == NULL || steps < check->steps || share >= whole->value)
        return true;
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "--batch-grows is for ranks that each have a whole batch, and here DDP_SHARD gives a rank %llu of "
                     "one rank's %llu in each step; leave --batch-grows out, or give each rank a batch of its own",
                     (unsigned long long)share, (unsigned long long)whole->value);
}

/* One process that is, by `turn`, a rank to the program: its own gradients go into a file, *own_p. */
static bool
run_turn(struct check *check, const struct check_run *turn, const char *title, char **own_p, struct check_rows *rows,
         struct error *error)
{
    char *name = xasprintf("turn-%u-of-%u", turn->grown, turn->grown_count);
    struct check_order order = session_order(check, name, title, CHECK_COMPARES);
    *own_p = xasprintf("%s/%s", check->folder.path, name);
    order.ranks = 1;
    order.untold = turn->grown > 0;
    order.run.steps = turn->steps;
    order.run.grown = turn->grown;
    order.run.grown_count = turn->grown_count;
    snprintf(order.run.own, sizeof(order.run.own), "%s", *own_p);
    bool ok = session_run_alone(check, &order, rows, error);
    free(name);
    return ok;
}

bool
grown_make_reference(struct check *check, struct error *error)
{
    char **files = xcalloc((size_t)check->ranks + 2, sizeof(*files)); /* of the turns, and of one rank alone */
    char *mean = xasprintf("%s/mean", check->folder.path);
    struct check_rows rows[2] = {{0}}; /* of the turns, and of one rank alone */
    bool ok = run_ranks(check, error);
    for (int r = 0; r <= check->ranks && ok; ++r) {
        bool is_alone = r == check->ranks;
        const struct check_run run = {.grown = is_alone ? 0 : (uint32_t)r,
                                      .grown_count = is_alone ? 1 : (uint32_t)check->ranks,
                                      .steps = is_alone ? 1 : check->steps};
        ok = run_turn(check, &run, is_alone ? "one rank" : "one rank, with the batch of each rank in turn", &files[r],
                      &rows[is_alone], error);
    }
    ok = ok && rank_grows(check, &rows[0], &rows[1], error);
    check_rows_free(&rows[0]);
    check_rows_free(&rows[1]);
    if (ok && !average_ranks(check, files, mean))
        ok = error_set(error, DDPRUN_EXIT_USAGE,
                       "cannot combine one rank's results for each rank's batch: one rank made other steps than the "
                       "ranks, or the disk is full; make room, or set TMPDIR");
    words_free(files);
    if (!ok) {
        free(mean);
        return false;
    }
    free(check->reference);
    check->reference = mean;
    return true;
}
