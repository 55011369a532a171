/*
 * test_turns.c - what ranks that take turns leave out of synthetic trainers, by gradients and by state; by state, which
 * class the memory has that stays from step to step; and which trainers cannot be played so: one row for each rule. A
 * defect of the rules is seen by a row.
 */
#include "tests/lib/test.h"
#include "tests/tools/scout/program.h"
#include "tools/scout/command/analysis/turns.h"

#define WITH_C NET "c 1\n"
#define MORE   WITH_C "n 1 int\nm 768\np 512\nq 384\n"

/* ---- what is said of a row ---- */

/* Names of memory for its numbers. */
static void
name_memory(char *text, size_t room)
{
    for (uint32_t i = 0; i < 16; ++i) {
        char number[32], *at;
        int length = snprintf(number, sizeof(number), "a%u[", i);
        while ((at = strstr(text, number)) != NULL) {
            char rest[1024];
            snprintf(rest, sizeof(rest), "%s[%s", program_name(i), at + length);
            snprintf(at, room - (size_t)(at - text), "%s", rest);
        }
    }
}

/* Of each operation: A: made by all, T: by the rank whose turn it is, L: by all in the last period of a round, C: not
 * at all. Of memory, by state: S: state, R: stream, U: sum, L: last, P: each rank's own, C: constant. host?: a proof
 * has to show what the host sends. Or the reason. Frees the turns. */
static const char *
said(const struct scout_finding *finding, struct turns *turns)
{
    static const char letters[] = {[PLAY_CHANGES] = 'S', [PLAY_STREAM] = 'R',   [PLAY_SUM] = 'U',
                                   [PLAY_LAST] = 'L',    [PLAY_PER_RANK] = 'P', [PLAY_UNWRITTEN] = 'C'};
    static char text[1024];
    size_t used = 0;
    snprintf(text, sizeof(text), "%s", turns->reason != NULL ? turns->reason : "");
    name_memory(text, sizeof(text));
    for (uint32_t i = 0; turns->reason == NULL && i < finding->period; ++i)
        text[used++] = "ATLC"[turns->parts[i]];
    for (uint32_t i = 0; turns->reason == NULL && turns->by == PLAY_BY_STATE && i < turns->range_count; ++i)
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s:%c", program_name(turns->ranges[i].alloc),
                                 letters[turns->ranges[i].role]);
    if (turns->reason == NULL)
        snprintf(text + used, sizeof(text) - used, "%s", turns->host_may_update ? " host?" : "");
    turns_free(turns);
    return text;
}

/* Kernels of the synthetic programs have names of C: each argument's type is said here, as calls of a library do.
 * Launches of `seeded` get another number in each step. */
static void
say(struct scout_log *log, const struct row *row)
{
    char name[SCOUT_NAME_BYTES];
    (void)row;
    FOR_EACH_MUTABLE(op, log->ops, log->op_count) {
        for (uint32_t a = 0; a < op->argument_count && op->effect != NULL; ++a) {
            uint32_t type = op->effect->segments[a].type;
            op->arguments[a].type = type < SCOUT_INTEGER ? type : SCOUT_UNKNOWN;
        }
        op->scalars += strcmp(scout_op_name(log, op, name), "seeded") == 0 ? NUMBER_OF(op) : 0;
    }
}

/* ---- by gradients ---- */

