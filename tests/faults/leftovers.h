/*
 * leftovers.h - what a run has left behind: processes, files, sockets, shared memory.
 *
 * Only what is a run's own counts: processes with its mark in their environment, files in its folders; and where the
 * system allows namespaces of our own, everything in these.
 */
#ifndef DDPRUN_TESTS_FAULTS_LEFTOVERS_H
#define DDPRUN_TESTS_FAULTS_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Gives the campaign a network and a /dev/shm of its own, and makes it the heir of orphans. False where the system does
 * not allow the former: sockets and shared memory are then not looked at. */
bool leftovers_isolate(void);

/* How many processes with this mark are alive, without process `but` (0: without none). */
size_t leftovers_processes(const char *mark, pid_t but);

/* Ends them. */
void leftovers_kill(const char *mark);

/*
 * Says in `text` what there is that should not be, "" if nothing: processes with the mark, files in the folder's tmp,
 * runtime and config (a swept job folder too, unless `swept_later`), unfinished files in cache, sockets, shared memory.
 */
void leftovers_find(const char *mark, const char *folder, bool swept_later, char *text, size_t bytes);

/* Removes a folder and all in it. */
void leftovers_remove_folder(const char *folder);

#endif
