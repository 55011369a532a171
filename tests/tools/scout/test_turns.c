/*
 * test_turns.c - what ranks that take turns leave out of synthetic trainers, and which trainers cannot be played so:
 * one row for each rule. A defect of the rules is seen by a row.
 */
#include "tests/test.h"
#include "tests/tools/scout/program.h"
#include "tools/scout/command/analysis/turns.h"

#include <stdio.h>

/* A net of two layers: x -> h -> y -> dy -> dw2, dh -> dw1. Types are said by a call. */
#define NET      "x 384\nt 128 int\nw1 768\nw2 256\nh 512\ny 1024\ndy 1024\ndh 512\ng1 768\ng2 256\nloss 1\nc 1\n"
#define FORWARD  "h2d x\nh2d t\nfill loss\nlayer1: h = x w1\nlayer2: y = h w2\nlossk: dy = y t; loss += y t\n"
#define BACKWARD "dw2: g2 = h dy\ndx: dh = dy w2 ~h\ndw1: g1 = x dh\n"
#define MICRO                                                                                                         \
    "h2d x\nh2d t\nlayer1: h = x w1\nlayer2: y = h w2\nlossk: dy = y t\ndw2: g2 += h dy\ndx: dh = dy w2 ~h\ndw1: g1 " \
    "+= x dh\n"
#define SGD "sgd: w1 += ~g1\nsgd: w2 += ~g2\n"

