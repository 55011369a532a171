/*
 * terms.c - see terms.h.
 */
#include "launcher/options/terms.h"

#include <stdio.h>

void
terms_write(const struct options *options, bool softgpu, char *terms, size_t bytes)
{
    snprintf(terms, bytes,
             "ddprun's version " DDPRUN_VERSION "\n"
             "--device %s\n"
             "--bucket-mb (bytes) %llu\n"
             "--no-overlap %d\n"
             "--reduce %s\n"
             "--sync-every %u\n"
             "--outer-lr %.17g\n"
             "--outer-momentum %.17g\n"
             "--compress %s\n"
             "--communicators %u\n"
             "--check-every %u\n"
             "--verify %d\n"
             "--timeout %u\n"
             "--hang-warning %u\n"
             "--hang-timeout %u\n"
             "--heartbeat-timeout %u\n",
             softgpu ? "softgpu" : "gpu", (unsigned long long)options->bucket_bytes, !options->overlap,
             reduction_names[options->reduction], options->sync_every, options->outer_rate, options->outer_momentum,
             compression_names[options->compression], options->communicator_count, options->check_every,
             options->verify, options->timeout_s, options->hang_warning_s, options->hang_timeout_s,
             options->heartbeat_timeout_s);
}
