/* commands.c - see commands.h. In the order in which a user needs them. */
#include "tools/commands.h"

#include "tools/check/command/check.h"
#include "tools/doctor/examine.h"
#include "tools/page/page.h"
#include "tools/scout/command/scout.h"
#include "tools/trace/picture.h"

const struct command *const commands[] = {&doctor_command, &scout_command,  &check_command,
                                          &trace_command,  &report_command, NULL};
