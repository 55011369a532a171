/*
 * test_by_state.c - which class the memory of synthetic trainers has that stays from step to step, which operations all
 * ranks make, and which trainers cannot be played by state: one row for each rule. A defect of the rules is seen by a
 * row.
 */
#include "tests/test.h"
#include "tests/tools/scout/program.h"
#include "tools/scout/command/analysis/turns.h"

#include <stdio.h>

/* A net of two layers: x -> h -> y -> dy -> dw2, dh -> dw1. */
#define NET                                                                                                           \
    "x 384\nt 128 int\nw1 768\nw2 256\nh 512\ny 1024\ndy 1024\ndh 512\ng1 768\ng2 256\nloss 1\nc 1\nn 1 int\nm 768\n" \
    "p 512\nq 384\n"
#define FORWARD  "h2d x\nh2d t\nlayer1: h = x w1\nlayer2: y = h w2\nlossk: dy = y t\n"
#define BACKWARD "dw2: g2 = h dy\ndx: dh = dy w2 ~h\ndw1: g1 = x dh\n"
#define SGD      "sgd: w1 += ~g1\nsgd: w2 += ~g2\n"

/* Of each operation: A: made by all, T: by the rank whose turn it is, C: or not at all. Of memory: S: state, R: stream,
 * U: sum, L: last, P: each rank's own, C: constant; host?: a proof has to show what the host sends. */
