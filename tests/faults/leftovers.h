/*
 * leftovers.h - what a run has left behind: processes, files, sockets, shared memory.
 *
 * Only what is a run's own counts: processes with its mark in their environment, files in its folders; and where the
 * system allows the campaign namespaces, everything in these.
 */
#ifndef DDPRUN_TESTS_FAULTS_LEFTOVERS_H
#define DDPRUN_TESTS_FAULTS_LEFTOVERS_H

#include "tests/faults/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Makes the campaign the heir of orphans; with `network` gives it a network and a /dev/shm of its own, too. False where
 * the system does not allow the former: sockets and shared memory are then not looked at. */
bool leftovers_isolate(bool network);

/* How many processes with this mark are alive, without process `but` (0: without none). */
size_t leftovers_processes(const char *mark, pid_t but);

/* One of them that runs a program of this name; 0: none. */
pid_t leftovers_find_process(const char *mark, const char *name);

/* Ends them. */
void leftovers_kill(const char *mark);

/*
 * Says in `text` what there is that should not be, "" if nothing: processes with the mark, files in the folder's tmp,
 * runtime and config (a job folder too, unless it is `swept_later`), unfinished files in cache, sockets, shared memory;
 * under mpirun not what is that launcher's own.
 */
void leftovers_find(const struct place *place, const char *mark, const char *folder, bool swept_later, char *text,
                    size_t bytes);

/* Removes a folder and all in it. */
void leftovers_remove_folder(const char *folder);

#endif
