/*
 * option_rows.h - how a table of options is written: .name = "steps", WHOLE(steps, 1, 10, "a number from 1 to 10").
 *
 * For the files with a table alone. They define OPTION_TARGET, the struct that the values go into.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_OPTION_ROWS_H
#define DDPRUN_LAUNCHER_OPTIONS_OPTION_ROWS_H

#include "launcher/options/command.h"

#include <stdbool.h>

/* The offset of a member, which has one of the types. */
#define OPTION_FIELD(member, ...) \
    (offsetof(OPTION_TARGET, member) + 0 * sizeof(_Generic(((OPTION_TARGET *)NULL)->member, __VA_ARGS__)))
#define SWITCH(member)   .kind = OPTION_SWITCH, .field = OPTION_FIELD(member, bool : 0)
#define UNSWITCH(member) .kind = OPTION_UNSWITCH, .field = OPTION_FIELD(member, bool : 0)
#define WHOLE(member, least_, most_, wanted_)                                                                   \
    .kind = OPTION_WHOLE, .field = OPTION_FIELD(member, unsigned : 0, int : 0), .least = least_, .most = most_, \
    .wanted = wanted_
#define REAL(member, least_, most_, wanted_) \
    .kind = OPTION_REAL, .field = OPTION_FIELD(member, double : 0), .least = least_, .most = most_, .wanted = wanted_
#define MIB(member, most_, wanted_) \
    .kind = OPTION_MIB, .field = OPTION_FIELD(member, uint64_t : 0), .most = most_, .wanted = wanted_
#define ONE_OF(member, first) .kind = OPTION_ONE_OF, .field = OPTION_FIELD(member, unsigned : 0), .least = first
#define TEXT(member, wanted_) .kind = OPTION_TEXT, .field = OPTION_FIELD(member, const char * : 0), .wanted = wanted_
#define SPECIAL(take_)        .kind = OPTION_SPECIAL, .take = take_
#define ANSWER(answer_)       .kind = OPTION_ANSWER, .answer = answer_
#define GIVEN(member)         .given = OPTION_FIELD(member, bool : 0)
#define HELP_ROW                                                                  \
    {                                                                             \
        .name = "help", .letter = 'h', ANSWER(OPTIONS_HELP), .help = "print this" \
    }

#endif