static const struct row {
    const char *name, *program, *expected, *per_rank;
} rows[] = {
    {"SGD", NET "step\n" FORWARD BACKWARD SGD, "AATTTTTTCC w1:S w2:S"},
    {"momentum", NET "step\n" FORWARD BACKWARD "sgd: m += ~g1; w1 += ~g1 ~m\nsgd: w2 += ~g2\n",
     "AATTTTTTCC w1:S w2:S m:S"},
    {"gradient and update in one launch", NET "step\n" FORWARD "dx: dh = dy w2 ~h\ndw2: w2 += h dy\ndw1: w1 += x dh\n",
     "AATTTTCC w1:S w2:S"},
    {"updates inside backward",
     NET "step\n" FORWARD "dw2: g2 = h dy\ndx: dh = dy w2 ~h\nsgd: w2 += ~g2\n"
         "dw1: g1 = x dh\nsgd: w1 += ~g1\n",
     "AATTTTTCTC w1:S w2:S"},
    {"gradients that are made anew", NET "step\n" FORWARD "new g1\n" BACKWARD SGD, "AATTTTTTCC w1:S w2:S"},
    {"clipping", NET "step\n" FORWARD BACKWARD "fill c\nnorm2: c += g1\nclip: g1 += c\n" SGD,
     "AATTTTTTTTTCC w1:S w2:S"},
    {"a counter", NET "step\n" FORWARD BACKWARD "sgd: w1 += ~g1 c\nsgd: w2 += ~g2 c\ncount: c +=\n",
     "AATTTTTTCCA w1:S w2:S c:R"},
    {"random numbers",
     NET "step\nh2d x\nh2d t\ndraw: n += ; p = n\nlayer1: h = x w1 p\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     "AAATTTTTTCC w1:S w2:S n:R"},
    {"what random numbers are made of, in the same step",
     NET "step\nh2d x\nh2d t\nfill p\nseed: p += n\ndraw: n += p\nlayer1: h = x w1 n\nlayer2: y = h w2\nlossk: dy = y "
         "t\n" BACKWARD SGD,
     "AAAAATTTTTTCC w1:S w2:S n:R"},
    {"random numbers, used where they are drawn",
     NET "step\nh2d x\nh2d t\nlayer1: h = x w1\ndrop: n += ; h += n\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     "AATATTTTTCC w1:S w2:S n:R"},
    {"a batch that is loaded ahead",
     NET "step\ncopy q x\nh2d x\nh2d t\nlayer1: h = q w1\nlayer2: y = h w2\n"
         "lossk: dy = y t\n" BACKWARD SGD,
     "AATTTTTTCCA w1:S w2:S q:R"},
    {"hits that are counted", NET "step\n" FORWARD "hits: n += y t\n" BACKWARD SGD, "AATTTTTTTCC w1:S w2:S n:U"},
    {"hits that are counted and read", NET "step\n" FORWARD "hits: n += y t\nrate: c = n\n" BACKWARD SGD,
     "n[0:4] holds whole numbers that are computed from data, which have no average; --per-rank a12 gives each rank "
     "its "
     "own"},
    {"hits that are counted and read, of each rank", NET "step\n" FORWARD "hits: n += y t\nrate: c = n\n" BACKWARD SGD,
     "AATTTTTTTTCC w1:S w2:S n:P", "a12"},
    {"hits, and a kernel that gets them and does not count",
     NET "step\n" FORWARD "hits: n += y t\n" BACKWARD "sgd: w1 += ~g1 n{0:0}\nsgd: w2 += ~g2\n",
     "n[0:4] holds whole numbers that are computed from data, which have no average; --per-rank a12 gives each rank "
     "its own"},
    {"a count of steps", NET "step\n" FORWARD BACKWARD SGD "grow: n +=\n", "AATTTTTTCCT w1:S w2:S n:U"},
    {"a count of steps, and a scale that may grow with it", NET "step\n" FORWARD BACKWARD SGD "grow: n += c{0:0}\n",
     "AATTTTTTCCA w1:S w2:S c:C n:R"},
    {"a loss that is read one step later",
     NET "step\nh2d x\nh2d t\nd2h loss\nlayer1: h = x w1\nlayer2: y = h w2\n"
         "lossk: dy = y t; loss = y t\n" BACKWARD SGD,
     "AAATTTTTTCC w1:S w2:S loss:L"},
    {"a counter beside a weight", NET "step\n" FORWARD BACKWARD "sgd: w1 += ~g1; c +=\nsgd: w2 += ~g2\n",
     "sgd writes w1[0:3072], which each rank changes in its own step, and memory that is the same on all ranks"},
    {"weights that the host updates", NET "step\nh2d w1\n" FORWARD BACKWARD "d2h g1\nsgd: w2 += ~g2\n",
     "AAATTTTTTAC w2:S host?"},
    {"gradients of two passes, cleared behind the update, of batches that lie on the device",
     "x 384\nw1 768\ndy 1024\ng1 768\nstep\nlayer1: dy = x w1\ndw1: g1 += x dy\nlayer1: dy = x w1\ndw1: g1 += x dy\n"
     "sgd: w1 += ~g1\nfill g1\n",
     "TTTTTC x:C w1:S"},
    {"hidden memory", NET "step\n" FORWARD "dw2!hidden: g2 = h dy\ndx: dh = dy w2 ~h\ndw1: g1 = x dh\n" SGD,
     "dw2 reads memory that is not among its arguments"},
};

static const char *
said(const struct scout_finding *finding, const struct turns *by_state)
{
    static char text[1024];
    size_t used = 0;
    if (by_state->reason != NULL) {
        snprintf(text, sizeof(text), "%s", by_state->reason);
        if (text[0] == 'a' || strstr(text, " a") != NULL) /* names of memory for its numbers */
            for (uint32_t i = 0; i < 16; ++i) {
                char number[32], *at;
                int length = snprintf(number, sizeof(number), "a%u[", i);
                while ((at = strstr(text, number)) != NULL) {
                    char rest[1024];
                    snprintf(rest, sizeof(rest), "%s[%s", program_name(i), at + length);
                    memcpy(at, rest, strlen(rest) + 1);
                }
            }
        return text;
    }
    for (uint32_t i = 0; i < finding->period; ++i)
        text[used++] = "AT-C"[by_state->parts[i]];
    text[used] = '\0';
    FOR_EACH(range, by_state->ranges, by_state->range_count) {
        static const char letters[] = {[PLAY_CHANGES] = 'S', [PLAY_STREAM] = 'R',   [PLAY_SUM] = 'U',
                                       [PLAY_LAST] = 'L',    [PLAY_PER_RANK] = 'P', [PLAY_UNWRITTEN] = 'C'};
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s:%c", program_name(range->alloc),
                                 letters[range->role]);
    }
    snprintf(text + used, sizeof(text) - used, "%s", by_state->host_may_update ? " host?" : "");
    return text;
}

/* Kernels of the synthetic programs have names of C: each argument's type is said here, as calls of a library do. */
static void
say_types(struct scout_log *log)
{
    for (uint32_t i = 0; i < log->op_count; ++i)
        for (uint32_t a = 0; a < log->ops[i].argument_count && log->ops[i].effect != NULL; ++a) {
            uint32_t type = log->ops[i].effect->segments[a].type;
            log->ops[i].arguments[a].type = type < SCOUT_INTEGER ? type : SCOUT_UNKNOWN;
        }
}

static const char *
play(const struct row *row)
{
    static char text[1024];
    struct scout_log log;
    struct scout_finding finding;
    struct turns by_state;
    program_record(row->program, 4, &log);
    say_types(&log);
    scout_find(&log, NULL, &finding);
    by_state_find(&log, &finding, row->per_rank, &by_state);
    snprintf(text, sizeof(text), "%s", said(&finding, &by_state));
    turns_free(&by_state);
    scout_finding_free(&finding);
    scout_log_free(&log);
    return text;
}

TABLE_TEST(memory_has_a_class_by_rule, rows)
{
    unsetenv("DDPRUN_MUTANT");
    const char *text = play(&rows[_i]);
    ck_assert_msg(strcmp(text, rows[_i].expected) == 0, "%s\n    found:    %s\n    expected: %s", rows[_i].name, text,
                  rows[_i].expected);
}

TEST(a_defect_of_the_rules_is_seen)
{
    static const char *const mutants[] = {"SCOUT_TURNS_DROP_COMMON", "SCOUT_COUNTS_DECIDE_NOTHING"};
    for (size_t m = 0; m < sizeof(mutants) / sizeof(*mutants); ++m) {
        unsigned seen = 0;
        setenv("DDPRUN_MUTANT", mutants[m], 1);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
            seen += strcmp(play(&rows[i]), rows[i].expected) != 0;
        unsetenv("DDPRUN_MUTANT");
        ck_assert_uint_gt(seen, 0);
    }
}