/* Of each operation: A: made by all, T: by the rank whose turn it is, L: by all in the last period of a round. */
static const struct row {
    const char *name, *program, *expected;
} rows[] = {
    {"SGD", NET "step\n" FORWARD BACKWARD SGD, "TTTTTTTTTLL"},
    {"the host reads", NET "step\n" FORWARD "d2h loss\n" BACKWARD SGD "d2h g1\n", "TTTTTTATTTLLA"},
    {"gradients are zeroed", NET "step\n" MICRO SGD "fill g1\nfill g2\n", "TTTTTTTTLLLL"},
    {"clipping", NET "step\n" FORWARD BACKWARD "fill c\nnorm2: c += g1\nnorm2: c += g2\nclip: g1 += c\n" SGD,
     "TTTTTTTTTLLLLLL"},
    {"gradients that are normalised", NET "step\n" FORWARD BACKWARD "rows: g1 *=\nrows: g2 *=\n" SGD, "TTTTTTTTTLLLL"},
    {"weight decay behind the place", NET "step\n" FORWARD BACKWARD SGD "decay: w1 +=\ndecay: w2 +=\n",
     "TTTTTTTTTLLLL"},
    {"a counter that the update reads",
     NET "step\n" FORWARD "count: c +=\n" BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n", "TTTTTTATTTLL"},
    {"a counter in the update", NET "step\n" FORWARD BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\ncount: c +=\n",
     "TTTTTTTTTLLA"},
    {"a rate that the host sends first", NET "step\nh2d c\n" FORWARD BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n",
     "ATTTTTTTTTLL"},
    {"random numbers",
     NET "s 512 int\nn 512\nstep\nh2d x\nh2d t\ndraw: s +=; n = s\nlayer1: h = x w1 n\nlayer2: y = h w2\n"
         "lossk: dy = y t\n" BACKWARD SGD,
     "TTATTTTTTLL"},
    {"random numbers, used where they are drawn",
     NET "s 512 int\nstep\nh2d x\nh2d t\nlayer1: h = x w1\ndrop: s += ; h += s\nlayer2: y = h w2\nlossk: dy = y "
         "t\n" BACKWARD SGD,
     "drop writes memory that is the same on all ranks, and depends on data of one rank, by a copy from the host"},
    {"a mask of each batch's own",
     NET "s 768 int\nn 768\nstep\nh2d x\nh2d t\ndraw: s +=; n = s\nlayer1: h = x w1 n\nlayer2: y = h w2\n"
         "lossk: dy = y t\n" BACKWARD "mask: g1 += ~n\n" SGD,
     "mask changes averaged gradients by what differs from batch to batch"},
    {"a mask by the host's number", NET "step\n" FORWARD BACKWARD "seeded: g1 +=\n" SGD,
     "seeded changes averaged gradients by what differs from batch to batch"},
    {"a factor that the host has computed from the norm",
     NET "step\n" FORWARD BACKWARD "norm2: c = g1 g2\nd2h c\nseeded: g1 +=\n" SGD, "TTTTTTTTTLALLL"},
    {"an update by the host's number, which clears", NET "step\n" FORWARD BACKWARD SGD "seeded: g1 = \n",
     "TTTTTTTTTLLL"},
    {"a rate that the device computes, and the host prints",
     NET "k 1\nstep\n" FORWARD "count: k +=\nfall: c = k\nd2h c\n" BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n",
     "TTTTTTAAATTTLL"},
    {"a rate that the device computes",
     NET "k 1\nstep\n" FORWARD "count: k +=\nfall: c = k\n" BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\n",
     "TTTTTTAATTTLL"},
    {"a loss that is weighted, and whose gradients are",
     NET "step\nh2d x\nh2d t\nfill c\nlayer1: h = x w1\nlayer2: y = h w2\nlossk: dy = y t c\n" BACKWARD
         "unscale: g1 += c\n" SGD,
     "TTATTTTTTLLL"},
    {"an update by the host's number, which changes gradients",
     NET "step\n" FORWARD BACKWARD "seeded: g1 +=; w1 += ~g1\nsgd: w2 += ~g2\n", "TTTTTTTTTLL"},
    {"a counter beside the parameters, in one allocation",
     "x 384\nt 128 int\nw 800\nw2 256\nh 512\ny 1024\ndy 1024\ndh 512\ng1 768\ng2 256\nstep\nh2d x\nh2d t\n"
     "count: w[780:781] +=\nlayer1: h = x w[0:768]\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD
     "sgd: w[0:768] += ~g1 w[780:781]\nsgd: w2 += ~g2\n",
     "TTATTTTTTLL"},
    {"a decay in front", NET "step\n" FORWARD "decay: w1 +=\n" BACKWARD SGD,
     "decay changes in each batch what sgd changes in each update"},
    {"noise for a batch",
     NET "step\nh2d x\nh2d t\nseeded: w1 +=\nlayer1: h = x w1\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD
         "seeded: w1 +=\n" SGD,
     "seeded changes in each batch what sgd changes in each update"},
    {"statistics", NET "m 512\nstep\n" FORWARD "mean: m += x\n" BACKWARD SGD, "TTTTTTTTTTLL"},
    {"a gradient and a counter in one kernel",
     NET "step\n" FORWARD "dw2: g2 = h dy; c +=\ndx: dh = dy w2 ~h\ndw1: g1 = x dh\n" SGD,
     "dw2 writes memory that is the same on all ranks beside gradients"},
    {"two steps in a period",
     NET "step\n" FORWARD BACKWARD SGD "d2h loss\nd2h loss\n" FORWARD BACKWARD SGD "fill loss\n",
     "dw2 computes gradients after the place where they are averaged"},
    {"gradients that are made anew", NET "step\n" FORWARD "new g1\n" BACKWARD SGD,
     "a15 is freed and made again in each step"},
};

static const char *
said(const struct scout_finding *finding, const struct turns *turns)
{
    static char text[1024];
    size_t used = 0;
    if (turns->reason != NULL) {
        snprintf(text, sizeof(text), "%s", turns->reason);
        return text;
    }
    for (uint32_t i = 0; i < finding->period; ++i)
        text[used++] = "ATL"[turns->parts[i]];
    text[used] = '\0';
    return text;
}

/* Kernels of the synthetic programs have names of C: each argument's type is said here, as calls of a library do. */
static void
say_types(struct scout_log *log)
{
    for (uint32_t i = 0; i < log->op_count; ++i)
        for (uint32_t a = 0; a < log->ops[i].argument_count; ++a)
            log->ops[i].arguments[a].type = SCOUT_FLOAT32;
}

/* Launches of `seeded` get another number in each step. */
static void
say_numbers(struct scout_log *log)
{
    char name[SCOUT_NAME_BYTES];
    for (uint32_t i = 0; i < log->op_count; ++i)
        log->ops[i].scalars += strcmp(scout_op_name(log, &log->ops[i], name), "seeded") == 0 ? i : 0;
}

static const char *
play(const struct row *row)
{
    static char text[1024];
    struct scout_log log;
    struct scout_finding finding;
    struct turns turns;
    program_record(row->program, 4, &log);
    say_types(&log);
    say_numbers(&log);
    scout_find(&log, NULL, &finding);
    if (!finding.found) {
        snprintf(text, sizeof(text), "not found: %s", finding.reason);
    } else {
        turns_find(&log, &finding, &turns);
        snprintf(text, sizeof(text), "%s", said(&finding, &turns));
        turns_free(&turns);
    }
    scout_finding_free(&finding);
    scout_log_free(&log);
    return text;
}

TABLE_TEST(operations_are_dropped_by_rule, rows)
{
    unsetenv("DDPRUN_MUTANT");
    const char *text = play(&rows[_i]);
    ck_assert_msg(strcmp(text, rows[_i].expected) == 0, "%s\n    found:    %s\n    expected: %s", rows[_i].name, text,
                  rows[_i].expected);
}

TEST(a_defect_of_the_rules_is_seen)
{
    static const char *const mutants[] = {"SCOUT_TURNS_DROP_COMMON", "SCOUT_TURNS_CLEAR_EACH", "SCOUT_TURNS_MASK_LAST"};
    for (size_t m = 0; m < sizeof(mutants) / sizeof(*mutants); ++m) {
        unsigned seen = 0;
        setenv("DDPRUN_MUTANT", mutants[m], 1);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
            seen += strcmp(play(&rows[i]), rows[i].expected) != 0;
        unsetenv("DDPRUN_MUTANT");
        ck_assert_uint_gt(seen, 0);
    }
}

/* A place after clipping is one that proof (c) must not pass over as records that lie beside each other. */
TEST(a_gradient_that_is_scaled_before_it_is_averaged)
{
    static const char *const mutants[] = {"SCOUT_NONE", "SCOUT_DOWNSTREAM"};
    for (int is_late = 0; is_late < 2; ++is_late) {
        struct scout_log log;
        struct scout_finding finding;
        struct turns turns;
        setenv("DDPRUN_MUTANT", mutants[is_late], 1);
        program_record(NET "step\n" FORWARD BACKWARD "fill c\nnorm2: c += g1\nclip: g1 += c\n" SGD, 4, &log);
        say_types(&log);
        scout_find(&log, NULL, &finding);
        unsetenv("DDPRUN_MUTANT");
        ck_assert_msg(finding.found, "%s", finding.reason);
        turns_find(&log, &finding, &turns);
        ck_assert_int_eq(turns.is_scaled, is_late);
        turns_free(&turns);
        scout_finding_free(&finding);
        scout_log_free(&log);
    }
}

/* The type of a sum is what names and calls say, whatever bits look like. */
TEST(a_type_that_nothing_says_is_refused)
{
    struct scout_log log;
    struct scout_finding finding;
    struct turns turns;
    program_record(rows[0].program, 4, &log);
    scout_find(&log, NULL, &finding);
    ck_assert(finding.found);
    turns_find(&log, &finding, &turns);
    ck_assert_ptr_nonnull(turns.reason);
    ck_assert_ptr_nonnull(strstr(turns.reason, "the type of the sum in gradient"));
    turns_free(&turns);
    scout_finding_free(&finding);
    scout_log_free(&log);
}
