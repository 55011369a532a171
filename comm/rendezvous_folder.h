/*
 * rendezvous_folder.h - what rank 0 says to all on one node, through files of the job folder. Only rendezvous_pmix.c
 * includes this.
 *
 * For a program whose MPI_Init has joined the job of another PMIx server. And for a program that follows another one in
 * its rank (a script that trains twice): PMIx still has what the first one published, and its fences end before all
 * have come where clients of the first one are just leaving (PMIX_ERR_PARTIAL_SUCCESS, seen with 16 ranks).
 */
#ifndef DDPRUN_COMM_RENDEZVOUS_FOLDER_H
#define DDPRUN_COMM_RENDEZVOUS_FOLDER_H

#include "comm/rendezvous.h"

/*
 * rendezvous_share(): rank 0 gives `mine`, the others wait for it in out[bytes]. The file's name has generation and
 * key, so no program reads what was meant for another. Polls; at most timeout_s seconds.
 */
bool rendezvous_folder_share(const struct rendezvous *rendezvous, const char *key, const void *mine, void *out,
                             size_t bytes, int timeout_s, struct comm_error *error) __attribute__((warn_unused_result));

#endif
