/*
 * A chain of calls that was kept (tools/plan/trainer/chains.c) is known again where it is the same, and only there:
 * not when the innermost call, or one further out, stands in another line, and not on another thread.
 */
#include "tests/lib/test.h"
#include "tools/plan/trainer/player.h"

#include <pthread.h>

static struct chain kept;

/* 1: keeps the chain; 0: says whether it is that one. */
static __attribute__((noinline)) bool
meet(bool keeps)
{
    const void *frame = __builtin_frame_address(0);
    if (!keeps)
        return chain_holds(&kept, frame);
    chain_take(&kept, frame);
    return kept.count > 0;
}

/* Lines with calls at one depth of the stack. */
static __attribute__((noinline)) bool
call(int line, bool keeps)
{
    volatile bool said;
    if (line == 0)
        said = meet(keeps);
    else
        said = meet(keeps);
    __asm__ volatile(""); /* no call is the last */
    return said;
}

static __attribute__((noinline)) bool
call_from(int outer, int line, bool keeps)
{
    volatile bool said;
    if (outer == 0)
        said = call(line, keeps);
    else
        said = call(line, keeps);
    return said;
}

TEST(the_same_chain_is_known_again)
{
    for (int i = 0; i < 3; ++i) /* the first keeps it */
        ck_assert(call_from(0, 0, i == 0));
}

TEST(another_line_is_another_chain)
{
    volatile int outers[] = {0, 0, 1}, lines[] = {0, 1, 0};
    bool known[3];
    ck_assert(call_from(outers[0], lines[0], true));
    for (int i = 0; i < 3; ++i)
        known[i] = call_from(outers[i], lines[i], false);
    ck_assert(!known[1]);
    ck_assert(!known[2]);
}

static void *
ask(void *known)
{
    *(bool *)known = chain_holds(&kept, kept.frame);
    return NULL;
}

TEST(another_thread_is_another_chain)
{
    pthread_t thread;
    bool known = true;
    chain_take(&kept, __builtin_frame_address(0)); /* it lasts as long as this call */
    ck_assert(chain_holds(&kept, __builtin_frame_address(0)));
    ck_assert_int_eq(pthread_create(&thread, NULL, ask, &known), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!known);
}
