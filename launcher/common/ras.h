/*
 * ras.h - NCCL's own answer about a job that waits: since version 2.24 its RAS server ("reliability, availability,
 * serviceability") knows which ranks have come to which collective. ddprun sets NCCL_RAS_ENABLE=0, for the server
 * listens in a rank of each host: the user turns it on by NCCL_RAS_ENABLE=1.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_RAS_H
#define DDPRUN_LAUNCHER_COMMON_RAS_H

#include <stddef.h>

/*
 * Appends the answer of this host's server to text[bytes], a heading and indented lines; nothing if the user has not
 * turned it on, or it does not answer. The address is NCCL's: NCCL_RAS_ADDR, or localhost:28028. Takes 5 s at most.
 * Supervisor's thread.
 */
void ras_append(char *text, size_t bytes);

#endif