static const struct row by_gradients[] = {
    {"SGD", WITH_C "step\n" FORWARD BACKWARD SGD, "TTTTTTTTTLL"},
    {"the host reads", WITH_C "step\n" FORWARD "d2h loss\n" BACKWARD SGD "d2h g1\n", "TTTTTTATTTLLA"},
    {"gradients are zeroed", WITH_C "step\n" MICRO SGD "fill g1\nfill g2\n", "TTTTTTTTLLLL"},
    {"clipping", WITH_C "step\n" FORWARD BACKWARD "fill c\nnorm2: c += g1\nnorm2: c += g2\nclip: g1 += c\n" SGD,
     "TTTTTTTTTLLLLLL"},
    {"gradients that are normalised", WITH_C "step\n" FORWARD BACKWARD "rows: g1 *=\nrows: g2 *=\n" SGD,
     "TTTTTTTTTLLLL"},
    {"weight decay behind the place", WITH_C "step\n" FORWARD BACKWARD SGD "decay: w1 +=\ndecay: w2 +=\n",
     "TTTTTTTTTLLLL"},
    {"a counter that the update reads",
     WITH_C "step\n" FORWARD "count: c +=\n" BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n", "TTTTTTATTTLL"},
    {"a counter in the update", WITH_C "step\n" FORWARD BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\ncount: c +=\n",
     "TTTTTTTTTLLA"},
    {"a rate that the host sends first", WITH_C "step\nh2d c\n" FORWARD BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n",
     "ATTTTTTTTTLL"},
    {"random numbers",
     WITH_C "s 512 int\nn 512\nstep\nh2d x\nh2d t\ndraw: s +=; n = s\nlayer1: h = x w1 n\nlayer2: y = h w2\n"
            "lossk: dy = y t\n" BACKWARD SGD,
     "TTATTTTTTLL"},
    {"random numbers, used where they are drawn",
     WITH_C "s 512 int\nstep\nh2d x\nh2d t\nlayer1: h = x w1\ndrop: s += ; h += s\nlayer2: y = h w2\nlossk: dy = y "
            "t\n" BACKWARD SGD,
     "drop writes memory that is the same on all ranks, and depends on data of one rank, by a copy from the host"},
    {"a mask of each batch's own",
     WITH_C "s 768 int\nn 768\nstep\nh2d x\nh2d t\ndraw: s +=; n = s\nlayer1: h = x w1 n\nlayer2: y = h w2\n"
            "lossk: dy = y t\n" BACKWARD "mask: g1 += ~n\n" SGD,
     "mask changes averaged gradients by what differs from batch to batch"},
    {"a mask by the host's number", WITH_C "step\n" FORWARD BACKWARD "seeded: g1 +=\n" SGD,
     "seeded changes averaged gradients by what differs from batch to batch"},
    {"a factor that the host has computed from the norm",
     WITH_C "step\n" FORWARD BACKWARD "norm2: c = g1 g2\nd2h c\nseeded: g1 +=\n" SGD, "TTTTTTTTTLALLL"},
    {"an update by the host's number, which clears", WITH_C "step\n" FORWARD BACKWARD SGD "seeded: g1 = \n",
     "TTTTTTTTTLLL"},
    {"a rate that the device computes, and the host prints",
     WITH_C "k 1\nstep\n" FORWARD "count: k +=\nfall: c = k\nd2h c\n" BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n",
     "TTTTTTAAATTTLL"},
    {"a rate that the device computes",
     WITH_C "k 1\nstep\n" FORWARD "count: k +=\nfall: c = k\n" BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n",
     "TTTTTTAATTTLL"},
    {"a loss that is weighted, and whose gradients are",
     WITH_C "step\nh2d x\nh2d t\nfill c\nlayer1: h = x w1\nlayer2: y = h w2\nlossk: dy = y t c\n" BACKWARD
            "unscale: g1 += c\n" SGD,
     "TTATTTTTTLLL"},
    {"an update by the host's number, which changes gradients",
     WITH_C "step\n" FORWARD BACKWARD "seeded: g1 +=; w1 += ~g1\nsgd: w2 += ~g2\n", "TTTTTTTTTLL"},
    {"a counter beside the parameters, in one allocation",
     "x 384\nt 128 int\nw 800\nw2 256\nh 512\ny 1024\ndy 1024\ndh 512\ng1 768\ng2 256\nstep\nh2d x\nh2d t\n"
     "count: w[780:781] +=\nlayer1: h = x w[0:768]\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD
     "sgd: w[0:768] += ~g1 w[780:781]\nsgd: w2 += ~g2\n",
     "TTATTTTTTLL"},
    {"a decay in front", WITH_C "step\n" FORWARD "decay: w1 +=\n" BACKWARD SGD,
     "decay changes in each batch what sgd changes in each update"},
    {"noise for a batch",
     WITH_C "step\nh2d x\nh2d t\nseeded: w1 +=\nlayer1: h = x w1\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD
            "seeded: w1 +=\n" SGD,
     "seeded changes in each batch what sgd changes in each update"},
    {"statistics", WITH_C "m 512\nstep\n" FORWARD "mean: m += x\n" BACKWARD SGD, "TTTTTTTTTTLL"},
    {"a gradient and a counter in one kernel",
     WITH_C "step\n" FORWARD "dw2: g2 = h dy; c +=\ndx: dh = dy w2 ~h\ndw1: g1 = x dh\n" SGD,
     "dw2 writes memory that is the same on all ranks beside gradients"},
    {"two steps in a period",
     WITH_C "step\n" FORWARD BACKWARD SGD "d2h loss\nd2h loss\n" FORWARD BACKWARD SGD "fill loss\n",
     "dw2 computes gradients after the place where they are averaged"},
    {"gradients that are made anew", WITH_C "step\n" FORWARD "new g1\n" BACKWARD SGD,
     "a15 is freed and made again in each step"},
};

static const char *
turns_of(const struct row *row)
{
    struct analysed it;
    struct turns turns;
    const char *text = "gradients are not found";
    analysed_make(&it, row, 4, say);
    if (it.finding.found) {
        turns_find(&it.log, &it.finding, &turns);
        text = said(&it.finding, &turns);
    }
    analysed_free(&it);
    return text;
}

TABLE_TEST(operations_are_dropped_by_rule, by_gradients)
{
    row_require(&by_gradients[_i], turns_of);
}

static const char *const mutants[] = {"SCOUT_TURNS_DROP_COMMON", "SCOUT_TURNS_CLEAR_EACH", "SCOUT_TURNS_MASK_LAST"};

TABLE_TEST(a_defect_of_the_rules_is_seen, mutants)
{
    rows_require_seen(by_gradients, sizeof(by_gradients) / sizeof(*by_gradients), turns_of, mutants[_i]);
}

/* A place after clipping is one that proof (c) must not pass over as records that lie beside each other. */
TEST(a_gradient_that_is_scaled_before_it_is_averaged)
{
    static const char *const defects[] = {"SCOUT_NONE", "SCOUT_DOWNSTREAM"};
    static const struct row clipped = {.program = WITH_C "step\n" FORWARD BACKWARD
                                                         "fill c\nnorm2: c += g1\nclip: g1 += c\n" SGD};
    for (int is_late = 0; is_late < 2; ++is_late) {
        struct analysed it;
        struct turns turns;
        setenv("DDPRUN_MUTANT", defects[is_late], 1);
        analysed_make(&it, &clipped, 4, say);
        unsetenv("DDPRUN_MUTANT");
        ck_assert_msg(it.finding.found, "%s", it.finding.reason);
        turns_find(&it.log, &it.finding, &turns);
        ck_assert_int_eq(turns.is_scaled, is_late);
        turns_free(&turns);
        analysed_free(&it);
    }
}

/* The type of a sum is what names and calls say, whatever bits look like. */
TEST(a_type_that_nothing_says_is_refused)
{
    struct analysed it;
    struct turns turns;
    analysed_make(&it, &by_gradients[0], 4, NULL);
    ck_assert(it.finding.found);
    turns_find(&it.log, &it.finding, &turns);
    ck_assert_ptr_nonnull(strstr(said(&it.finding, &turns), "the type of the sum in gradient"));
    analysed_free(&it);
}

/* ---- by state ---- */

static const struct row by_state[] = {
    {"SGD", MORE "step\n" BATCH PASS BACKWARD SGD, "AATTTTTTCC w1:S w2:S"},
    {"momentum", MORE "step\n" BATCH PASS BACKWARD "sgd: m += ~g1; w1 += ~g1 ~m\nsgd: w2 += ~g2\n",
     "AATTTTTTCC w1:S w2:S m:S"},
    {"gradient and update in one launch",
     MORE "step\n" BATCH PASS "dx: dh = dy w2 ~h\ndw2: w2 += h dy\ndw1: w1 += x dh\n", "AATTTTCC w1:S w2:S"},
    {"updates inside backward",
     MORE "step\n" BATCH PASS "dw2: g2 = h dy\ndx: dh = dy w2 ~h\nsgd: w2 += ~g2\n"
          "dw1: g1 = x dh\nsgd: w1 += ~g1\n",
     "AATTTTTCTC w1:S w2:S"},
    {"gradients that are made anew", MORE "step\n" BATCH PASS "new g1\n" BACKWARD SGD, "AATTTTTTCC w1:S w2:S"},
    {"clipping", MORE "step\n" BATCH PASS BACKWARD "fill c\nnorm2: c += g1\nclip: g1 += c\n" SGD,
     "AATTTTTTTTTCC w1:S w2:S"},
    {"a counter", MORE "step\n" BATCH PASS BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\ncount: c +=\n",
     "AATTTTTTCCA w1:S w2:S c:R"},
    {"random numbers",
     MORE
     "step\nh2d x\nh2d t\ndraw: n += ; p = n\nlayer1: h = x w1 p\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     "AAATTTTTTCC w1:S w2:S n:R"},
    {"what random numbers are made of, in the same step",
     MORE "step\nh2d x\nh2d t\nfill p\nseed: p += n\ndraw: n += p\nlayer1: h = x w1 n\nlayer2: y = h w2\nlossk: dy = y "
          "t\n" BACKWARD SGD,
     "AAAAATTTTTTCC w1:S w2:S n:R"},
    {"random numbers, used where they are drawn",
     MORE "step\nh2d x\nh2d t\nlayer1: h = x w1\ndrop: n += ; h += n\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     "AATATTTTTCC w1:S w2:S n:R"},
    {"a batch that is loaded ahead",
     MORE "step\ncopy q x\nh2d x\nh2d t\nlayer1: h = q w1\nlayer2: y = h w2\n"
          "lossk: dy = y t\n" BACKWARD SGD,
     "AATTTTTTCCA w1:S w2:S q:R"},
    {"hits that are counted", MORE "step\n" BATCH PASS "hits: n += y t\n" BACKWARD SGD, "AATTTTTTTCC w1:S w2:S n:U"},
    {"hits that are counted and read", MORE "step\n" BATCH PASS "hits: n += y t\nrate: c = n\n" BACKWARD SGD,
     "n[0:4] holds whole numbers that are computed from data, which have no average; --per-rank a12 gives each rank "
     "its "
     "own"},
    {"hits that are counted and read, of each rank",
     MORE "step\n" BATCH PASS "hits: n += y t\nrate: c = n\n" BACKWARD SGD, "AATTTTTTTTCC w1:S w2:S n:P", "a12"},
    {"hits, and a kernel that gets them and does not count",
     MORE "step\n" BATCH PASS "hits: n += y t\n" BACKWARD "sgd: w1 += ~g1 n{0:0}\nsgd: w2 += ~g2\n",
     "n[0:4] holds whole numbers that are computed from data, which have no average; --per-rank a12 gives each rank "
     "its own"},
    {"a count of steps", MORE "step\n" BATCH PASS BACKWARD SGD "grow: n +=\n", "AATTTTTTCCT w1:S w2:S n:U"},
    {"a count of steps, and a scale that may grow with it", MORE "step\n" BATCH PASS BACKWARD SGD "grow: n += c{0:0}\n",
     "AATTTTTTCCA w1:S w2:S c:C n:R"},
    {"a loss that is read one step later",
     MORE "step\nh2d x\nh2d t\nd2h loss\nlayer1: h = x w1\nlayer2: y = h w2\n"
          "lossk: dy = y t; loss = y t\n" BACKWARD SGD,
     "AAATTTTTTCC w1:S w2:S loss:L"},
    {"a counter beside a weight", MORE "step\n" BATCH PASS BACKWARD "sgd: w1 += ~g1; c +=\nsgd: w2 += ~g2\n",
     "sgd writes w1[0:3072], which each rank changes in its own step, and memory that is the same on all ranks: "
     "c[0:4]"},
    {"weights that the host updates", MORE "step\nh2d w1\n" BATCH PASS BACKWARD "d2h g1\nsgd: w2 += ~g2\n",
     "AAATTTTTTAC w2:S host?"},
    {"gradients of two passes, cleared behind the update, of batches that lie on the device",
     "x 384\nw1 768\ndy 1024\ng1 768\nstep\nlayer1: dy = x w1\ndw1: g1 += x dy\nlayer1: dy = x w1\ndw1: g1 += x dy\n"
     "sgd: w1 += ~g1\nfill g1\n",
     "TTTTTC x:C w1:S"},
    {"hidden memory", MORE "step\n" BATCH PASS "dw2!hidden: g2 = h dy\ndx: dh = dy w2 ~h\ndw1: g1 = x dh\n" SGD,
     "dw2 reads memory that is not among its arguments"},
};

static const char *
classes_of(const struct row *row)
{
    struct analysed it;
    struct turns turns;
    analysed_make(&it, row, 4, say);
    by_state_find(&it.log, &it.finding, row->per_rank, &turns);
    const char *text = said(&it.finding, &turns);
    analysed_free(&it);
    return text;
}

TABLE_TEST(memory_has_a_class_by_rule, by_state)
{
    row_require(&by_state[_i], classes_of);
}

static const char *const state_mutants[] = {"SCOUT_TURNS_DROP_COMMON", "SCOUT_COUNTS_DECIDE_NOTHING"};

TABLE_TEST(a_defect_of_the_classes_is_seen, state_mutants)
{
    rows_require_seen(by_state, sizeof(by_state) / sizeof(*by_state), classes_of, state_mutants[_i]);
}
