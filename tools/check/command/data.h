/*
 * data.h - do the ranks' data together make the batch? From what each rank has copied from the host, by call site,
 * beside what one rank has copied in the same step (tools/check/format/copies.h).
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_DATA_H
#define DDPRUN_TOOLS_CHECK_COMMAND_DATA_H

#include "tools/check/command/pattern.h"

/*
 * If gradients differ first, and what ranks have copied for them is not the reference's batch in shares, decides the
 * verdict: which call site, which ranks, which items. It names a cause of what differs, and makes nothing different:
 * false where the data are right, or nothing is known of them.
 */
bool data_verdict(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern);

/* The same where nothing else is known: a rank has copied what one rank never has. */
bool data_verdict_unknown(const struct check_evidence *evidence, struct check_verdict *verdict,
                          const struct pattern *pattern);

/* Where in the source a call site stands that copies to the device. Returns `text`. */
enum { DATA_PLACE_BYTES = 300 };
const char *data_name_site(const struct check_evidence *evidence, uint64_t site, char text[DATA_PLACE_BYTES]);

#endif
