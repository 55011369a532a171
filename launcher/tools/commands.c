/*
 * commands.c - see commands.h. In the order in which a user needs them.
 */
#include "launcher/tools/commands.h"

#include "launcher/tools/check/check.h"
#include "launcher/tools/doctor/doctor.h"
#include "launcher/tools/page/page.h"
#include "launcher/tools/predict/command.h"
#include "launcher/tools/scout/scout.h"
#include "launcher/tools/trace/trace.h"

const struct command *const commands[] = {
    &doctor_command, &scout_command, &check_command, &trace_command, &report_command, &predict_command, NULL};
